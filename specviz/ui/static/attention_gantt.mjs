// Who loads, multiplies and exponentiates when: the modelled overlap inside one worker.

import { time } from "./core_attention_text.mjs";
import { h, setClass, setText, svg } from "./dom.mjs";

const [LANE, WIDTH] = [28, 1000];
const UNITS = ["load", "matrix", "softmax"];

export function makeGantt({ labels }) {
  const note = h("p", { class: "sv-muted sv-small" });
  const names = h("div", { class: "sv-att-lanes", "aria-hidden": "true" });
  const picture = h("div", { class: "sv-att-spans", role: "img" });
  const scale = h("p", { class: "sv-muted sv-small sv-att-scale" });
  const legend = h("p", { class: "sv-att-legend sv-small" }, ...UNITS.map((unit) =>
    h("span", { class: "sv-att-key" }, h("span", { class: `sv-att-swatch sv-att-unit-${unit}`, "aria-hidden": "true" }), labels.text(h("span"), `attention.gantt.${unit}`))));
  const node = h("section", { class: "sv-att-gantt" }, labels.text(h("h4", {}), "attention.gantt.title"), legend, h("div", { class: "sv-att-gantt-box" }, names, picture), scale, note);

  return {
    node,
    show({ timeline }) {
      setClass(node, "sv-hidden", !timeline?.length);
      if (!timeline?.length) return;
      const lanes = [...new Set(timeline.map((span) => span.lane))];
      const end = Math.max(...timeline.map((span) => span.stop));
      const last = Math.max(...timeline.map((span) => span.tile));
      names.replaceChildren(...lanes.map((lane) => h("span", {}, lane)));
      const rects = timeline.map(({ lane, unit, what, tile, start, stop }) =>
        svg("rect", { class: `sv-att-unit-${unit}`, x: (WIDTH * start) / end, y: lanes.indexOf(lane) * LANE + 3, width: Math.max(1, (WIDTH * (stop - start)) / end - 1), height: LANE - 6 },
          svg("title", {}, `${lane}: ${what}, ${labels.t("attention.gantt.tile", { tile: tile + 1 })}, ${time(start)} – ${time(stop)}`)));
      picture.replaceChildren(svg("svg", { viewBox: `0 0 ${WIDTH} ${lanes.length * LANE}`, preserveAspectRatio: "none", style: `height:${lanes.length * LANE}px`, "aria-hidden": "true" },
        ...lanes.map((_, i) => svg("line", { x1: 0, x2: WIDTH, y1: (i + 1) * LANE, y2: (i + 1) * LANE })), ...rects));
      const busy = lanes.map((lane) => `${lane} ${((100 * timeline.filter((span) => span.lane === lane).reduce((sum, span) => sum + span.stop - span.start, 0)) / end).toFixed(0)}\u2009%`);
      picture.setAttribute("aria-label", labels.t("attention.gantt.said", { tiles: last + 1, end: time(end), busy: busy.join(", ") }));
      setText(scale, labels.t("attention.gantt.scale", { end: time(end), busy: busy.join(" · ") }));
      setText(note, labels.t("attention.gantt.note", { tiles: last + 1 }));
    },
  };
}
