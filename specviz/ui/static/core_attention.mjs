// An executed schedule as a film: when which worker runs which step, and what has been moved by then. Pure.

import { countUpTo } from "./core_time.mjs";

/** Kernels wait for each other: standard attention's three, and the merge of what was split. */
const KERNELS = { initialise: "attend", attend: "attend", scores: "scores", softmax: "softmax", values: "values", merge: "merge" };
const ROUNDING = 1e-9; // of the whole film

/**
 * Lays a schedule's steps out in modelled time: a worker's steps follow each other, workers run side by side, at most
 * `slots` of them. Returns {starts, ends, end, slack}, seconds; two moments closer than `slack` are one.
 */
export function makeFilm({ steps, slots }) {
  const count = steps.worker.length;
  const [starts, ends] = [new Float64Array(count), new Float64Array(count)];
  let end = 0;
  for (const kernel of kernelsOf(steps)) {
    const free = new Array(Math.max(1, Math.min(slots, kernel.size))).fill(end);
    for (const indices of kernel.values()) {
      const slot = free.indexOf(Math.min(...free));
      for (const i of indices) {
        starts[i] = free[slot];
        ends[i] = free[slot] += steps.seconds[i];
      }
    }
    end = Math.max(end, ...free);
  }
  return { starts, ends, end, slack: ROUNDING * end };
}

/** [Map(worker → its steps)], one for each kernel. */
function kernelsOf({ worker, phase }) {
  const kernels = [];
  let running = null;
  phase.forEach((name, i) => {
    if (KERNELS[name] !== running) kernels.push(new Map());
    running = KERNELS[name];
    const workers = kernels.at(-1);
    if (!workers.has(worker[i])) workers.set(worker[i], []);
    workers.get(worker[i]).push(i);
  });
  return kernels;
}

/** How an amount of each step adds up, flowing evenly while the step runs: {total, at(time), when(amount)}. */
export function makeRamp({ starts, ends, end }, amounts) {
  const events = [];
  amounts.forEach((amount, i) => {
    if (!amount) return;
    if (ends[i] > starts[i]) {
      const rate = amount / (ends[i] - starts[i]);
      events.push([starts[i], rate, 0], [ends[i], -rate, 0]);
    } else events.push([starts[i], 0, amount]);
  });
  events.sort((a, b) => a[0] - b[0]);
  const [times, sums] = [[0], [0]];
  let rate = 0;
  for (const [time, change, jump] of events) {
    times.push(time);
    sums.push(Math.max(sums.at(-1), sums.at(-1) + rate * (time - times.at(-2)) + jump));
    rate += change;
  }
  const total = amounts.reduce((sum, amount) => sum + amount, 0);
  const scale = sums.at(-1) > 0 ? total / sums.at(-1) : 0; // takes the rounding of the sweep away
  for (let i = 0; i < sums.length; i++) sums[i] *= scale;
  return {
    total,
    at: (time) => (time >= end ? total : between(times, sums, time)),
    /** The last moment at which no more than this had been moved. */
    when: (amount) => (amount >= total * (1 - ROUNDING) ? end : amount <= 0 ? 0 : between(sums, times, amount)),
  };
}

/** y at x on the line through the points (xs, ys), xs ascending. */
function between(xs, ys, x) {
  let [low, high] = [0, xs.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle + 1;
    else high = middle;
  }
  const before = Math.max(0, low - 1);
  if (low >= xs.length || xs[low] === xs[before]) return ys[before];
  return ys[before] + ((ys[low] - ys[before]) * (x - xs[before])) / (xs[low] - xs[before]);
}

/** A schedule with its film and what flows while it plays: one head's even share where several are packed into a tile. */
export function makeTrack(schedule) {
  const { steps, group } = schedule;
  const film = makeFilm(schedule);
  const ramp = (amount) => makeRamp(film, steps.worker.map((_, i) => amount(i) / group));
  return { schedule, film, hbm: ramp((i) => steps.hbm_read[i] + steps.hbm_written[i]), l2: ramp((i) => steps.l2[i]), flops: ramp((i) => steps.flops[i]) };
}

/** What both schedules' films run on side by side: as much moved, or as much time passed. */
export const CLOCKS = {
  bytes: { end: ({ hbm }) => hbm.total, time: ({ hbm }, at) => hbm.when(at), reading: ({ hbm }, time) => hbm.at(time) },
  seconds: { end: ({ film }) => film.end, time: ({ film }, at) => Math.min(at, film.end), reading: (_, time) => time },
};

/** Where the clock of several tracks ends: with the longest. */
export const clockEnd = (clock, tracks) => Math.max(0, ...tracks.map(CLOCKS[clock].end));

/** The readings of a clock at which steps end, ascending. */
export function moments(clock, tracks) {
  const all = tracks.flatMap((track) => {
    const { ends } = track.film;
    const visited = track.schedule.steps.kind;
    return [...new Set(Array.from(ends).filter((_, i) => visited[i] !== "skipped"))].map((time) => CLOCKS[clock].reading(track, time));
  });
  const slack = ROUNDING * clockEnd(clock, tracks);
  return all.sort((a, b) => a - b).filter((at, i) => at > slack && (i === 0 || at - all[i - 1] > slack));
}

/** The reading one step on (+1) or back (−1). */
export function stepped(list, at, by) {
  const slack = ROUNDING * (list.at(-1) ?? 0);
  if (by > 0) return list.find((one) => one > at + slack) ?? list.at(-1) ?? 0;
  return list.findLast((one) => one < at - slack) ?? 0;
}

/** Which steps run at a moment; one that ends just then still does. */
export function activeAt({ film: { starts, ends, slack }, schedule: { steps } }, time) {
  const active = [];
  for (let i = 0; i < starts.length; i++) {
    if (starts[i] + slack < time && time <= ends[i] + slack && steps.kind[i] !== "skipped") active.push(i);
  }
  return active;
}

/** How many steps are over (skipped ones do not count). */
export function doneAt({ film: { ends, slack }, schedule: { steps } }, time) {
  let done = 0;
  for (let i = 0; i < ends.length; i++) if (ends[i] <= time + slack && steps.kind[i] !== "skipped") done += 1;
  return done;
}

/** The step whose numbers are told: of those that run, the one that began last, and of these the first worker's. */
export const followed = ({ film: { starts } }, active) =>
  active.reduce((best, i) => (best === null || starts[i] > starts[best] ? i : best), null);

/** The cuts of a schedule's score matrix: row and key edges, and `cell(step)` → {row, column} or null. */
export function makeGrid({ steps, group }, queries, keys) {
  const edges = (starts, end) => [...new Set(starts), end].sort((a, b) => a - b);
  const tiles = steps.k0.map((_, i) => i).filter((i) => isTile(steps, i));
  const rows = edges(tiles.map((i) => steps.r0[i]), queries * group);
  const columns = edges(tiles.map((i) => steps.k0[i]), keys);
  const [rowAt, columnAt] = [rows, columns].map((list) => new Map(list.map((start, i) => [start, i])));
  return {
    rows, columns, down: rows.length - 1, across: columns.length - 1,
    cell: (i) => (isTile(steps, i) ? { row: rowAt.get(steps.r0[i]), column: columnAt.get(steps.k0[i]) } : null),
  };
}

/** Scores of a tile are computed, weighed with V, or skipped; softmax, merge and initialise go over whole rows. */
export const isTile = ({ phase, kind }, i) => kind[i] !== null || phase[i] === "values";

/** Cells of equal size side by side, as [{from, to}] in cells: what can be drawn from one picture in one go. */
export function equalRuns(edges) {
  const runs = [];
  for (let i = 0; i + 1 < edges.length; i++) {
    const size = edges[i + 1] - edges[i];
    if (runs.at(-1)?.size === size) runs.at(-1).to = i + 1;
    else runs.push({ from: i, to: i + 1, size });
  }
  return runs;
}

/** The visits of each cell of a grid, in loop order: a Map from row · across + column to step numbers. */
export function visitsOf(schedule, grid) {
  const visits = new Map();
  schedule.steps.worker.forEach((_, i) => {
    const cell = grid.cell(i);
    if (!cell) return;
    const at = cell.row * grid.across + cell.column;
    if (visits.has(at)) visits.get(at).push(i);
    else visits.set(at, [i]);
  });
  return visits;
}

/** The cell over a row and a key, both in the units of the edges. */
export const cellAt = (grid, row, key) => ({
  row: Math.min(grid.down - 1, countUpTo(grid.rows, row) - 1), column: Math.min(grid.across - 1, countUpTo(grid.columns, key) - 1),
});

const STAIRS = 64; // beyond so many queries a straight line looks the same

/** The edge of the causal mask as points [key, query]: query i sees the first `before` + i + 1 keys. */
export function maskEdge(before, queries) {
  if (queries > STAIRS) return [[before, 0], [before + queries, queries]];
  return Array.from({ length: queries }, (_, i) => [[before + i + 1, i], [before + i + 1, i + 1]]).flat();
}

/** How far the rows fill the tiles they lie in: {used, of, tiles, share}. */
export function occupancy({ tile, group }, queries) {
  const used = queries * group;
  const tiles = Math.ceil(used / tile.rows);
  return { used, of: tiles * tile.rows, tiles, share: used / (tiles * tile.rows) };
}

export const LEAST_MASS = 1e-4; // where the colour scale begins

/** A share of attention as a place on the colour scale, logarithmic, 0 to 1; null where it is not known. */
export const massLevel = (mass) => (mass === null ? null : mass <= LEAST_MASS ? 0 : Math.min(1, 1 - Math.log10(mass) / Math.log10(LEAST_MASS)));

const hex = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

/** A colour [r, g, b] between two of the form #rrggbb. */
export function mixed(low, high, level) {
  const [from, to] = [hex(low), hex(high)];
  return from.map((part, i) => Math.round(part + (to[i] - part) * level));
}

/** The row of the shown head at a query, where heads of a group share a tile's rows. */
export const rowOf = (query, head, group) => query * group + (head % group);
