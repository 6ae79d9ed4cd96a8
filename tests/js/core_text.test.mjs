import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { merge, newModel } from "../../specviz/ui/static/core.mjs";
import {
  apart, chipNote, fixed, isGreedy, label, lapse, percent, probability, roundSentence, times, translator, verdictSentence, visible,
} from "../../specviz/ui/static/core_text.mjs";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const english = Object.assign({}, ...["race", "autopsy"].map((part) => JSON.parse(read(`../../specviz/ui/i18n/en/${part}.json`))));
const t = translator({ en: english }, "en");
const { records } = merge(newModel(), JSON.parse(read("race.json"))).lanes.speculative;
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
  assert.deepEqual(records[0].drafted.map((one) => say(chipNote(one))), ["u 0.20 < 0.75", "u 0.50 ≥ 0.25", "not compared"]);
  const greedy = { ...records[0].drafted[1], u: null };
  assert.equal(chipNote(greedy).key, "race.chip.differ");
});

test("each verdict is explained by its own numbers", () => {
  assert.match(say(verdictSentence(records[0], 0)), /^Accepted: u = 0\.20 is below p\/q = 0\.75/);
  assert.match(say(verdictSentence(records[0], 1)), /^Rejected: u = 0\.50 is not below p\/q = 0\.25.*“·sky”.*“·sea”/);
  assert.match(say(verdictSentence(records[0], 2)), /^Untested: position 2 was rejected/);
  assert.match(say(verdictSentence(records[1], 0)), /at least the draft's probability/);
  assert.match(say(verdictSentence(records[2], 2)), /^Untested: the text ended/);
});

test("at temperature 0 the sentence speaks of the likeliest token and of no draw", () => {
  const round = { ...records[0], drafted: records[0].drafted.map((one) => ({ ...one, u: null })) };
  assert.ok(isGreedy(round) && !isGreedy(records[0]));
  assert.match(say(verdictSentence(round, 1)), /temperature 0.*“·sea”.*“·sky”/);
});

test("a round can be heard", () => {
  assert.equal(say(roundSentence(records[0])), "Round 1: 3 drafted, 1 accepted, 1 rejected, 1 untested, then “·sea” resampled.");
  assert.match(say(roundSentence(records[1])), /all 2 drafted tokens accepted, then the bonus “!”/);
  assert.match(say(roundSentence(records[2])), /the run ended/);
});

test("every key the scripts name is in the dictionary", () => {
  const folder = "../../specviz/ui/static/";
  const scripts = readdirSync(new URL(folder, import.meta.url)).filter((name) => name.endsWith(".mjs")).map((name) => read(folder + name));
  const literal = scripts.flatMap((text) => [...text.matchAll(/"(race\.(?!css")[a-z_.]+)"/g)].map((match) => match[1]));
  const begun = scripts.flatMap((text) => [...text.matchAll(/`((?:race|autopsy)\.[a-z_.]*)\$\{/g)].map((match) => match[1]));
  assert.ok(literal.length > 40 && begun.length > 5);
  assert.deepEqual(literal.filter((key) => !(key in english)), []);
  assert.deepEqual(begun.filter((start) => !Object.keys(english).some((key) => key.startsWith(start))), []);
});

test("no race key is left over", () => {
  const folder = "../../specviz/ui/static/";
  const scripts = readdirSync(new URL(folder, import.meta.url)).filter((name) => name.endsWith(".mjs")).map((name) => read(folder + name)).join("\n");
  const starts = [...scripts.matchAll(/`(race\.[a-z_.]*)\$\{/g)].map((match) => match[1]);
  const used = (key) => scripts.includes(`"${key.replace(/_one$/, "")}"`) || scripts.includes(`"${key}"`) || starts.some((start) => key.startsWith(start));
  assert.deepEqual(Object.keys(english).filter((key) => key.startsWith("race.") && !used(key)), []);
});
