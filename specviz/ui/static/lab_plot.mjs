// Total variation distance against the number of draws, both logarithmic: honest samples fall along 1/√N, a wrong sampler stops.

import { distance, exactDistance, frameAt, grouped, isCertain, logScale, powerOf } from "./core_lab.mjs";
import { h, setClass, svg } from "./dom.mjs";

const SIZE = 1000;
const VISIBLE = 1e-4; // an exact distance below this is rounding
const MARKS = { honest: "●", exhibit: "■" };
const kindOf = (lane) => (lane.exhibit ? "exhibit" : "honest");

export function makePlot({ labels }) {
  const clip = svg("rect", { x: 0, y: -SIZE, width: SIZE, height: 3 * SIZE });
  const clipName = `sv-clip-${Math.random().toString(36).slice(2)}`;
  const rules = svg("g", { class: "sv-plot-rules" });
  const lines = svg("g", { "clip-path": `url(#${clipName})` });
  const levels = svg("g");
  const drawing = svg("svg", { class: "sv-plot-lines", viewBox: `0 0 ${SIZE} ${SIZE}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("defs", {}, svg("clipPath", { id: clipName }, clip)), rules, levels, lines);
  const dots = h("div", { "aria-hidden": "true" });
  const frame = h("div", { class: "sv-plot-frame", role: "img" }, drawing, dots);
  const yMarks = h("div", { class: "sv-plot-y", "aria-hidden": "true" });
  const xMarks = h("div", { class: "sv-plot-x", "aria-hidden": "true" });
  const legend = h("p", { class: "sv-plot-legend" });
  const node = h("figure", { class: "sv-plot-box" },
    h("figcaption", { class: "sv-plot-title" }, labels.text(h("h4", {}), "lab.plot.title"), legend),
    labels.text(h("span", { class: "sv-plot-unit sv-muted" }), "lab.plot.y"), yMarks, frame, xMarks,
    labels.text(h("span", { class: "sv-plot-unit-x sv-muted" }), "lab.plot.x"));
  let shown = { lanes: [], dots: [] };

  function show(answer) {
    const { lanes } = answer;
    setClass(node, "sv-hidden", isCertain(answer));
    const frames = lanes.flatMap((lane) => lane.frames);
    const x = logScale(frames.map((one) => one.n));
    const exact = lanes.filter((lane) => lane.finding.tv_exact > VISIBLE);
    const y = logScale([...frames.flatMap((one) => [one.tv, one.expected_tv]), ...exact.map((lane) => lane.finding.tv_exact)]);
    const point = (n, tv) => [SIZE * x.at(n), SIZE * (1 - y.at(tv))];
    const path = (pairs) => pairs.filter(([, tv]) => tv > 0).map(([n, tv]) => point(n, tv).map((one) => one.toFixed(1)).join(",")).join(" ");
    rules.replaceChildren(
      ...y.ticks.map((tv) => svg("line", { x1: 0, x2: SIZE, y1: point(1, tv)[1], y2: point(1, tv)[1] })),
      ...x.ticks.map((n) => svg("line", { y1: 0, y2: SIZE, x1: point(n, 1)[0], x2: point(n, 1)[0] })));
    const level = (lane) => point(1, lane.finding.tv_exact)[1];
    levels.replaceChildren(
      svg("polyline", { class: "sv-plot-line sv-plot-expected", points: path(lanes[0].frames.map((one) => [one.n, one.expected_tv])) }),
      ...exact.map((lane) => svg("line", { class: `sv-plot-line sv-plot-exact sv-plot-${kindOf(lane)}`, x1: 0, x2: SIZE, y1: level(lane), y2: level(lane) })));
    const drawn = (lane) => path(lane.frames.map((one) => [one.n, one.tv]));
    lines.replaceChildren(...lanes.map((lane) => svg("polyline", { class: `sv-plot-line sv-plot-${kindOf(lane)}`, points: drawn(lane) })));
    yMarks.replaceChildren(...y.ticks.map((tv) => h("span", { style: `bottom:${100 * y.at(tv)}%` }, powerOf(tv))));
    xMarks.replaceChildren(...x.ticks.map((n) => h("span", { style: `left:${100 * x.at(n)}%` }, powerOf(n))));
    legend.replaceChildren(...legendOf(lanes, exact).map(([kind, text]) => h("span", { class: `sv-plot-key sv-plot-key-${kind}` }, text)));
    frame.setAttribute("aria-label", described(lanes));
    shown = { lanes, x, y, dots: lanes.map((lane) => h("span", { class: `sv-plot-dot sv-plot-dot-${kindOf(lane)}` })) };
    dots.replaceChildren(...shown.dots);
  }

  function legendOf(lanes, exact) {
    return [
      ...lanes.map((lane) => [kindOf(lane), `${MARKS[kindOf(lane)]} ${labels.t(`lab.plot.${kindOf(lane)}`)}`]),
      ["expected", labels.t("lab.plot.expected")],
      ...exact.map((lane) => [`exact sv-plot-key-${kindOf(lane)}`, labels.t("lab.plot.exact", { tv: distance(lane.finding.tv_exact) })]),
    ];
  }

  function described(lanes) {
    return lanes.map((lane) => labels.t("lab.said.plot", {
      lane: labels.t(`lab.plot.${kindOf(lane)}`), exact: exactDistance(lane.finding.tv_exact),
      list: lane.frames.filter((_, i) => i % 12 === 0 || i === lane.frames.length - 1).map((one) => `N ${grouped(one.n)}: ${distance(one.tv)}`).join("; "),
    })).join(" ");
  }

  /** Reveals the curves up to `at`, 0 to 1. */
  function draw(at) {
    shown.lanes.forEach((lane, i) => {
      const { reached } = frameAt(lane, at);
      const left = shown.x.at(reached);
      clip.setAttribute("width", SIZE * left + 1);
      const [before, after] = around(lane.frames, reached);
      const f = after.n > before.n ? Math.log(reached / before.n) / Math.log(after.n / before.n) : 1;
      shown.dots[i].style.left = `${100 * left}%`;
      shown.dots[i].style.top = `${100 * (1 - (shown.y.at(before.tv) + (shown.y.at(after.tv) - shown.y.at(before.tv)) * f))}%`;
    });
  }
  return { node, show, draw };
}

function around(frames, n) {
  const next = frames.findIndex((one) => one.n >= n * (1 - 1e-9));
  const after = frames[next < 0 ? frames.length - 1 : next];
  return [frames[Math.max(0, frames.indexOf(after) - 1)], after];
}
