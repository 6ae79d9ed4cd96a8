// Which rule reached the verdicts of a run, and whether it keeps the target's distribution. Pure.

export const LOSSY_RULES = ["typical", "kl-threshold"]; // as in trace.py

/** At temperature 0 every rule is greedy match. */
export const isGreedy = (settings) => settings?.temperature === 0;

/** Whether the text may leave the target's distribution. */
export const isLossy = (settings) => LOSSY_RULES.includes(settings?.rule) && !isGreedy(settings);

/** What decided: "greedy", "sampling", "typical" or "kl". */
export function decidedBy(settings) {
  if (isGreedy(settings)) return "greedy";
  return { typical: "typical", "kl-threshold": "kl" }[settings?.rule] ?? "sampling";
}
