// The microscope: what one verdict was decided by, and what other settings would have decided.
// One view in two places: in the race's page once a chip is chosen, and on a tab of its own.

import { numbersOf, sentenceOf, small } from "./core_microscope.mjs";
import { OWN_KEYS } from "./keys.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";
import { makeBars } from "./microscope_bars.mjs";
import { makeRoundChips } from "./microscope_chips.mjs";
import { makeLine } from "./microscope_line.mjs";
import { makeResidual } from "./microscope_residual.mjs";
import { makeWhatIf } from "./whatif.mjs";

/** `ui`: labels, evidence, trigger and the actions select(round, place) and movePosition(by); `closable` adds a close button. */
export function makeMicroscope(ui, { closable }) {
  const { labels, actions, evidence } = ui;
  const heading = h("h2", { tabindex: "-1" });
  const lossy = labels.text(h("span", { class: "sv-lossy" }), "whatif.lossy");
  const button = (key, mark, act, name = "") => {
    const node = labels.attribute(h("button", { type: "button", class: `sv-button ${name}` }, mark), "aria-label", key);
    node.addEventListener("click", act);
    return node;
  };
  const moves = h("span", { class: "sv-panel-moves" }, button("microscope.previous", "←", () => actions.movePosition(-1)), button("microscope.next", "→", () => actions.movePosition(1)));
  if (closable) moves.append(button("microscope.close", "✕", () => actions.select(null), "sv-close"));
  const status = h("p", { class: "sv-scope-status", role: "status" });
  const retry = labels.text(h("button", { type: "button", class: "sv-button sv-retry" }), "microscope.retry");
  retry.addEventListener("click", evidence.retry);
  const verdict = h("p", { class: "sv-verdict" });
  const [chips, bars, line, residual, numbers, whatIf] = [makeRoundChips, makeBars, makeLine, makeResidual, makeNumbers, makeWhatIf].map((make) => make(ui));
  const node = h("section", { class: "sv-panel sv-card", role: "region" },
    h("header", { class: "sv-card-head" }, heading, lossy, moves), chips.node,
    h("div", { class: "sv-panel-body" },
      h("div", { class: "sv-scope-side" }, bars.node, h("div", { class: "sv-scope-news" }, status, retry), numbers.node),
      h("div", { class: "sv-scope-side" }, verdict, line.node, residual.node, whatIf.node)));
  node.addEventListener("keydown", onKey);
  let drawn = null;
  let selected = null;
  evidence.listen(() => draw({ selected }));

  function onKey(event) {
    if (event.key === "Escape" && closable) actions.select(null);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.target.closest(OWN_KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    actions.movePosition(step);
  }

  function draw(frame) {
    selected = frame.selected;
    setClass(node, "sv-hidden", !selected);
    if (!selected || !node.offsetParent) return; // hidden with its tab, it asks for nothing
    evidence.attend(selected);
    const scene = evidence.scene();
    if (!scene || (scene === drawn && !frame.force)) return;
    const moved = scene.id !== drawn?.id;
    drawn = scene;
    const { outcome, round, place } = scene;
    setText(heading, labels.t(outcome.positions[place] ? "microscope.title" : "microscope.final_title", { round: round.index + 1, place: place + 1 }));
    setAttribute(node, "aria-label", heading.textContent);
    setClass(lossy, "sv-hidden-keep", !outcome.lossy);
    setText(status, statusText(scene));
    setAttribute(status, "data-state", scene.problem ? "refused" : scene.state);
    setClass(retry, "sv-hidden", scene.state !== "refused");
    const { key, args } = sentenceOf(outcome, round, place);
    setText(verdict, labels.t(key, args));
    setAttribute(verdict, "class", `sv-verdict sv-verdict-${outcome.positions[place]?.verdict ?? outcome.emitted.at(-1)?.source ?? "unknown"}`);
    for (const part of [chips, bars, line, numbers, whatIf]) part.draw(scene, frame.force);
    residual.draw(scene, { moved, bars });
  }

  function statusText({ state, problem, error, moved }) {
    if (problem) return problem === true ? labels.t("microscope.status.failed") : problem;
    if (state === "refused") return error === true ? labels.t("microscope.status.failed") : error;
    return labels.t(`microscope.status.${state}`, { difference: small(moved) });
  }
  return { node, draw };
}

/** The numbers of a position: always the same ones, in the same places. */
function makeNumbers({ labels }) {
  const node = labels.attribute(h("dl", { class: "sv-numbers" }), "aria-label", "microscope.numbers");
  const values = new Map();
  function add(name) {
    const value = h("dd");
    values.set(name, value);
    node.append(h("div", { class: `sv-number sv-number-${name}` }, labels.attribute(labels.text(h("dt"), `microscope.number.${name}`), "title", `microscope.number_note.${name}`), value));
  }
  return {
    node,
    draw({ detail, moved }) {
      for (const [name, text] of numbersOf(detail, moved)) {
        if (!values.has(name)) add(name);
        setText(values.get(name), text);
      }
    },
  };
}
