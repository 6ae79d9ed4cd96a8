// What picture is wished for, and the server's answer to it: asked when the tab is seen and the run is over.

import { firstOfInterest } from "./core_microscope.mjs";
import { newestOnly } from "./core_whatif.mjs";
import { usualTile } from "./attention_controls.mjs";

const PATIENCE_MS = 150; // whoever walks along rounds does not ask for every one
const UNFINISHED = ["loading", "queued", "running"];

export function makeCapture({ store, server, props, changed }) {
  const named = (name) => (props.schedules.some((one) => one.name === name) ? name : props.schedules[0].name);
  const choice = { round: 0, phase: "verification", layer: 0, head: 0, schedules: [named("flash-attention-2")], hardware: props.hardware[0].name, tile: null, tileChosen: false };
  const self = { choice, answer: null, state: "empty", problem: null, change, toRound, again, follow };
  let run = null;
  let wanted = null; // the question that stands, as text
  let timer = null;

  const ask = newestOnly((question) => server.attention(question), (question, answer) => {
    if (JSON.stringify(question) !== wanted) return;
    if (!answer || answer.error) Object.assign(self, { state: "refused", problem: answer?.error ?? null });
    else Object.assign(self, { state: "ready", problem: null, answer });
    changed();
  });

  function change(part) {
    Object.assign(choice, part);
    changed();
  }

  function toRound(round) {
    const { known } = store.model.lanes.speculative;
    if (known) store.select({ round: Math.max(0, Math.min(round, known - 1)), place: 0 });
  }

  function again() {
    wanted = null;
    changed();
  }

  /** Follows the run and the selection of the page, and asks where the picture is not the one that is wished for. */
  function follow() {
    const { model } = store;
    const lane = model.lanes.speculative;
    if (model.run !== run) {
      [run, wanted] = [model.run, null];
      Object.assign(self, { answer: null });
    }
    const present = (at) => (at?.run === run && lane.records[at.round] ? at : null);
    const at = present(store.selected) ?? present(store.last) ?? firstOfInterest(lane);
    choice.round = at?.round ?? 0;
    const wall = obstacle(lane);
    if (wall) return Object.assign(self, { state: wall, problem: null });
    if (!choice.tileChosen) choice.tile = usualTile(contextOf(lane));
    const { round, phase, layer, head, schedules, hardware, tile } = choice;
    const question = { run, round: phase === "prefill" ? 0 : round, phase, layer, head, schedules: [...schedules], hardware, tile, owner: store.owner };
    if (JSON.stringify(question) === wanted) return self;
    const urgent = wanted === null;
    wanted = JSON.stringify(question);
    Object.assign(self, { state: "asking", problem: null });
    clearTimeout(timer);
    if (urgent) ask(question);
    else timer = setTimeout(() => ask(question), PATIENCE_MS);
    return self;
  }

  /** Why nothing can be captured now, or null. */
  function obstacle(lane) {
    if (!run) return "empty";
    if (UNFINISHED.includes(store.model.state)) return "running";
    return choice.phase === "verification" && !lane.known ? "no_rounds" : null;
  }

  /** About how many keys there will be. */
  function contextOf(lane) {
    const record = lane.records[choice.phase === "prefill" ? 0 : choice.round];
    return record ? record.context + record.drafted.length : 0;
  }

  return self;
}
