import assert from "node:assert/strict";
import { test } from "node:test";

import { LAST_STAGE, POOL, PRESETS, TOKENS, WHOLE, apportion, decompose, laneOf, pieces, printed, withShare } from "../../specviz/ui/static/core_proof.mjs";

const sum = (values) => values.reduce((total, value) => total + value, 0);
const close = (a, b, within = 1e-12) => assert.ok(Math.abs(a - b) <= within, `${a} is not ${b}`);

/** Reproducible numbers in [0, 1), by Lehmer. */
function random(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/** A distribution over n tokens, about every third share 0. */
function distribution(draw, n) {
  const weights = Array.from({ length: n }, () => (draw() < 0.33 ? 0 : draw() ** 3));
  if (!sum(weights)) weights[Math.floor(draw() * n)] = 1;
  return weights.map((weight) => weight / sum(weights));
}

test("accepted and resampled mass make up p, whatever p and q are", () => {
  const draw = random(7);
  for (let i = 0; i < 3000; i++) {
    const n = i % 2 ? 3 : 12;
    const [p, q] = [distribution(draw, n), distribution(draw, n)];
    const parts = decompose(p, q);
    p.forEach((value, token) => close(parts.out[token], value));
    close(sum(parts.accepted) + parts.lost, 1);
    close(sum(parts.refill), parts.lost);
    assert.ok([...parts.accepted, ...parts.rejected, ...parts.refill].every((mass) => mass >= 0));
    assert.equal(parts.wrong, 0);
  }
});

test("with p in place of the residual, exactly half of Σ|out − p| lies on the wrong tokens, and min(p, q) + lost · p comes out", () => {
  const draw = random(11);
  for (let i = 0; i < 1000; i++) {
    const [p, q] = [distribution(draw, 3), distribution(draw, 3)];
    const parts = decompose(p, q, true);
    p.forEach((value, token) => close(parts.out[token], Math.min(value, q[token]) + parts.lost * value));
    close(sum(parts.out), 1);
    close(parts.wrong, sum(parts.out.map((mass, token) => Math.max(mass - p[token], 0))));
  }
  const { out, wrong } = decompose([0.5, 0.5, 0], [1, 0, 0], true);
  assert.deepEqual(out, [0.75, 0.25, 0]);
  assert.equal(wrong, 0.25);
});

test("equal: nothing is rejected; disjoint: everything is, and the residual is p", () => {
  const { p: same } = PRESETS.equal;
  const equal = decompose(same, PRESETS.equal.q);
  assert.equal(equal.lost, 0);
  assert.deepEqual(equal.out, same);
  assert.deepEqual(equal.residual, [0, 0, 0]);
  const apart = decompose(PRESETS.disjoint.p, PRESETS.disjoint.q);
  assert.equal(apart.lost, WHOLE);
  assert.deepEqual(apart.accepted, [0, 0, 0]);
  assert.deepEqual(apart.out, PRESETS.disjoint.p);
  assert.equal(decompose(PRESETS.disjoint.p, PRESETS.disjoint.q, true).wrong, 0);
});

test("what is printed adds up in thousandths", () => {
  const draw = random(3);
  for (let i = 0; i < 500; i++) {
    const [p, q] = [apportion(distribution(draw, 3), WHOLE), apportion(distribution(draw, 3), WHOLE)];
    for (const broken of [false, true]) {
      const figures = printed(decompose(p, q, broken));
      assert.equal(sum(figures.out), WHOLE);
      assert.ok([...figures.refill, ...figures.out, figures.wrong].every(Number.isInteger));
      if (!broken) assert.deepEqual(figures.out, p);
    }
  }
});

test("presets are distributions", () => {
  for (const { p, q } of Object.values(PRESETS)) {
    assert.equal(sum(p), WHOLE);
    assert.equal(sum(q), WHOLE);
    assert.equal(p.length, TOKENS.length);
  }
});

test("a dragged share takes from the others in proportion and the sum stays", () => {
  assert.deepEqual(withShare([600, 300, 100], 0, 200), [200, 600, 200]);
  assert.deepEqual(withShare([600, 300, 100], 0, 1000), [1000, 0, 0]);
  assert.deepEqual(withShare([1000, 0, 0], 0, 500), [500, 250, 250]);
  assert.deepEqual(withShare([600, 300, 100], 2, -5), [667, 333, 0]);
  assert.deepEqual(withShare([600, 300, 100], 1, 4000), [0, 1000, 0]);
  const draw = random(5);
  for (let i = 0; i < 500; i++) {
    const moved = withShare(apportion(distribution(draw, 3), WHOLE), i % 3, draw() * WHOLE);
    assert.equal(sum(moved), WHOLE);
    assert.ok(moved.every((share) => Number.isInteger(share) && share >= 0));
  }
});

test("mass only moves: at every stage the visible pieces hold all of it", () => {
  const parts = decompose(PRESETS.typical.p, PRESETS.typical.q);
  for (let stage = 0; stage <= LAST_STAGE; stage += 0.05) {
    close(sum(pieces(parts, stage).map(({ size, opacity }) => size * opacity)), WHOLE, 1e-9);
  }
});

test("the pieces are q at first, lie in the pool, and end as p", () => {
  const { p, q } = PRESETS.typical;
  const parts = decompose(p, q);
  const seen = (stage) => pieces(parts, stage).filter(({ opacity, size }) => opacity === 1 && size > 0);
  assert.deepEqual(seen(0).map(({ kind, lane, size }) => [kind, lane, size]), q.map((size, token) => ["drafted", laneOf(token, "q"), size]));
  const pool = seen(2).filter(({ lane }) => lane === POOL);
  assert.ok(pool.length && pool.every(({ kind }) => kind === "rejected"));
  close(sum(pool.map(({ size }) => size)), parts.lost, 1e-9);
  TOKENS.forEach((_, token) => {
    const bar = seen(3).filter(({ lane }) => lane === laneOf(token, "out"));
    close(Math.max(...bar.map(({ at, size }) => at + size)), p[token], 1e-9);
    close(Math.min(...bar.map(({ at }) => at)), 0);
  });
});
