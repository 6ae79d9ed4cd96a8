// Play, pause, step, scrub, speed, follow: they act on the record and never on the generation.

import { duration, steppedLane } from "./core_time.mjs";
import { seconds } from "./core_text.mjs";
import { h, setAttribute, setClass, setText, svg } from "./dom.mjs";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
export const START_SPEED = 0.25;
const SCRUB_STEPS = 1000;

export const ICONS = {
  first: "M6 5v14h2V5zM20 5v14l-10-7z",
  back: "M17 5v14L7 12z",
  play: "M8 5v14l11-7z",
  pause: "M7 5h4v14H7zM13 5h4v14h-4z",
  on: "M7 5v14l10-7z",
  last: "M16 5v14h2V5zM4 5v14l10-7z",
};

/** A button with its picture, as {node, path}; `keyOf` gives the key of its name. */
export function iconButton({ labels, keyOf = (name) => `race.do.${name}` }, name, action) {
  const path = svg("path", { d: ICONS[name] });
  const node = h("button", { type: "button", class: `sv-button sv-${name}` }, svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, path));
  if (name !== "play") labels.attribute(labels.attribute(node, "aria-label", keyOf(name)), "title", keyOf(name));
  node.addEventListener("click", action);
  return { node, path };
}

export function makeTransport(ui) {
  const { labels, actions } = ui;
  const play = iconButton(ui, "play", actions.toggle);
  const buttons = [iconButton(ui, "first", actions.first), iconButton(ui, "back", () => actions.step(-1)), play,
    iconButton(ui, "on", () => actions.step(1)), iconButton(ui, "last", actions.last)];
  const scrub = labels.attribute(
    h("input", { type: "range", class: "sv-scrub", min: 0, max: SCRUB_STEPS, step: 1, value: 0 }), "aria-label", "race.do.scrub");
  scrub.addEventListener("input", () => actions.scrub((scrub.value / SCRUB_STEPS) * duration(ui.model)));
  scrub.addEventListener("change", actions.scrubbed);
  const speed = labels.attribute(h("select", { class: "sv-select" },
    ...SPEEDS.map((one) => h("option", { value: one, selected: one === START_SPEED }, `${one}×`))), "aria-label", "race.do.speed");
  speed.addEventListener("change", () => actions.speed(Number(speed.value)));
  const live = h("button", { type: "button", class: "sv-button sv-live" }, h("span", { class: "sv-dot", "aria-hidden": "true" }),
    labels.text(h("span"), "race.do.live"));
  labels.attribute(live, "title", "race.do.live_hint");
  live.addEventListener("click", actions.follow);
  const spaces = h("button", { type: "button", class: "sv-button sv-spaces" }, "·⏎");
  labels.attribute(labels.attribute(spaces, "aria-label", "race.do.spaces"), "title", "race.do.spaces");
  spaces.addEventListener("click", actions.spaces);
  const where = h("span", { class: "sv-where" });
  const when = h("span", { class: "sv-when" });
  const node = labels.attribute(h("div", { class: "sv-transport", role: "group" },
    h("div", { class: "sv-buttons" }, ...buttons.map((one) => one.node)), scrub,
    h("div", { class: "sv-places" }, where, when),
    h("div", { class: "sv-options" }, live, speed, spaces)), "aria-label", "race.do.group");

  return {
    node,
    draw(frame) {
      const end = duration(ui.model);
      const lane = steppedLane(ui.model);
      const at = lane === ui.model.lanes.speculative ? frame.speculative : frame.standard;
      const empty = !(end > 0);
      const unit = lane === ui.model.lanes.speculative ? "round" : "step";
      const number = Math.min(at.judged + (at.active ? 1 : 0), lane.known);
      setAttribute(play.path, "d", frame.playing ? ICONS.pause : ICONS.play);
      const verb = labels.t(frame.playing ? "race.do.pause" : frame.t >= end ? "race.do.replay" : "race.do.play");
      setAttribute(play.node, "aria-label", verb);
      setAttribute(play.node, "title", verb);
      for (const one of [...buttons.map((button) => button.node), scrub]) one.disabled = empty;
      if (document.activeElement !== scrub || !frame.scrubbing) scrub.value = empty ? 0 : (SCRUB_STEPS * frame.t) / end;
      scrub.style.setProperty("--done", empty ? 0 : frame.t / end);
      setText(where, labels.t(`race.where.${unit}`, { n: number, of: lane.known }));
      setText(when, `${seconds(frame.t)} / ${seconds(end)}`);
      setAttribute(scrub, "aria-valuetext", `${where.textContent}, ${when.textContent}`);
      setClass(live, "sv-hidden-keep", !frame.running);
      setAttribute(live, "aria-pressed", frame.live);
      setAttribute(spaces, "aria-pressed", frame.spaces);
    },
  };
}
