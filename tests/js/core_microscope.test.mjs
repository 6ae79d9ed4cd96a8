import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { merge, newModel } from "../../specviz/ui/static/core.mjs";
import {
  axisMarks, barRows, certainty, difference, firstOfInterest, lineOf, noteOf, numbersOf, onAxis, placeBehind, recordedDetail, recordedOutcome, sentenceOf, small,
  textBefore, ROWS,
} from "../../specviz/ui/static/core_microscope.mjs";
import { translator } from "../../specviz/ui/static/core_text.mjs";
import { changesOf, inTurn, judging, newestOnly, stopsWith, withChange, RULES, SLIDERS } from "../../specviz/ui/static/core_whatif.mjs";
import { makeEvidence } from "../../specviz/ui/static/evidence.mjs";
import { makeStore } from "../../specviz/ui/static/store.mjs";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const english = Object.assign({}, ...["race", "microscope"].map((part) => JSON.parse(read(`../../specviz/ui/i18n/en/${part}.json`))));
const t = translator({ en: english }, "en");
const say = ({ key, args }) => t(key, args);
const model = merge(newModel(), JSON.parse(read("race.json")));
const lane = model.lanes.speculative; // 3 drafted + residual, 2 drafted + bonus, 3 drafted and cut
const [rejected, full, cut] = lane.records;
const settings = { ...model.meta.settings, rule: "rejection-sampling" };
const outcomeOf = (round, changes = {}) => recordedOutcome(round, { ...settings, ...changes });
const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);

test("probabilities keep the digits that matter, however small", () => {
  assert.deepEqual([0, 1, 0.42, 0.0312, 0.00214, 0.000034, 1.2e-12].map(small), ["0", "1.00", "0.42", "0.031", "0.0021", "3.4·10⁻⁵", "1.2·10⁻¹²"]);
  assert.deepEqual([small(null), small(undefined)], ["–", "–"]);
});

test("the logarithmic axis runs from 10⁻⁶ to 1, the linear one from 0 to 1", () => {
  close(onAxis(1, true), 1);
  close(onAxis(1e-3, true), 0.5);
  assert.deepEqual([onAxis(1e-6, true), onAxis(1e-9, true), onAxis(0, true), onAxis(null, true)], [0, 0, 0, 0]);
  assert.deepEqual([onAxis(0.25, false), onAxis(0, false), onAxis(1.0000001, false)], [0.25, 0, 1]);
  assert.deepEqual(axisMarks(true).map((mark) => mark.text), ["10⁻⁶", "10⁻⁴", "0.01", "1"]);
  assert.deepEqual(axisMarks(false), [{ at: 0, text: "0" }, { at: 0.5, text: "0.5" }, { at: 1, text: "1" }]);
});

test("the record alone makes an outcome that differs in nothing", () => {
  const outcome = outcomeOf(rejected);
  assert.deepEqual(outcome.positions.map((one) => one.verdict), ["accepted", "rejected", "untested"]);
  assert.deepEqual(outcome.positions.map(difference), [null, null, null]);
  close(outcome.positions[1].limit, 0.25);
  assert.deepEqual(outcome.emitted.map((one) => one.text), ["The", " sea"]);
  assert.deepEqual([outcome.lossy, outcome.greedy, outcome.same, outcome.departs], [false, false, true, null]);
  assert.equal(outcomeOf(cut).end, "end_of_text");
});

test("the added token is seen where it was drawn: at the rejection, or behind the last", () => {
  assert.deepEqual([placeBehind(outcomeOf(rejected), 0), placeBehind(outcomeOf(rejected), 3), placeBehind(outcomeOf(full), 2)], [0, 1, 2]);
  assert.deepEqual(recordedDetail(rejected, 1).residual.map((one) => one.text), [" sea", " air"]);
  assert.equal(recordedDetail(rejected, 1).picked, 355);
  const added = recordedDetail(full, 2);
  assert.ok(added.candidates.length > 0 && added.candidates.every((one) => one.q === null));
});

const candidate = (id, p, q, drafted = false) => ({ id, text: `t${id}`, p, q, out: p, drafted });

test("bars: at most twelve rows with the drafted one among them, and all else in one", () => {
  const candidates = Array.from({ length: 20 }, (_, i) => candidate(i, 0.2 / (i + 1), 0.1 / (i + 1), i === 19));
  const { rows, rest } = barRows({ candidates, rest: { n: 100, p: 0.01, q: 0.02, out: 0.01 } });
  assert.deepEqual(rows.map((row) => row.id), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 19]);
  assert.equal(rest.n, 108);
  const total = rows.reduce((sum, row) => sum + row.p, rest.p);
  close(total, candidates.reduce((sum, row) => sum + row.p, 0.01));
  assert.equal(rows.length, ROWS);
  assert.equal(barRows({ candidates, rest: null }).rest, null);
});

test("bars keep their order while settings change, and new tokens follow", () => {
  const candidates = [candidate(1, 0.1, 0.1), candidate(2, 0.6, 0.1), candidate(3, 0.2, 0.2)];
  assert.deepEqual(barRows({ candidates, rest: null }, [1, 3]).rows.map((row) => row.id), [1, 3, 2]);
});

test("without q the rest has none either", () => {
  assert.deepEqual(barRows({ candidates: [candidate(1, 0.9, null)], rest: { n: 5, p: 0.1, q: null, out: 0.1 } }).rest, { n: 5, p: 0.1, q: null, out: 0.1 });
});

test("a draw has a line with its limit; at temperature 0 and behind a rejection there is none", () => {
  const { kind, u, limit, below, args } = lineOf(outcomeOf(rejected), 1);
  assert.deepEqual([kind, u, limit, below], ["draw", 0.5, 0.25, true]);
  assert.equal(t("microscope.line.draw_formula", args), "p/q = 0.1000 / 0.4000 = 0.25");
  const unlikely = outcomeOf(rejected);
  Object.assign(unlikely.positions[1], { p: 0.000021, q: 0.00003 });
  assert.equal(t("microscope.line.draw_formula", lineOf(unlikely, 1).args), "p/q = 2.1·10⁻⁵ / 3.0·10⁻⁵ = 0.70");
  assert.equal(lineOf(outcomeOf(rejected), 2), null);
  assert.equal(lineOf(outcomeOf(rejected), 3), null);
  assert.equal(lineOf(outcomeOf(rejected, { temperature: 0 }), 1), null);
});

const lossyOutcome = (rule, changes) => {
  const outcome = outcomeOf(rejected, { rule });
  outcome.positions[0] = { ...outcome.positions[0], u: null, verdict: "accepted", recorded: { ...outcome.positions[0].recorded, verdict: "accepted" }, ...changes };
  return outcome;
};

test("typical acceptance is read from p against its threshold, the accepted side to the right", () => {
  const outcome = lossyOutcome("typical", { measure: 0.01, threshold: 0.001 });
  const line = lineOf(outcome, 0);
  assert.deepEqual([line.kind, line.below], ["typical", false]);
  assert.ok(line.mark > line.limit);
  assert.match(say(sentenceOf(outcome, rejected, 0)), /^Accepted: p of “The” is 0\.010, above the threshold 0\.0010\./);
  assert.equal(say(noteOf(outcome, 0)), "p 0.010 > 0.0010");
  assert.ok(outcome.lossy);
});

test("the KL threshold is read from KL against τ, infinity at the end of the line", () => {
  const line = lineOf(lossyOutcome("kl-threshold", { measure: 0.2, threshold: 0.8 }), 0);
  assert.deepEqual([line.kind, line.mark, line.limit, line.below], ["kl", 0.125, 0.5, true]);
  const endless = lossyOutcome("kl-threshold", { measure: null, threshold: 0.8, verdict: "rejected", recorded: { id: 299, text: "The", verdict: "rejected" } });
  assert.equal(lineOf(endless, 0).mark, 1);
  assert.match(say(sentenceOf(endless, rejected, 0)), /^Rejected: KL\(p‖q\) = ∞ is not below τ = 0\.80.*“·sea” was drawn from p/);
  assert.equal(say(noteOf(endless, 0)), "KL ∞ ≥ 0.80");
});

test("what differs from the record is said on its chip", () => {
  const outcome = outcomeOf(rejected);
  outcome.positions[1].verdict = "accepted";
  assert.equal(say(noteOf(outcome, 1)), "was rejected");
  Object.assign(outcome.positions[1], { id: 7, text: " sun" });
  assert.equal(say(noteOf(outcome, 1)), "was “·sky”");
  outcome.positions[2].verdict = "unknown";
  assert.equal(say(noteOf(outcome, 2)), "was untested");
});

test("sentences speak of the outcome's own numbers, and of the record's where nothing changed", () => {
  const outcome = outcomeOf(rejected);
  assert.match(say(sentenceOf(outcome, rejected, 1)), /^Rejected: u = 0\.50 is not below p\/q = 0\.25/);
  outcome.positions[1] = { ...outcome.positions[1], u: 0.1, verdict: "accepted" };
  assert.match(say(sentenceOf(outcome, rejected, 1)), /^Accepted: u = 0\.10 is below p\/q = 0\.25/);
  assert.match(say(sentenceOf(outcomeOf(rejected), rejected, 3)), /“·sea” was drawn from the residual/);
  assert.match(say(sentenceOf(outcomeOf(full), full, 2)), /came free/);
  assert.match(say(sentenceOf(outcomeOf(cut), cut, 3)), /^Nothing was added/);
});

test("where certainty ends is said with the token that makes it end", () => {
  const outcome = { ...outcomeOf(rejected), changed: true, same: false, departs: 1, end: "unknown" };
  assert.match(say(certainty(outcome)), /^Certainty ends behind position 2: .*“·sky”/);
  assert.match(say(certainty({ ...outcome, end: "round" })), /^Position 2 would hold “·sky”, and it would be rejected/);
  assert.match(say(certainty({ ...outcome, departs: null, end: "round" })), /^Other tokens come out/);
  assert.match(say(certainty({ ...outcome, departs: null, end: "round", same: true })), /^The same tokens/);
  assert.match(say(certainty(outcomeOf(rejected))), /^As recorded/);
  outcome.positions[2].verdict = "unknown";
  assert.match(say(sentenceOf(outcome, rejected, 2)), /^Unknown: position 2 would hold another token/);
  assert.match(say(sentenceOf(outcome, rejected, 3)), /never made/);
});

test("numbers: always the same ones; infinite is not unknown", () => {
  const detail = { full: true, overlap: 0.5, acceptance: 0.5, tv: 0.5, kl: null, entropy_p: 1, entropy_q: 0.5, rank: 3 };
  const text = Object.fromEntries(numbersOf(detail, 2e-7));
  assert.deepEqual([text.kl, text.rank, text.entropy_p, text.difference], ["∞", "3", "1.000", "2.0·10⁻⁷"]);
  assert.equal(Object.fromEntries(numbersOf({ ...detail, entropy_q: null }, null)).kl, "–");
  const recorded = numbersOf(recordedDetail(rejected, 1), null);
  assert.deepEqual(recorded.map(([name]) => name), Object.keys(text));
  assert.deepEqual(recorded.map(([, value]) => value), ["0.75", "–", "–", "–", "–", "–", "–", "–"]);
  for (const [name] of recorded) assert.ok(english[`microscope.number.${name}`] && english[`microscope.number_note.${name}`]);
});

test("one begins at the first rejection, and knows the text before it", () => {
  assert.deepEqual(firstOfInterest(lane), { round: 0, place: 1 });
  assert.equal(firstOfInterest(newModel().lanes.speculative), null);
  assert.equal(textBefore(lane, 1), "The sea");
  assert.equal(textBefore(lane, 0), "");
  assert.equal(textBefore(lane, 1, "Once. "), "Once. The sea");
});

test("every rule and every slider has its words", () => {
  for (const name of RULES) assert.ok(english[`whatif.rule.${name}`] && english[`whatif.rule_note.${name}`], name);
  for (const name of Object.keys(SLIDERS)) assert.ok(english[`whatif.setting.${name}`], name);
});

test("only what differs is sent, and greedy match comes with temperature 0 and goes with it", () => {
  const recorded = judging({ temperature: 0.7, top_k: 0, top_p: 1, rule: "rejection-sampling" });
  assert.deepEqual(changesOf(recorded, withChange(recorded, "top_k", 20)), { top_k: 20 });
  const greedy = withChange(recorded, "rule", "greedy-match");
  assert.deepEqual(changesOf(recorded, greedy), { rule: "greedy-match", temperature: 0 });
  assert.deepEqual(changesOf(recorded, withChange(greedy, "temperature", 0.7)), {});
  assert.deepEqual(changesOf(recorded, withChange(greedy, "rule", "typical", recorded)), { rule: "typical" });
  assert.deepEqual(stopsWith([1, 5, 0], 3), [1, 3, 5, 0]);
});

const later = () => new Promise((resolve) => setImmediate(resolve));

test("one question at a time, and of those that wait the newest alone", async () => {
  const asked = [];
  const answers = [];
  const send = newestOnly((question) => new Promise((resolve) => asked.push({ question, resolve })), (question, answer) => answers.push([question, answer]));
  [1, 2, 3].forEach(send);
  assert.deepEqual(asked.map((one) => one.question), [1]);
  asked[0].resolve("one");
  await later();
  assert.deepEqual(asked.map((one) => one.question), [1, 3]);
  asked[1].resolve("three");
  await later();
  assert.deepEqual(answers, [[1, "one"], [3, "three"]]);
});

test("a question that fails is answered with undefined, and the next one is asked", async () => {
  const answers = [];
  const send = newestOnly((question) => (question === 1 ? Promise.reject(new Error("gone")) : Promise.resolve("two")), (...pair) => answers.push(pair));
  send(1);
  send(2);
  await later();
  assert.deepEqual(answers, [[1, undefined], [2, "two"]]);
});

/** A page's store with the race in it and a server that answers with canned outcomes. */
function atWork(refuse = {}) {
  const store = makeStore();
  merge(store.model, JSON.parse(read("race.json")));
  const calls = [];
  const outcome = (round, place, changes, u) => ({
    ...outcomeOf(lane.records[round], changes), changed: Object.keys({ ...changes, ...u }).length > 0,
    detail: { ...recordedDetail(lane.records[round], place), rest: { n: 1, p: 0, q: 0, out: 0 } },
  });
  store.join({ server: {
    async look({ run, round, place, owner }) {
      calls.push("look");
      assert.equal(run, store.model.run);
      assert.equal(owner, store.owner);
      if (refuse.look) return { error: refuse.look };
      return { key: `${round}.${calls.length}`, round, difference: 1e-6, outcome: outcome(round, place, {}, {}) };
    },
    async what_if(question) {
      calls.push(question);
      if (refuse.expired?.()) return { error: "gone", expired: true };
      return outcome(0, question.place, question.changes, question.u);
    },
  } });
  const evidence = makeEvidence(store, 0);
  const settle = () => new Promise((resolve) => setTimeout(resolve, 20));
  return { store, evidence, calls, settle };
}

test("evidence: the record at once, then the models' own numbers, asked for once", async () => {
  const { evidence, calls, settle } = atWork();
  evidence.attend({ round: 0, place: 1 });
  assert.deepEqual([evidence.scene().state, evidence.scene().detail.full], ["asking", false]);
  await settle();
  assert.deepEqual([evidence.scene().state, evidence.scene().detail.full], ["ready", true]);
  for (const place of [0, 1, 0]) {
    evidence.attend({ round: 0, place });
    await settle();
  }
  assert.deepEqual(calls.map((call) => call.place ?? call), ["look", 0]);
});

test("evidence: a change is asked for with what differs alone, and taken back", async () => {
  const { evidence, calls, settle } = atWork();
  evidence.attend({ round: 0, place: 1 });
  await settle();
  evidence.change("temperature", 1.1);
  evidence.draw(1, 0.125);
  await settle();
  const { key, ...last } = calls.at(-1);
  assert.deepEqual(last, { place: 1, changes: { temperature: 1.1 }, u: { 1: 0.125 } });
  assert.ok(key && evidence.scene().wished && evidence.scene().outcome.settings.temperature === 1.1);
  evidence.reset();
  await settle();
  assert.ok(!evidence.scene().wished && evidence.scene().outcome.settings.temperature === 0.7);
});

test("evidence: what expired is looked at again with the same wish, and a refusal is a sentence", async () => {
  let times = 0;
  const { evidence, calls, settle } = atWork({ expired: () => times++ === 0 });
  evidence.listen(() => evidence.attend({ round: 0, place: 1 })); // as a view does
  evidence.attend({ round: 0, place: 1 });
  await settle();
  evidence.change("top_k", 5);
  await settle();
  await settle();
  assert.equal(calls.filter((call) => call === "look").length, 2);
  assert.deepEqual([calls.at(-1).changes, evidence.scene().outcome.settings.top_k], [{ top_k: 5 }, 5]);
  const refused = atWork({ look: "Another target." });
  refused.evidence.attend({ round: 0, place: 1 });
  await refused.settle();
  assert.deepEqual([refused.evidence.scene().state, refused.evidence.scene().error], ["refused", "Another target."]);
});

test("evidence: without a server the record is all there is, and an unfinished run is not asked about", async () => {
  const alone = atWork();
  alone.store.server = {};
  alone.evidence.attend({ round: 0, place: 1 });
  assert.equal(alone.evidence.scene().state, "record");
  const running = atWork();
  running.store.model.state = "running";
  running.evidence.attend({ round: 0, place: 1 });
  await running.settle();
  assert.deepEqual([running.evidence.scene().state, running.calls], ["later", []]);
});

test("questions in turn are asked one after another, also behind one that failed", async () => {
  const turn = inTurn();
  const asked = [];
  const question = (name, answer) => turn(async () => {
    asked.push(`${name} asked`);
    await new Promise((done) => setTimeout(done));
    asked.push(`${name} over`);
    return answer();
  });
  const fails = question("first", () => Promise.reject(new Error("no answer")));
  const answered = question("second", () => 2);
  await assert.rejects(fails, /no answer/);
  assert.equal(await answered, 2);
  assert.deepEqual(asked, ["first asked", "first over", "second asked", "second over"]);
});
