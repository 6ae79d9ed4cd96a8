// One time axis for the throughput curves and the swimlanes, with one playhead across both.

import { duration, fraction, niceCeil, recordAt, ticks } from "./core_time.mjs";
import { lapse, rate, seconds } from "./core_text.mjs";
import { makeCurves } from "./curves.mjs";
import { h, setText } from "./dom.mjs";
import { makeSwimlanes } from "./swimlanes.mjs";

export function makeTimeline(ui) {
  const { labels, actions } = ui;
  const curves = makeCurves(ui);
  const swimlanes = makeSwimlanes(ui);
  const playhead = h("div", { class: "sv-playhead", "aria-hidden": "true" });
  const pointer = h("div", { class: "sv-pointer sv-hidden", "aria-hidden": "true" });
  const grid = h("div", { class: "sv-plot", tabindex: "0", role: "slider" }, curves.node, swimlanes.node, pointer, playhead);
  labels.attribute(grid, "aria-label", "race.time.label");
  const axis = h("div", { class: "sv-axis", "aria-hidden": "true" });
  const readout = h("p", { class: "sv-readout" });
  const note = labels.text(h("span", { class: "sv-muted" }), "race.time.note");
  const node = h("section", { class: "sv-time sv-card" },
    h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "race.time.title"), curves.legend, swimlanes.legend),
    h("div", { class: "sv-time-body" }, curves.scale, h("div", { class: "sv-time-names" }, ...swimlanes.names), grid, axis),
    h("footer", { class: "sv-time-foot" }, readout, note));
  const drawn = {};
  let hovered = null;

  const timeAt = (event) => {
    const box = grid.getBoundingClientRect();
    return fraction(event.clientX - box.left, box.width) * drawn.end;
  };
  grid.addEventListener("pointermove", (event) => {
    hovered = timeAt(event);
    if (event.buttons & 1) actions.scrub(Math.min(hovered, duration(ui.model)));
    ui.refresh();
  });
  grid.addEventListener("pointerleave", () => {
    hovered = null;
    ui.refresh();
  });
  grid.addEventListener("pointerdown", (event) => {
    grid.setPointerCapture(event.pointerId);
    actions.scrub(Math.min(timeAt(event), duration(ui.model)));
  });
  grid.addEventListener("pointerup", actions.scrubbed);

  function drawAxis(end) {
    const marks = ticks(end, grid.clientWidth < 480 ? 4 : 8);
    const digits = marks.some((value) => value % 1) ? 1 : 0;
    axis.replaceChildren(...marks.map((value) => h("span", { class: `sv-tick${fraction(value, end) > 0.96 ? " sv-tick-last" : ""}`, style: `left:${100 * fraction(value, end)}%` }, `${value < 1 ? value : value.toFixed(digits)} s`)));
  }

  function described(t) {
    const parts = [seconds(t)];
    for (const kind of ["speculative", "standard"]) {
      const lane = ui.model.lanes[kind];
      const index = recordAt(lane, t);
      if (index < 0) continue;
      const record = lane.records[index];
      const speed = rate(lane.tokens[index + 1] / lane.ends[index + 1]);
      const args = {
        place: index + 1, n: record.emitted.length, rate: speed, draft: lapse(record.draftEnd - record.start),
        verify: lapse(record.verifyEnd - record.draftEnd), sample: lapse(record.end - record.verifyEnd),
        step: lapse(record.end - record.start),
      };
      parts.push(labels.t(`race.time.${kind}`, args));
    }
    return parts.join("  ·  ");
  }

  return {
    node,
    draw(frame) {
      const total = duration(ui.model);
      const end = frame.running ? niceCeil(total * 1.05) : total || 1;
      const redraw = frame.force || frame.resized || drawn.version !== ui.model.version || drawn.end !== end;
      if (redraw) {
        Object.assign(drawn, { version: ui.model.version, end });
        drawAxis(end);
        curves.redraw(end);
        swimlanes.redraw(end);
      }
      const share = 100 * fraction(frame.t, end);
      playhead.style.left = `${share.toFixed(3)}%`;
      curves.reveal(frame.live ? 100 : share, frame);
      pointer.classList.toggle("sv-hidden", hovered === null);
      if (hovered !== null) pointer.style.left = `${100 * fraction(hovered, end)}%`;
      if (frame.numbers || hovered !== null) {
        const said = total ? described(Math.min(hovered ?? frame.t, total)) : labels.t("race.time.empty");
        setText(readout, said);
        grid.setAttribute("aria-valuenow", frame.t.toFixed(3));
        grid.setAttribute("aria-valuemax", total.toFixed(3));
        grid.setAttribute("aria-valuetext", said);
      }
    },
  };
}
