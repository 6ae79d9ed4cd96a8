// Words and numbers: translation, fixed-width figures, and the sentences that state what a picture shows. Pure.

import { finalToken, threshold, verdicts } from "./core.mjs";
import { decidedBy } from "./core_rules.mjs";

const FALLBACK = "en";

/** A lookup over {lang: {key: text}}: `{name}` is replaced; where n is 1, `key_one` is preferred; an unknown key shows itself. */
export function translator(dictionaries, lang) {
  const chosen = dictionaries[lang] ?? {};
  const english = dictionaries[FALLBACK] ?? {};
  const find = (key) => chosen[key] ?? english[key];
  return (key, args = {}) =>
    ((args.n === 1 && find(`${key}_one`)) || (find(key) ?? key)).replace(/\{(\w+)\}/g, (whole, name) => (name in args ? String(args[name]) : whole));
}

export const NONE = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);

export const fixed = (value, digits) => (known(value) ? value.toFixed(digits) : NONE);
export const rate = (value) => fixed(value, 1);
export const times = (value) => (known(value) ? `${value.toFixed(2)}×` : NONE);
export const percent = (value) => (known(value) ? `${(100 * value).toFixed(0)}%` : NONE);
export const seconds = (value) => (known(value) ? `${value.toFixed(2)} s` : NONE);

/** A short time with the digits that matter: 0.42 ms, 7.3 ms, 143 ms, 1.22 s. */
export const lapse = (value) => {
  if (value >= 0.9995) return seconds(value);
  const ms = 1000 * value;
  return `${ms.toFixed(ms < 1 ? 2 : ms < 10 ? 1 : 0)} ms`;
};

/** A probability as it is said in a table: 0.87, 0.004, < 0.001. */
export function probability(value) {
  if (!known(value)) return NONE;
  if (value > 0 && value < 0.001) return "<\u20090.001";
  return value.toFixed(value < 0.1 && value > 0 ? 3 : 2);
}

/** Two numbers that differ must not be printed alike: as many digits as keep them apart, at least two. */
export function apart(a, b) {
  for (let digits = 2; digits < 6; digits++) {
    if (a === b || a.toFixed(digits) !== b.toFixed(digits)) return [a.toFixed(digits), b.toFixed(digits)];
  }
  return [a.toFixed(6), b.toFixed(6)];
}

export const ratio = (value) => (value >= 100 ? ">\u2009100" : value < 0.01 && value > 0 ? "<\u20090.01" : value.toFixed(2));

const MARKS = { " ": "·", "\n": "⏎\n", "\r": "␍", "\t": "⇥\t" };

/** White space made visible. */
export const visible = (text) => text.replace(/[ \n\r\t]/g, (one) => MARKS[one]);

/** A token as a label on one line: white space always visible, never empty. */
export function label(text) {
  if (text === "") return "◌";
  return text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/\r/g, "␍").replace(/^ | $/g, "·");
}

/** The rule and its parameters, where a run was not judged by rejection sampling: {key, args} or null. */
export function ruleName(settings) {
  const by = decidedBy(settings);
  const named = by !== "sampling" && settings.rule !== "rejection-sampling";
  return named ? { key: `race.rule.${by}`, args: parameters(settings) } : null;
}

const parameters = ({ epsilon, delta, kl_threshold: tau } = {}) => ({ epsilon, delta, tau });

/** What happened to a drafted token, in few words for its chip: {key, args}. */
export function chipNote(position, settings) {
  const { u, p, verdict } = position;
  if (verdict === "untested") return { key: "race.chip.untested", args: {} };
  const by = decidedBy(settings);
  if (by !== "sampling") return { key: `race.chip.${by}_${verdict}`, args: { ...parameters(settings), p: probability(p) } };
  const [draw, limit] = apart(u, threshold(position));
  return { key: verdict === "accepted" ? "race.chip.below" : "race.chip.above", args: { u: draw, limit } };
}

/** The verdict on one drafted token as a sentence: {key, args}. */
export function verdictSentence(round, place, settings) {
  const position = round.drafted[place];
  const final = finalToken(round);
  const args = {
    token: label(position.name),
    p: probability(position.p),
    q: probability(position.q),
    ratio: position.q > 0 ? ratio(position.p / position.q) : NONE,
    picked: final ? label(final.name) : NONE,
    first: round.drafted.findIndex((one) => one.verdict === "rejected") + 1,
    ...parameters(settings),
  };
  if (position.verdict === "untested") return { key: args.first ? "race.why.untested" : "race.why.after_end", args };
  const by = decidedBy(settings);
  if (by !== "sampling") return { key: `race.why.${by}_${position.verdict}`, args };
  [args.u, args.limit] = apart(position.u, threshold(position));
  if (position.verdict === "rejected") return { key: "race.why.rejected", args };
  return { key: position.p >= position.q ? "race.why.accepted_sure" : "race.why.accepted", args };
}

/** One round in a sentence, for those who hear the page: {key, args}. */
export function roundSentence(round) {
  const { accepted, rejected, untested } = verdicts(round);
  const final = finalToken(round);
  const args = {
    round: round.index + 1, drafted: round.drafted.length, accepted, rejected, untested, token: final ? label(final.name) : "",
  };
  const replaced = final?.source === "target" && round.drafted.length > 0;
  return { key: `race.said.${replaced ? "replaced" : final?.source ?? "end"}`, args };
}
