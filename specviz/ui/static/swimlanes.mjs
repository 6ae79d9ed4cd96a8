// Rounds and steps in true time on a canvas: draft ▒, verification ▓, sampling ░, and the tokens each one committed.

import { KINDS } from "./core.mjs";
import { lapse } from "./core_text.mjs";
import { countUpTo } from "./core_time.mjs";
import { h, setText } from "./dom.mjs";

const TRACK = 28;
const STACK = 44;
const GAP = 12;
const ROOM = { speculative: STACK + TRACK, standard: 10 + TRACK };
const HEIGHT = ROOM.speculative + GAP + ROOM.standard + 4;

export function makeSwimlanes(ui) {
  const { labels } = ui;
  const canvas = h("canvas", { class: "sv-swim", style: `height:${HEIGHT}px`, "aria-hidden": "true" });
  const node = h("div", { class: "sv-swim-box" }, canvas);
  const prefills = {};
  const names = KINDS.map((kind) => {
    prefills[kind] = h("span", { class: "sv-prefill" });
    return h("div", { class: "sv-swim-name", style: `height:${ROOM[kind]}px` }, labels.text(h("span", {}), `race.lane.${kind}`), prefills[kind]);
  });
  const legend = h("span", { class: "sv-swim-legend" }, ...["draft", "verify", "sample", "step"].map((one) =>
    labels.text(h("span", { class: `sv-key-block sv-key-${one}` }), `race.swim.${one}`)));

  /** Draws a stretch of time. */
  function redraw({ from, span }) {
    const scale = window.devicePixelRatio || 1;
    const width = node.clientWidth;
    if (!width) return;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(HEIGHT * scale);
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const ink = inks(canvas);
    const patterns = { draft: stripes(pen, ink), sample: dots(pen, ink) };
    const x = (t) => (t / span) * width;
    const seen = (lane) => lane.records.slice(Math.max(0, countUpTo(lane.ends, from) - 1), Math.min(lane.known, countUpTo(lane.ends, from + span)));
    pen.translate(-x(from), 0); // patterns move with what they fill
    drawRounds(pen, seen(ui.model.lanes.speculative), x, ink, patterns, ROOM.speculative - TRACK);
    drawSteps(pen, seen(ui.model.lanes.standard), x, ink, HEIGHT - 4 - TRACK);
    for (const kind of KINDS) {
      const { result } = ui.model.lanes[kind];
      setText(prefills[kind], result ? labels.t("race.swim.prefill", { time: lapse(result.prefill_s) }) : "");
    }
  }
  return { node, names, legend, redraw };
}

const NAMES = ["draft", "draft-tint", "target", "sample", "sample-tint", "standard", "accepted", "residual", "bonus", "surface"];

const INK_OF = { draft: "accepted", target: "standard" };

function inks(node) {
  const style = getComputedStyle(node);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--sv-${name}`).trim()]));
}

function tile(pen, size, paint) {
  const small = document.createElement("canvas");
  small.width = small.height = size;
  paint(small.getContext("2d"));
  return pen.createPattern(small, "repeat");
}

const stripes = (pen, ink) => tile(pen, 6, (small) => {
  small.fillStyle = ink["draft-tint"];
  small.fillRect(0, 0, 6, 6);
  small.strokeStyle = ink.draft;
  small.lineWidth = 1.6;
  for (const shift of [-6, 0, 6]) {
    small.beginPath();
    small.moveTo(shift - 1, 7);
    small.lineTo(shift + 7, -1);
    small.stroke();
  }
});

const dots = (pen, ink) => tile(pen, 4, (small) => {
  small.fillStyle = ink["sample-tint"];
  small.fillRect(0, 0, 4, 4);
  small.fillStyle = ink.sample;
  small.fillRect(1, 1, 2, 2);
});

function drawRounds(pen, rounds, x, ink, patterns, top) {
  const most = Math.max(1, ...rounds.map((round) => round.drafted.length + 1));
  const narrow = rounds.length && x(rounds.at(-1).end - rounds[0].start) / rounds.length < 12; // stripes need room
  const cell = Math.min(9, (STACK - 6) / most);
  for (const round of rounds) {
    const gap = Math.min(1, (x(round.end) - x(round.start)) * 0.08);
    const block = (from, to, fill) => {
      pen.fillStyle = fill;
      pen.fillRect(x(from), top, Math.max(0.5, x(to) - x(from)), TRACK);
    };
    block(round.start, round.draftEnd, narrow ? ink.draft : patterns.draft);
    block(round.draftEnd, round.verifyEnd, ink.target);
    block(round.verifyEnd, round.end, patterns.sample);
    pen.fillStyle = ink.surface;
    const roomy = x(round.draftEnd) - x(round.start) > 4 * round.draftEnds.length;
    if (roomy) for (const moment of round.draftEnds.slice(0, -1)) pen.fillRect(x(moment) - 0.5, top, 1, TRACK);
    pen.fillRect(x(round.end) - gap, top, gap, TRACK);
    const wide = Math.min(12, (x(round.end) - x(round.start)) * 0.8);
    const left = x(round.end) - wide - gap;
    round.emitted.forEach((token, i) => {
      pen.fillStyle = ink[INK_OF[token.source] ?? token.source];
      pen.fillRect(left, top - 4 - (i + 1) * cell, wide, cell - Math.min(1.5, cell * 0.3));
    });
  }
}

function drawSteps(pen, steps, x, ink, top) {
  pen.globalAlpha = 0.75;
  for (const step of steps) {
    const width = x(step.end) - x(step.start);
    const gap = Math.min(1.5, width * 0.2);
    pen.fillStyle = ink.standard;
    pen.fillRect(x(step.start), top, width - gap, TRACK);
    pen.fillRect(x(step.end) - gap - Math.min(8, width * 0.7), top - 8, Math.min(8, width * 0.7), 5);
  }
}
