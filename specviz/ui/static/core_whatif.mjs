// The what-if scrubber without its looks: what may be changed, in which steps, and requests of which the newest wins. Pure.

import { LOSSY_RULES } from "./core_rules.mjs";

export const RULES = ["rejection-sampling", "greedy-match", ...LOSSY_RULES];
const DEFAULTS = { temperature: 0, top_k: 0, top_p: 1, rule: "rejection-sampling", epsilon: 0.09, delta: 0.3, kl_threshold: 0.8 };

/** Sliders: their range, and the rule they belong to if it is one alone. */
export const SLIDERS = {
  temperature: { min: 0, max: 2, step: 0.05, digits: 2 },
  top_k: { stops: [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 64, 80, 100, 150, 200, 300, 500, 1000, 0] }, // 0 keeps all
  top_p: { min: 0.05, max: 1, step: 0.01, digits: 2 },
  epsilon: { min: 0, max: 1, step: 0.01, digits: 2, rule: "typical" },
  delta: { min: 0, max: 1, step: 0.01, digits: 2, rule: "typical" },
  kl_threshold: { min: 0, max: 5, step: 0.05, digits: 2, rule: "kl-threshold" },
};

/** The settings of a run that a round's verdicts depend on. */
export const judging = (settings) => Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, settings?.[name] ?? DEFAULTS[name]]));

/**
 * The settings after one change: greedy match is the rule of temperature 0 alone, so one brings the other along, and
 * whoever leaves it for another rule has the recorded temperature back.
 */
export function withChange(settings, name, value, recorded = settings) {
  const next = { ...settings, [name]: value };
  if (name === "rule" && settings.rule === "greedy-match") next.temperature = recorded.temperature;
  if (next.rule === "greedy-match" && next.temperature > 0) {
    if (name === "rule") next.temperature = 0;
    else next.rule = "rejection-sampling";
  }
  return next;
}

/** What of the settings differs from the record: the `changes` of a request. */
export const changesOf = (recorded, wanted) =>
  Object.fromEntries(Object.keys(recorded).filter((name) => wanted[name] !== recorded[name]).map((name) => [name, wanted[name]]));

/** The places a slider can stand at where its steps are not even: its own and the recorded value, "all" (0) last. */
export const stopsWith = (stops, recorded) =>
  [...new Set([...stops, recorded])].sort((a, b) => (a || Infinity) - (b || Infinity));

/**
 * A function that asks at most one question at a time; of those that wait meanwhile only the newest is asked.
 * `answered(question, answer)` gets undefined where asking failed.
 */
export function newestOnly(ask, answered) {
  let waiting = null;
  let busy = false;
  async function work() {
    busy = true;
    while (waiting) {
      const { question } = waiting;
      waiting = null;
      let answer;
      try {
        answer = await ask(question);
      } catch {
        answer = undefined; // the page says so in its own words
      }
      answered(question, answer);
    }
    busy = false;
  }
  return (question) => {
    waiting = { question };
    if (!busy) work();
  };
}

/** `turn(ask)` asks once every question before it was answered or has failed, and gives its answer. */
export function inTurn() {
  let last = Promise.resolve();
  return function turn(ask) {
    last = last.then(ask, ask);
    return last;
  };
}
