// p and q of one position as mirrored bars over the tokens that either of them favours.

import { axisMarks, barRows, onAxis, small, ROWS } from "./core_microscope.mjs";
import { label, NONE } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

/** q grows to the left, p to the right; what both share, min(p, q), is drawn solid. */
export function makeBars(ui) {
  const { labels } = ui;
  let logarithmic = false;
  let scene = null;
  let marked = null; // the scale that the axes show
  const scale = labels.text(h("button", { type: "button", class: "sv-button sv-scale", "aria-pressed": "false" }), "microscope.logarithmic");
  scale.addEventListener("click", () => {
    logarithmic = !logarithmic;
    setAttribute(scale, "aria-pressed", logarithmic);
    draw(scene);
  });
  const head = (name, key) => labels.text(h("th", { scope: "col", class: name }), key);
  const rows = Array.from({ length: ROWS }, makeRow);
  const rest = makeRow();
  const axes = { q: h("td"), p: h("td") };
  const out = head("sv-out", "microscope.out");
  const table = h("table", { class: "sv-pairs" },
    labels.text(h("caption", { class: "sv-said" }), "microscope.caption"),
    h("thead", {}, h("tr", {}, h("td"), head("sv-q", "microscope.q"), head(null, "microscope.token"), head("sv-p", "microscope.p"), h("td"), out)),
    h("tbody", {}, ...rows.map((row) => row.node), rest.node),
    h("tfoot", { "aria-hidden": "true" }, h("tr", {}, h("td"), axes.q, h("td"), axes.p, h("td"), h("td", { class: "sv-out" }))));
  const overlap = h("p", { class: "sv-overlap" });
  const legend = h("p", { class: "sv-muted sv-shared" });
  const node = h("div", { class: "sv-pairs-box" },
    h("div", { class: "sv-pairs-head" }, labels.text(h("span", { class: "sv-panel-name" }), "microscope.bars"), scale), table, legend, overlap);

  function drawAxes() {
    const marks = axisMarks(logarithmic);
    for (const [side, cell] of Object.entries(axes)) {
      cell.replaceChildren(h("div", { class: `sv-axis-marks sv-axis-${side}` }, ...marks.map(({ at, text }) => h("span", { style: `--at:${at}` }, text))));
    }
    marked = logarithmic;
  }

  function draw(next) {
    scene = next;
    const { detail, outcome, reference } = scene;
    const bars = barRows(detail, barRows(reference).rows.map((one) => one.id));
    const known = detail.known !== false;
    if (marked !== logarithmic) drawAxes();
    setClass(table, "sv-no-out", !outcome.lossy);
    rows.forEach((row, i) => row.draw(known ? bars.rows[i] : null, { picked: detail.residual.length ? null : detail.picked, name: bars.rows[i] && label(bars.rows[i].text) }));
    rest.draw(known ? bars.rest : null, { name: bars.rest && labels.t("microscope.rest", { n: bars.rest.n === 1 ? 1 : bars.rest.n.toLocaleString("en") }) });
    setText(legend, labels.t(outcome.lossy ? "microscope.legend_lossy" : "microscope.legend"));
    setText(overlap, known ? overlapText(scene) : labels.t("microscope.unknown_here"));
  }

  function makeRow() {
    const cell = (side) => {
      const bar = h("span", { class: "sv-bar" });
      const mark = side === "p" ? h("span", { class: "sv-out-mark" }, "◆") : "";
      return { bar, mark, number: h("td", { class: "sv-bar-number" }), node: h("td", { class: `sv-bar-cell sv-bar-${side}`, "aria-hidden": "true" }, h("span", { class: "sv-bar-room" }, bar, mark)) };
    };
    const [q, p] = [cell("q"), cell("p")];
    const text = h("span");
    const said = h("span", { class: "sv-said" });
    const name = h("th", { scope: "row", class: "sv-bar-token" }, text, said);
    const law = h("td", { class: "sv-bar-number sv-out" });
    const node = h("tr", {}, q.number, q.node, name, p.node, p.number, law);
    const set = (side, value, shared) => {
      const size = onAxis(value, logarithmic);
      side.bar.style.cssText = `--size:${size.toFixed(4)};--shared:${size > 0 ? (onAxis(shared, logarithmic) / size).toFixed(4) : 0}`;
      setText(side.number, value === null ? labels.t("microscope.unlisted") : small(value));
    };
    return {
      node, p: p.bar,
      draw(one, { picked = null, name: shown }) {
        const isPicked = picked !== null && one?.id === picked;
        setClass(node, "sv-hidden-keep", !one);
        setClass(node, "sv-is-drafted", Boolean(one?.drafted));
        setClass(node, "sv-is-picked", isPicked);
        node.token = one?.id;
        if (!one) return;
        setText(text, shown);
        setText(said, [one.drafted && labels.t("microscope.drafted"), isPicked && labels.t("microscope.picked")].filter(Boolean).map((word) => ` (${word})`).join(""));
        const shared = Math.min(one.p ?? 0, one.q ?? 0);
        set(q, one.q, shared);
        set(p, one.p, shared);
        p.mark.style.setProperty("--out", onAxis(one.out, logarithmic).toFixed(4));
        setText(law, one.out === null || one.out === undefined ? NONE : small(one.out));
      },
    };
  }

  function overlapText({ detail, outcome }) {
    if (outcome.greedy) return labels.t("microscope.overlap.greedy");
    if (detail.overlap === null) return labels.t("microscope.overlap.none");
    const args = { overlap: small(detail.overlap), acceptance: small(detail.acceptance), tv: small(detail.output_tv) };
    if (outcome.lossy) return labels.t(detail.full ? "microscope.overlap.lossy" : "microscope.overlap.recorded", args);
    return labels.t("microscope.overlap.lossless", args);
  }

  return {
    node, draw,
    /** Where on the page the part of a token's p that q does not cover is drawn, or null. */
    leftover(id) {
      const row = rows.find((one) => one.node.token === id);
      if (!row) return null;
      const box = row.p.getBoundingClientRect();
      const shared = Number(row.p.style.getPropertyValue("--shared"));
      return new DOMRect(box.x + shared * box.width, box.y, (1 - shared) * box.width, box.height);
    },
  };
}
