import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { merge, newModel } from "../../specviz/ui/static/core.mjs";
import { decidedBy, isGreedy, isLossy } from "../../specviz/ui/static/core_rules.mjs";
import {
  apart, chipNote, fixed, label, lapse, percent, probability, roundSentence, ruleName, times, translator, verdictSentence, visible,
} from "../../specviz/ui/static/core_text.mjs";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const english = Object.assign({}, ...["race", "autopsy", "microscope"].map((part) => JSON.parse(read(`../../specviz/ui/i18n/en/${part}.json`))));
const t = translator({ en: english }, "en");
const model = merge(newModel(), JSON.parse(read("race.json")));
const { records } = model.lanes.speculative;
const { settings } = model.meta; // rejection sampling at temperature 0.7
const GREEDY = { ...settings, temperature: 0 };
const TYPICAL = { ...settings, rule: "typical", epsilon: 0.09, delta: 0.3 };
const KL = { ...settings, rule: "kl-threshold", kl_threshold: 0.8 };
const say = ({ key, args }) => t(key, args);

test("a translator fills in, prefers the singular, and falls back to English", () => {
  const both = translator({ en: { a: "{n} tokens of {of}", a_one: "1 token", b: "only English" }, xx: { a: "{n} xx" } }, "xx");
  assert.equal(both("a", { n: 3 }), "3 xx");
  assert.equal(both("b"), "only English");
  assert.equal(both("missing"), "missing");
  const one = translator({ en: { a: "{n} tokens of {of}", a_one: "1 token" } }, "en");
  assert.equal(one("a", { n: 1 }), "1 token");
  assert.equal(one("a", { n: 2 }), "2 tokens of {of}");
});

test("a text that looks like a placeholder is not filled in again", () => {
  assert.equal(translator({ en: { a: "{token}!" } }, "en")("a", { token: "{n}", n: 5 }), "{n}!");
});

test("figures keep their digits, and what is unknown is a dash", () => {
  assert.deepEqual([fixed(1.005, 1), times(1.2), percent(0.846), lapse(0.00042), lapse(0.0073), lapse(0.1434), lapse(1.219)],
    ["1.0", "1.20×", "85%", "0.42 ms", "7.3 ms", "143 ms", "1.22 s"]);
  assert.deepEqual([fixed(null, 1), times(undefined), percent(NaN), probability(null)], ["–", "–", "–", "–"]);
  assert.deepEqual([probability(0), probability(0.5), probability(0.0123), probability(0.0001)], ["0.00", "0.50", "0.012", "<\u20090.001"]);
});

test("two numbers that differ are printed apart", () => {
  assert.deepEqual(apart(0.5, 0.87), ["0.50", "0.87"]);
  assert.deepEqual(apart(0.8712, 0.8714), ["0.8712", "0.8714"]);
  assert.deepEqual(apart(0.5, 0.5), ["0.50", "0.50"]);
});

test("white space becomes visible without being lost", () => {
  assert.equal(visible(" a\n b"), "·a⏎\n·b");
  assert.equal(label(" sky"), "·sky");
  assert.equal(label("\n\n"), "⏎⏎");
  assert.equal(label(" "), "·");
  assert.equal(label(""), "◌");
  assert.equal(label("<img src=x>"), "<img src=x>");
});

test("a chip says how u fell, or that nothing was compared", () => {
  assert.deepEqual(records[0].drafted.map((one) => say(chipNote(one, settings))), ["u 0.20 < 0.75", "u 0.50 ≥ 0.25", "not compared"]);
});

/** The first round as another rule would have been recorded: without draws, its rejected token replaced from p. */
const undrawn = (round, source) => ({
  ...round, drafted: round.drafted.map((one) => ({ ...one, u: null, residual: [] })),
  emitted: round.emitted.map((one) => (one.source === "residual" ? { ...one, source } : one)),
});

test("where nothing was drawn, a chip says what decided instead", () => {
  const notes = (rule) => undrawn(records[0]).drafted.map((one) => say(chipNote(one, rule)));
  assert.deepEqual(notes(GREEDY), ["target's choice", "not the target's", "not compared"]);
  assert.deepEqual(notes(TYPICAL), ["p 0.60 typical", "p 0.10 too low", "not compared"]);
  assert.deepEqual(notes(KL), ["KL < 0.8", "KL ≥ 0.8", "not compared"]);
});

test("every rule is greedy match at temperature 0, and none is lossy there", () => {
  assert.deepEqual([settings, GREEDY, TYPICAL, KL].map(decidedBy), ["sampling", "greedy", "typical", "kl"]);
  assert.deepEqual([settings, GREEDY, TYPICAL, KL].map(isLossy), [false, false, true, true]);
  for (const rule of [TYPICAL, KL]) assert.ok(isGreedy({ ...rule, temperature: 0 }) && !isLossy({ ...rule, temperature: 0 }));
  assert.ok(!isLossy(undefined) && decidedBy(undefined) === "sampling");
});

test("the settings line names every rule but rejection sampling", () => {
  assert.equal(ruleName({ ...settings, rule: "rejection-sampling" }), null);
  assert.equal(ruleName({ ...GREEDY, rule: "rejection-sampling" }), null);
  assert.equal(say(ruleName({ ...GREEDY, rule: "typical" })), "greedy match");
  assert.equal(say(ruleName(TYPICAL)), "typical ε 0.09 δ 0.3");
  assert.equal(say(ruleName(KL)), "KL τ 0.8");
});

test("each verdict is explained by its own numbers", () => {
  assert.match(say(verdictSentence(records[0], 0, settings)), /^Accepted: u = 0\.20 is below p\/q = 0\.75/);
  assert.match(say(verdictSentence(records[0], 1, settings)), /^Rejected: u = 0\.50 is not below p\/q = 0\.25.*“·sky”.*“·sea”/);
  assert.match(say(verdictSentence(records[0], 2, settings)), /^Untested: position 2 was rejected/);
  assert.match(say(verdictSentence(records[1], 0, settings)), /at least the draft's probability/);
  assert.match(say(verdictSentence(records[2], 2, settings)), /^Untested: the text ended/);
});

test("at temperature 0 the sentence speaks of the likeliest token and of no draw", () => {
  assert.match(say(verdictSentence(undrawn(records[0], "residual"), 1, GREEDY)), /temperature 0.*“·sea”.*“·sky”/);
});

test("under a lossy rule a sentence names the rule's test and never the residual", () => {
  const round = undrawn(records[0], "target");
  const both = [TYPICAL, KL].map((rule) => [0, 1, 2].map((place) => say(verdictSentence(round, place, rule))));
  assert.match(both[0][0], /^Accepted: the target gives “The” p = 0\.60, above the typical threshold .* ε = 0\.09, δ = 0\.3/);
  assert.match(both[0][1], /^Rejected: the target gives “·sky” p = 0\.10, not above the typical threshold .*“·sea” was drawn from p/);
  assert.match(both[1][0], /^Accepted: KL\(p‖q\) was below τ = 0\.8 here/);
  assert.match(both[1][1], /^Rejected: KL\(p‖q\) was not below τ = 0\.8 here.*“·sea” was drawn from p/);
  for (const sentences of both) {
    assert.match(sentences[2], /^Untested: position 2 was rejected/);
    assert.doesNotMatch(sentences.join(), /\{|residual|temperature 0|u =/);
  }
});

test("a round can be heard", () => {
  assert.equal(say(roundSentence(records[0])), "Round 1: 3 drafted, 1 accepted, 1 rejected, 1 untested, then “·sea” resampled.");
  assert.match(say(roundSentence(records[1])), /all 2 drafted tokens accepted, then the bonus “!”/);
  assert.match(say(roundSentence(records[2])), /the run ended/);
  assert.equal(say(roundSentence(undrawn(records[0], "target"))), "Round 1: 3 drafted, 1 accepted, 1 rejected, 1 untested, then “·sea” drawn from p.");
  const undrafted = { ...records[0], drafted: [], emitted: [{ ...records[0].emitted[1], source: "target" }] };
  assert.equal(say(roundSentence(undrafted)), "Round 1: nothing drafted, “·sea” from the target.");
});

test("every key the scripts name is in the dictionary", () => {
  const folder = "../../specviz/ui/static/";
  const scripts = readdirSync(new URL(folder, import.meta.url)).filter((name) => name.endsWith(".mjs")).map((name) => read(folder + name));
  const literal = scripts.flatMap((text) => [...text.matchAll(/"((?:race|microscope|whatif)\.(?!css"|mjs")[a-z_.]+)"/g)].map((match) => match[1]));
  const begun = scripts.flatMap((text) => [...text.matchAll(/`((?:race|autopsy|microscope|whatif)\.[a-z_.]*)\$\{/g)].map((match) => match[1]));
  assert.ok(literal.length > 40 && begun.length > 5);
  assert.deepEqual(literal.filter((key) => !(key in english)), []);
  assert.deepEqual(begun.filter((start) => !Object.keys(english).some((key) => key.startsWith(start))), []);
});

test("no key of the race or the microscope is left over", () => {
  const folder = "../../specviz/ui/static/";
  const scripts = readdirSync(new URL(folder, import.meta.url)).filter((name) => name.endsWith(".mjs")).map((name) => read(folder + name)).join("\n");
  const starts = [...scripts.matchAll(/`((?:race|microscope|whatif)\.[a-z_.]*)\$\{/g)].map((match) => match[1]);
  const used = (key) => scripts.includes(`"${key.replace(/_one$/, "")}"`) || scripts.includes(`"${key}"`) || starts.some((start) => key.startsWith(start));
  assert.deepEqual(Object.keys(english).filter((key) => /^(race|microscope|whatif)\./.test(key) && !used(key)), []);
});
