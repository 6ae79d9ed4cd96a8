// Where everything stands at a moment of the record. Pure.

const EPSILON = 1e-7;

/** Number of entries of a sorted list that are ≤ limit. */
export function countUpTo(sorted, limit) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= limit + EPSILON) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Seconds of the longer run. */
export const duration = (model) => Math.max(...Object.values(model.lanes).map((lane) => lane.ends.at(-1)));

/** The lane whose records one steps through: rounds if there are any, else steps. */
export const steppedLane = (model) => (model.lanes.speculative.known ? model.lanes.speculative : model.lanes.standard);

/**
 * One lane at time t: records judged, tokens committed, their tokens per second, and the record in progress
 * with its phase ("draft", "verify" with progress 0..1, "sample") and the number of tokens drafted so far.
 */
export function laneAt(lane, t) {
  const judged = countUpTo(lane.ends, t) - 1;
  const elapsed = Math.min(t, lane.ends[lane.known]);
  const tokens = lane.tokens[judged];
  const rate = judged ? tokens / lane.ends[judged] : null;
  const next = lane.records[judged];
  const active = judged < lane.known && t > Math.max(next.start, lane.ends[judged]) + EPSILON ? phaseAt(next, t) : null;
  return { judged, tokens, rate, elapsed, active, complete: judged === lane.known };
}

function phaseAt(record, t) {
  if (t < record.draftEnd) return { index: record.index, phase: "draft", drafted: countUpTo(record.draftEnds, t), progress: 0 };
  const drafted = record.drafted.length; // not the number of draft steps: prompt lookup copies a whole draft in one
  const progress = Math.min(1, (t - record.draftEnd) / Math.max(EPSILON, record.verifyEnd - record.draftEnd));
  return { index: record.index, phase: progress < 1 ? "verify" : "sample", drafted, progress };
}

/** The time one step on (+1) or back (−1): the next or the previous end of a record. */
export function stepTime(lane, t, direction) {
  const judged = countUpTo(lane.ends, t) - 1;
  if (direction > 0) return lane.ends[Math.min(judged + 1, lane.known)];
  const between = t > lane.ends[judged] + 1e-5;
  return lane.ends[Math.max(0, between ? judged : judged - 1)];
}

/** Groups of a lane that are on the page once n tokens are committed. */
export const groupsShown = (lane, n) => countUpTo(lane.untils, n);

/** What the rail shows, newest last: the round in progress if wanted, and judged ones to make up `count`. */
export function railRounds(lane, at, withActive, count) {
  const active = withActive && at.active ? [at.active] : [];
  const first = Math.max(0, at.judged - count + active.length);
  const judged = lane.records.slice(first, at.judged).map(({ index, drafted }) => ({ index, phase: "judged", drafted: drafted.length, progress: 1 }));
  return [...judged, ...active];
}

/** Average tokens per second since the start, after each record: [[seconds, tok/s], …]. */
export function averageCurve(lane) {
  const points = [];
  for (let i = 1; i <= lane.known; i++) if (lane.ends[i] > 0) points.push([lane.ends[i], lane.tokens[i] / lane.ends[i]]);
  return points;
}

/** Tokens per second over the last `span` seconds, after each record from which a whole span can be looked back on. */
export function windowCurve(lane, span) {
  const points = [];
  for (let i = 1; i <= lane.known; i++) {
    const from = countUpTo(lane.ends, lane.ends[i] - span) - 1;
    if (from >= 0) points.push([lane.ends[i], (lane.tokens[i] - lane.tokens[from]) / (lane.ends[i] - lane.ends[from])]);
  }
  return points;
}

/** The next of 1, 2, 2.5, 5 × 10ⁿ at or above a value: axis ends that do not move with every record. */
export function niceCeil(value) {
  if (!(value > 0)) return 1;
  const scale = 10 ** Math.floor(Math.log10(value));
  return scale * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * scale >= value * (1 - 1e-9));
}

/** Round values on an axis of `span` beginning at `from`, about `wanted` of them. */
export function ticks(span, wanted = 5, from = 0) {
  const rough = span / wanted;
  const scale = 10 ** Math.floor(Math.log10(rough));
  const step = scale * [1, 2, 2.5, 5, 10].find((one) => one * scale >= rough * (1 - 1e-9));
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.floor((from + span) / step + 1e-9) - first;
  return Array.from({ length: count + 1 }, (_, i) => Number(((first + i) * step).toPrecision(6)));
}

/** The decimals that write every one of some round values exactly, at most four. */
export const decimals = (values) => Math.max(0, ...values.map((value) => (String(Number(value.toFixed(4))).split(".")[1] ?? "").length));

const ZOOMED_RECORDS = 8;

/** The stretch of time on screen: all of it, or some rounds around time t. `end` is where the whole axis ends. */
export function stretch(lane, t, end, zoomed) {
  if (!zoomed || !lane.known) return { from: 0, span: end };
  const span = Math.min(end, niceCeil((ZOOMED_RECORDS * lane.ends[lane.known]) / lane.known));
  return { from: Math.max(0, Math.min(t - span / 2, end - span)), span };
}

/** Which record covers time t in a lane (at a boundary the one that ends there), or −1. */
export function recordAt(lane, t) {
  const index = Math.max(0, countUpTo(lane.ends, t - 3 * EPSILON) - 1);
  return t >= 0 && index < lane.known ? index : -1;
}

/** A value as a fraction of an axis, kept inside it. */
export const fraction = (value, end) => Math.max(0, Math.min(1, end > 0 ? value / end : 0));
