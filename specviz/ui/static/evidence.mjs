// The full evidence for the selected round and the what-if made on it: asked of the server, kept for the whole page.

import { placeBehind, recordedDetail, recordedOutcome } from "./core_microscope.mjs";
import { changesOf, newestOnly, withChange } from "./core_whatif.mjs";
import { store as shared } from "./store.mjs";

const PATIENCE_MS = 150; // whoever walks along positions does not ask for every round on the way
const MEASURES = 1000; // kept in the browser at most
const UNFINISHED = ["loading", "queued", "running"];

/**
 * `attend(at)` says which position is looked at; `scene()` is all there is to draw of it: a new object after each change.
 * No DOM here: what draws listens.
 */
export function makeEvidence(store, patience = PATIENCE_MS) {
  const listeners = new Set();
  const looks = new Map(); // round → {key, outcome, difference, details: Map(place → Detail)} or {error}
  let run = null;
  let version = null;
  let at = null; // {round, place}
  let settings = null; // wished for, or null: as recorded
  let draws = {}; // place → u
  let answer = null; // the Outcome of the wish, with its Detail
  let problem = null;
  let wanted = null; // the round that is being asked for
  let timer = null;
  let measured = 0;
  let scene = null;

  const look = newestOnly((question) => store.server.look(question), (question, found) => {
    if (question.run !== store.model.run) return;
    if (wanted === question.round) wanted = null;
    looks.set(question.round, found && !found.error ? known(found) : { error: found?.error ?? true });
    if (question.round === at?.round) judge();
    changed();
  });
  const ask = newestOnly((question) => {
    question.asked = performance.now();
    const { key, place, changes, u } = question;
    return store.server.what_if({ key, place, changes, u });
  }, answered);

  /** What was found out about a round; the distributions of one of its places come along. */
  const known = ({ outcome: { detail, ...outcome }, ...found }) => ({ ...found, outcome, details: new Map(detail ? [[detail.place, detail]] : []) });
  const record = () => store.model.lanes.speculative.records[at?.round];
  const entry = () => looks.get(at.round);
  const recorded = () => entry()?.outcome ?? recordedOutcome(record(), store.model.meta?.settings);
  const wish = () => ({ changes: settings ? changesOf(recorded().settings, settings) : {}, u: draws });
  const isWish = ({ changes, u }) => Object.keys(changes).length + Object.keys(u).length > 0;

  function changed() {
    scene = null;
    for (const listener of [...listeners]) listener();
  }

  function forget() {
    [settings, draws, answer, problem] = [null, {}, null, null];
  }

  function attend(next) {
    if (store.model.version !== version) [version, scene] = [store.model.version, null];
    if (store.model.run !== run) {
      looks.clear();
      [run, at, wanted] = [store.model.run, null, null];
      forget();
    }
    if (at?.round !== next.round) forget();
    if (at?.round !== next.round || at.place !== next.place) {
      at = { round: next.round, place: next.place };
      scene = null;
      judge();
    }
    if (store.server.look && !UNFINISHED.includes(store.model.state) && !looks.has(at.round) && wanted !== at.round) request();
  }

  function request() {
    wanted = at.round;
    scene = null;
    clearTimeout(timer);
    const question = { run, round: at.round, place: placeBehind(recorded(), at.place), owner: store.owner };
    timer = setTimeout(() => look(question), patience);
  }

  /** Asks for the verdicts under the present wish, and for the distributions of the present place. */
  function judge() {
    const found = entry();
    if (!found?.key) return;
    const { changes, u } = wish();
    const place = placeBehind(answer ?? found.outcome, at.place);
    if (!isWish({ changes, u })) {
      answer = null;
      if (found.details.has(place)) return;
    }
    ask({ round: at.round, key: found.key, place, changes, u: { ...u } });
  }

  function answered(question, outcome) {
    const found = looks.get(question.round);
    if (found?.key !== question.key) return;
    if (outcome?.expired) {
      looks.delete(question.round);
      return changed();
    }
    const plain = !isWish(question);
    if (plain && outcome && !outcome.error) found.details.set(question.place, outcome.detail);
    if (question.round !== at?.round || plain === isWish(wish())) return;
    problem = !outcome ? true : outcome.error ?? null;
    if (!problem && !plain) answer = outcome;
    changed();
    if (placeBehind(answer ?? found.outcome, at.place) !== question.place) judge();
    if (++measured % MEASURES === 0) performance.clearMeasures("specviz-whatif");
    performance.measure("specviz-whatif", { start: question.asked, end: performance.now() });
  }

  function makeScene() {
    const round = record();
    if (!round) return null;
    const found = entry();
    const base = recorded();
    const outcome = answer ?? base;
    const place = placeBehind(outcome, at.place);
    const full = answer?.detail.place === place ? answer.detail : answer ? null : found?.details?.get(place);
    const state = found?.error ? "refused" : found ? "ready" : wanted === at.round ? "asking" : UNFINISHED.includes(store.model.state) ? "later" : "record";
    return {
      id: `${run}:${at.round}:${at.place}`, run, round, place: at.place, base, outcome, state, problem, detail: full ? { ...full, full: true } : recordedDetail(round, place),
      reference: found?.details?.get(place) ?? recordedDetail(round, place), error: found?.error, moved: found?.difference ?? null,
      settings: settings ?? base.settings, ...wish(), wished: isWish(wish()),
    };
  }

  return {
    attend,
    scene: () => (scene ??= at && makeScene()),
    change(name, value) {
      settings = withChange(settings ?? recorded().settings, name, value, recorded().settings);
      judge();
      changed();
    },
    draw(place, u) {
      draws = { ...draws, [place]: u };
      judge();
      changed();
    },
    reset() {
      forget();
      judge();
      changed();
    },
    retry() {
      looks.delete(at.round);
      changed();
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export const evidence = makeEvidence(shared);
