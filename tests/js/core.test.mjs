import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { finalToken, merge, mirrored, neighbour, newModel, threshold, verdicts } from "../../specviz/ui/static/core.mjs";

const race = JSON.parse(readFileSync(new URL("race.json", import.meta.url), "utf8"));
const whole = () => merge(newModel(), structuredClone(race));
const window = (seq, kind, from, until, run = race.run) => ({
  run, seq, state: "running", meta: race.meta,
  records: { [kind]: { from, items: race.records[kind].items.slice(from, until) } },
});

test("a recorded race is read as it was written", () => {
  const { lanes, state, meta, stats } = whole();
  assert.equal(state, "recorded");
  assert.equal(meta.settings.gamma, 3);
  assert.equal(stats.speculation.forwards_saved, 4);
  assert.deepEqual(lanes.speculative.tokens, [0, 2, 5, 7]);
  assert.deepEqual(lanes.standard.tokens, [0, 1, 2, 3, 4, 5, 6]);
  const [first] = lanes.speculative.records;
  assert.deepEqual(first.drafted.map((one) => one.verdict), ["accepted", "rejected", "untested"]);
  assert.deepEqual(first.drafted[1].residual.map((one) => one.text), [" sea", " air"]);
  assert.ok(Math.abs(first.draftEnd - 0.03) < 1e-9 && Math.abs(first.verifyEnd - 0.08) < 1e-9 && Math.abs(first.end - 0.1) < 1e-9);
});

test("merging twice changes nothing but the version", () => {
  const once = whole();
  const twice = merge(whole(), structuredClone(race));
  assert.deepEqual({ ...twice, version: 0 }, { ...once, version: 0 });
});

test("windows in any order make the same lane as the whole", () => {
  for (const order of [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]]) {
    const model = newModel();
    order.forEach((i, seq) => merge(model, window(seq, "speculative", i, i + 1)));
    assert.deepEqual(model.lanes.speculative.groups, whole().lanes.speculative.groups);
    assert.equal(model.lanes.speculative.known, 3);
  }
});

test("nothing behind a gap is played until the gap is filled", () => {
  const model = merge(newModel(), window(0, "standard", 3, 6));
  assert.equal(model.lanes.standard.known, 0);
  merge(model, window(1, "standard", 0, 4));
  assert.equal(model.lanes.standard.known, 6);
});

test("a new run starts afresh", () => {
  const model = merge(whole(), window(0, "standard", 0, 1, "another"));
  assert.equal(model.lanes.speculative.known, 0);
  assert.equal(model.lanes.standard.known, 1);
  assert.equal(model.stats, null);
});

test("an old message adds records but does not turn the state back", () => {
  const model = merge(newModel(), { ...structuredClone(race), seq: 5, state: "finished" });
  merge(model, window(2, "standard", 0, 2));
  assert.equal(model.state, "finished");
});

test("tokens of one glyph are one group, and an end of text is a group of its own", () => {
  const { groups, untils } = whole().lanes.speculative;
  assert.deepEqual(groups.slice(0, 4).map((one) => one.text), ["The", " sea", "\u{1F30A}", "!"]);
  assert.deepEqual(untils, [1, 2, 4, 5, 6, 7]);
  assert.ok(groups.at(-1).end && !groups.at(-2).end);
});

test("a glyph that spans two messages is completed in place", () => {
  const model = merge(newModel(), window(0, "standard", 0, 3));
  assert.equal(model.lanes.standard.groups.at(-1).text, "");
  merge(model, window(1, "standard", 3, 4));
  assert.equal(model.lanes.standard.groups.at(-1).text, "\u{1F30A}");
  assert.deepEqual(model.lanes.standard.untils, [1, 2, 4]);
});

test("verdicts are counted and the final token is told from a cut", () => {
  const [rejected, full, cut] = whole().lanes.speculative.records;
  assert.deepEqual(verdicts(rejected), { accepted: 1, rejected: 1, untested: 1 });
  assert.equal(finalToken(rejected).source, "residual");
  assert.equal(finalToken(full).source, "bonus");
  assert.equal(finalToken(cut), null);
});

test("the threshold is min(1, p/q), also where q is 0", () => {
  assert.equal(threshold({ p: 0.1, q: 0.4 }), 0.25);
  assert.equal(threshold({ p: 0.9, q: 0.4 }), 1);
  assert.equal(threshold({ p: 0.1, q: 0 }), 1);
  assert.equal(threshold({ p: 0, q: 0 }), 0);
});

test("mirrored bars hold the union, likeliest first, the drafted token always among them", () => {
  const candidate = (id, prob) => ({ id, text: `t${id}`, prob });
  const position = { id: 9, name: "t9", p: 0.001, q: 0.002, topP: [candidate(1, 0.6), candidate(2, 0.3)], topQ: [candidate(2, 0.7), candidate(3, 0.2)] };
  assert.deepEqual(mirrored(position).map((row) => [row.id, row.p, row.q]), [[2, 0.3, 0.7], [1, 0.6, null], [3, null, 0.2], [9, 0.001, 0.002]]);
  assert.deepEqual(mirrored(position, 2).map((row) => row.id), [2, 9]);
});

test("positions are walked across rounds and back, the final tokens among them", () => {
  const lane = whole().lanes.speculative; // 3 drafted + final, 2 drafted + final, 3 drafted and cut
  const walk = (at, by, steps) => Array.from({ length: steps }, () => (at = neighbour(lane, at, by))).map(({ round, place }) => `${round}.${place}`);
  assert.deepEqual(walk({ round: 0, place: 1 }, 1, 9), ["0.2", "0.3", "1.0", "1.1", "1.2", "2.0", "2.1", "2.2", "2.2"]);
  assert.deepEqual(walk({ round: 1, place: 1 }, -1, 6), ["1.0", "0.3", "0.2", "0.1", "0.0", "0.0"]);
});
