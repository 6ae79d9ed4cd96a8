// The Microscope tab: a strip to choose round and position, and the microscope, always open.

import { finalToken, neighbour } from "./core.mjs";
import { firstOfInterest, textBefore } from "./core_microscope.mjs";
import { translator } from "./core_text.mjs";
import { h, makeLabels, setAttribute, setClass, setText } from "./dom.mjs";
import { evidence } from "./evidence.mjs";
import { handleKey } from "./keys.mjs";
import { makeMicroscope } from "./microscope.mjs";
import { store } from "./store.mjs";
import { loadStyles } from "./styles.mjs";

/** Gradio's `js_on_load` calls this once, when the tab is first opened. */
export async function mount({ element, props, trigger, server, watch }) {
  await loadStyles("race.css", "rail.css", "microscope.css", "motion.css");
  store.join({ strings: props.strings, server });
  const view = makeMicroscopeView(element.querySelector(".sv-race") ?? element, trigger);
  watch("lang", () => view.speak(props.lang));
  return view;
}

export function makeMicroscopeView(root, trigger) {
  const labels = makeLabels();
  const { model } = store;
  let lang = null;
  let force = true;
  let scheduled = false;

  const lane = () => model.lanes.speculative;
  const present = (at) => (at?.run === model.run && lane().records[at.round] ? at : null);
  const where = () => present(store.selected) ?? present(store.last) ?? firstOfInterest(lane());
  const actions = {
    select: (round, place) => store.select({ round, place }),
    showPosition: (round, place) => store.select({ round, place }),
    movePosition(by) {
      const at = where();
      if (at) store.select(neighbour(lane(), at, by));
    },
  };
  const keys = { step: actions.movePosition, first: () => toRound(0), last: () => toRound(lane().known - 1) };
  speakWords(model.lang);
  const strip = makeStrip({ labels, toRound });
  const scope = makeMicroscope({ labels, actions, evidence, trigger }, { closable: false });
  const none = labels.text(h("p", { class: "sv-muted sv-scope-none" }), "microscope.none");
  root.replaceChildren(h("div", { class: "sv-page" }, strip.node, none, scope.node));
  const end = store.listen(refresh);
  document.addEventListener("keydown", onKey);
  const sized = new ResizeObserver(refresh); // also when the tab is shown
  sized.observe(root);

  function toRound(round) {
    if (lane().known) store.select({ round: Math.max(0, Math.min(round, lane().known - 1)), place: 0 });
  }

  function onKey(event) {
    if (!root.isConnected) stop();
    else handleKey(event, root, keys);
  }

  function stop() {
    document.removeEventListener("keydown", onKey);
    sized.disconnect();
    end();
  }

  function speakWords(next) {
    lang = next;
    labels.speak(translator(store.dictionaries, lang));
    force = true;
  }

  function refresh() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(draw);
  }

  function draw() {
    scheduled = false;
    if (!root.isConnected) return stop();
    if (!root.offsetParent) return;
    if (model.lang !== lang) speakWords(model.lang);
    const selected = where();
    setClass(none, "sv-hidden", Boolean(selected));
    strip.draw(model, selected);
    scope.draw({ selected, force });
    force = false;
  }

  refresh();
  return {
    speak(next) {
      model.lang = next;
      refresh();
    },
  };
}

/** Which round: a slider with a step either way, and the end of the text before it. */
function makeStrip({ labels, toRound }) {
  const range = labels.attribute(h("input", { type: "range", class: "sv-scrub", min: 1, step: 1, value: 1 }), "aria-label", "microscope.round");
  range.addEventListener("input", () => toRound(range.value - 1));
  const step = (by, key, mark) => {
    const button = labels.attribute(h("button", { type: "button", class: "sv-button" }, mark), "aria-label", key);
    button.addEventListener("click", () => toRound(Number(range.value) - 1 + by));
    return button;
  };
  const [back, on] = [step(-1, "microscope.round_back", "◀"), step(1, "microscope.round_on", "▶")];
  const number = h("span", { class: "sv-where sv-strip-number" });
  const what = h("span", { class: "sv-muted sv-strip-what" });
  const before = h("span");
  const node = h("section", { class: "sv-card sv-strip" },
    h("div", { class: "sv-strip-round" }, back, range, on, number, what),
    h("p", { class: "sv-strip-before" }, labels.text(h("span", { class: "sv-muted" }), "microscope.before"), h("span", { class: "sv-strip-text" }, before)));
  return {
    node,
    draw({ lanes, meta }, selected) {
      const { known, records } = lanes.speculative;
      const at = (selected?.round ?? -1) + 1;
      setAttribute(range, "max", Math.max(1, known));
      if (Number(range.value) !== at) range.value = at;
      range.style.setProperty("--done", known > 1 ? (at - 1) / (known - 1) : 1);
      for (const one of [range, back, on]) one.disabled = !known;
      setText(number, labels.t("race.where.round", { n: at, of: known }));
      setAttribute(range, "aria-valuetext", number.textContent);
      const round = records[at - 1];
      setText(what, round ? labels.t("microscope.round_emits", { of: round.drafted.length, n: round.emitted.length, source: finalToken(round)?.source ?? "" }) : "");
      setText(before, (round && textBefore(lanes.speculative, at - 1, meta?.branch?.text)) || labels.t("microscope.before_none"));
    },
  };
}
