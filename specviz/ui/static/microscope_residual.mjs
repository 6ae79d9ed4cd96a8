// After a rejection: what of p the draft did not cover, norm(max(p − q, 0)), rises out of p's bars, and a token is picked from it.

import { small } from "./core_microscope.mjs";
import { label } from "./core_text.mjs";
import { h, setClass, setText } from "./dom.mjs";

const ROWS = 6;
const RISE_MS = 700;
const CALM_MS = 600; // what changes faster than this is not animated

export function makeResidual({ labels }) {
  const name = labels.text(h("p", { class: "sv-panel-name" }), "microscope.residual");
  const rows = Array.from({ length: ROWS }, makeRow);
  const list = h("ol", { class: "sv-bars" }, ...rows.map((row) => row.node));
  const rest = h("p", { class: "sv-muted sv-residual-rest" });
  const none = labels.text(h("p", { class: "sv-muted sv-residual-none" }), "microscope.residual_none");
  const node = h("div", { class: "sv-residual-box" }, name, list, rest, none);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let last = -Infinity;
  let shown = null;

  function makeRow() {
    const token = h("span", { class: "sv-bar-token" });
    const bar = h("span", { class: "sv-bar" });
    const number = h("span", { class: "sv-bar-number" });
    const mark = h("span", { class: "sv-picked-mark" });
    const row = h("li", {}, token, h("span", { class: "sv-bar-cell" }, bar), number, mark);
    return {
      node: row, bar,
      draw(one, picked) {
        setClass(row, "sv-hidden-keep", !one);
        if (!one) return;
        bar.style.setProperty("--size", one.prob.toFixed(4));
        setText(token, label(one.text));
        setText(number, small(one.prob));
        setClass(row, "sv-picked", picked);
        setText(mark, picked ? `↻ ${labels.t("microscope.picked")}` : "");
      },
    };
  }

  /** Which tokens are shown: the likeliest, the picked one always among them. */
  function listed({ residual, picked }) {
    const kept = residual.slice(0, ROWS);
    const found = residual.find((one) => one.id === picked);
    if (found && !kept.includes(found)) kept[kept.length - 1] = found;
    return kept;
  }

  function draw({ id, detail }, { moved, bars }) {
    const kept = listed(detail);
    const total = kept.reduce((sum, one) => sum + one.prob, 0);
    setClass(node, "sv-empty", !kept.length);
    rows.forEach((row, i) => row.draw(kept[i], kept[i]?.id === detail.picked));
    setText(rest, labels.t("microscope.residual_rest", { rest: small(Math.max(0, 1 - total)) }));
    const now = performance.now();
    const rises = kept.length && shown !== id && now - last > CALM_MS && !calm.matches;
    if (moved || rises) last = now;
    shown = kept.length ? id : null;
    if (rises) rows.slice(0, kept.length).forEach((row, i) => rise(row.bar, bars.leftover(kept[i].id), row.node));
  }

  function rise(bar, from, row) {
    const to = bar.getBoundingClientRect();
    if (!from?.width || !to.width) return;
    bar.animate([
      { transform: `translate(${from.x - to.x}px, ${from.y - to.y}px) scale(${from.width / to.width}, ${from.height / to.height})`, backgroundColor: "var(--sv-target-tint)" },
      { transform: "none", backgroundColor: "var(--sv-residual)" },
    ], { duration: RISE_MS, easing: "cubic-bezier(0.3, 0, 0.2, 1)" });
    if (row.classList.contains("sv-picked")) row.animate([{ boxShadow: "none", offset: 0.9 }, {}], { duration: RISE_MS + 300 });
  }
  return { node, draw };
}
