// Tokens per second against time: the average since the start, bold up to the playhead, and the last moments, faint.

import { averageCurve, duration, fraction, niceCeil, ticks, windowCurve } from "./core_time.mjs";
import { h, setClass, setText, svg } from "./dom.mjs";
import { KINDS } from "./core.mjs";

const SHORTEST_SPAN_S = 0.5;
const SPANS = 12; // windows in a whole run: short enough to show changes, long enough to hold several rounds
const SIZE = 1000;

export function makeCurves(ui) {
  const { labels } = ui;
  const clip = svg("rect", { x: 0, y: -50, width: 0, height: SIZE + 100 });
  const clipName = `sv-clip-${Math.random().toString(36).slice(2)}`;
  const lines = {};
  const line = (kind, weight) => (lines[`${kind}.${weight}`] = svg("polyline", { class: `sv-line sv-line-${kind} sv-line-${weight}` }));
  const rules = svg("g", { class: "sv-rules" });
  const drawing = svg("svg", { class: "sv-curves", viewBox: `0 0 ${SIZE} ${SIZE}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("defs", {}, svg("clipPath", { id: clipName }, clip)), rules,
    ...KINDS.map((kind) => line(kind, "window")), ...KINDS.map((kind) => line(kind, "faint")),
    svg("g", { "clip-path": `url(#${clipName})` }, ...KINDS.map((kind) => line(kind, "bold"))));
  const dots = Object.fromEntries(KINDS.map((kind) => [kind, h("span", { class: `sv-dot-end sv-dot-${kind} sv-hidden`, "aria-hidden": "true" })]));
  const node = h("div", { class: "sv-curve-box" }, drawing, ...Object.values(dots));
  const marks = h("div");
  const scale = h("div", { class: "sv-scale", "aria-hidden": "true" }, labels.text(h("span", { class: "sv-scale-unit" }), "race.unit.tok_s"), marks);
  const spanName = h("span", { class: "sv-key-line sv-key-window" });
  const legend = h("span", { class: "sv-curve-legend" },
    ...KINDS.map((kind) => labels.text(h("span", { class: `sv-key-line sv-key-${kind}` }), `race.curve.${kind}`)),
    spanName);
  const curves = {};
  let top = 1;
  let axisEnd = 1;

  /** Draws the curves over an axis of `end` seconds; only when records or size have changed. */
  function redraw(end) {
    const span = Math.max(SHORTEST_SPAN_S, niceCeil(duration(ui.model) / SPANS));
    setText(spanName, labels.t("race.curve.window", { span }));
    for (const kind of KINDS) curves[kind] = { average: averageCurve(ui.model.lanes[kind]), window: windowCurve(ui.model.lanes[kind], span) };
    const highest = Math.max(1, ...KINDS.flatMap((kind) => [...curves[kind].average, ...curves[kind].window].map(([, y]) => y)));
    top = niceCeil(highest);
    const path = (points) => points.map(([x, y]) => `${(SIZE * fraction(x, end)).toFixed(3)},${(SIZE * (1 - y / top)).toFixed(1)}`).join(" ");
    for (const kind of KINDS) {
      lines[`${kind}.window`].setAttribute("points", path(curves[kind].window));
      for (const weight of ["faint", "bold"]) lines[`${kind}.${weight}`].setAttribute("points", path(curves[kind].average));
    }
    const values = ticks(top, 3);
    rules.replaceChildren(...values.map((y) => svg("line", { x1: 0, x2: SIZE, y1: SIZE * (1 - y / top), y2: SIZE * (1 - y / top) })));
    marks.replaceChildren(...values.map((y) => h("span", { class: "sv-mark", style: `bottom:${(100 * y) / top}%` }, String(y))));
    axisEnd = end;
  }

  /** Shows a stretch of the axis. */
  function look({ from, span }) {
    drawing.setAttribute("viewBox", `${(SIZE * from) / axisEnd} 0 ${(SIZE * span) / axisEnd} ${SIZE}`);
  }

  /** Bold up to time t, with a dot where each run stands; `percent` places a time on the stretch. */
  function reveal(t, frame, percent) {
    clip.setAttribute("width", SIZE * fraction(t, axisEnd));
    for (const kind of KINDS) {
      const point = curves[kind].average[frame[kind].judged - 1];
      const left = point ? percent(point[0]) : -1;
      setClass(dots[kind], "sv-hidden", left < 0 || left > 100.01);
      if (!point) continue;
      dots[kind].style.left = `${left.toFixed(3)}%`;
      dots[kind].style.top = `${100 * (1 - point[1] / top)}%`;
    }
  }
  return { node, scale, legend, redraw, look, reveal };
}
