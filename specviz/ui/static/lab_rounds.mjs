// Whole rounds drawn many times: how the tokens at each depth of a round are distributed, given what stood before them.

import { chiSquare, distance, grouped, pValue } from "./core_lab.mjs";
import { h } from "./dom.mjs";

const COLUMNS = ["depth", "n", "tv", "chi2", "freedom", "p_value"];

/** The server's answer as a table with a sentence, under a heading. */
export function roundsTable(labels, answer, heading) {
  const cell = {
    depth: (row) => String(row.depth), n: (row) => grouped(row.n), tv: (row) => distance(row.tv), chi2: (row) => chiSquare(row.chi2),
    freedom: (row) => grouped(row.freedom), p_value: (row) => pValue(row.p_value),
  };
  const args = {
    count: grouped(answer.n), positions: grouped(answer.positions), tokens: answer.tokens_per_round.toFixed(3),
    followed: `${(100 * answer.followed).toFixed(1)}\u2009%`,
  };
  const head = (row) => h("th", { scope: "row" }, cell.depth(row));
  const cells = (row) => COLUMNS.slice(1).map((name) => h("td", {}, cell[name](row)));
  return h("div", { class: "sv-rounds" }, heading,
    h("p", {}, labels.t("lab.rounds.said", args)),
    h("div", { class: "sv-scroll", tabindex: "0", role: "region", "aria-label": labels.t("lab.rounds.caption") },
      h("table", { class: "sv-table", "aria-label": labels.t("lab.rounds.caption") },
        h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, labels.t(`lab.rounds.${name}`))))),
        h("tbody", {}, ...answer.depths.map((row) => h("tr", {}, head(row), ...cells(row)))))));
}
