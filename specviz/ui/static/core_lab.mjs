// The losslessness lab's numbers: how many draws, which frame of a growing histogram, scales, and the words for what it shows. Pure.

import { RULES, SLIDERS, judging } from "./core_whatif.mjs";

export const DRAWS = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
export const USUAL_DRAWS = DRAWS.indexOf(1e5);
const SIGNS = { epsilon: "ε", delta: "δ", kl_threshold: "τ" };
export const PARAMETERS = Object.entries(SLIDERS).filter(([, { rule }]) => rule).map(([name, { rule, min, max, step }]) =>
  ({ name, rule, min, max, step, sign: SIGNS[name], value: judging({})[name] }));
const SAME_LAW = 1e-6; // laws closer than this differ by rounding
const APART_ENOUGH = 0.1; // below this TV(p, q) even a wrong sampler changes little, and a test may miss it
const SHOWN_TOKENS = 12;

/** Rule and parameters as somebody chose them (null, or no key: nobody did), else as the run on the page was judged. */
export function ruleWished(chosen, recorded) {
  const rule = chosen.rule ?? (RULES.includes(recorded?.rule) ? recorded.rule : RULES[0]);
  return { rule, values: { ...Object.fromEntries(PARAMETERS.map(({ name, value }) => [name, recorded?.[name] ?? value])), ...chosen.values } };
}

/** The `changes` that ask for a rule: its name and only its own parameters; greedy match is the rule of temperature 0. */
export function ruleChanges({ rule, values }) {
  const own = PARAMETERS.filter((one) => one.rule === rule).map(({ name }) => [name, values[name]]);
  return { rule, ...Object.fromEntries(own), ...(rule === "greedy-match" ? { temperature: 0 } : {}) };
}

/** The server's answer with all but the likeliest tokens counted as "the rest": a histogram that fits the page. */
export function folded(answer, shown = SHOWN_TOKENS) {
  const weight = (i) => Math.max(answer.tokens[i].p, ...answer.lanes.map((lane) => lane.law[i]));
  const order = answer.tokens.map((_, i) => i).sort((a, b) => weight(b) - weight(a));
  const kept = order.slice(0, shown).sort((a, b) => answer.tokens[b].p - answer.tokens[a].p);
  const others = order.slice(shown);
  const pick = (values) => kept.map((i) => values[i]);
  const rest = (values, more) => others.reduce((total, i) => total + values[i], more);
  return {
    ...answer,
    tokens: pick(answer.tokens),
    rest_p: rest(answer.tokens.map((one) => one.p), answer.rest_p),
    lanes: answer.lanes.map((lane) => ({
      ...lane, law: pick(lane.law), rest_law: rest(lane.law, lane.rest_law),
      frames: lane.frames.map((frame) => ({ ...frame, counts: pick(frame.counts), rest: rest(frame.counts, frame.rest) })),
    })),
  };
}

/** A lane between its frames: `at` runs from 0, the first, to 1, the last. Shares are of the draws made so far. */
export function frameAt({ frames }, at) {
  const place = Math.max(0, Math.min(1, at)) * (frames.length - 1);
  const index = Math.min(Math.floor(place), frames.length - 1);
  const [before, after] = [frames[index], frames[Math.min(index + 1, frames.length - 1)]];
  const f = place - index;
  const mix = (a, b) => a + (b - a) * f;
  const shares = (frame) => frame.counts.map((count) => count / frame.n);
  const later = shares(after);
  return {
    n: before.n, reached: Math.exp(mix(Math.log(before.n), Math.log(after.n))), tv: before.tv, expected: before.expected_tv,
    shares: shares(before).map((share, i) => mix(share, later[i])), rest: mix(before.rest / before.n, after.rest / after.n),
  };
}

/** The highest share anywhere in the picture, for one scale of all lanes: probabilities, laws and every frame drawn. */
export function highestShare(answer) {
  const drawn = ({ frames }) => frames.flatMap((frame) => [...frame.counts, frame.rest].map((count) => count / frame.n));
  const lanes = answer.lanes.flatMap((lane) => [...lane.law, lane.rest_law, ...drawn(lane)]);
  return Math.max(answer.rest_p, ...answer.tokens.map((one) => one.p), ...lanes);
}

/** Whole decades around some positive values: {from, to, at(value) → 0..1, ticks}. Values below are drawn on the edge. */
export function logScale(values) {
  const positive = values.filter((value) => value > 0);
  if (!positive.length) positive.push(0.1, 1);
  const low = Math.floor(Math.log10(Math.min(...positive)) + 1e-9);
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive)) - 1e-9));
  const ticks = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i));
  const at = (value) => (value > 0 ? Math.max(0, Math.min(1, (Math.log10(value) - low) / (high - low))) : 0);
  return { from: 10 ** low, to: 10 ** high, at, ticks };
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
export const power = (exponent) => `10${String(exponent).replace(/./g, (one) => RAISED[one])}`;
export const powerOf = (value) => power(Math.round(Math.log10(value)));

/** 1234567 → 1 234 567, with thin spaces. */
export const grouped = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u2009");

/** A distance between 0 and 1 to the digits that matter: 0.2345, 0.0012, 4.1 × 10⁻⁵, 0. */
export function distance(value) {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value < 1e-9) return "0";
  return value >= 0.001 ? value.toFixed(4) : scientific(value);
}

function scientific(value) {
  const [digits, exponent] = value.toExponential(1).split("e");
  return `${digits}\u2009×\u2009${power(Number(exponent))}`;
}

/** The exact distance of an output law from p; what float32 cannot tell from none is none. */
export const exactDistance = (value) => (value < SAME_LAW ? `<\u2009${power(-6)}` : distance(value));

/** A p-value: 0.412, 3.1 × 10⁻⁹, or below what a double holds. */
export function pValue(value) {
  if (value === null) return "–";
  if (value < 1e-300) return `<\u2009${power(-300)}`;
  return value >= 0.001 ? value.toFixed(3) : scientific(value);
}

/** χ² as printed; null means that a token was drawn which p gives no chance at all. */
export const chiSquare = (value) => (value === null ? "∞" : value < 1e5 ? value.toFixed(1) : scientific(value));

/** What a lane's numbers amount to: {key, args}. */
export function verdictOf({ finding, exhibit, lossless }) {
  const args = {
    count: grouped(finding.n), sampled: distance(finding.tv_sampled), exact: exactDistance(finding.tv_exact),
    p_value: pValue(finding.p_value), chi2: chiSquare(finding.chi2),
  };
  const kind = finding.verdict.replace(" ", "_");
  if (!exhibit && lossless !== (kind === "lossless")) return { key: `lab.verdict.${lossless ? "unlikely" : "harmless"}`, args };
  if (kind === "not_exposed" && finding.tv_exact < SAME_LAW) return { key: "lab.verdict.same", args };
  const impossible = finding.chi2 === null && ["exposed", "lossy"].includes(kind);
  return { key: `lab.verdict.${kind}${impossible ? "_impossible" : ""}`, args };
}

/** A remark on the chosen position, or null: {key, args}. */
export function remark(answer) {
  if (isCertain(answer)) return { key: "lab.remark.certain", args: {} };
  return answer.tv_pq < APART_ENOUGH ? { key: "lab.remark.close", args: { tv: distance(answer.tv_pq) } } : null;
}

/** Whether no lane left p at any N: one token is certain, as at temperature 0. */
export const isCertain = ({ lanes }) => lanes.every(({ frames }) => frames.every((frame) => frame.tv === 0));

/** One lane at its end as a sentence, for those who hear the page. `t` translates, `spell` writes a token. */
export function laneSaid(lane, tokens, t, spell) {
  const last = lane.frames.at(-1);
  const each = tokens.map(({ text, p }, i) =>
    t("lab.said.token", { token: spell(text), p: p.toFixed(4), law: lane.law[i].toFixed(4), share: (last.counts[i] / last.n).toFixed(4) }));
  return t("lab.said.lane", { count: grouped(last.n), list: each.join("; ") });
}
