// Why rejection sampling loses nothing, on a vocabulary of three tokens: the masses and where each of them goes. Pure.

export const WHOLE = 1000; // p and q are held in thousandths, so that every sum of three digits on the page is exact

export const TOKENS = ["the", "a", "cat"];

export const PRESETS = {
  typical: { q: [600, 150, 250], p: [350, 300, 350] },
  overconfident: { q: [940, 40, 20], p: [400, 350, 250] },
  equal: { q: [500, 300, 200], p: [500, 300, 200] },
  disjoint: { q: [0, 0, 1000], p: [650, 350, 0] },
};

export const milli = (thousandths) => (thousandths / WHOLE).toFixed(3);

const sum = (values) => values.reduce((total, value) => total + value, 0);

/** `total` split into whole numbers in proportion to weights (equally where all are 0): largest remainders are rounded up. */
export function apportion(weights, total) {
  const all = sum(weights);
  const exact = weights.map((weight) => (all > 0 ? (total * weight) / all : total / weights.length));
  const parts = exact.map(Math.floor);
  const byRemainder = exact.map((value, i) => i).sort((a, b) => exact[b] - parts[b] - (exact[a] - parts[a]));
  for (const i of byRemainder.slice(0, Math.round(total - sum(parts)))) parts[i] += 1;
  return parts;
}

/** The distribution with one share set to `value`; the others keep their proportions, and the sum stays. */
export function withShare(distribution, token, value) {
  const share = Math.max(0, Math.min(WHOLE, Math.round(value)));
  const others = distribution.filter((_, i) => i !== token);
  const parts = apportion(others, WHOLE - share);
  return distribution.map((_, i) => (i === token ? share : parts.shift()));
}

/**
 * Where the mass of q goes, in the unit of p and q. For each token: `accepted` = min(p, q), `rejected` = q − min(p, q),
 * `residual` = the share of max(p − q, 0) in its sum, `refill` = all rejected mass × residual, `out` = accepted + refill.
 * `broken` draws from p in place of the residual.
 */
export function decompose(p, q, broken = false) {
  const accepted = p.map((value, i) => Math.min(value, q[i]));
  const rejected = q.map((value, i) => value - accepted[i]);
  const leftover = p.map((value, i) => Math.max(value - q[i], 0));
  const lost = sum(rejected);
  const lacking = sum(leftover);
  const residual = leftover.map((value) => (lacking > 0 ? value / lacking : 0));
  const whole = sum(p);
  const redrawn = broken ? p.map((value) => value / whole) : residual;
  const refill = redrawn.map((share) => lost * share);
  const out = accepted.map((value, i) => value + refill[i]);
  const wrong = broken ? sum(out.map((value, i) => Math.abs(value - p[i]))) / 2 : 0;
  return { p, q, accepted, rejected, residual, redrawn, refill, out, lost, wrong, broken };
}

/** The same with refill, out and wrong in whole thousandths that still add up: what is printed. */
export function printed(parts) {
  const refill = parts.lost > 0 ? apportion(parts.refill, parts.lost) : parts.refill.map(() => 0);
  const out = parts.accepted.map((value, i) => value + refill[i]);
  return { ...parts, refill, out, wrong: sum(out.map((value, i) => Math.max(value - parts.p[i], 0))) };
}

// The picture: each token has a lane for q, one where its bar is put together, and one for p; below them lies the pool
// of rejected mass. A stage is a number from 0 to 3.

export const STAGES = ["draft", "test", "collect", "refill"];
export const LAST_STAGE = STAGES.length - 1;
export const laneOf = (token, name) => 4 * token + ["q", "out", "p"].indexOf(name);
export const POOL = 4 * TOKENS.length;

const between = (from, to, f) => from + (to - from) * f;
const part = (stage, from, to) => Math.max(0, Math.min(1, (stage - from) / (to - from)));
const eased = (f) => f * f * (3 - 2 * f);
const starts = (sizes) => sizes.map((_, i) => sum(sizes.slice(0, i)));

/**
 * The pieces of mass at a stage: [{kind, token, lane, at, size, opacity}]. At 0 they are q; at 1 each is split into what is
 * accepted and what is rejected; at 2 the rejected ones lie in the pool; at 3 they have been dealt out again as `refill`.
 */
export function pieces(parts, stage) {
  const { accepted, rejected, refill } = parts;
  const split = part(stage, 0, 1);
  const collect = eased(part(stage, 1, 2));
  const turned = part(stage, 2, 2.25);
  const deal = eased(part(stage, 2.25, 3));
  const rejectedAt = starts(rejected);
  const refillAt = starts(refill);
  return TOKENS.flatMap((_, token) => {
    const [drafted, built] = [laneOf(token, "q"), laneOf(token, "out")];
    const down = between(drafted, built, collect);
    return [
      { kind: "accepted", token, lane: down, at: 0, size: accepted[token], opacity: split },
      { kind: "drafted", token, lane: drafted, at: 0, size: accepted[token] + rejected[token], opacity: 1 - split },
      {
        kind: "rejected", token, size: rejected[token], opacity: split * (1 - turned),
        lane: between(drafted, POOL, collect), at: between(accepted[token], rejectedAt[token], collect),
      },
      {
        kind: "refill", token, size: refill[token], opacity: turned,
        lane: between(POOL, built, deal), at: between(refillAt[token], accepted[token], deal),
      },
    ];
  });
}
