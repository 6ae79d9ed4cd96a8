// What is shown: phase, round, layer, head, schedules, tile size, hardware, and the clock they play on.

import { nameOf } from "./core_attention_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const PHASES = ["verification", "prefill"];
const TILES = [null, [8, 8], [16, 16], [32, 32], [64, 64], [128, 128]];
const SHORT = 512; // keys below which published tiles make a picture of one or two
const tileName = (tile) => (tile ? tile.join("x") : "published");

/** The tile size to begin with: the published one, unless the context is too short for it to show anything. */
export const usualTile = (keys) => (keys < SHORT ? [16, 16] : null);

/** `choice`: what is wished for; `change(part)` takes changes to it, `toRound(round)` chooses a round for the whole page. */
export function makeControls({ labels, props, choice, change, toRound }) {
  const field = (key, control, more = "") => h("label", { class: `sv-field ${more}` }, labels.text(h("span", { class: "sv-field-name" }), key), control);
  const select = (options, onChange) => {
    const node = h("select", { class: "sv-select" }, ...options);
    node.addEventListener("change", () => onChange(node.value));
    return node;
  };
  const numbers = (count) => Array.from({ length: count }, (_, i) => h("option", { value: i }, String(i + 1)));
  const scheduleOption = ({ name }) => labels.text(h("option", { value: name }), `attention.schedule.${name}`);

  const phases = labels.attribute(h("div", { class: "sv-choices", role: "group" }, ...PHASES.map((phase) => {
    const node = labels.text(h("button", { type: "button", class: "sv-button sv-choice", "data-phase": phase }), `attention.phase.${phase}`);
    node.addEventListener("click", () => change({ phase }));
    return node;
  })), "aria-label", "attention.control.phase");
  const range = labels.attribute(h("input", { type: "range", class: "sv-scrub", min: 1, step: 1, value: 1 }), "aria-label", "attention.control.round");
  range.addEventListener("input", () => toRound(range.value - 1));
  const step = (by, key, mark) => {
    const node = labels.attribute(h("button", { type: "button", class: "sv-button" }, mark), "aria-label", key);
    node.addEventListener("click", () => toRound(choice.round + by));
    return node;
  };
  const [back, on] = [step(-1, "attention.control.round_back", "◀"), step(1, "attention.control.round_on", "▶")];
  const number = h("span", { class: "sv-where" });
  const rounds = h("div", { class: "sv-att-rounds" }, back, range, on, number);

  const first = select(props.schedules.map(scheduleOption), (name) => change({ schedules: [name, ...choice.schedules.slice(1).filter((other) => other !== name)] }));
  const second = select([labels.text(h("option", { value: "" }), "attention.control.none"), ...props.schedules.map(scheduleOption)],
    (name) => change({ schedules: name && name !== choice.schedules[0] ? [choice.schedules[0], name] : [choice.schedules[0]] }));
  const layer = select([], (value) => change({ layer: Number(value) }));
  const head = select([], (value) => change({ head: Number(value) }));
  const tile = select(TILES.map((one) => (one ? h("option", { value: tileName(one) }, one.join(" × ")) : labels.text(h("option", { value: "published" }), "attention.control.published"))),
    (value) => change({ tile: TILES.find((one) => tileName(one) === value), tileChosen: true }));
  const hardware = select(props.hardware.map(({ name, title }) => h("option", { value: name }, title)), (name) => change({ hardware: name }));

  const node = h("div", { class: "sv-att-controls" }, h("div", { class: "sv-deck" }, phases, rounds),
    h("div", { class: "sv-fields" }, field("attention.control.schedule", first), field("attention.control.second", second), field("attention.control.tile", tile, "sv-field-short"),
      field("attention.control.layer", layer, "sv-field-tiny"), field("attention.control.head", head, "sv-field-tiny"), field("attention.control.hardware", hardware, "sv-field-short")));

  function count(list, wanted) {
    if (list.length !== wanted) list.replaceChildren(...numbers(wanted));
  }

  return {
    node,
    /** `known`: rounds there are; `size`: {layers, heads}; `text`: what the round did, in words. */
    draw({ known, size }) {
      for (const button of phases.children) setAttribute(button, "aria-pressed", button.dataset.phase === choice.phase);
      setClass(rounds, "sv-hidden-keep", choice.phase === "prefill" || !known);
      setAttribute(range, "max", Math.max(1, known));
      range.value = choice.round + 1;
      range.style.setProperty("--done", known > 1 ? choice.round / (known - 1) : 1);
      setText(number, labels.t("attention.control.round_of", { n: choice.round + 1, of: known }));
      setAttribute(range, "aria-valuetext", number.textContent);
      [back.disabled, on.disabled] = [choice.round <= 0, choice.round >= known - 1];
      count(layer, size.layers);
      count(head, size.heads);
      first.value = choice.schedules[0];
      second.value = choice.schedules[1] ?? "";
      for (const option of second.options) option.disabled = option.value === choice.schedules[0];
      layer.value = choice.layer;
      head.value = choice.head;
      tile.value = tileName(choice.tile);
      hardware.value = choice.hardware;
      setAttribute(first, "title", nameOf(choice.schedules[0], labels.t));
    },
  };
}
