// What the attention tiles say in words and numbers. Pure.

import { grouped } from "./core_lab.mjs";
import { label, NONE } from "./core_text.mjs";
import { CLOCKS } from "./core_attention.mjs";

const SMALL = ["", "m", "µ", "n", "p"];
const LARGE = ["", "k", "M", "G", "T", "P", "E"];

/** Three digits: 0.123, 1.23, 12.3, 123. */
const three = (value) => (value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2));

/** A positive number with its unit, three digits and the prefix that suits: 1.23 MB, 45.6 µs, 0 B. */
export function si(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value === 0) return `0\u2009${unit}`;
  const thousands = Math.floor(Math.log10(value * 1.000001) / 3);
  if (unit === "B" && value < 1000) return `${Math.round(value)}\u2009B`;
  const step = Math.max(-SMALL.length + 1, Math.min(LARGE.length - 1, thousands));
  const prefix = step < 0 ? SMALL[-step] : LARGE[step];
  return `${three(value / 1000 ** step)}\u2009${prefix}${unit}`;
}

export const bytes = (value) => si(value, "B");
export const time = (value) => si(value, "s");

/** Memory on a chip comes in powers of two: 192 KiB. */
export function binary(value) {
  if (value < 1024) return `${Math.round(value)}\u2009B`;
  const step = value < 2 ** 20 ? 1 : 2;
  return `${Number((value / 1024 ** step).toFixed(1))}\u2009${["", "KiB", "MiB"][step]}`;
}

/** m, ℓ and rescale factors: four digits that matter, and −∞ where nothing was seen (null). */
export function statistic(value) {
  if (value === null || value === undefined) return "−∞";
  const size = Math.abs(value);
  const text = size >= 1e5 || (size < 1e-3 && size > 0) ? value.toExponential(1) : value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
  return text.replace(/-/g, "−");
}

export const share = (mass) => (mass === null || mass === undefined ? NONE : `${mass >= 0.001 || mass === 0 ? (100 * mass).toFixed(1) : "<\u20090.1"}\u2009%`);

/** What the clock reads. */
export const reading = (clock, value) => (clock === "bytes" ? bytes(value) : time(value));

const SIGNS = { accepted: "✓", rejected: "✗", untested: "–" };

/** A query of a verification: its token, and what became of it. `t` translates. */
export function rowLabel({ text, verdict }, t) {
  return { token: label(text), verdict, sign: SIGNS[verdict] ?? "•", word: t(verdict ? `race.verdict.${verdict}` : "attention.row.committed") };
}

/** Names a schedule in words. */
export const nameOf = (name, t) => t(`attention.schedule.${name}`);

/** Which rows and keys a step works on: {rows, keys} as text, counted from 1, and queries where heads are packed. */
export function reachOf({ steps, group }, i) {
  const range = (from, to) => (to - from > 1 ? `${grouped(from + 1)}–${grouped(to)}` : grouped(from + 1));
  const queries = [Math.floor(steps.r0[i] / group), Math.ceil(steps.r1[i] / group)];
  return { rows: range(...queries), keys: steps.k1[i] > steps.k0[i] ? range(steps.k0[i], steps.k1[i]) : NONE };
}

/** One step as a sentence: {key, args}. */
export function stepSentence(schedule, i, t) {
  const { steps } = schedule;
  const { rows, keys } = reachOf(schedule, i);
  return {
    key: `attention.step.${steps.phase[i]}`,
    args: { rows, keys, kind: steps.kind[i] ? t(`attention.kind.${steps.kind[i]}`) : "", worker: steps.worker[i] + 1, split: steps.split[i] + 1 },
  };
}

/** The picture of one schedule for those who do not see it: {key, args}. */
export function pictureSentence({ schedule, hbm, film }, answer, { time: at, done }, t) {
  const { tile, totals, workers, slots } = schedule;
  return {
    key: "attention.said.picture",
    args: {
      schedule: nameOf(schedule.name, t), queries: grouped(answer.queries), keys: grouped(answer.keys), tile_rows: tile.rows, tile_keys: tile.keys,
      full: totals.full, masked: totals.masked, skipped: totals.skipped, workers, slots, done: grouped(done), of: grouped(totals.steps),
      moved: bytes(hbm.at(at)), total: bytes(hbm.total), standard: bytes(answer.standard_bytes), time: time(at), end: time(film.end),
    },
  };
}

/** How two schedules end, beside each other: {key, args}. */
export function comparison(tracks, clock, t) {
  const [a, b] = tracks.map((track) => CLOCKS[clock].end(track));
  const [less, more] = a <= b ? [0, 1] : [1, 0];
  const ends = [a, b];
  return {
    key: `attention.compare.${clock}${ends[more] <= ends[less] * 1.005 ? "_same" : ""}`,
    args: {
      less: nameOf(tracks[less].schedule.name, t), more: nameOf(tracks[more].schedule.name, t),
      a: reading(clock, ends[less]), b: reading(clock, ends[more]), times: ends[less] > 0 ? `${(ends[more] / ends[less]).toFixed(2)}×` : NONE,
    },
  };
}
