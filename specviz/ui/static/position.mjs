// The evidence for one verdict: p and q as mirrored bars, the draw u against min(1, p/q), the residual and the pick.

import { finalToken, mirrored, threshold } from "./core.mjs";
import { apart, fixed, isGreedy, label, probability, ratio, verdictSentence, NONE } from "./core_text.mjs";
import { h } from "./dom.mjs";

export function makePosition(ui) {
  const { labels, actions } = ui;
  const heading = h("h2", { tabindex: "-1" });
  const close = labels.attribute(h("button", { type: "button", class: "sv-button sv-close" }, "✕"), "aria-label", "race.panel.close");
  close.addEventListener("click", () => actions.select(null));
  const move = (by, name, mark) => {
    const button = labels.attribute(h("button", { type: "button", class: "sv-button" }, mark), "aria-label", `race.panel.${name}`);
    button.addEventListener("click", () => actions.movePosition(by));
    return button;
  };
  const body = h("div", { class: "sv-panel-body" });
  const node = h("section", { class: "sv-panel sv-card sv-hidden", role: "region" },
    h("header", { class: "sv-card-head" }, heading, h("span", { class: "sv-panel-moves" }, move(-1, "previous", "←"), move(1, "next", "→"), close)), body);
  node.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") actions.select(null);
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    actions.movePosition(step);
  });
  let drawn = "";

  function draw(frame) {
    const { selected } = frame;
    const round = selected && ui.model.lanes.speculative.records[selected.round];
    node.classList.toggle("sv-hidden", !round);
    const key = round ? `${ui.model.run}:${selected.round}:${selected.place}` : "";
    if (key === drawn && !frame.force) return;
    drawn = key;
    if (!round) return;
    const position = round.drafted[selected.place];
    heading.textContent = labels.t(position ? "race.panel.title" : "race.panel.final_title", { round: round.index + 1, place: selected.place + 1 });
    node.setAttribute("aria-label", heading.textContent);
    body.replaceChildren(...(position ? drafted(round, selected.place) : added(round)));
  }

  function drafted(round, place) {
    const position = round.drafted[place];
    const { key, args } = verdictSentence(round, place);
    const right = [
      h("p", { class: `sv-verdict sv-verdict-${position.verdict}` }, labels.t(key, args)),
    ];
    const greedy = isGreedy(round);
    if (!greedy) right.push(h("p", {}, labels.t("race.panel.overlap", { overlap: probability(position.overlap) })));
    if (!greedy && position.verdict !== "untested") right.unshift(drawLine(position));
    if (!greedy && position.verdict === "rejected" && position.residual.length) {
      right.push(labelled("race.panel.residual", bars(position.residual, finalToken(round)?.id, "residual")));
    }
    return [h("div", {}, pairs(position), h("p", { class: "sv-muted sv-shared" }, labels.t("race.panel.shared"))), h("div", { class: "sv-evidence" }, ...right)];
  }

  function added(round) {
    const final = finalToken(round);
    const rejected = round.drafted.find((one) => one.verdict === "rejected");
    const key = isGreedy(round) ? "race.why.final_greedy" : `race.why.final_${final.source}`;
    const shown = rejected && !isGreedy(round) && rejected.residual.length ? rejected.residual : round.finalTopP;
    const name = shown === round.finalTopP ? "target" : "residual";
    return [
      h("div", {}, labelled(`race.panel.from_${name}`, bars(shown, final.id, name))),
      h("div", { class: "sv-evidence" }, h("p", { class: `sv-verdict sv-verdict-${final.source}` }, labels.t(key, { token: label(final.name) }))),
    ];
  }

  const labelled = (key, ...nodes) => h("div", {}, h("p", { class: "sv-panel-name" }, labels.t(key)), ...nodes);

  /** q grows to the left, p to the right; what both share, min(p, q), is drawn solid. */
  function pairs(position) {
    const rows = mirrored(position);
    const most = Math.max(...rows.map(({ p, q }) => Math.max(p ?? 0, q ?? 0)), 1e-9);
    const bar = (name, value, shared) => h("td", { class: `sv-bar-cell sv-bar-${name}` },
      value === null ? "" : h("span", { class: "sv-bar", style: `--size:${value / most};--shared:${value ? shared / value : 0}` }),
      h("span", { class: "sv-bar-number" }, value === null ? labels.t("race.panel.unlisted") : probability(value)));
    return h("table", { class: "sv-pairs" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "sv-q" }, labels.t("race.panel.q")), h("th", { scope: "col" }, labels.t("race.panel.token")),
        h("th", { scope: "col", class: "sv-p" }, labels.t("race.panel.p")))),
      h("tbody", {}, ...rows.map((row) => {
        const shared = Math.min(row.p ?? 0, row.q ?? 0);
        return h("tr", { class: row.drafted ? "sv-is-drafted" : null }, bar("q", row.q, shared),
          h("th", { scope: "row", class: "sv-bar-token" }, label(row.text)), bar("p", row.p, shared));
      })));
  }

  function bars(list, picked, name) {
    const most = Math.max(...list.map((one) => one.prob), 1e-9);
    return h("ol", { class: `sv-bars sv-bars-${name}` }, ...list.map((one) => h("li", { class: one.id === picked ? "sv-picked" : null },
      h("span", { class: "sv-bar-token" }, label(one.text)),
      h("span", { class: "sv-bar-cell" }, h("span", { class: "sv-bar", style: `--size:${one.prob / most};--shared:1` })),
      h("span", { class: "sv-bar-number" }, probability(one.prob)),
      h("span", { class: "sv-picked-mark" }, one.id === picked ? labels.t("race.panel.picked") : ""))));
  }

  /** The unit line: accepted below min(1, p/q), rejected above it, and where u fell. */
  function drawLine(position) {
    const limit = threshold(position);
    const [u, shown] = apart(position.u, limit);
    const quotient = position.q > 0 ? ratio(position.p / position.q) : NONE;
    return h("div", { class: "sv-draw", role: "img", "aria-label": labels.t("race.panel.draw_said", { u, limit: shown }), style: `--limit:${limit};--u:${position.u}` },
      h("div", { class: "sv-draw-top" }, h("span", { class: `sv-draw-u sv-draw-${position.verdict}` }, `u = ${u}`)),
      h("div", { class: "sv-draw-line" }, h("span", { class: "sv-draw-below" }), h("span", { class: "sv-draw-above" }), h("span", { class: "sv-draw-mark" })),
      h("div", { class: "sv-draw-bottom" }, h("span", { class: "sv-draw-limit" }, `min(1, p/q) = ${shown}`)),
      h("p", { class: "sv-muted sv-formula" }, `p/q = ${fixed(position.p, 4)} / ${fixed(position.q, 4)} = ${quotient}`));
  }
  return { node, draw };
}
