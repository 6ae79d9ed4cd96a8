// m, ℓ and the rescale factor of each row of one step: asked of the server, told in a table.

import { rowOf } from "./core_attention.mjs";
import { statistic } from "./core_attention_text.mjs";
import { grouped } from "./core_lab.mjs";
import { newestOnly } from "./core_whatif.mjs";
import { NONE } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const COLUMNS = ["largest", "m", "l", "rescale"];

/** What steps did to their rows; `changed` hears of news, `lost` that the server no longer has the picture. */
export function makeVisits({ server, changed, lost }) {
  const known = new Map(); // "key step" → rows
  const ask = newestOnly((asked) => server.attention_step(asked), (asked, answer) => {
    if (answer?.rows) known.set(`${asked.key} ${asked.step}`, answer.rows);
    else if (answer?.expired) lost();
    changed();
  });
  let asked = null;
  return {
    /** The rows of a step, or null; then they are on their way. */
    rows(key, step) {
      const name = `${key} ${step}`;
      const rows = known.get(name) ?? null;
      if (!rows && asked !== name) ask({ key, step });
      asked = rows ? null : name;
      return rows;
    },
    forget() {
      known.clear();
      asked = null;
    },
  };
}

/** The table of one step's rows: in a verification beside the strip, a line for each query, otherwise in a box of its own. */
export function makeRowsTable({ labels }) {
  const body = h("tbody");
  const name = h("caption", { class: "sv-said" });
  const head = h("tr", {}, labels.text(h("th", { scope: "col", class: "sv-att-row-name" }), "attention.rows.row"),
    ...COLUMNS.map((one) => labels.attribute(labels.text(h("th", { scope: "col", class: `sv-att-${one}` }), `attention.rows.${one}`), "title", `attention.rows.${one}_note`)));
  const node = h("table", { class: "sv-att-rows" }, name, h("thead", {}, head), body);
  let lines = [];

  function build(names) {
    lines = names.map((said) => {
      const cells = COLUMNS.map((one) => h("td", { class: `sv-att-${one}` }));
      return { node: h("tr", {}, h("th", { scope: "row", class: "sv-att-row-name" }, said), ...cells), cells };
    });
    lines.names = names;
    body.replaceChildren(...lines.map((line) => line.node));
  }

  /** `rows`: [{name, values: a visit's numbers or null, here: whether the told step is that visit}]. */
  function draw(rows, about) {
    const names = rows.map((row) => row.name);
    if (names.length !== lines.length || names.some((one, i) => one !== lines.names[i])) build(names);
    setText(name, about);
    rows.forEach(({ values, here }, i) => {
      const { cells, node: line } = lines[i];
      if (!values) cells.forEach((cell) => setText(cell, NONE));
      else {
        [values.largest, values.m_after, values.l_after, values.rescale].forEach((value, place) => setText(cells[place], statistic(value)));
        setAttribute(cells[1], "title", `${statistic(values.m_before)} → ${statistic(values.m_after)}`);
        setAttribute(cells[2], "title", `${statistic(values.l_before)} → ${statistic(values.l_after)}`);
      }
      setClass(cells[1], "sv-att-rose", here && values.m_after !== null && (values.m_before === null || values.m_after > values.m_before));
      setClass(line, "sv-att-absent", !here);
    });
  }
  return { node, draw };
}

/**
 * The lines of that table: of a verification every query; of a prefill the queries of the step. Of packed heads the
 * shown one's. `before(query)` are the numbers a row has from an earlier step.
 */
export function rowsOf({ schedule: { steps, group } }, { head, rows }, step, found, before = () => null) {
  const [from, to] = step === null ? [0, 0] : [steps.r0[step], steps.r1[step]];
  const line = (name, query) => {
    const row = rowOf(query, head, group);
    const here = Boolean(found) && row >= from && row < to;
    return { name, here, values: here ? found[row - from] : before(query) };
  };
  if (rows.length) return rows.map((row, query) => line(row.text, query));
  const [first, last] = [Math.floor(from / group), Math.ceil(to / group)];
  return Array.from({ length: last - first }, (_, i) => line(grouped(first + i + 1), first + i));
}
