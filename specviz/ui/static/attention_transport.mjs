// Play, step, scrub, speed, and the clock both schedules run on.

import { reading } from "./core_attention_text.mjs";
import { h, setAttribute, setText } from "./dom.mjs";
import { ICONS, iconButton } from "./transport.mjs";

const SPEEDS = [0.25, 0.5, 1, 2, 4];
const SCRUB_STEPS = 1000;
const CLOCKS = ["bytes", "seconds"];

export function makeTransport({ labels, actions }) {
  const ui = { labels, keyOf: (name) => `attention.do.${name}` };
  const play = iconButton(ui, "play", actions.toggle);
  const buttons = [iconButton(ui, "first", actions.first), iconButton(ui, "back", () => actions.step(-1)), play, iconButton(ui, "on", () => actions.step(1)), iconButton(ui, "last", actions.last)];
  const scrub = labels.attribute(h("input", { type: "range", class: "sv-scrub", min: 0, max: SCRUB_STEPS, step: 1, value: 0 }), "aria-label", "attention.do.scrub");
  scrub.addEventListener("input", () => actions.scrub(scrub.value / SCRUB_STEPS));
  const speed = labels.attribute(h("select", { class: "sv-select" }, ...SPEEDS.map((one) => h("option", { value: one, selected: one === 1 }, `${one}×`))), "aria-label", "attention.do.speed");
  speed.addEventListener("change", () => actions.speed(Number(speed.value)));
  const clock = labels.attribute(h("select", { class: "sv-select sv-att-clock" }, ...CLOCKS.map((one) => labels.text(h("option", { value: one }), `attention.clock.${one}`))), "aria-label", "attention.do.clock");
  clock.addEventListener("change", () => actions.clock(clock.value));
  const [where, when] = [h("span", { class: "sv-where" }), h("span", { class: "sv-when" })];
  const node = labels.attribute(h("div", { class: "sv-transport", role: "group" }, h("div", { class: "sv-buttons" }, ...buttons.map((one) => one.node)), scrub,
    h("div", { class: "sv-places" }, where, when), h("div", { class: "sv-options" }, clock, speed)), "aria-label", "attention.do.group");
  return {
    node,
    draw({ at, end, playing, clock: name, done, of, numbers }) {
      const empty = !(end > 0);
      const verb = labels.t(playing ? "attention.do.pause" : at >= end ? "attention.do.replay" : "attention.do.play");
      setAttribute(play.path, "d", playing ? ICONS.pause : ICONS.play);
      setAttribute(play.node, "aria-label", verb);
      setAttribute(play.node, "title", verb);
      for (const one of [...buttons.map((button) => button.node), scrub]) one.disabled = empty;
      if (document.activeElement !== scrub || playing) scrub.value = empty ? 0 : (SCRUB_STEPS * at) / end;
      scrub.style.setProperty("--done", empty ? 0 : at / end);
      clock.value = name;
      if (!numbers) return;
      setText(where, empty ? "–" : labels.t("attention.where", { done, of }));
      setText(when, empty ? "" : `${reading(name, at)} / ${reading(name, end)}`);
      setAttribute(scrub, "aria-valuetext", `${where.textContent}, ${when.textContent}`);
    },
  };
}
