// One round at a time: the drafted chips, the single sweep of the target across them, the verdicts, the token it adds.

import { finalToken, verdicts } from "./core.mjs";
import { isGreedy } from "./core_rules.mjs";
import { railRounds, steppedLane } from "./core_time.mjs";
import { chipNote, label, lapse, probability, roundSentence } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const MARKS = { accepted: "✓", rejected: "✗", untested: "–", residual: "↻", bonus: "+1", target: "•" };

const ROWS = 2;
const ROOM = 32; // pixels kept free before the final chip
const ROW_PITCH = 108; // height of a row and the gap behind it, as in rail.css

export function makeRail(ui) {
  const title = ui.labels.text(h("h2", {}), "race.rail.title");
  const hint = ui.labels.text(h("span", { class: "sv-muted sv-rail-hint" }), "race.rail.hint");
  const rows = ui.labels.attribute(h("div", { class: "sv-rows" }), "data-empty", "race.rail.none");
  const node = h("section", { class: "sv-rail sv-card" }, h("header", { class: "sv-card-head" }, title, hint), rows);
  const shown = new Map();
  let selecting = false;

  rows.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const chip = event.target.closest(".sv-chip");
    if (!step || !chip) return;
    event.preventDefault();
    event.stopPropagation();
    const chips = [...chip.closest(".sv-row").querySelectorAll(".sv-chip:not([disabled])")];
    const next = chips[chips.indexOf(chip) + step];
    next?.focus();
    if (selecting) next?.click(); // an open panel follows
  });

  function draw(frame) {
    selecting = Boolean(frame.selected);
    const lane = ui.model.lanes.speculative;
    if (frame.force || shown.run !== ui.model.run) {
      rows.replaceChildren();
      shown.clear();
      Object.assign(shown, { run: ui.model.run, newest: Infinity });
    }
    const wanted = steppedLane(ui.model) === lane ? railRounds(lane, frame.speculative, frame.rail, ROWS) : [];
    const newest = wanted.at(-1)?.index ?? -1;
    const rising = frame.choreograph && newest === shown.newest + 1;
    shown.newest = newest;
    setClass(rows, "sv-still", !frame.choreograph);
    if (!frame.choreograph) rows.querySelectorAll("[inert]").forEach((row) => row.remove());
    for (const [index, row] of shown) {
      if (wanted.some((one) => one.index === index)) continue;
      shown.delete(index);
      if (rising) leave(row.node);
      else row.node.remove();
    }
    for (const one of wanted) {
      if (!shown.has(one.index)) add(makeRow(ui, lane.records[one.index]), one.index);
      shown.get(one.index).draw(one, frame);
    }
    if (rising) for (const row of shown.values()) rise(row.node);
  }

  function add(row, index) {
    const after = [...shown.keys()].sort((a, b) => a - b).find((other) => other > index);
    rows.insertBefore(row.node, after === undefined ? null : shown.get(after).node);
    shown.set(index, row);
  }
  return { node, draw };
}

/** Rows make room for a new one below: each starts where it was, one place further down. */
const rise = (row) => row.animate([{ transform: `translateY(${ROW_PITCH}px)` }, { transform: "none" }], { duration: 240, easing: "ease-out" });

/** The oldest row is seen until it has moved out at the top. */
function leave(row) {
  row.inert = true;
  rise(row).finished.then(() => row.remove(), () => row.remove());
}

function makeRow(ui, round) {
  const { labels } = ui;
  const final = finalToken(round);
  const name = h("span", { class: "sv-row-name" }, labels.t("race.round", { n: round.index + 1 }));
  const phase = h("span", { class: "sv-row-phase" });
  const chips = round.drafted.map((position, place) => makeChip(ui, round, position, place));
  const last = final && makeFinal(ui, round, final);
  const sweep = h("div", { class: "sv-sweep", "aria-hidden": "true" });
  const tape = h("div", { class: "sv-tape" }, ...chips.map((chip) => chip.node), sweep);
  const scroller = h("div", { class: "sv-row-scroll" }, tape);
  if (last && chips.length) scroller.append(h("span", { class: "sv-then", "aria-hidden": "true" }, "→"));
  if (last) scroller.append(last);
  const node = h("div", { class: "sv-row", role: "group", "aria-label": sentence(labels, round) },
    h("div", { class: "sv-row-head" }, name, phase), scroller);
  const verdict = verdicts(round);

  function phaseText(at) {
    if (at.phase === "draft") return labels.t("race.phase.draft", { n: at.drafted, of: round.drafted.length });
    if (at.phase === "verify") return labels.t("race.phase.verify", { n: round.drafted.length + 1 });
    if (at.phase === "sample") return labels.t("race.phase.sample");
    return labels.t(round.drafted.length ? "race.phase.judged" : "race.phase.undrafted", {
      accepted: verdict.accepted, of: round.drafted.length, n: round.emitted.length, time: lapse(round.end - round.start),
    });
  }

  /** A draft that is wider than its row is scrolled to the token drafted last, then to the one rejected. */
  function show(place) {
    const chip = chips[Math.max(0, place)]?.node;
    if (!chip || scroller.scrollWidth <= scroller.clientWidth) return;
    const room = scroller.clientWidth - (last?.offsetWidth ?? 0) - ROOM;
    scroller.scrollLeft = chip.offsetLeft + chip.offsetWidth - room;
  }
  const rejected = round.drafted.findIndex((one) => one.verdict === "rejected");
  let inView = null;

  return {
    node,
    draw(at, frame) {
      const judged = at.phase === "judged";
      const place = judged ? rejected : at.drafted - 1;
      if (place !== inView) show((inView = place));
      setText(phase, phaseText(at));
      setAttribute(node, "data-phase", at.phase);
      chips.forEach((chip, place) => chip.draw(place < at.drafted, judged, frame.selected));
      if (last) {
        setAttribute(last, "data-state", judged ? final.source : "pending");
        setAttribute(last, "aria-pressed", isSelected(frame.selected, round.index, chips.length));
        last.disabled = !judged;
      }
      if (at.phase === "verify") sweep.style.transform = `translateX(${(100 * at.progress).toFixed(1)}%)`;
    },
  };
}

const sentence = (labels, round) => {
  const { key, args } = roundSentence(round);
  return labels.t(key, args);
};

const isSelected = (selected, round, place) => selected?.round === round && selected?.place === place;

function makeChip(ui, round, position, place) {
  const { labels } = ui;
  const word = h("span", { class: "sv-chip-word" });
  const note = h("span", { class: "sv-chip-note" });
  const node = h("button", { type: "button", class: "sv-chip", style: `--place:${place}` },
    h("span", { class: "sv-chip-token" }, label(position.name)), word, note);
  node.addEventListener("click", () => ui.actions.select(round.index, place));
  const said = chipNote(position, ui.model.meta?.settings);
  return {
    node,
    draw(drafted, judged, selected) {
      const state = judged ? position.verdict : drafted ? "drafted" : "pending";
      setAttribute(node, "aria-pressed", isSelected(selected, round.index, place));
      if (node.dataset.state === state) return;
      node.dataset.state = state;
      node.disabled = state === "pending";
      setText(word, judged ? `${MARKS[position.verdict]} ${labels.t(`race.verdict.${position.verdict}`)}` : labels.t(`race.chip.${state}`));
      setText(note, judged ? labels.t(said.key, said.args) : drafted ? `q ${probability(position.q)}` : "");
      node.setAttribute("aria-label", labels.t("race.chip.label", { place: place + 1, token: label(position.name), state: word.textContent, note: note.textContent }));
    },
  };
}

function makeFinal(ui, round, final) {
  const { labels } = ui;
  const corrected = final.source !== "bonus" && isGreedy(ui.model.meta?.settings); // nothing is drawn at temperature 0
  const word = `${MARKS[final.source]} ${labels.t(corrected ? "race.source.corrected" : `race.source.${final.source}`)}`;
  const found = round.finalTopP.find((one) => one.id === final.id);
  const node = h("button", { type: "button", class: "sv-chip sv-final" },
    h("span", { class: "sv-chip-token" }, label(final.name)),
    h("span", { class: "sv-chip-word" }, word),
    h("span", { class: "sv-chip-note" }, found ? `p ${probability(found.prob)}` : ""));
  node.setAttribute("aria-label", labels.t("race.chip.final_label", { token: label(final.name), state: word }));
  node.addEventListener("click", () => ui.actions.select(round.index, round.drafted.length));
  return node;
}
