// Attention × decoding: what each of the four combinations gained here, beside what the articles promise of both.

import { byContext, gainTop, isSlow, standing, together, CLAIM, COMBINATIONS, CONTEXTS, USUAL } from "./core_ablation.mjs";
import { bytes, time } from "./core_attention_text.mjs";
import { grouped } from "./core_lab.mjs";
import { percent, rate, times, NONE } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const UNFINISHED = ["loading", "queued", "running"];
const FIGURES = [["tok_s", rate], ["gain", times], ["forward_s", time], ["prefill_s", time], ["peak_memory_bytes", bytes], ["alpha", percent]];

export function makeAblation({ labels, store, server, props }) {
  const state = { measured: [], busy: null, queue: [], stopping: false, problem: null };
  const source = h("p", { class: "sv-att-source" });
  const legend = h("p", { class: "sv-att-legend sv-small" }, ...COMBINATIONS.map(({ name }) =>
    h("span", { class: "sv-att-key" }, h("span", { class: `sv-att-swatch sv-att-bar-${name}`, "aria-hidden": "true" }), labels.text(h("span"), `attention.ablation.${name}`))));
  const figure = h("div", { class: "sv-att-gains", role: "img" });
  const verdict = h("p", { class: "sv-att-verdict" });
  const table = labels.attribute(h("div", { class: "sv-scroll", tabindex: "0", role: "region" }), "aria-label", "attention.ablation.title");
  const boxes = CONTEXTS.map((context) => {
    const input = h("input", { type: "checkbox", class: "sv-check", value: context, checked: USUAL.includes(context) });
    return { context, input, node: h("label", { class: "sv-toggle" }, input, h("span", {}, grouped(context)), isSlow(context) ? labels.text(h("span", { class: "sv-muted sv-small" }), "attention.ablation.slow") : "") };
  });
  const measure = labels.text(h("button", { type: "button", class: "sv-button sv-go" }), "attention.ablation.measure");
  const stop = labels.text(h("button", { type: "button", class: "sv-button sv-choice" }), "attention.ablation.stop");
  const status = h("p", { class: "sv-lab-status", role: "status" });
  const node = h("section", { class: "sv-card" }, h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "attention.ablation.title")),
    labels.text(h("p", { class: "sv-lead" }), "attention.ablation.idea"), source, legend, figure, verdict, table,
    h("div", { class: "sv-deck" }, labels.text(h("span"), "attention.ablation.contexts"), ...boxes.map((box) => box.node), measure, stop), status);
  measure.addEventListener("click", run);
  stop.addEventListener("click", () => {
    Object.assign(state, { queue: [], stopping: true });
    server.stop_ablation({ owner: store.owner }).catch(() => {});
    draw();
  });
  for (const { input } of boxes) input.addEventListener("change", draw);
  let drawn = null;

  const rows = () => (state.measured.length ? state.measured : props.ablation?.rows ?? []);
  const chosen = () => boxes.filter(({ input }) => input.checked).map(({ context }) => context);

  async function run() {
    Object.assign(state, { queue: chosen(), stopping: false, problem: null });
    let results = [];
    while (state.queue.length && !state.problem) {
      state.busy = state.queue.shift();
      draw();
      const answer = await measured(state.busy).catch(() => undefined);
      if (answer?.rows) state.measured = results = [...results, ...answer.rows];
      else if (!state.stopping) state.problem = answer?.error ?? labels.t("attention.ablation.failed");
    }
    state.busy = null;
    draw();
  }

  /** Asked for again and again: the server ends what no page waits for. */
  async function measured(context) {
    let answer = await server.ablate({ context, owner: store.owner });
    while (answer?.busy) answer = await server.ablation({ owner: store.owner });
    return answer;
  }

  function draw() {
    const waits = UNFINISHED.includes(store.model.state);
    measure.disabled = Boolean(state.busy) || waits || !chosen().length;
    setClass(stop, "sv-hidden-keep", !state.busy);
    stop.disabled = state.stopping;
    setText(status, said(waits));
    setAttribute(status, "data-state", state.busy ? "busy" : state.problem ? "problem" : "none");
    if (drawn === rows()) return;
    drawn = rows();
    setText(source, sourceText());
    for (const part of [legend, figure, table, verdict]) setClass(part, "sv-hidden", !drawn.length);
    if (!drawn.length) return;
    const contexts = byContext(drawn);
    figure.replaceChildren(...picture(contexts));
    setAttribute(figure, "aria-label", contexts.map(({ context, cells }) => labels.t("attention.ablation.said", { context: grouped(context), list: cells.map((cell, i) => `${labels.t(`attention.ablation.${COMBINATIONS[i].name}`)} ${times(cell?.gain)}`).join(", ") })).join(" "));
    table.replaceChildren(tableOf(contexts));
    const both = together(drawn);
    setText(verdict, both ? labels.t(`attention.ablation.${standing(both)}`, { gain: [...new Set([both.least, both.most].map(times))].join(labels.t("attention.ablation.to")), from: CLAIM[0], to: CLAIM[1] }) : "");
  }

  function said(waits) {
    if (state.busy) return labels.t(state.queue.length ? "attention.ablation.busy_more" : "attention.ablation.busy", { context: grouped(state.busy), n: state.queue.length });
    return state.problem ?? (waits ? labels.t("attention.ablation.waits") : "");
  }

  function sourceText() {
    if (state.measured.length) return labels.t("attention.ablation.here");
    if (!props.ablation) return labels.t("attention.ablation.none");
    const { machine, versions, settings, target } = props.ablation;
    return labels.t("attention.ablation.recorded", { machine: machine?.name ?? NONE, threads: machine?.threads ?? NONE, torch: versions?.torch ?? NONE, target: target?.name ?? NONE, dtype: target?.dtype ?? NONE, drafter: settings?.drafter ?? NONE, gamma: settings?.gamma ?? NONE });
  }

  /** Bars of gain over materialised attention with standard decoding, a group for each context, and the claim as a band. */
  function picture(contexts) {
    const top = gainTop(drawn);
    const height = (gain) => `${(100 * gain) / top}%`;
    const marks = [0, 1, 2, 3, 4, 6, 8].filter((gain) => gain <= top);
    const bar = (cell, i) => h("span", { class: `sv-att-bar sv-att-bar-${COMBINATIONS[i].name}`, style: `height:${height(cell?.gain ?? 0)}` }, h("span", { class: "sv-att-bar-value" }, cell?.gain ? cell.gain.toFixed(cell.gain < 10 ? 2 : 1) : ""));
    return [
      h("div", { class: "sv-att-gain-y" }, ...marks.map((gain) => h("span", { style: `bottom:${height(gain)}` }, `${gain}×`))),
      h("div", { class: "sv-att-gain-frame" }, ...marks.map((gain) => h("span", { class: `sv-att-rule${gain === 1 ? " sv-att-one" : ""}`, style: `bottom:${height(gain)}` })),
        h("span", { class: "sv-att-band", style: `bottom:${height(CLAIM[0])};height:${height(CLAIM[1] - CLAIM[0])}` }, h("span", {}, labels.t("attention.ablation.claim", { from: CLAIM[0], to: CLAIM[1] }))),
        ...contexts.map(({ cells }) => h("div", { class: "sv-att-group" }, ...cells.map(bar)))),
      h("div", { class: "sv-att-gain-x" }, ...contexts.map(({ context }) => h("span", {}, grouped(context)))),
    ];
  }

  function tableOf(contexts) {
    const head = h("tr", {}, ...["context", "combination", ...FIGURES.map(([name]) => name)].map((name) => h("th", { scope: "col" }, labels.t(`attention.ablation.column.${name}`))));
    const lines = contexts.flatMap(({ context, cells }) => cells.map((cell, i) => h("tr", {}, ...(i ? [] : [h("th", { scope: "rowgroup", rowspan: cells.length }, grouped(context))]),
      h("th", { scope: "row" }, labels.t(`attention.ablation.${COMBINATIONS[i].name}`)), ...FIGURES.map(([name, write]) => h("td", {}, cell ? write(cell[name]) : NONE)))));
    return h("table", { class: "sv-table" }, h("thead", {}, head), h("tbody", {}, ...lines));
  }

  return {
    node, draw,
    respeak() {
      drawn = null;
      draw();
    },
  };
}
