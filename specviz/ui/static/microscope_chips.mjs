// The round as it was judged, or as it would be: a chip for each drafted token, the token added, and what comes out.

import { certainty, noteOf } from "./core_microscope.mjs";
import { label } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const MARKS = { accepted: "✓", rejected: "✗", untested: "–", residual: "↻", bonus: "+1", target: "•", unknown: "?" };

export function makeRoundChips({ labels, actions, evidence, trigger }) {
  const tape = labels.attribute(h("div", { class: "sv-scope-chips", role: "group" }), "aria-label", "microscope.chips");
  const scroller = h("div", { class: "sv-row-scroll" }, tape);
  const emits = h("span", { class: "sv-scope-emits" });
  const recorded = h("span", { class: "sv-scope-emits" });
  const certain = h("p", { class: "sv-certain", "aria-live": "polite" });
  const act = (name, key, action) => {
    const node = labels.text(h("button", { type: "button", class: `sv-button sv-${name}` }), key);
    node.addEventListener("click", action);
    return node;
  };
  const reset = act("reset", "whatif.reset", evidence.reset);
  const branch = act("branch", "whatif.branch", () => {
    const { run, round, changes, u } = scene;
    trigger?.("branch", { run, round: round.index, changes, u });
  });
  const node = h("div", { class: "sv-scope-round" }, scroller,
    h("dl", { class: "sv-scope-texts" },
      h("div", {}, labels.text(h("dt"), "microscope.emits"), h("dd", {}, emits)),
      h("div", { class: "sv-scope-was" }, labels.text(h("dt"), "microscope.recorded"), h("dd", {}, recorded))),
    h("div", { class: "sv-scope-acts" }, certain, branch, reset));
  let scene = null;
  let chips = [];
  let shown = null;

  function build({ round, base }) {
    chips = [...base.positions, null].map((_, place) => makeChip(round.index, place));
    tape.replaceChildren(...chips.slice(0, -1).map((chip) => chip.node), h("span", { class: "sv-then", "aria-hidden": "true" }, "→"), chips.at(-1).node);
    setText(recorded, words(base));
  }

  function makeChip(round, place) {
    const [token, word, note] = ["token", "word", "note"].map((name) => h("span", { class: `sv-chip-${name}` }));
    const chip = h("button", { type: "button", class: "sv-chip" }, token, word, note);
    chip.addEventListener("click", () => actions.showPosition(round, place));
    return {
      node: chip,
      draw({ state, text, words: said, about, differs, pressed, name }) {
        setAttribute(chip, "data-state", state);
        setAttribute(chip, "aria-pressed", pressed);
        setClass(chip, "sv-differs", differs);
        setClass(chip, "sv-hidden", state === "none");
        setText(token, label(text));
        setText(word, `${MARKS[state] ?? ""} ${said}`);
        setText(note, about);
        setAttribute(chip, "aria-label", labels.t(name, { place: place + 1, token: label(text), state: said, note: about }));
      },
    };
  }

  function drafted(position, place) {
    const { key, args } = noteOf(scene.outcome, place);
    const { verdict, text, recorded: was, id } = position;
    return {
      state: verdict, text, differs: verdict !== was.verdict || id !== was.id, pressed: place === scene.place, about: labels.t(key, args), name: "race.chip.label",
      words: verdict === "unknown" ? labels.t("microscope.verdict.unknown") : labels.t(`race.verdict.${verdict}`),
    };
  }

  function added() {
    const { outcome, base, place } = scene;
    const [now, then] = [outcome, base].map((one) => one.emitted.findLast((token) => token.source !== "draft"));
    const unknown = outcome.end === "unknown";
    const state = unknown ? "unknown" : now?.source ?? "none";
    const differs = Boolean(now) && now.id !== then?.id;
    const source = state === "residual" && outcome.greedy ? "corrected" : state;
    return {
      state, differs, text: unknown ? "?" : now?.text ?? "", pressed: place >= outcome.positions.length, name: "race.chip.label",
      words: unknown || !now ? labels.t("microscope.verdict.unknown") : labels.t(`race.source.${source}`),
      about: differs && then ? labels.t("whatif.was_token", { token: label(then.text) }) : "",
    };
  }

  /** Sideways only: the page stays where it is. */
  function bringIntoView(chip) {
    const [box, room] = [chip, scroller].map((one) => one.getBoundingClientRect());
    if (box.left < room.left || box.right > room.right) scroller.scrollLeft += box.left - room.left - (room.width - box.width) / 2;
  }

  const words = ({ emitted, end }) => emitted.map((one) => label(one.text)).join(" ") + (end === "unknown" ? " ?" : "");

  return {
    node,
    draw(next, force) {
      scene = next;
      const key = scene.id.split(":").slice(0, 2).join(":");
      if (shown !== key || chips.length !== scene.outcome.positions.length + 1) build(scene);
      else if (force) setText(recorded, words(scene.base));
      shown = key;
      const moved = chips.drawnPlace !== scene.place;
      scene.outcome.positions.forEach((position, place) => chips[place].draw(drafted(position, place)));
      chips.at(-1).draw(added());
      if (moved) bringIntoView(chips[Math.min(scene.place, chips.length - 1)].node);
      chips.drawnPlace = scene.place;
      setText(emits, words(scene.outcome));
      setClass(node, "sv-same", scene.outcome.same);
      const { key: said, args } = certainty(scene.outcome);
      setText(certain, labels.t(said, args));
      setAttribute(certain, "data-certain", scene.outcome.end !== "unknown");
      reset.disabled = !scene.wished;
      setClass(branch, "sv-hidden", !scene.wished);
    },
  };
}
