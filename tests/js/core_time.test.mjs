import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { merge, newModel } from "../../specviz/ui/static/core.mjs";
import {
  averageCurve, countUpTo, decimals, duration, groupsShown, laneAt, niceCeil, railRounds, recordAt, stepTime, steppedLane, stretch, ticks, windowCurve,
} from "../../specviz/ui/static/core_time.mjs";

const model = merge(newModel(), JSON.parse(readFileSync(new URL("race.json", import.meta.url), "utf8")));
const { speculative, standard } = model.lanes; // rounds end at 0.1, 0.2, 0.3; steps last 0.06 each
const near = (actual, expected) => assert.ok(Math.abs(actual - expected) < 1e-9, `${actual} is not ${expected}`);

test("entries up to a limit are counted", () => {
  assert.equal(countUpTo([], 1), 0);
  assert.equal(countUpTo([0, 1, 2], -0.5), 0);
  assert.equal(countUpTo([0, 1, 2], 1), 2);
  assert.equal(countUpTo([0, 1, 2], 9), 3);
});

test("a lane before, inside, at the end of and behind its records", () => {
  assert.deepEqual({ ...laneAt(speculative, 0) }, { judged: 0, tokens: 0, elapsed: 0, rate: null, active: null, complete: false });
  const inside = laneAt(speculative, 0.115);
  assert.equal(inside.judged, 1);
  assert.equal(inside.tokens, 2);
  near(inside.rate, 20);
  assert.deepEqual(inside.active, { index: 1, phase: "draft", drafted: 1, progress: 0 });
  const boundary = laneAt(speculative, 0.2);
  assert.equal(boundary.judged, 2);
  assert.equal(boundary.active, null);
  const behind = laneAt(speculative, Infinity);
  assert.equal(behind.tokens, 7);
  assert.ok(behind.complete);
  near(behind.elapsed, 0.3);
});

test("a round goes from drafting through one verification to its verdicts", () => {
  assert.equal(laneAt(speculative, 0.029).active.phase, "draft");
  const verifying = laneAt(speculative, 0.055).active;
  assert.equal(verifying.phase, "verify");
  assert.equal(verifying.drafted, 3);
  near(verifying.progress, 0.5);
  assert.equal(laneAt(speculative, 0.09).active.phase, "sample");
});

test("a draft that one step made is there as a whole once it is made", () => {
  const round = { ...speculative.records[0], draftEnds: [speculative.records[0].draftEnd] };
  const lane = { ...speculative, records: [round, ...speculative.records.slice(1)] };
  assert.equal(laneAt(lane, 0.015).active.drafted, 0);
  assert.equal(laneAt(lane, 0.055).active.drafted, 3);
});

test("an empty lane is at rest at any time", () => {
  const empty = newModel();
  assert.equal(laneAt(empty.lanes.speculative, Infinity).judged, 0);
  assert.equal(duration(empty), 0);
  assert.equal(steppedLane(empty), empty.lanes.standard);
});

test("steps land on ends of rounds and stop at both ends", () => {
  near(stepTime(speculative, 0, 1), 0.1);
  near(stepTime(speculative, 0.15, 1), 0.2);
  near(stepTime(speculative, 0.15, -1), 0.1);
  near(stepTime(speculative, 0.2, -1), 0.1);
  near(stepTime(speculative, 0.3, 1), 0.3);
  near(stepTime(speculative, 0, -1), 0);
});

test("walking to the end and back visits every round once", () => {
  let t = 0;
  const seen = [];
  for (let i = 0; i < 3; i++) seen.push(laneAt(speculative, (t = stepTime(speculative, t, 1))).judged);
  for (let i = 0; i < 3; i++) seen.push(laneAt(speculative, (t = stepTime(speculative, t, -1))).judged);
  assert.deepEqual(seen, [1, 2, 3, 2, 1, 0]);
});

test("the rail shows the round in progress beside the one judged last", () => {
  const rows = (t, active, count = 2) => railRounds(speculative, laneAt(speculative, t), active, count).map((one) => `${one.index} ${one.phase}`);
  assert.deepEqual(rows(0, true), []);
  assert.deepEqual(rows(0.015, true), ["0 draft"]);
  assert.deepEqual(rows(0.155, true), ["0 judged", "1 verify"]);
  assert.deepEqual(rows(0.155, false), ["0 judged"]);
  assert.deepEqual(rows(0.3, true), ["1 judged", "2 judged"]);
  assert.deepEqual(rows(0.3, true, 3), ["0 judged", "1 judged", "2 judged"]);
});

test("a glyph is on the page once all its tokens are committed", () => {
  assert.deepEqual([0, 2, 3, 4].map((n) => groupsShown(standard, n)), [0, 2, 2, 3]);
});

test("the average curve is tokens so far over time so far", () => {
  const points = averageCurve(speculative);
  [[0.1, 20], [0.2, 25], [0.3, 70 / 3]].forEach(([x, y], i) => {
    near(points[i][0], x);
    near(points[i][1], y);
  });
});

test("the window curve begins once a whole window can be looked back on", () => {
  const points = windowCurve(speculative, 0.15);
  assert.equal(points.length, 2);
  near(points[0][1], 5 / 0.2); // from the round's end at or before the window's start
  near(points[1][1], 5 / 0.2);
  assert.deepEqual(windowCurve(speculative, 9), []);
});

test("axes end at round values and their marks start at 0", () => {
  assert.equal(niceCeil(0), 1);
  assert.equal(niceCeil(27), 30);
  assert.equal(niceCeil(0.013), 0.015);
  assert.equal(niceCeil(100), 100);
  for (const end of [0.3, 1, 5.46, 47]) {
    const marks = ticks(end, 5);
    assert.equal(marks[0], 0);
    assert.ok(marks.at(-1) <= end + 1e-9 && marks.length >= 3 && marks.length <= 7, `${marks}`);
  }
});

test("a boundary belongs to the record that ends there", () => {
  assert.equal(recordAt(speculative, 0), 0);
  assert.equal(recordAt(speculative, 0.1), 0);
  assert.equal(recordAt(speculative, 0.11), 1);
  assert.equal(recordAt(speculative, 0.3), 2);
  assert.equal(recordAt(speculative, 0.31), -1);
});

test("a stretch is the whole axis, or some rounds around the playhead that never leave the axis", () => {
  const ends = Array.from({ length: 101 }, (_, i) => i / 10);
  const lane = { known: 100, ends };
  assert.deepEqual(stretch(lane, 5, 12, false), { from: 0, span: 12 });
  assert.deepEqual(stretch(lane, 5, 12, true), { from: 4.6, span: 0.8 });
  assert.equal(stretch(lane, 0.1, 12, true).from, 0);
  near(stretch(lane, 12, 12, true).from, 11.2);
  assert.deepEqual(stretch(newModel().lanes.speculative, 0, 1, true), { from: 0, span: 1 });
});

test("marks of a stretch lie on round values inside it", () => {
  assert.deepEqual(ticks(0.8, 4, 4.65), [4.8, 5, 5.2, 5.4]);
});

test("marks are written with as many decimals as they have", () => {
  assert.equal(decimals([0, 20, 40]), 0);
  assert.equal(decimals(ticks(1.8, 8)), 2);
  assert.equal(decimals(ticks(0.8, 4, 4.65)), 1);
  assert.equal(decimals([]), 0);
});

test("at the end of a record the next has not begun, even if its start was rounded down", () => {
  const next = { index: 1, start: 0.099999, draftEnds: [0.15], draftEnd: 0.15, verifyEnd: 0.19, end: 0.2, drafted: [{}] };
  const lane = { records: [{ index: 0, start: 0, end: 0.1 }, next], known: 2, ends: [0, 0.1, 0.2], tokens: [0, 1, 2] };
  assert.equal(laneAt(lane, 0.1).active, null);
  assert.equal(laneAt(lane, 0.11).active.phase, "draft");
});
