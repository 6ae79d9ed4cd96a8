// The Attention tiles tab from top to bottom: controls, schedules at work, what they cost at length, attention × decoding, sources.

import { clockEnd, doneAt, makeTrack, moments, stepped, CLOCKS } from "./core_attention.mjs";
import { comparison } from "./core_attention_text.mjs";
import { small } from "./core_microscope.mjs";
import { translator } from "./core_text.mjs";
import { makeAblation } from "./attention_ablation.mjs";
import { makeCapture } from "./attention_capture.mjs";
import { makeControls } from "./attention_controls.mjs";
import { makeGrowth } from "./attention_growth.mjs";
import { makePanel, makeScale } from "./attention_panel.mjs";
import { makeSources } from "./attention_sources.mjs";
import { makeTransport } from "./attention_transport.mjs";
import { h, makeLabels, setAttribute, setClass, setText } from "./dom.mjs";
import { handleKey } from "./keys.mjs";
import { makePlayer } from "./player.mjs";
import { store as shared } from "./store.mjs";
import { loadStyles } from "./styles.mjs";

const NUMBERS_MS = 500; // figures change at most twice a second
const [SHORTEST_S, LONGEST_S, STEP_S] = [4, 24, 0.5]; // a film at its usual speed, and a step of it

/** Gradio's `js_on_load` calls this once, when the tab is first opened. */
export async function mount({ element, props, server, watch, store = shared }) {
  await loadStyles("race.css", "lossless.css", "lab.css", "attention.css", "attention_figures.css");
  const view = makeView(element.querySelector(".sv-attention") ?? element, props, server, store);
  watch("lang", () => view.speak(props.lang));
  return view;
}

export function makeView(root, props, server, store) {
  const labels = makeLabels();
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const look = { clock: "bytes", speed: 1, force: true, answer: null, run: null };
  let lang = store.model.lang;
  let tracks = [];
  let stops = [];
  let lastNumbers = 0;
  let scheduled = false;
  labels.speak(translator(props.strings, lang));

  const capture = makeCapture({ store, server, props, changed: refresh });
  const { choice } = capture;
  const player = makePlayer({ root, end: 1, seconds: SHORTEST_S, onChange: play });
  const ui = { labels, root, store, server, props, refresh, lost: capture.again };
  const controls = makeControls({ ...ui, choice, change: capture.change, toRound: capture.toRound });
  const panels = [makePanel(ui), makePanel(ui)];
  const actions = {
    toggle: () => (calm.matches ? actions.step(1) : player.toggle()),
    step: (by) => go(stepped(stops, at(), by) / (end() || 1), true),
    first: () => go(0),
    last: () => go(1),
    scrub: (part) => go(part),
    speed(speed) {
      look.speed = speed;
      pace();
    },
    /** The first schedule stays where it is; only what is counted changes. */
    clock(clock) {
      const time = tracks.length ? CLOCKS[look.clock].time(tracks[0], at()) : 0;
      const over = player.state.at >= 1;
      look.clock = clock;
      rewind();
      go(over || !tracks.length ? player.state.at : CLOCKS[clock].reading(tracks[0], time) / (end() || 1));
    },
  };
  const transport = makeTransport({ labels, actions });
  const [growth, ablation, sources] = [makeGrowth(ui), makeAblation(ui), makeSources(ui)];
  const badge = h("p", { class: "sv-att-badge" });
  const status = h("p", { class: "sv-lab-status sv-att-status", role: "status" });
  const retry = labels.text(h("button", { type: "button", class: "sv-button sv-choice" }), "attention.retry");
  retry.addEventListener("click", capture.again);
  const compared = h("p", { class: "sv-att-compared" });
  const said = h("p", { class: "sv-said", "aria-live": "polite" });
  const stage = h("div", { class: "sv-att-stage" }, h("div", { class: "sv-att-panels" }, ...panels.map((panel) => panel.node)), compared, makeScale(ui), transport.node);
  root.replaceChildren(h("div", { class: "sv-page" },
    h("section", { class: "sv-card" }, h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "attention.title"), badge), labels.text(h("p", { class: "sv-lead" }), "attention.idea"),
      controls.node, h("div", { class: "sv-deck" }, status, retry), stage, said),
    growth.node, ablation.node, sources.node));

  const deaf = store.listen(refresh);
  const themed = new MutationObserver(repaint); // Gradio sets the class "dark" on the body
  themed.observe(document.body, { attributes: true, attributeFilter: ["class"] });
  const sized = new ResizeObserver(refresh); // also when the tab is shown
  sized.observe(root);
  document.addEventListener("keydown", onKey);

  const end = () => clockEnd(look.clock, tracks);
  const at = () => player.state.at * end();

  function onKey(event) {
    if (!root.isConnected) stop();
    else handleKey(event, root, actions);
  }

  function stop() {
    document.removeEventListener("keydown", onKey);
    themed.disconnect();
    sized.disconnect();
    deaf();
  }

  function go(part, aloud = false) {
    lastNumbers = 0;
    player.jump(Math.max(0, Math.min(1, part)));
    if (aloud) setText(said, panels[0].said());
  }

  function rewind() {
    stops = moments(look.clock, tracks);
    pace();
  }

  function pace() {
    const seconds = Math.max(SHORTEST_S, Math.min(LONGEST_S, stops.length * STEP_S));
    player.state.speed = (look.speed * SHORTEST_S) / seconds;
  }

  function play() {
    if (!player.state.playing) lastNumbers = 0;
    if (root.offsetParent) drawFilm();
  }

  function refresh() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  }

  function repaint() {
    look.force = true;
    refresh();
  }

  function draw() {
    scheduled = false;
    if (!root.isConnected) return stop();
    if (!root.offsetParent) return;
    if (store.model.lang !== lang) respeak();
    capture.follow();
    const { answer, state, problem } = capture;
    if (answer !== look.answer) show(answer);
    controls.draw({ known: store.model.lanes.speculative.known, size: { layers: answer?.layers ?? props.layers ?? 1, heads: answer?.heads ?? props.heads ?? 1 } });
    setText(badge, [labels.t("attention.badge"), answer?.tile ? labels.t("attention.badge_tile", { rows: answer.tile[0], keys: answer.tile[1] }) : ""].filter(Boolean).join(" · "));
    setClass(badge, "sv-hidden", !answer);
    setText(status, problem ?? labels.t(`attention.state.${state}`, answer ? { difference: small(answer.output_difference), layer: answer.layer + 1, head: answer.head + 1, queries: answer.queries, keys: answer.keys, group: answer.heads / answer.kv_heads } : {}));
    setAttribute(status, "data-state", { asking: "busy", running: "busy", refused: "problem" }[state] ?? "none");
    setClass(retry, "sv-hidden", state !== "refused");
    setClass(stage, "sv-hidden", !answer);
    setClass(stage, "sv-is-old", Boolean(answer) && state !== "ready");
    ablation.draw();
    lastNumbers = 0;
    drawFilm(look.force);
    look.force = false;
  }

  function show(answer) {
    const first = Boolean(answer) && look.run !== store.model.run; // a run's first picture plays by itself
    Object.assign(look, { answer, run: answer ? store.model.run : look.run });
    growth.show(answer);
    sources.show(answer);
    tracks = (answer?.schedules ?? []).map(makeTrack);
    tracks.forEach((track, i) => panels[i].show(answer, track));
    setClass(panels[1].node, "sv-hidden", tracks.length < 2);
    setAttribute(stage, "data-panels", tracks.length);
    rewind();
    if (first) player.play(0);
  }

  function drawFilm(force = false) {
    const now = performance.now();
    const { playing } = player.state;
    const numbers = !playing || now - lastNumbers >= NUMBERS_MS;
    if (numbers) lastNumbers = now;
    tracks.forEach((_, i) => panels[i].draw({ clock: look.clock, at: at(), numbers, force }));
    const longest = tracks.find((track) => CLOCKS[look.clock].end(track) === end());
    transport.draw({ at: at(), end: end(), playing, clock: look.clock, numbers, done: longest ? doneAt(longest, CLOCKS[look.clock].time(longest, at())) : 0, of: longest?.schedule.totals.steps ?? 0 });
    setClass(compared, "sv-hidden", tracks.length < 2);
    if (!numbers || tracks.length < 2) return;
    const { key, args } = comparison(tracks, look.clock, labels.t);
    setText(compared, labels.t(key, args));
  }

  function respeak() {
    lang = store.model.lang;
    labels.speak(translator(props.strings, lang));
    look.answer = undefined;
    ablation.respeak();
  }

  refresh();
  return {
    speak(language) {
      store.model.lang = language;
      refresh();
    },
    actions,
  };
}
