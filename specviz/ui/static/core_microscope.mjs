// One position under the microscope as plain values: from the record alone, or as the server computed it. Pure.
// Outcome and Detail are the server's: the judged round, and the distributions of one of its places.

import { finalToken, mirrored, threshold } from "./core.mjs";
import { isGreedy, isLossy } from "./core_rules.mjs";
import { apart, chipNote, fixed, label, ratio, verdictSentence, NONE } from "./core_text.mjs";
import { judging } from "./core_whatif.mjs";

export const FLOOR = 1e-6; // where the logarithmic axis begins
export const ROWS = 12;
const NOTHING = { entropy_p: null, entropy_q: null, tv: null, kl: null, rank: null, acceptance: null, output_tv: null, overlap: null, rest: null, residual_rest: null };
const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** A probability with the digits that matter: 0.42, 0.031, 0.0021, 3.4·10⁻⁵, 0. */
export function small(value) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return "0";
  if (value >= 0.00095) return value.toFixed(value >= 0.0995 ? 2 : value >= 0.00995 ? 3 : 4);
  const [digits, exponent] = value.toExponential(1).split("e-");
  return `${digits}·10⁻${[...exponent].map((one) => SUPERSCRIPT[one]).join("")}`;
}

/** One side of p/q: four digits, so that the quotient can be checked, or as many as a small one has. */
const factor = (value) => (value >= 0.00095 ? fixed(value, 4) : small(value));

/** A probability as a fraction of the axis. */
export function onAxis(value, logarithmic) {
  if (!(value > 0)) return 0;
  if (!logarithmic) return Math.min(1, value);
  return Math.max(0, Math.min(1, 1 - Math.log10(value) / Math.log10(FLOOR)));
}

/** Marks of the axis: [{at, text}]. */
export function axisMarks(logarithmic) {
  const values = logarithmic ? [1e-6, 1e-4, 1e-2, 1] : [0, 0.5, 1];
  return values.map((value) => ({ at: onAxis(value, logarithmic), text: value > 0 && value < 0.01 ? `10⁻${SUPERSCRIPT[-Math.log10(value)]}` : String(value) }));
}

/** The round as it was recorded, in the form of an Outcome. */
export function recordedOutcome(round, settings) {
  const judged = judging(settings);
  const lossy = isLossy(judged);
  const final = finalToken(round);
  return {
    settings: judged, lossy, greedy: isGreedy(judged), changed: false, same: true,
    positions: round.drafted.map(({ id, name, p, q, u, verdict, overlap }) => ({
      id, text: name, p, q, u, verdict, overlap, limit: u === null || lossy ? null : threshold({ p, q }),
      measure: null, threshold: null, recorded: { id, text: name, verdict },
    })),
    emitted: round.emitted.map(({ id, name, source }) => ({ id, text: name, source })),
    end: final ? "round" : "end_of_text", departs: null,
  };
}

/** The place whose distributions stand behind a chosen one: the added token was drawn where the first rejection was. */
export function placeBehind(outcome, place) {
  if (place < outcome.positions.length) return place;
  const rejected = outcome.positions.findIndex((one) => one.verdict === "rejected");
  return rejected < 0 ? outcome.positions.length : rejected;
}

/** What the record alone knows of a place, in the form of a Detail; `full` is false. */
export function recordedDetail(round, place) {
  const position = round.drafted[place];
  const final = finalToken(round);
  const row = ({ id, text, p, q, drafted }) => ({ id, text, p, q, out: null, drafted });
  if (!position) {
    const candidates = round.finalTopP.map(({ id, text, prob }) => row({ id, text, p: prob, q: null, drafted: false }));
    return { ...NOTHING, place, known: true, full: false, candidates, residual: [], picked: final?.id ?? null };
  }
  const rejected = position.verdict === "rejected";
  return {
    ...NOTHING, place, known: true, full: false, overlap: position.overlap, candidates: mirrored(position, ROWS).map(row),
    residual: rejected ? position.residual : [], picked: rejected ? final?.id ?? null : null,
  };
}

/**
 * The rows of the mirrored bars, at most `ROWS`, and all else as one last row. They keep the order of `order` (ids),
 * so that nothing changes places while settings do; tokens that are not in it follow, likeliest first.
 */
export function barRows(detail, order = []) {
  const weight = ({ p, q }) => Math.max(p ?? 0, q ?? 0);
  const sorted = [...detail.candidates].sort((a, b) => weight(b) - weight(a));
  const kept = sorted.slice(0, ROWS);
  const drafted = sorted.find((one) => one.drafted);
  if (drafted && !kept.includes(drafted)) kept[kept.length - 1] = drafted;
  const left = sorted.filter((one) => !kept.includes(one));
  const at = new Map(order.map((id, i) => [id, i]));
  const rank = ({ id }) => at.get(id) ?? order.length;
  const rows = kept.sort((a, b) => rank(a) - rank(b) || weight(b) - weight(a));
  const sum = (name) => (detail.rest[name] === null ? null : left.reduce((total, one) => total + (one[name] ?? 0), detail.rest[name]));
  const rest = detail.rest && { n: detail.rest.n + left.length, p: sum("p"), q: sum("q"), out: sum("out") };
  return { rows, rest };
}

/** How an outcome's place differs from the record, as {key, args}, or null. */
export function difference({ id, verdict, recorded }) {
  if (id !== recorded.id) return { key: "whatif.was_token", args: { token: label(recorded.text) } };
  if (verdict !== recorded.verdict) return { key: `whatif.was.${recorded.verdict}`, args: {} };
  return null;
}

/** The few words on the chip of a place: what it differs in, else what it was decided by. {key, args}. */
export function noteOf(outcome, place) {
  const position = outcome.positions[place];
  const was = difference(position);
  if (was) return was;
  if (position.verdict === "unknown") return { key: "microscope.chip.unknown", args: {} };
  const compared = comparison(outcome, place);
  return compared ? { key: `microscope.chip.${compared.name}_${position.verdict}`, args: compared } : chipNote(position, outcome.settings);
}

/** What a lossy rule compared at a place: {name, measure, threshold} in words, or null. */
function comparison(outcome, place) {
  const { verdict, measure, threshold: limit } = outcome.positions[place];
  if (!outcome.lossy || limit === null || !["accepted", "rejected"].includes(verdict)) return null;
  if (outcome.settings.rule === "typical") return { name: "typical", measure: small(measure), threshold: small(limit) };
  const [kl, tau] = measure === null ? ["∞", limit.toFixed(2)] : apart(measure, limit);
  return { name: "kl", measure: kl, threshold: tau };
}

/** The verdict at a place (or on the added token behind the last) as a sentence: {key, args}. */
export function sentenceOf(outcome, round, place) {
  const position = outcome.positions[place];
  const final = outcome.emitted.at(-1);
  if (!position) return addedSentence(outcome, final);
  const args = { token: label(position.text), picked: final ? label(final.text) : NONE, place: outcome.departs === null ? 0 : outcome.departs + 1 };
  if (position.verdict === "unknown") return { key: "microscope.why.unknown", args };
  const compared = comparison(outcome, place);
  if (compared) return { key: `microscope.why.${compared.name}_${position.verdict}`, args: { ...args, ...compared } };
  return verdictSentence(asRound(outcome, round), place, outcome.settings);
}

function addedSentence(outcome, final) {
  if (outcome.end === "unknown") return { key: "microscope.why.final_unknown", args: {} };
  if (!final || final.source === "draft") return { key: "microscope.why.final_none", args: {} };
  if (outcome.lossy && outcome.positions.some((one) => one.verdict === "rejected")) return { key: "microscope.why.final_lossy", args: { token: label(final.text) } };
  return { key: outcome.greedy ? "race.why.final_greedy" : `race.why.final_${final.source}`, args: { token: label(final.text) } };
}

/** An outcome in the form of a recorded round, for the sentences that speak of those. */
export function asRound(outcome, round) {
  const named = (one) => ({ ...one, name: one.text });
  return {
    ...round, emitted: outcome.emitted.map(named),
    drafted: outcome.positions.map((one, place) => ({ ...round.drafted[place], ...named(one) })),
  };
}

/**
 * The line a verdict was read from, or null where nothing was compared: `mark` and `limit` are fractions of it,
 * `below` says that the accepted side is the left one, `u` is the draw where the line is one of draws.
 */
export function lineOf(outcome, place) {
  const position = outcome.positions[place];
  if (!position || outcome.greedy || !["accepted", "rejected"].includes(position.verdict)) return null;
  const { u, p, q, limit, measure, verdict } = position;
  if (u !== null && limit !== null) {
    const [shown, least] = apart(u, limit);
    return { kind: "draw", u, mark: u, limit, below: true, verdict, args: { u: shown, limit: least, p: factor(p), q: factor(q), ratio: q > 0 ? ratio(p / q) : NONE } };
  }
  const compared = comparison(outcome, place);
  if (!compared) return null;
  const { epsilon, delta } = outcome.settings;
  const args = { ...compared, epsilon, delta };
  if (compared.name === "typical") return { kind: "typical", mark: onAxis(measure, true), limit: onAxis(position.threshold, true), below: false, verdict, args };
  const end = 2 * position.threshold || 1;
  return { kind: "kl", mark: measure === null ? 1 : Math.min(1, measure / end), limit: position.threshold / end, below: true, verdict, args };
}

/** The numbers of a place: [[name, text]], always the same ones in the same order. */
export function numbersOf(given, moved) {
  const detail = given.known === false ? NOTHING : given;
  const nats = (value) => fixed(value, 3);
  const divergence = detail.full && detail.entropy_q !== null && detail.kl === null ? "∞" : nats(detail.kl);
  return [
    ["overlap", small(detail.overlap)], ["acceptance", small(detail.acceptance)], ["tv", small(detail.tv)], ["kl", divergence],
    ["entropy_p", nats(detail.entropy_p)], ["entropy_q", nats(detail.entropy_q)], ["rank", detail.rank === null ? NONE : String(detail.rank)],
    ["difference", small(moved)],
  ];
}

/** How far what is shown is certain, and how it differs from the record: {key, args}. */
export function certainty(outcome) {
  if (!outcome.changed) return { key: "whatif.certain.recorded", args: {} };
  if (outcome.departs !== null) {
    const args = { place: outcome.departs + 1, token: label(outcome.positions[outcome.departs].text) };
    return { key: outcome.end === "unknown" ? "whatif.certain.unknown" : "whatif.certain.departs", args };
  }
  return { key: outcome.same ? "whatif.certain.same" : "whatif.certain.differs", args: {} };
}

/** A position to begin with: the first rejected one, else the first of all; null without rounds. */
export function firstOfInterest({ records, known }) {
  for (let round = 0; round < known; round++) {
    const place = records[round].drafted.findIndex((one) => one.verdict === "rejected");
    if (place >= 0) return { round, place };
  }
  return known ? { round: 0, place: 0 } : null;
}

/** The end of the text before a round; a branch begins with what it `took` over from another run. */
export const textBefore = ({ groups }, round, took = "", most = 160) =>
  (took + groups.filter((group) => group.record < round && !group.end).map((group) => group.text).join("")).slice(-most);
