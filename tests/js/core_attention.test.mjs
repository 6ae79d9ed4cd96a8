import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import {
  activeAt, cellAt, clockEnd, doneAt, equalRuns, followed, makeFilm, makeGrid, makeRamp, makeTrack, maskEdge, massLevel, mixed, moments, occupancy, rowOf, stepped, visitsOf,
  CLOCKS, LEAST_MASS,
} from "../../specviz/ui/static/core_attention.mjs";
import { binary, bytes, comparison, pictureSentence, reachOf, rowLabel, share, si, statistic, stepSentence } from "../../specviz/ui/static/core_attention_text.mjs";
import { byContext, gainTop, isSlow, standing, together, CLAIM, COMBINATIONS, CONTEXTS, USUAL } from "../../specviz/ui/static/core_ablation.mjs";
import { usualTile } from "../../specviz/ui/static/attention_controls.mjs";
import { rowsOf } from "../../specviz/ui/static/attention_rows.mjs";
import { translator } from "../../specviz/ui/static/core_text.mjs";

const folder = new URL("../../specviz/ui/static/", import.meta.url);
const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const words = JSON.parse(read("../../specviz/ui/i18n/en/attention.json"));
const race = JSON.parse(read("../../specviz/ui/i18n/en/race.json"));
const t = translator({ en: { ...race, ...words } }, "en");
const close = (a, b, within = 1e-9) => assert.ok(Math.abs(a - b) <= within * Math.max(1, Math.abs(b)), `${a} is not ${b}`);

const COLUMNS = { worker: 0, phase: "attend", kind: "full", r0: 0, r1: 4, k0: 0, k1: 8, split: 0, finishes: false, hbm_read: 100, hbm_written: 0, l2: 0, flops: 10, on_chip: 0, seconds: 1, largest: 0, mass: 0.5, held: 0 };

/** A schedule of these steps; what they do not say is usual. */
function schedule(steps, more = {}) {
  const columns = Object.fromEntries(Object.entries(COLUMNS).map(([name, usual]) => [name, steps.map((step) => (name in step ? step[name] : usual))]));
  const totals = { full: 1, masked: 0, skipped: 0, steps: steps.filter((step) => step.kind !== "skipped").length };
  return { name: "flash-attention-2", group: 1, tile: { rows: 4, keys: 8, splits: 1 }, slots: 2, workers: 1, totals, buffers: [[]], ...more, steps: columns };
}

const ONE_WORKER = [{ k0: 8, k1: 16 }, { k0: 0, k1: 8, hbm_written: 50, seconds: 2 }];

test("a worker's steps follow each other, workers run side by side", () => {
  const film = makeFilm(schedule([{ worker: 0 }, { worker: 0, seconds: 2 }, { worker: 1, seconds: 4 }]));
  assert.deepEqual([...film.starts], [0, 1, 0]);
  assert.deepEqual([...film.ends], [1, 3, 4]);
  assert.equal(film.end, 4);
});

test("never more workers at once than the machine has slots; the next takes the slot that is free first", () => {
  const steps = Array.from({ length: 9 }, (_, worker) => ({ worker, seconds: worker % 3 + 1 }));
  for (const slots of [1, 2, 4, 20]) {
    const track = makeTrack(schedule(steps, { slots }));
    const { starts, ends, end } = track.film;
    for (let i = 0; i < 200; i++) assert.ok(activeAt(track, (end * i) / 199).length <= slots);
    const busy = ends.reduce((sum, stop, i) => sum + stop - starts[i], 0);
    close(busy, 18);
    if (slots === 1) close(end, 18);
    if (slots === 20) close(end, 3);
  }
});

test("kernels wait for each other: no softmax before the last score", () => {
  const three = [{ phase: "scores", worker: 0 }, { phase: "scores", worker: 1, seconds: 5 }, { phase: "softmax", kind: null, worker: 0 }, { phase: "softmax", kind: null, worker: 1 }, { phase: "values", kind: null, worker: 0 }];
  const { starts } = makeFilm(schedule(three));
  assert.deepEqual([...starts], [0, 0, 5, 5, 6]);
  const merged = makeFilm(schedule([{ worker: 0, seconds: 1 }, { worker: 1, seconds: 2 }, { worker: 0, phase: "merge", kind: null }]));
  assert.equal(merged.starts[2], 2);
});

test("what is moved adds up to the counted bytes, grows steadily, and is found again by its amount", () => {
  const track = makeTrack(schedule([...ONE_WORKER, { worker: 1, hbm_read: 300, seconds: 1.5 }]));
  assert.equal(track.hbm.total, 550);
  close(track.hbm.at(track.film.end), 550);
  close(track.hbm.at(0), 0);
  close(track.hbm.at(1), 100 + 200);
  let last = -1;
  for (let i = 0; i <= 100; i++) {
    const time = (track.film.end * i) / 100;
    const amount = track.hbm.at(time);
    assert.ok(amount >= last);
    last = amount;
    close(track.hbm.at(track.hbm.when(amount)), amount, 1e-6);
  }
  assert.equal(track.hbm.when(1e9), track.film.end);
});

test("steps without duration move their bytes at once", () => {
  const ramp = makeRamp({ starts: [0, 1, 1], ends: [1, 1, 2], end: 2 }, [10, 5, 10]);
  assert.deepEqual([ramp.at(0.5), ramp.at(1), ramp.at(1.5), ramp.at(2)], [5, 15, 20, 25]);
});

test("bytes of a packed tile are shared out among its heads", () => {
  assert.equal(makeTrack(schedule(ONE_WORKER, { group: 5 })).hbm.total, 50);
});

test("on one clock of bytes both have moved as much, on one of time as long; the longer one ends it", () => {
  const [a, b] = [makeTrack(schedule(ONE_WORKER)), makeTrack(schedule([{ hbm_read: 1000, seconds: 1 }]))];
  for (const at of [10, 99, 180]) {
    close(a.hbm.at(CLOCKS.bytes.time(a, at)), at, 1e-6);
    close(b.hbm.at(CLOCKS.bytes.time(b, at)), at, 1e-6);
  }
  assert.equal(clockEnd("bytes", [a, b]), 1000);
  assert.equal(clockEnd("seconds", [a, b]), 3);
  assert.equal(CLOCKS.bytes.time(a, 600), a.film.end);
  assert.equal(CLOCKS.seconds.time(b, 2.5), 1);
  assert.deepEqual(moments("seconds", [a, b]), [1, 3]);
  assert.deepEqual(moments("bytes", [a, b]).map(Math.round), [100, 250, 1000]);
});

test("stepping goes to where a step ends, and that step is still running there", () => {
  const track = makeTrack(schedule([...ONE_WORKER, { kind: "skipped", seconds: 0, hbm_read: 0 }]));
  const stops = moments("seconds", [track]);
  assert.deepEqual([stepped(stops, 0, 1), stepped(stops, 1, 1), stepped(stops, 3, 1), stepped(stops, 1.5, -1), stepped(stops, 1, -1)], [1, 3, 3, 1, 0]);
  assert.deepEqual(activeAt(track, 1), [0]);
  assert.deepEqual(activeAt(track, 1.1), [1]);
  assert.deepEqual(activeAt(track, 0), []);
  assert.deepEqual([doneAt(track, 0), doneAt(track, 1), doneAt(track, 2.9), doneAt(track, 3)], [0, 1, 1, 2]);
});

test("of several running steps the one that began last is told", () => {
  const track = makeTrack(schedule([{ worker: 0, seconds: 4 }, { worker: 1 }, { worker: 1 }]));
  assert.equal(followed(track, activeAt(track, 0.5)), 0);
  assert.equal(followed(track, activeAt(track, 1.5)), 2);
  assert.equal(followed(track, []), null);
});

test("the grid has an edge for each cut, a cell for each tile, and none for steps over whole rows", () => {
  const one = schedule([{ k0: 0, k1: 8 }, { k0: 8, k1: 11, kind: "masked" }, { phase: "merge", kind: null, k0: 0, k1: 11 }, { r0: 4, r1: 6, k0: 0, k1: 8 }, { r0: 4, r1: 6, k0: 8, k1: 11 }]);
  const grid = makeGrid(one, 6, 11);
  assert.deepEqual([grid.rows, grid.columns], [[0, 4, 6], [0, 8, 11]]);
  assert.deepEqual([grid.cell(1), grid.cell(2), grid.cell(4)], [{ row: 0, column: 1 }, null, { row: 1, column: 1 }]);
  assert.deepEqual(visitsOf(one, grid).get(3), [4]);
  assert.deepEqual(cellAt(grid, 5.9, 10.9), { row: 1, column: 1 });
  assert.deepEqual(cellAt(grid, 6, 11), { row: 1, column: 1 });
  assert.deepEqual(equalRuns(grid.columns), [{ from: 0, to: 1, size: 8 }, { from: 1, to: 2, size: 3 }]);
  assert.deepEqual(equalRuns([0, 8, 16, 24]), [{ from: 0, to: 3, size: 8 }]);
});

test("4,096 tiles are four pictures at most", () => {
  const edges = Array.from({ length: 65 }, (_, i) => Math.min(128 * i, 8150));
  assert.ok(equalRuns(edges).length ** 2 <= 4);
});

test("the mask's edge: the first query sees what was there before and itself, the last one everything", () => {
  assert.deepEqual(maskEdge(10, 2), [[11, 0], [11, 1], [12, 1], [12, 2]]);
  assert.deepEqual(maskEdge(0, 4096), [[0, 0], [4096, 4096]]);
});

test("how full the tiles are, with heads packed and without", () => {
  assert.deepEqual(occupancy({ tile: { rows: 128 }, group: 1 }, 5), { used: 5, of: 128, tiles: 1, share: 5 / 128 });
  assert.deepEqual(occupancy({ tile: { rows: 16 }, group: 3 }, 6), { used: 18, of: 32, tiles: 2, share: 18 / 32 });
});

test("the colour scale runs over four decades from one hue's tint to its dark step", () => {
  assert.deepEqual([massLevel(1), massLevel(LEAST_MASS), massLevel(0), massLevel(null)], [1, 0, 0, null]);
  close(massLevel(0.01), 0.5);
  assert.deepEqual([mixed("#000000", "#ff8000", 0), mixed("#000000", "#ff8000", 0.5), mixed("#000000", "#ff8000", 1)], [[0, 0, 0], [128, 64, 0], [255, 128, 0]]);
});

test("rows are named by token, sign and word; a packed row by its head", () => {
  assert.deepEqual(rowLabel({ text: " sea", verdict: "rejected" }, t), { token: "·sea", verdict: "rejected", sign: "✗", word: "rejected" });
  assert.deepEqual([rowLabel({ text: "\n", verdict: null }, t).sign, rowLabel({ text: "a", verdict: "untested" }, t).word], ["•", "untested"]);
  assert.deepEqual([rowOf(2, 4, 3), rowOf(2, 4, 1)], [7, 2]);
  const packed = schedule([{ r0: 0, r1: 6, k0: 0, k1: 4 }], { group: 3 });
  const found = Array.from({ length: 6 }, (_, row) => ({ m_after: row }));
  assert.deepEqual(rowsOf({ schedule: packed }, { head: 4, rows: [{ text: "a" }, { text: "b" }] }, 0, found).map(({ values }) => values.m_after), [1, 4]);
  assert.deepEqual(rowsOf({ schedule: packed }, { head: 4, rows: [] }, 0, found).map(({ name }) => name), ["1", "2"]);
  assert.deepEqual(rowsOf({ schedule: packed }, { head: 4, rows: [] }, null, null), []);
});

test("numbers are told with three digits and the prefix that suits", () => {
  assert.deepEqual([si(0, "B"), si(999, "B"), si(36736, "B"), si(1.5e9, "FLOP"), si(2.02e-6, "s"), si(null, "s")].map((text) => text.replaceAll("\u2009", " ")), ["0 B", "999 B", "36.7 kB", "1.50 GFLOP", "2.02 µs", "–"]);
  assert.equal(si(999.96e3, "B").replaceAll("\u2009", " "), "1000 kB");
  assert.deepEqual([binary(640), binary(192 * 1024), binary(50 * 2 ** 20)].map((text) => text.replaceAll("\u2009", " ")), ["640 B", "192 KiB", "50 MiB"]);
  assert.deepEqual([statistic(null), statistic(-1.5), statistic(13.69), statistic(0.00001), share(0.704), share(0.0001), share(null)].map((text) => text.replaceAll("\u2009", " ")), ["−∞", "−1.500", "13.69", "1.0e−5", "70.4 %", "< 0.1 %", "–"]);
  assert.equal(bytes(5_000_000).replaceAll("\u2009", " "), "5.00 MB");
});

test("steps and pictures are told in words that exist", () => {
  for (const phase of ["initialise", "scores", "softmax", "values", "attend", "merge"]) {
    const { key, args } = stepSentence(schedule([{ phase, kind: phase === "attend" ? "masked" : null }]), 0, t);
    assert.ok(words[key], key);
    assert.doesNotMatch(t(key, args), /\{|undefined/);
  }
  assert.deepEqual(reachOf(schedule([{ r0: 3, r1: 6, k0: 0, k1: 4 }], { group: 3 }), 0), { rows: "2", keys: "1–4" });
  const track = makeTrack(schedule(ONE_WORKER));
  const said = pictureSentence(track, { queries: 5, keys: 16, standard_bytes: 500 }, { time: 1, done: 1 }, t);
  assert.match(t(said.key, said.args), /FlashAttention-2 over 5 queries and 16 keys.*1 of 2 steps done, 100.*of 250/);
  const other = makeTrack(schedule([{ hbm_read: 500 }], { name: "standard" }));
  const compared = comparison([other, track], "bytes", t);
  assert.match(t(compared.key, compared.args), /FlashAttention-2 is done at 250.*Standard attention at 500.*2\.00×/);
  assert.match(comparison([track, track], "seconds", t).key, /same/);
});

test("short contexts begin with small tiles, long ones with the published size", () => {
  assert.deepEqual([usualTile(141), usualTile(512)], [[16, 16], null]);
});

const row = (context, attention, decoding, gain) => ({ context, attention, decoding, gain });
test("the ablation: four cells a context, an axis that holds the claim, and where the gain of both stands", () => {
  const rows = [row(1024, "fused", "speculative", 2.5), row(128, "fused", "speculative", 1.5), row(128, "materialised", "standard", 1)];
  assert.deepEqual(byContext(rows).map(({ context, cells }) => [context, cells.map((cell) => cell?.gain ?? null)]), [[128, [1, null, null, 1.5]], [1024, [null, null, null, 2.5]]]);
  assert.ok(gainTop(rows) > CLAIM[1]);
  assert.ok(gainTop([row(1, "fused", "speculative", 20)]) > 20);
  assert.deepEqual(together(rows), { least: 1.5, most: 2.5 });
  assert.equal(together([]), null);
  assert.deepEqual([[1, 2], [2, 4], [3, 8], [4, 9]].map(([least, most]) => standing({ least, most })), ["below", "partly", "within", "above"]);
  assert.ok(USUAL.every((context) => CONTEXTS.includes(context) && !isSlow(context)));
});

test("every key that the scripts name exists, and every key is named", () => {
  const scripts = readdirSync(folder).filter((name) => /^(attention_|core_attention|core_ablation)/.test(name) && name.endsWith(".mjs")).map((name) => readFileSync(new URL(name, folder), "utf8")).join("\n");
  const named = [...scripts.matchAll(/["'`](attention\.[\w.]+)["'`]/g)].map((match) => match[1]).filter((key) => !/\.(mjs|css)$/.test(key));
  assert.ok(named.length > 60);
  for (const key of named) assert.ok(words[key], key);
  const families = [...scripts.matchAll(/`(attention\.[\w.]*)\$\{/g)].map((match) => match[1]);
  assert.ok(families.every((family) => family.split(".").length > 2));
  const used = (key) => named.includes(key.replace(/_one$/, "")) || families.some((family) => key.startsWith(family));
  for (const key of Object.keys(words)) assert.ok(used(key), `${key} is not used`);
});

test("schedules, statuses, kinds and combinations have words", () => {
  const python = readFileSync(new URL("../../specviz/attention_lab.py", import.meta.url), "utf8");
  const names = [...python.slice(python.indexOf("SCHEDULES = ("), python.indexOf("DEVICES")).matchAll(/"([\w-]+)"/g)].map((match) => match[1]);
  assert.ok(names.length >= 7);
  const keys = [
    ...names.map((name) => `attention.schedule.${name}`), ...["published", "unofficial", "derived", "measured", "chosen"].map((one) => `attention.status.${one}`),
    ...["full", "masked", "skipped"].map((one) => `attention.kind.${one}`), ...COMBINATIONS.map(({ name }) => `attention.ablation.${name}`),
    ...["below", "partly", "within", "above"].map((one) => `attention.ablation.${one}`), ...["empty", "running", "no_rounds", "asking", "refused", "ready"].map((one) => `attention.state.${one}`),
    ...["bytes", "bytes_same", "seconds", "seconds_same"].map((one) => `attention.compare.${one}`),
  ];
  for (const key of keys) assert.ok(words[key], key);
});
