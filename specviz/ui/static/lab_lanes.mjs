// The lanes of the lab: what was drawn, growing onto p, with the exact output law of the sampler as a tick at each token.

import { chiSquare, distance, exactDistance, frameAt, grouped, highestShare, laneSaid, pValue, verdictOf } from "./core_lab.mjs";
import { NONE, label } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const FIGURES = ["n", "sampled", "expected", "exact", "chi2", "freedom", "p_value"];

export function makeLanes(ui) {
  const node = h("div", { class: "sv-lab-lanes" });
  let lanes = [];

  return {
    node,
    /** Takes a new answer of the server (folded). */
    show(answer) {
      const top = highestShare(answer);
      lanes = answer.lanes.map((lane) => makeLane(ui.labels, answer, lane, top));
      node.replaceChildren(...lanes.map((lane) => lane.node));
    },
    draw: (at, numbers) => lanes.forEach((lane) => lane.draw(at, numbers)),
  };
}

function makeLane(labels, answer, lane, top) {
  const { finding } = lane;
  const kind = lane.exhibit ? "exhibit" : "honest";
  const rows = [...answer.tokens.map((token, i) => makeRow(label(token.text), token.p, lane.law[i], top)),
    makeRow(labels.t("lab.rest"), answer.rest_p, lane.rest_law, top, "sv-hist-rest")];
  const histogram = h("div", { class: "sv-hist", role: "img", "aria-label": laneSaid(lane, answer.tokens, labels.t, label) }, ...rows.map((row) => row.node));
  const values = {};
  const figures = h("dl", { class: "sv-figures" }, ...FIGURES.filter((name) => name !== "freedom" || "freedom" in finding).map((name) => {
    values[name] = h("dd", {}, NONE);
    return h("div", {}, h("dt", {}, labels.t(`lab.figure.${name}`)), values[name]);
  }));
  const verdict = h("p", { class: `sv-lab-verdict sv-lab-verdict-${finding.verdict.replace(" ", "-")}` });
  const title = lane.exhibit ? labels.t(`museum.${lane.exhibit}.title`) : labels.t(`lab.rule.${lane.rule}`);
  const tag = lane.exhibit ? "lab.tag.exhibit" : lane.lossless ? "lab.tag.lossless" : "lab.tag.lossy";
  const node = h("article", { class: `sv-lab-lane sv-lab-${kind}` },
    h("header", { class: "sv-lab-lane-head" }, h("h4", {}, title), h("span", { class: `sv-tag sv-tag-${tag.split(".").at(-1)}` }, labels.t(tag))),
    h("p", { class: "sv-hist-head", "aria-hidden": "true" }, h("span"), h("span"), h("span", {}, "p"), h("span", {}, labels.t("lab.sampled"))),
    histogram, figures, verdict);

  return {
    node,
    /** `at` runs from the first frame, 0, to the last, 1; figures change only when `numbers` says so. */
    draw(at, numbers) {
      const frame = frameAt(lane, at);
      const done = at >= 1;
      rows.forEach((row, i) => row.draw(frame.shares[i] ?? frame.rest, numbers));
      if (!numbers) return;
      setText(values.n, grouped(frame.n));
      setText(values.sampled, distance(frame.tv));
      setText(values.expected, distance(frame.expected));
      setText(values.exact, exactDistance(finding.tv_exact));
      setText(values.chi2, done ? chiSquare(finding.chi2) : NONE);
      if (values.freedom) setText(values.freedom, done ? grouped(finding.freedom) : NONE);
      setText(values.p_value, done ? pValue(finding.p_value) : NONE);
      const { key, args } = verdictOf(lane);
      setText(verdict, done ? labels.t(key, args) : labels.t("lab.verdict.waiting"));
      setClass(verdict, "sv-is-waiting", !done);
      setAttribute(node, "data-verdict", done ? finding.verdict : "waiting");
    },
  };
}

/** One token: p as an outline, the draws as a solid bar, the exact law as a tick. */
function makeRow(name, p, law, top, more = "") {
  const sampled = h("span", { class: "sv-hist-sampled" });
  const number = h("span", { class: "sv-hist-number sv-hist-share" });
  const node = h("div", { class: `sv-hist-row ${more}` },
    h("span", { class: "sv-bar-token" }, name),
    h("span", { class: "sv-hist-field" }, sampled,
      h("span", { class: "sv-hist-p", style: `width:${(100 * p) / top}%` }),
      h("span", { class: "sv-hist-law", style: `left:${(100 * law) / top}%` })),
    h("span", { class: "sv-hist-number" }, p.toFixed(4)), number);
  return {
    node,
    draw(share, numbers) {
      sampled.style.transform = `scaleX(${(share / top).toFixed(5)})`;
      if (numbers) setText(number, share.toFixed(4));
    },
  };
}
