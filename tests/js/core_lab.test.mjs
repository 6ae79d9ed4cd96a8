import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import {
  DRAWS, PARAMETERS, USUAL_DRAWS, chiSquare, distance, exactDistance, folded, frameAt, grouped, highestShare, laneSaid, logScale, pValue, powerOf, remark,
  ruleChanges, ruleWished, verdictOf,
} from "../../specviz/ui/static/core_lab.mjs";
import { labPlace, mostApart, steppedPlace } from "../../specviz/ui/static/core_lab_places.mjs";
import { merge, newModel } from "../../specviz/ui/static/core.mjs";
import { RULES } from "../../specviz/ui/static/core_whatif.mjs";
import { MEASURED, exhibitFigures, exhibitSaid } from "../../specviz/ui/static/core_museum.mjs";
import { translator } from "../../specviz/ui/static/core_text.mjs";

const here = (path) => new URL(path, import.meta.url);
const words = JSON.parse(readFileSync(here("../../specviz/ui/i18n/en/lossless.json"), "utf8"));
const EXHIBITS = [
  "u-stuck-at-zero", "unprocessed-q", "residual-is-p", "greedy-scored-as-sampled", "without-replacement", "kl-acceptance",
  "bonus-gap", "off-by-one-rollback", "eos-ignored",
];
const finding = (more = {}) => ({ rule: "rejection-sampling", exhibit: null, n: 1000, tv_sampled: 0.02, tv_exact: 0, chi2: 3.2, p_value: 0.5, verdict: "lossless", ...more });
const lane = (more = {}) => ({
  rule: "rejection-sampling", exhibit: null, lossless: true, law: [0.5, 0.3, 0.1], rest_law: 0.1, finding: finding(),
  frames: [{ n: 10, tv: 0.2, expected_tv: 0.15, counts: [4, 4, 1], rest: 1 }, { n: 1000, tv: 0.02, expected_tv: 0.02, counts: [500, 310, 90], rest: 100 }], ...more,
});
const answer = (lanes = [lane()]) => ({
  place: 0, n: 1000, tokens: [" the", " a", "\n"].map((text, id) => ({ id, text, p: [0.5, 0.3, 0.1][id] })), rest_p: 0.1, tv_pq: 0.2, lanes,
});

test("draws go from a hundred to a million in even logarithmic steps", () => {
  assert.equal(DRAWS[0], 1e2);
  assert.equal(DRAWS.at(-1), 1e6);
  assert.equal(DRAWS[USUAL_DRAWS], 1e5);
  for (let i = 1; i < DRAWS.length; i++) assert.ok(DRAWS[i] / DRAWS[i - 1] >= 2 && DRAWS[i] / DRAWS[i - 1] <= 2.5);
});

test("a rule is asked for with its own parameters only", () => {
  const values = { epsilon: 0.1, delta: 0.2, kl_threshold: 0.5 };
  assert.deepEqual(ruleChanges({ rule: "rejection-sampling", values }), { rule: "rejection-sampling" });
  assert.deepEqual(ruleChanges({ rule: "typical", values }), { rule: "typical", epsilon: 0.1, delta: 0.2 });
  assert.deepEqual(ruleChanges({ rule: "greedy-match", values }), { rule: "greedy-match", temperature: 0 });
  assert.deepEqual(ruleChanges({ rule: "kl-threshold", values }), { rule: "kl-threshold", kl_threshold: 0.5 });
});

test("rule and parameters follow the run on the page, each until somebody chooses", () => {
  const recorded = { rule: "typical", epsilon: 0.5, delta: 0.6, kl_threshold: 0.7 };
  assert.deepEqual(ruleWished({ rule: null, values: {} }, null), { rule: "rejection-sampling", values: { epsilon: 0.09, delta: 0.3, kl_threshold: 0.8 } });
  assert.deepEqual(ruleWished({ rule: null, values: {} }, recorded), { rule: "typical", values: { epsilon: 0.5, delta: 0.6, kl_threshold: 0.7 } });
  assert.deepEqual(ruleWished({ rule: "kl-threshold", values: { delta: 0 } }, recorded), { rule: "kl-threshold", values: { epsilon: 0.5, delta: 0, kl_threshold: 0.7 } });
  assert.equal(ruleWished({ rule: null, values: {} }, { rule: "unheard of" }).rule, "rejection-sampling");
});

test("a frame between two others mixes shares, not counts, and keeps its figures", () => {
  const one = lane();
  assert.deepEqual(frameAt(one, 0).shares, [0.4, 0.4, 0.1]);
  assert.equal(frameAt(one, 1).n, 1000);
  const half = frameAt(one, 0.5);
  assert.deepEqual([half.n, half.tv, half.expected], [10, 0.2, 0.15]);
  assert.ok(Math.abs(half.shares[0] - 0.45) < 1e-12);
  assert.ok(Math.abs(half.reached - 100) < 1e-9);
  assert.ok(Math.abs(half.shares.reduce((a, b) => a + b, half.rest) - 1) < 1e-12);
  assert.equal(frameAt({ frames: one.frames.slice(1) }, 0.3).n, 1000);
});

test("tokens beyond those shown are counted among the others, in every lane and frame", () => {
  const full = answer([lane(), lane({ exhibit: "kl-acceptance", law: [0.1, 0.2, 0.6] })]);
  const { tokens, rest_p, lanes } = folded(full, 2);
  assert.deepEqual(tokens.map((one) => one.id), [0, 2]);
  assert.ok(Math.abs(rest_p - 0.4) < 1e-12);
  for (const one of lanes) {
    assert.ok(Math.abs(one.law.reduce((a, b) => a + b, one.rest_law) - 1) < 1e-12);
    for (const frame of one.frames) assert.equal(frame.counts.reduce((a, b) => a + b, frame.rest), frame.n);
  }
  assert.deepEqual(folded(full, 12), full);
});

test("one scale holds every bar, tick and outline", () => {
  assert.equal(highestShare(answer()), 0.5);
  assert.equal(highestShare(answer([lane({ law: [0.1, 0.2, 0.6] })])), 0.6);
});

test("logarithmic axes end at whole decades and have a mark at each", () => {
  const scale = logScale([0.03, 0.2, 0.9, 0]);
  assert.deepEqual(scale.ticks.map((tick) => tick.toPrecision(1)), ["0.01", "0.1", "1"]);
  assert.equal(scale.at(0.1), 0.5);
  assert.equal(scale.at(0), 0);
  assert.equal(scale.at(5), 1);
  assert.deepEqual(logScale([10, 100000]).ticks, [10, 100, 1000, 10000, 100000]);
  assert.equal(logScale([10]).ticks.length, 2);
  assert.ok(logScale([0, 0]).ticks.length >= 2, "all samples right: a position that leaves nothing to chance");
});

test("numbers are printed with the digits that matter", () => {
  assert.equal(grouped(1234567), "1\u2009234\u2009567");
  assert.equal(grouped(100), "100");
  assert.equal(powerOf(0.001), "10⁻³");
  assert.equal(distance(0.25), "0.2500");
  assert.equal(distance(0.00004), "4.0\u2009×\u200910⁻⁵");
  assert.equal(distance(1e-17), "0");
  assert.equal(exactDistance(1.4e-7), "<\u200910⁻⁶");
  assert.equal(exactDistance(0.25), "0.2500");
  assert.equal(pValue(0.41234), "0.412");
  assert.equal(pValue(3.14e-9), "3.1\u2009×\u200910⁻⁹");
  assert.equal(pValue(0), "<\u200910⁻³⁰⁰");
  assert.equal(pValue(null), "–");
  assert.equal(chiSquare(null), "∞");
  assert.equal(chiSquare(12.34), "12.3");
});

test("every verdict is a sentence with its numbers", () => {
  const t = translator({ en: words }, "en");
  const said = [
    [lane(), /^✓ Lossless: 1\u2009000 draws .*0\.500/],
    [lane({ lossless: false, rule: "typical", finding: finding({ verdict: "lossy", tv_exact: 0.1, p_value: 1e-9 }) }), /^✗ Lossy.*0\.1000/],
    [lane({ lossless: false, rule: "typical", finding: finding({ verdict: "lossy", tv_exact: 0.1, chi2: null, p_value: 0 }) }), /^✗ Lossy.*no chance/],
    [lane({ lossless: false, rule: "typical" }), /^✓ Nothing is lost at this position/],
    [lane({ finding: finding({ verdict: "lossy", p_value: 0.0004 }) }), /^\? Unlikely/],
    [lane({ lossless: false, exhibit: "residual-is-p", finding: finding({ verdict: "exposed", tv_exact: 0.2, p_value: 1e-40 }) }), /^✗ Exposed: .*10⁻⁴⁰.*0\.2000/],
    [lane({ lossless: false, exhibit: "residual-is-p", finding: finding({ verdict: "exposed", chi2: null, p_value: 0 }) }), /^✗ Exposed: .*no chance/],
    [lane({ lossless: false, exhibit: "residual-is-p", finding: finding({ verdict: "not exposed", tv_exact: 0.001 }) }), /^Not exposed: with/],
    [lane({ lossless: false, exhibit: "residual-is-p", finding: finding({ verdict: "not exposed", tv_exact: 0 }) }), /^Not exposed: at this/],
  ];
  for (const [one, pattern] of said) {
    const { key, args } = verdictOf(one);
    assert.ok(key in words, key);
    assert.match(t(key, args), pattern);
    assert.doesNotMatch(t(key, args), /\{\w+\}/);
  }
});

test("a position where p and q nearly agree is remarked on", () => {
  assert.equal(remark(answer()), null);
  assert.equal(remark({ ...answer(), tv_pq: 0.02 }).key, "lab.remark.close");
  const still = lane({ frames: lane().frames.map((frame) => ({ ...frame, tv: 0 })) });
  assert.equal(remark(answer([still])).key, "lab.remark.certain");
  assert.ok("lab.remark.close" in words && "lab.remark.certain" in words);
});

test("a lane is told with p, law and share of every token", () => {
  const said = laneSaid(lane(), answer().tokens, translator({ en: words }, "en"), (text) => text.trim() || "line break");
  assert.equal(said.split("; ").length, 3);
  assert.match(said, /1\u2009000.*“the”: p 0\.5000, exact law 0\.5000, drawn 0\.5000.*“line break”/);
});

test("drafted positions are walked across rounds, and the one that differs most is found", () => {
  const lane = merge(newModel(), JSON.parse(readFileSync(here("race.json"), "utf8"))).lanes.speculative;
  lane.records[1].drafted[1].overlap = 0.2;
  const best = mostApart(lane);
  const overlaps = lane.records.flatMap((record) => record.drafted).filter((one) => one.verdict !== "untested").map((one) => one.overlap);
  assert.equal(lane.records[best.round].drafted[best.place].overlap, Math.min(...overlaps));
  const last = lane.records[0].drafted.length - 1;
  assert.deepEqual(labPlace(lane, { round: 0, place: last + 1 }), { round: 0, place: last });
  assert.deepEqual(steppedPlace(lane, { round: 0, place: last }, 1), { round: 1, place: 0 });
  assert.deepEqual(steppedPlace(lane, { round: 0, place: 0 }, -1), { round: 0, place: 0 });
  assert.equal(mostApart(lane, 1).place >= 1, true);
  assert.ok(labPlace(lane, { round: 0, place: 0 }, 1).place >= 1);
  assert.deepEqual(steppedPlace(lane, { round: 0, place: last }, 1, 1), { round: 1, place: 1 });
  assert.equal(mostApart({ records: [], known: 0 }), null);
});

test("the exhibits that keep the distribution show their own numbers in words", () => {
  assert.deepEqual(MEASURED, EXHIBITS.slice(6));
  const values = {
    acceptance_honest: 0.87, acceptance_broken: 0.41, drafted_honest: 80, drafted_broken: 120, standard_error: 0.05,
    difference_honest: 0.03, difference_long: 9.5, difference_short: 8.25, tokens_honest: 12, tokens_broken: 14, behind: 2, end: 5, stand_in: 1,
  };
  const t = translator({ en: words }, "en");
  for (const name of MEASURED) {
    for (const { key } of exhibitFigures(name, values)) assert.ok(`museum.${name}.value.${key}` in words, key);
    for (const exposed of [true, false]) {
      const [{ key, args }] = exhibitSaid(name, { exposed, values });
      assert.doesNotMatch(t(key, args), /\{\w+\}|museum\./);
    }
  }
  assert.match(t(...Object.values(exhibitSaid("bonus-gap", { exposed: true, values })[0])), /0\.870 to 0\.410/);
  assert.equal(exhibitSaid("eos-ignored", { exposed: true, values: { ...values, stand_in: 0 } }).length, 1);
  assert.ok(exhibitSaid("eos-ignored", { exposed: true, values })[1].key in words);
});

test("every word the scripts ask for exists, for all nine exhibits", () => {
  const asked = new Set();
  for (const file of readdirSync(here("../../specviz/ui/static/"))) {
    const text = readFileSync(here(`../../specviz/ui/static/${file}`), "utf8");
    for (const [, key] of text.matchAll(/"((?:proof|lab|museum)\.[a-z_.]+[a-z_])"/g)) if (!key.endsWith(".css")) asked.add(key);
    for (const [, start] of text.matchAll(/`((?:proof|lab|museum)\.[a-z_.]*)\$\{/g)) assert.ok(Object.keys(words).some((key) => key.startsWith(start)), start);
  }
  for (const name of EXHIBITS) for (const part of ["title", "wrong", "notice", "expose"]) asked.add(`museum.${name}.${part}`);
  for (const name of RULES) asked.add(`lab.rule.${name}`);
  for (const one of PARAMETERS) asked.add(`lab.parameter.${one.name}`);
  for (const kind of ["draft", "test", "collect", "refill"]) [`proof.stage.${kind}`, `proof.told.${kind}`].forEach((key) => asked.add(key));
  assert.ok(asked.size > 60);
  assert.deepEqual([...asked].filter((key) => !words[key]), []);
  for (const [key, text] of Object.entries(words)) assert.ok(text.trim() && !/ [–—] /.test(text), key);
});
