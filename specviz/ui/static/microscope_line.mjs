// The line a verdict is read from: the draw u against min(1, p/q), p against its threshold, or KL against τ.

import { lineOf } from "./core_microscope.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const MOST = 0.999; // draws are below 1

/** Why there is no line. */
const nothing = ({ outcome, place }) => (outcome.greedy ? "none_greedy" : outcome.positions[place] ? "none" : "none_added");

export function makeLine({ labels, evidence }) {
  const value = h("span", { class: "sv-draw-u" });
  const limit = h("span", { class: "sv-draw-limit" });
  const mark = h("span", { class: "sv-draw-mark" });
  const before = h("span", { class: "sv-draw-before", "aria-hidden": "true" });
  const bar = h("div", { class: "sv-draw-line" }, h("span", { class: "sv-draw-below" }), h("span", { class: "sv-draw-above" }));
  const track = h("div", { class: "sv-draw-track" }, bar, before, mark);
  const formula = h("p", { class: "sv-muted sv-formula" });
  const none = h("p", { class: "sv-muted sv-draw-none" });
  const node = h("div", { class: "sv-draw" }, h("div", { class: "sv-draw-top" }, value), track, h("div", { class: "sv-draw-bottom" }, limit), formula, none);
  let scene = null;
  let line = null;

  const set = (u) => evidence.draw(scene.place, Math.max(0, Math.min(MOST, Number(u.toFixed(3)))));
  const isDraggable = () => line?.kind === "draw" && scene.state === "ready";
  const drag = (event) => {
    const box = bar.getBoundingClientRect();
    set((event.clientX - box.left) / box.width);
  };
  track.addEventListener("pointerdown", (event) => {
    if (!isDraggable()) return;
    event.preventDefault();
    track.setPointerCapture(event.pointerId);
    mark.focus({ preventScroll: true });
    drag(event);
  });
  track.addEventListener("pointermove", (event) => {
    if (event.buttons & 1 && track.hasPointerCapture(event.pointerId) && isDraggable()) drag(event);
  });
  mark.addEventListener("keydown", (event) => {
    if (!isDraggable()) return;
    const u = scene.u[scene.place] ?? line.u;
    const next = {
      ArrowLeft: u - 0.01, ArrowDown: u - 0.01, ArrowRight: u + 0.01, ArrowUp: u + 0.01, PageDown: u - 0.1, PageUp: u + 0.1, Home: 0, End: MOST,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    set(next);
  });

  /** A draw can be moved: then the mark is a slider. On other lines it only stands where it was measured. */
  function sayMark() {
    const slider = { role: "slider", tabindex: "0", "aria-label": labels.t("whatif.u"), "aria-valuemin": 0, "aria-valuemax": 1, "aria-valuenow": line.u?.toFixed(3), "aria-valuetext": said() };
    for (const [name, text] of Object.entries(slider)) {
      if (isDraggable()) setAttribute(mark, name, text);
      else mark.removeAttribute(name);
    }
    if (!isDraggable()) {
      setAttribute(mark, "role", "img");
      setAttribute(mark, "aria-label", said());
    }
  }
  const said = () => `${labels.t(`microscope.line.${line.kind}_said`, line.args)} ${labels.t(`race.verdict.${line.verdict}`)}`;

  return {
    node,
    draw(next) {
      scene = next;
      line = lineOf(scene.outcome, scene.place);
      setClass(node, "sv-empty", !line);
      setText(none, line ? "" : labels.t(`microscope.line.${nothing(scene)}`));
      if (!line) return;
      const recorded = scene.base.positions[scene.place]?.u ?? null;
      const marked = scene.u[scene.place] ?? line.mark;
      node.style.cssText = `--limit:${line.limit.toFixed(5)};--u:${marked.toFixed(5)};--recorded:${(recorded ?? 0).toFixed(5)}`;
      setAttribute(node, "data-kind", line.kind);
      setClass(node, "sv-accepts-below", line.below);
      setClass(track, "sv-draggable", isDraggable());
      setClass(before, "sv-hidden", line.kind !== "draw" || recorded === null || Math.abs(recorded - marked) < 0.0005);
      setText(value, labels.t(`microscope.line.${line.kind}_mark`, line.args));
      setAttribute(value, "class", `sv-draw-u sv-draw-${line.verdict}`);
      setText(limit, labels.t(`microscope.line.${line.kind}_limit`, line.args));
      setText(formula, labels.t(`microscope.line.${line.kind}_formula`, line.args));
      sayMark();
    },
  };
}
