// The identity P(x) = q·min(1, p/q) + (1 − Σ min)·residual = p, in the numbers of the picture.

import { TOKENS, milli } from "./core_proof.mjs";
import { NONE } from "./core_text.mjs";
import { h, setClass, setText } from "./dom.mjs";

const share = (value) => value.toFixed(3);
const term = (kind) => h("span", { class: `sv-term sv-term-${kind}` });

export function makeEquations(labels) {
  const rule = h("p", { class: "sv-equation sv-equation-rule" });
  const rows = TOKENS.map((token) => {
    const parts = { tested: term("accepted"), redrawn: term("refill"), sum: h("span", { class: "sv-term" }), out: h("span", { class: "sv-term sv-term-out" }) };
    const node = h("li", { class: "sv-equation" }, h("span", { class: "sv-term" }, h("span", { class: "sv-proof-token" }, token), " ="), " ",
      parts.tested, " + ", parts.redrawn, " ", parts.sum, " ", parts.out);
    return { node, ...parts };
  });
  const note = labels.text(h("p", { class: "sv-muted sv-small" }), "proof.equation.note");
  const node = h("div", { class: "sv-equations" }, labels.text(h("h3", {}), "proof.equation.title"), rule, h("ul", {}, ...rows.map((row) => row.node)), note);

  return {
    node,
    /** `parts` as `printed` gives them: thousandths that add up. */
    draw({ p, q, accepted, refill, redrawn, out, lost, broken }) {
      setText(rule, labels.t(broken ? "proof.equation.broken" : "proof.equation.rule"));
      rows.forEach((row, i) => {
        const stands = q[i] > 0 ? share(accepted[i] / q[i]) : NONE;
        setText(row.tested, `${milli(q[i])} · ${stands}`);
        setText(row.redrawn, `${milli(lost)} · ${lost > 0 ? share(redrawn[i]) : NONE}`);
        setText(row.sum, `= ${milli(accepted[i])} + ${milli(refill[i])}`);
        const same = out[i] === p[i];
        setText(row.out, `= ${milli(out[i])} ${same ? "= p ✓" : `≠ p = ${milli(p[i])} ✗`}`);
        setClass(row.out, "sv-is-wrong", !same);
      });
    },
  };
}
