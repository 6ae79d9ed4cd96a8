// One schedule at work: its tiles on the score matrix, the rows as they settle, on-chip memory, and what was moved.

import { activeAt, doneAt, followed, massLevel, occupancy, CLOCKS, LEAST_MASS } from "./core_attention.mjs";
import { bytes, nameOf, pictureSentence, reachOf, rowLabel, share, statistic, stepSentence, time as timeOf } from "./core_attention_text.mjs";
import { makeMatrix, themeColours } from "./attention_canvas.mjs";
import { makeGantt } from "./attention_gantt.mjs";
import { makeChip, makeCounters } from "./attention_memory.mjs";
import { makeRowsTable, makeVisits, rowsOf } from "./attention_rows.mjs";
import { grouped } from "./core_lab.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

export const ROW_HEIGHT = 36; // of a query in a verification's strip, as in the style sheet
const WIDEST_SQUARE = 560;

/** `ui`: labels, root, server, `refresh()`, and `lost()` for when the server no longer has the picture. */
export function makePanel(ui) {
  const { labels, root, server, refresh, lost } = ui;
  const visits = makeVisits({ server, changed: refresh, lost });
  const name = h("h3");
  const about = h("p", { class: "sv-muted sv-small" });
  const rowNames = h("ol", { class: "sv-att-names" });
  const table = makeRowsTable(ui);
  const matrix = makeMatrix({ onPick: pick });
  const frame = h("div", { class: "sv-att-frame" }, matrix.canvas);
  const axis = h("p", { class: "sv-att-axis sv-muted sv-small", "aria-hidden": "true" }, h("span", {}, "1"), labels.text(h("span"), "attention.axis.keys"), h("span"));
  const filled = h("span", { class: "sv-att-level" });
  const meter = h("div", { class: "sv-att-meter" }, h("div", { class: "sv-att-track", "aria-hidden": "true" }, filled), h("p", { class: "sv-small" }));
  const sentence = h("p", { class: "sv-att-sentence" });
  const facts = h("dl", { class: "sv-att-figures" });
  const release = labels.text(h("button", { type: "button", class: "sv-button sv-choice" }), "attention.tile.release");
  release.addEventListener("click", () => choose(null));
  const [chip, counters, gantt] = [makeChip(ui), makeCounters(ui), makeGantt(ui)];
  const tileHead = labels.text(h("h4", {}), "attention.tile.title");
  const scroller = labels.attribute(h("div", { class: "sv-att-scroll", tabindex: "0", role: "region" }), "aria-label", "attention.rows.scroller");
  const strip = h("div", { class: "sv-att-strip" }, rowNames, h("div", { class: "sv-att-middle" }, frame, axis), h("div", { class: "sv-att-beside" }));
  const tile = h("section", { class: "sv-att-side sv-att-tile" }, h("div", { class: "sv-att-tile-head" }, tileHead, release), sentence, facts);
  const sides = h("div", { class: "sv-att-sides" }, tile, chip.node, counters.node);
  const node = h("article", { class: "sv-att-panel" }, h("header", {}, name, about), h("div", { class: "sv-att-body" }, h("div", { class: "sv-att-main" }, strip, meter), sides), gantt.node);
  matrix.canvas.addEventListener("keydown", onKey);
  let scene = null; // {answer, track}
  let picked = null; // a cell
  let sized = null;
  let latest = null;
  let drawn = null; // {time, picked} of the picture
  let settled = []; // of each query of a verification {step, values}, the last that was told

  function onKey(event) {
    if (event.key === "Enter" && latest && latest.step !== null) choose(picked ? null : matrix.cellOf(latest.step));
    else if (event.key === "Escape" && picked) choose(null);
    else return;
    event.preventDefault();
  }

  function pick(cell) {
    const same = picked && cell.row === picked.row && cell.column === picked.column;
    choose(same ? null : cell);
  }

  function choose(cell) {
    picked = cell;
    refresh();
  }

  function show(answer, track) {
    scene = { answer, track };
    [picked, sized, drawn, settled] = [null, null, null, []];
    visits.forget();
    const { schedule } = track;
    const { tile: size, workers, slots, group } = schedule;
    const strips = answer.phase === "verification";
    setAttribute(node, "data-phase", answer.phase);
    setText(name, nameOf(schedule.name, labels.t));
    const parts = [labels.t("attention.about.tile", { rows: size.rows, keys: size.keys }), labels.t("attention.about.workers", { n: workers, slots })];
    if (size.splits > 1) parts.push(labels.t("attention.about.splits", { n: size.splits }));
    if (group > 1) parts.push(labels.t("attention.about.group", { n: group }));
    setText(about, parts.join(" · "));
    rowNames.replaceChildren(...answer.rows.map(makeRowName));
    (strips ? strip.lastChild : tile).append(strips ? table.node : scroller);
    if (!strips) scroller.append(table.node);
    else scroller.remove();
    const used = occupancy(schedule, answer.queries);
    filled.style.transform = `scaleX(${used.share.toFixed(4)})`;
    setText(meter.lastChild, labels.t(group > 1 ? "attention.meter.packed" : "attention.meter.rows", { used: grouped(used.used), of: grouped(used.of), share: (100 * used.share).toFixed(0), tiles: used.tiles, n: used.tiles, queries: grouped(answer.queries), group }));
    setText(axis.lastChild, grouped(answer.keys));
    gantt.show(schedule);
  }

  function makeRowName(row) {
    const { token, verdict, sign, word } = rowLabel(row, labels.t);
    return h("li", { class: `sv-att-name sv-${verdict ?? "standard"}` }, h("span", { class: "sv-att-token" }, token), h("span", { class: "sv-att-word" }, `${sign} ${word}`));
  }

  /** The canvas is as wide as there is room; its bitmap is made again only when that changes. */
  function fit(force) {
    const { answer: { queries, keys, phase }, track } = scene;
    const room = Math.floor(frame.clientWidth);
    if (!room || (room === sized && !force)) return Boolean(sized);
    [sized, drawn] = [room, null];
    const width = phase === "prefill" ? Math.min(room, WIDEST_SQUARE) : room;
    const height = phase === "prefill" ? Math.round((width * queries) / keys) : queries * ROW_HEIGHT;
    matrix.show({ track, queries, keys, width, height, colours: themeColours(root) });
    return true;
  }

  /** At a clock's reading; `numbers`: figures may change. */
  function draw({ clock, at, numbers, force }) {
    if (!scene || !fit(force)) return;
    const { answer, track } = scene;
    const time = CLOCKS[clock].time(track, at);
    const active = activeAt(track, time);
    latest = { time, active, step: followed(track, active), done: doneAt(track, time) };
    if (force || time !== drawn?.time || picked !== drawn.picked) matrix.draw({ time, active, picked });
    drawn = { time, picked };
    chip.draw({ track, step: latest.step, active });
    counters.draw({ track, time, done: latest.done, numbers }, answer);
    if (!numbers) return;
    const told = picked ? visitOf(picked, time) : latest.step ?? lastOver(time);
    tell(told);
    const { key, args } = pictureSentence(track, answer, latest, labels.t);
    setAttribute(matrix.canvas, "aria-label", `${labels.t(key, args)} ${told === null ? "" : sentence.textContent}`);
  }

  /** Of the visits to a cell the one that is told: the last that has begun, else the first. */
  function visitOf(cell, time) {
    const { track: { film, schedule: { steps } } } = scene;
    const list = matrix.visits(cell);
    return list.findLast((i) => steps.kind[i] !== "skipped" && film.starts[i] < time) ?? list[0] ?? null;
  }

  function lastOver(time) {
    const { track: { film, schedule: { steps } } } = scene;
    let last = null;
    for (let i = 0; i < film.ends.length; i++) if (film.ends[i] <= time + film.slack && time > 0 && steps.kind[i] !== "skipped" && (last === null || film.ends[i] >= film.ends[last])) last = i;
    return last;
  }

  function tell(step) {
    const { answer, track: { schedule } } = scene;
    const { steps } = schedule;
    setText(tileHead, labels.t(picked ? "attention.tile.picked" : "attention.tile.title"));
    setClass(release, "sv-hidden", !picked);
    const said = step === null ? null : stepSentence(schedule, step, labels.t);
    setText(sentence, said ? labels.t(said.key, said.args) : labels.t("attention.tile.none"));
    setAttribute(sentence, "data-kind", step === null ? "none" : steps.kind[step] ?? steps.phase[step]);
    const found = step === null || steps.kind[step] === "skipped" ? null : visits.rows(schedule.key, step);
    table.draw(settledRows(step, found), said ? sentence.textContent : "");
    const figures = step === null ? FACTS.map((one) => [one, "–"]) : [
      ["mass", share(steps.mass[step])], ["largest", steps.largest[step] === null ? "–" : statistic(steps.largest[step])], ["read", bytes(steps.hbm_read[step])],
      ["written", bytes(steps.hbm_written[step])], ["flops", steps.flops[step] ? grouped(steps.flops[step]) : "0"], ["seconds", timeOf(steps.seconds[step])],
    ];
    if (facts.childElementCount !== figures.length) facts.replaceChildren(...figures.map(([one]) => h("div", {}, h("dt", {}, labels.t(`attention.fact.${one}`)), h("dd"))));
    figures.forEach(([one, text], i) => {
      setText(facts.children[i].firstChild, labels.t(`attention.fact.${one}`));
      setText(facts.children[i].lastChild, text);
    });
  }

  /** Rows keep what the film's last step left them with, until it is wound back before that. */
  function settledRows(step, found) {
    const { answer, track } = scene;
    const over = (visit) => visit && track.film.ends[visit.step] <= latest.time + track.film.slack;
    const rows = rowsOf(track, answer, step, found, (query) => (over(settled[query]) ? settled[query].values : null));
    if (answer.rows.length) rows.forEach(({ here, values }, query) => here && !picked && (settled[query] = { step, values }));
    return rows;
  }

  return { node, show, draw, said: () => sentence.textContent };
}

const FACTS = ["mass", "largest", "read", "written", "flops", "seconds"];

/** The colour scale in words and marks. */
export function makeScale({ labels }) {
  const marks = [LEAST_MASS, 1e-3, 1e-2, 1e-1, 1].map((mass) => h("span", { style: `left:${100 * massLevel(mass)}%` }, mass >= 0.01 ? `${100 * mass}%` : `${Number((100 * mass).toPrecision(1))}%`));
  const kind = (name) => h("li", { class: "sv-att-key" }, h("span", { class: `sv-att-sample sv-att-sample-${name}`, "aria-hidden": "true" }), labels.text(h("span"), `attention.legend.${name}`));
  return h("div", { class: "sv-att-legend" },
    h("div", { class: "sv-att-ramp" }, labels.text(h("span", { class: "sv-small" }), "attention.legend.mass"), h("div", { class: "sv-att-gradient", "aria-hidden": "true" }), h("div", { class: "sv-att-marks", "aria-hidden": "true" }, ...marks)),
    h("ul", { class: "sv-small" }, ...["running", "visited", "masked", "skipped", "unknown", "picked"].map(kind)));
}
