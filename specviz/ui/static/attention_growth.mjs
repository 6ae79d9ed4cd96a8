// How bytes, memory and modelled time grow with the context: closed forms from 128 to a million keys, both axes logarithmic.

import { bytes, nameOf, time } from "./core_attention_text.mjs";
import { grouped, logScale, powerOf } from "./core_lab.mjs";
import { h, setText, svg } from "./dom.mjs";

const SIZE = 1000;
const PHASES = ["verification", "prefill"];
const MEASURES = [["hbm", 1, bytes], ["peak", 2, bytes], ["time", 3, time]]; // name, place in a point, how it is written
const SHORTEST = 128;
const TOLD = [SHORTEST, 2 ** 13, 2 ** 17, 2 ** 20];

export function makeGrowth({ labels }) {
  const legend = h("p", { class: "sv-att-legend sv-small" });
  const plots = h("div", { class: "sv-att-plots" });
  const assumptions = h("p", { class: "sv-muted sv-small" });
  const node = h("section", { class: "sv-card sv-hidden" }, h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "attention.growth.title")),
    labels.text(h("p", { class: "sv-lead" }), "attention.growth.idea"), legend, plots, assumptions);

  /** Standard attention is always there; the chosen schedules follow in their order. */
  const stylesOf = (answer) => [["standard", "standard"], ...answer.schedules.map((one) => one.name).filter((name) => name !== "standard").map((name, i) => [name, ["first", "second"][i]])];

  function show(answer) {
    node.classList.toggle("sv-hidden", !answer);
    if (!answer) return;
    const styles = stylesOf(answer);
    legend.replaceChildren(...styles.map(([name, style]) => h("span", { class: `sv-att-key sv-att-line-key sv-att-line-${style}` }, svg("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" }, svg("line", { x1: 0, x2: 28, y1: 4, y2: 4 })), nameOf(name, labels.t))));
    plots.replaceChildren(...PHASES.map((phase) => h("section", { class: "sv-att-plot-row" }, h("h3", {}, labels.t(`attention.phase.${phase}`)),
      h("div", { class: "sv-att-plot-three" }, ...MEASURES.map((measure) => plot(answer, phase, styles, measure))))));
    setText(assumptions, labels.t("attention.growth.assumptions", { heads: answer.heads, kv_heads: answer.kv_heads, dim: answer.head_dim, queries: answer.curve_queries, hardware: answer.hardware.title }) + (answer.keys >= SHORTEST ? ` ${labels.t("attention.growth.here")}` : ""));
  }

  function plot(answer, phase, styles, [measure, place, write]) {
    const curves = styles.map(([name, style]) => ({ name, style, points: (answer.curves[phase][name] ?? []).map((point) => [point[0], point[place]]) })).filter((curve) => curve.points.length);
    const y = logScale(curves.flatMap((curve) => curve.points.map(([, value]) => value)));
    const across = (keys) => Math.log2(keys / SHORTEST) / Math.log2(2 ** 20 / SHORTEST);
    const at = ([keys, value]) => `${(SIZE * across(keys)).toFixed(1)},${(SIZE * (1 - y.at(value))).toFixed(1)}`;
    const here = answer.phase === phase && answer.keys >= SHORTEST ? across(answer.keys) : -1;
    const yTicks = y.ticks.filter((_, i) => i % Math.ceil(y.ticks.length / 5) === 0);
    const xTicks = [SHORTEST, 2 ** 10, 2 ** 14, 2 ** 17, 2 ** 20];
    const drawing = svg("svg", { class: "sv-att-plot-lines", viewBox: `0 0 ${SIZE} ${SIZE}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      ...yTicks.map((value) => svg("line", { x1: 0, x2: SIZE, y1: SIZE * (1 - y.at(value)), y2: SIZE * (1 - y.at(value)) })),
      ...xTicks.map((keys) => svg("line", { y1: 0, y2: SIZE, x1: SIZE * across(keys), x2: SIZE * across(keys) })),
      ...(here >= 0 ? [svg("line", { class: "sv-att-here", y1: 0, y2: SIZE, x1: SIZE * here, x2: SIZE * here })] : []),
      ...curves.map(({ style, points }) => svg("polyline", { class: `sv-att-curve sv-att-line-${style}`, points: points.map(at).join(" ") })));
    const told = curves.map(({ name, points }) => `${nameOf(name, labels.t)}: ${points.filter(([keys]) => TOLD.includes(keys)).map(([keys, value]) => `${grouped(keys)} ${write(value)}`).join(", ")}`);
    const title = labels.t(`attention.growth.${measure}`);
    return h("figure", { class: "sv-att-plot" }, h("figcaption", { class: "sv-small" }, title),
      h("div", { class: "sv-att-y", "aria-hidden": "true" }, ...yTicks.map((value) => h("span", { style: `bottom:${100 * y.at(value)}%` }, powerOf(value)))),
      h("div", { class: "sv-att-plot-frame", role: "img", "aria-label": `${labels.t(`attention.phase.${phase}`)}, ${title}. ${told.join(". ")}.` }, drawing),
      h("div", { class: "sv-att-x", "aria-hidden": "true" }, ...xTicks.map((keys) => h("span", { style: `left:${100 * across(keys)}%` }, short(keys)))));
  }
  return { node, show };
}

const short = (keys) => (keys >= 2 ** 20 ? `${keys / 2 ** 20}M` : keys >= 2 ** 10 ? `${keys / 2 ** 10}K` : String(keys));
