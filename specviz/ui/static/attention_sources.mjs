// What the pictures rest on: counted against closed forms, the schedules' sources, and every hardware figure with its status.

import { binary, nameOf, si } from "./core_attention_text.mjs";
import { grouped } from "./core_lab.mjs";
import { small } from "./core_microscope.mjs";
import { h } from "./dom.mjs";

const IN_POWERS_OF_TWO = /^B\b(?!\/s)/;
const MEMORY = "memory"; // sold in powers of ten

export function makeSources({ labels }) {
  const body = h("div", { class: "sv-att-tables" });
  const node = h("section", { class: "sv-card sv-hidden" }, h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "attention.sources.title")), labels.text(h("p", { class: "sv-lead" }), "attention.sources.idea"), body);

  function show(answer) {
    node.classList.toggle("sv-hidden", !answer);
    if (answer) body.replaceChildren(proof(answer), hardware(answer));
  }

  const table = (key, head, lines, args) => h("section", {}, h("h3", {}, labels.t(key, args)), h("div", { class: "sv-scroll", tabindex: "0", role: "region", "aria-label": labels.t(key, args) },
    h("table", { class: "sv-table" }, h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...lines.map(([first, ...others]) => h("tr", {}, h("th", { scope: "row" }, first), ...others.map((text) => h("td", {}, text))))))));

  /** What was executed, held against what it must be. */
  function proof({ schedules, output_difference: moved }) {
    const line = (name, write) => [labels.t(`attention.proof.${name}`), ...schedules.map(write)];
    const pair = (counted, closed) => `${grouped(counted)} = ${grouped(closed)}`;
    const differs = (counted, closed) => (Math.round(counted) === Math.round(closed) ? pair(counted, closed) : `${grouped(counted)} ≠ ${grouped(closed)}`);
    return table("attention.proof.title", ["", ...schedules.map(({ name }) => nameOf(name, labels.t))], [
      line("source", ({ source }) => source),
      line("tiles", ({ totals }) => labels.t("attention.proof.tile_counts", { full: grouped(totals.full), masked: grouped(totals.masked), skipped: grouped(totals.skipped) })),
      line("read", ({ totals }) => differs(totals.hbm_read, totals.closed_read)),
      line("written", ({ totals }) => differs(totals.hbm_written, totals.closed_written)),
      line("difference", ({ totals }) => small(totals.difference)),
      line("model", (_, i) => (i ? "–" : small(moved))),
      line("time", ({ totals }) => labels.t("attention.proof.parts", { memory: si(totals.memory_s, "s"), compute: si(totals.compute_s, "s"), softmax: si(totals.softmax_s, "s"), all: si(totals.seconds, "s"), busy: (100 * totals.busy).toFixed(0) })),
    ]);
  }

  function hardware({ hardware: { title, figures } }) {
    const named = (name) => (labels.t(`attention.hardware.${name}`) === `attention.hardware.${name}` ? name : labels.t(`attention.hardware.${name}`));
    const lines = figures.map(({ name, value, unit, source, status }) => [named(name), amount(name, value, unit), h("span", { class: `sv-tag sv-att-status-${status}` }, labels.t(`attention.status.${status}`)), source]);
    const head = ["figure", "value", "status", "source"].map((name) => labels.t(`attention.hardware.column.${name}`));
    return table("attention.hardware.title", head, lines, { hardware: title });
  }
  return { node, show };
}

/** A figure with its unit; bytes of caches in powers of two, as they are built. */
function amount(name, value, unit) {
  if (IN_POWERS_OF_TWO.test(unit) && name !== MEMORY) return `${binary(value)}${unit.slice(1)}`;
  const [what, ...rest] = unit.split(" ");
  if (/^(B|FLOP|exp)/.test(what)) return [si(value, what), ...rest].join(" ");
  return `${grouped(value)} ${unit}`;
}
