// One time axis for the throughput curves and the swimlanes, with one playhead across both.

import { decimals, duration, fraction, niceCeil, recordAt, steppedLane, stretch, ticks } from "./core_time.mjs";
import { lapse, rate, seconds } from "./core_text.mjs";
import { makeCurves } from "./curves.mjs";
import { h, setAttribute, setText } from "./dom.mjs";
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
  const zoom = labels.text(h("button", { type: "button", class: "sv-button sv-zoom" }), "race.time.zoom");
  zoom.addEventListener("click", actions.zoom);
  const readout = h("p", { class: "sv-readout" });
  const note = labels.text(h("span", { class: "sv-muted" }), "race.time.note");
  const node = h("section", { class: "sv-time sv-card" },
    h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "race.time.title"), curves.legend, swimlanes.legend, zoom),
    h("div", { class: "sv-time-body" }, curves.scale, h("div", { class: "sv-time-names" }, ...swimlanes.names), grid, axis),
    h("footer", { class: "sv-time-foot" }, readout, note));
  const drawn = { from: 0, span: 1 };
  let hovered = null;

  const percent = (t) => 100 * ((t - drawn.from) / drawn.span);
  const timeAt = (event) => {
    const box = grid.getBoundingClientRect();
    return drawn.from + fraction(event.clientX - box.left, box.width) * drawn.span;
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

  function drawAxis({ from, span }) {
    const marks = ticks(span, grid.clientWidth < 480 ? 4 : 8, from);
    const digits = decimals(marks);
    axis.replaceChildren(...marks.map((value) => {
      const edge = percent(value) < 4 ? " sv-tick-first" : percent(value) > 96 ? " sv-tick-last" : "";
      return h("span", { class: `sv-tick${edge}`, style: `left:${percent(value).toFixed(3)}%` }, `${value.toFixed(digits)} s`);
    }));
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
      const seen = frame.scrubbing ? { from: drawn.from, span: drawn.span } : stretch(steppedLane(ui.model), frame.t, end, frame.zoomed);
      const changed = frame.force || frame.resized || drawn.version !== ui.model.version || drawn.end !== end;
      const moved = drawn.from !== seen.from || drawn.span !== seen.span;
      Object.assign(drawn, seen, { version: ui.model.version, end });
      if (changed) curves.redraw(end);
      if (changed || moved) {
        drawAxis(seen);
        curves.look(seen);
        swimlanes.redraw(seen);
      }
      playhead.style.left = `${percent(frame.t).toFixed(3)}%`;
      curves.reveal(frame.live ? end : frame.t, frame, percent);
      setAttribute(zoom, "aria-pressed", frame.zoomed);
      pointer.classList.toggle("sv-hidden", hovered === null);
      if (hovered !== null) pointer.style.left = `${percent(hovered).toFixed(3)}%`;
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
