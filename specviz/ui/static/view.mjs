// The race view: takes messages in, keeps the clock, and draws at most once a frame.

import { merge, neighbour } from "./core.mjs";
import { duration, laneAt, stepTime, steppedLane } from "./core_time.mjs";
import { roundSentence, translator } from "./core_text.mjs";
import { makeLabels } from "./dom.mjs";
import { evidence } from "./evidence.mjs";
import { handleKey } from "./keys.mjs";
import { makePage } from "./page.mjs";
import { store } from "./store.mjs";
import { loadStyles } from "./styles.mjs";
import { START_SPEED } from "./transport.mjs";

const CHOREOGRAPHY_S = 0.4; // a round shorter than this on screen only changes its states
const NUMBERS_MS = 500; // figures change at most twice a second
const RUNNING = ["loading", "queued", "running"];

/** Gradio's `js_on_load` calls this once with what it hands to a component. */
export async function mount({ element, props, trigger, server, watch }) {
  await loadStyles("race.css", "rail.css", "time.css", "microscope.css", "motion.css");
  store.join({ strings: props.strings, server });
  const view = makeView(element.querySelector(".sv-race") ?? element, trigger);
  const receive = () => view.receive(props.value);
  watch("value", receive);
  watch("lang", () => view.speak(props.lang));
  receive();
  return view;
}

export function makeView(root, trigger) {
  const { model, dictionaries } = store;
  const labels = makeLabels();
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const clock = { t: 0, playing: false, live: true, speed: START_SPEED, scrubbing: false };
  const look = { spaces: false, zoomed: false, force: true, resized: true, lang: "en" };
  const inbox = [];
  let scheduled = false;
  let begun = null; // the run that the clock is set to
  let lastFrame = 0;
  let lastNumbers = 0;

  const changed = () => {
    lastNumbers = 0;
    refresh();
  };
  const set = (changes) => {
    Object.assign(clock, changes);
    changed();
  };
  /** Moves the playhead, which leaves the newest record behind. */
  const go = (t, changes = {}) => set({ t: Math.max(0, Math.min(t, duration(model))), live: false, ...changes });
  const actions = {
    toggle() {
      const ended = !clock.playing && clock.t >= duration(model);
      go(ended ? 0 : clock.t, { playing: !clock.playing });
    },
    step(direction) {
      go(stepTime(steppedLane(model), clock.t, direction), { playing: false });
      sayRound();
    },
    first: () => go(0, { playing: false }),
    last: () => go(duration(model), { playing: false }),
    scrub: (t) => go(t, { playing: false, scrubbing: true }),
    scrubbed: () => set({ scrubbing: false }),
    speed: (speed) => set({ speed }),
    follow: () => set({ live: !clock.live, playing: false }),
    zoom() {
      look.zoomed = !look.zoomed;
      changed();
    },
    spaces() {
      look.spaces = !look.spaces;
      changed();
    },
    select(round, place) {
      const { selected } = store;
      const same = selected?.round === round && selected?.place === place;
      if (round === null) root.querySelector('.sv-rail .sv-chip[aria-pressed="true"]')?.focus();
      store.select(round === null || same ? null : { round, place }, root);
      if (store.selected) go(clock.t, { playing: false });
      else changed();
    },
    movePosition(by) {
      const { round, place } = neighbour(model.lanes.speculative, store.selected, by);
      actions.showPosition(round, place);
    },
    showPosition(round, place) {
      store.select({ round, place }, root);
      showSelected();
    },
    showRecord: (kind, record) => go(model.lanes[kind].ends[record + 1], { playing: false }),
  };
  const ui = { root, model, labels, actions, evidence, trigger, refresh };
  labels.speak(translator(dictionaries, look.lang));
  const page = makePage(ui);
  root.replaceChildren(page.node);
  document.addEventListener("keydown", onKey);
  calm.addEventListener("change", changed);
  const observer = new MutationObserver(redrawAll); // Gradio sets the class "dark" on the body
  observer.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  const resized = new ResizeObserver(() => {
    look.resized = true;
    refresh();
  });
  resized.observe(root);
  const ended = store.listen((by) => {
    if (by === root) return; // own messages and selections are being drawn already
    if (store.selected) showSelected();
    else changed();
  });

  function onKey(event) {
    if (!root.isConnected) stop();
    else handleKey(event, root, actions);
  }

  function stop() {
    document.removeEventListener("keydown", onKey);
    calm.removeEventListener("change", changed);
    observer.disconnect();
    resized.disconnect();
    ended();
  }

  /** The rail shows the round of the selected position, wherever it was selected. */
  function showSelected() {
    go(model.lanes.speculative.ends[store.selected.round + 1], { playing: false });
  }

  function redrawAll() {
    look.force = true;
    changed();
  }

  function sayRound() {
    const judged = laneAt(model.lanes.speculative, clock.t).judged;
    const round = model.lanes.speculative.records[judged - 1];
    if (!round) return;
    const { key, args } = roundSentence(round);
    page.say(labels.t(key, args));
  }

  function receive(value) {
    if (value) inbox.push(value);
    refresh();
  }

  function speak(lang) {
    look.lang = lang;
    labels.speak(translator(dictionaries, lang));
    redrawAll();
  }

  function takeMessages() {
    for (const text of inbox.splice(0)) {
      const { lang } = model;
      merge(model, JSON.parse(text));
      if (model.lang !== lang) speak(model.lang);
      if (model.run !== begun) begin();
      store.changed(root);
      if (!RUNNING.includes(model.state)) lastNumbers = 0;
    }
  }

  /** A new run: a recorded one plays from its start, a live one is followed. */
  function begin() {
    begun = model.run;
    store.select(null, root);
    const recorded = model.state === "recorded";
    Object.assign(clock, { t: 0, live: !recorded, playing: recorded && !calm.matches, scrubbing: false });
    if (recorded && calm.matches) clock.t = duration(model);
  }

  function refresh() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  }

  function draw(now) {
    scheduled = false;
    if (!root.isConnected) return stop();
    takeMessages();
    advance(now);
    const due = now - lastNumbers >= NUMBERS_MS || !clock.playing && !RUNNING.includes(model.state);
    if (due) lastNumbers = now;
    page.draw(makeFrame(due));
    look.force = look.resized = false;
    if (clock.playing || RUNNING.includes(model.state) && !due) refresh();
  }

  function advance(now) {
    const passed = Math.min(0.1, (now - lastFrame) / 1000);
    lastFrame = now;
    const end = duration(model);
    if (clock.live) clock.t = end;
    if (!clock.playing) return;
    clock.t = Math.min(end, clock.t + passed * clock.speed);
    if (clock.t >= end && !RUNNING.includes(model.state)) {
      clock.playing = false;
      lastNumbers = 0;
    }
  }

  function makeFrame(numbers) {
    const { t, live, playing, speed, scrubbing } = clock;
    const at = (kind) => laneAt(model.lanes[kind], live ? Infinity : t);
    const frame = { t, live, playing, scrubbing, numbers, ...look, selected: store.selected, speculative: at("speculative"), standard: at("standard") };
    const round = model.lanes.speculative.records[frame.speculative.judged] ?? model.lanes.speculative.records.at(-1);
    const long = round && (round.end - round.start) / speed >= CHOREOGRAPHY_S;
    const slow = playing ? long : !scrubbing && !live;
    return { ...frame, running: RUNNING.includes(model.state), rail: !live && (slow || scrubbing), choreograph: Boolean(slow) && !calm.matches };
  }

  refresh();
  return { receive, speak, actions, model };
}
