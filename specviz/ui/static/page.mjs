// The race view from top to bottom: state, lanes, rail, evidence, time, results, transport.

import { isLossy } from "./core_rules.mjs";
import { NONE, ruleName } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";
import { makeLanes } from "./lanes.mjs";
import { makeMicroscope } from "./microscope.mjs";
import { makeRail } from "./rail.mjs";
import { makeTiles } from "./tiles.mjs";
import { makeTimeline } from "./timeline.mjs";
import { makeTransport } from "./transport.mjs";

const MEANINGS = [["drafted", "…"], ["accepted", "✓"], ["rejected", "✗"], ["untested", "–"], ["residual", "↻"], ["bonus", "+1"], ["standard", "•"], ["target", "•"]];
const LOSSLESS_ALONE = ["residual", "standard"]; // a lossy rule draws every token that the target adds from p
const LOSSY_ALONE = ["target"];
const makePanel = (ui) => makeMicroscope(ui, { closable: true });
const PARTS = [makeState, makeLanes, makeRail, makePanel, makeTimeline, makeTiles, makeTransport];

export function makePage(ui) {
  const said = h("div", { class: "sv-said", role: "status", "aria-live": "polite" });
  const say = (text) => setText(said, text);
  const parts = PARTS.map((make) => make({ ...ui, say }));
  parts.splice(1, 0, makeIdea(ui), makeLegend(ui));
  return {
    node: h("div", { class: "sv-page" }, ...parts.map((part) => part.node), said),
    say,
    draw: (frame) => parts.forEach((part) => part.draw(frame)),
  };
}

function makeIdea({ labels, model }) {
  const node = h("p", { class: "sv-idea" });
  return { node, draw: () => setText(node, labels.t(isLossy(model.meta?.settings) ? "race.idea_lossy" : "race.idea")) };
}

function makeLegend({ labels, model }) {
  const keys = MEANINGS.map(([name, mark]) =>
    h("li", { class: `sv-key sv-${name}` }, h("span", { class: "sv-key-mark", "aria-hidden": "true" }, mark), labels.text(h("span"), `race.legend.${name}`)));
  const node = labels.attribute(h("ul", { class: "sv-legend" }, ...keys), "aria-label", "race.legend.title");
  return {
    node,
    draw() {
      const absent = isLossy(model.meta?.settings) ? LOSSLESS_ALONE : LOSSY_ALONE;
      MEANINGS.forEach(([name], i) => setClass(keys[i], "sv-hidden", absent.includes(name)));
    },
  };
}

function makeState({ labels, model, say }) {
  const text = h("span", { class: "sv-state-text" });
  const lossy = labels.text(h("span", { class: "sv-lossy" }), "race.state.lossy");
  const detail = h("span", { class: "sv-state-detail" });
  const prompt = h("p", { class: "sv-prompt" });
  const node = h("header", { class: "sv-state" }, h("span", { class: "sv-state-icon", "aria-hidden": "true" }),
    h("span", { class: "sv-state-line" }, text, lossy), prompt, detail);

  function sentence() {
    const { note, state, meta } = model;
    if (note) return labels.t(note.key, note.args ?? {});
    const now = state === "running" && runningKind(model);
    return labels.t(now ? `race.state.running_${now}` : `race.state.${state}`, { date: meta?.recorded.slice(0, 10) ?? NONE, machine: meta?.machine ?? NONE });
  }

  return {
    node,
    draw() {
      const { meta, state } = model;
      setAttribute(node, "data-state", state);
      setText(text, sentence());
      const isMarked = isLossy(meta?.settings);
      setClass(lossy, "sv-hidden", !isMarked);
      sayOnce(isMarked ? `${text.textContent} ${lossy.textContent}.` : text.textContent);
      setText(detail, meta ? settingsText(labels, meta) : "");
      setText(prompt, meta?.prompt ?? "");
      setAttribute(prompt, "title", meta?.prompt ?? "");
      setAttribute(detail, "title", meta ? modelsText(labels, meta) : "");
    },
  };

  function sayOnce(sentenceNow) {
    if (node.said !== sentenceNow) say(sentenceNow);
    node.said = sentenceNow;
  }
}

/** Which of the two runs is being made: the last in order that has records. */
function runningKind({ lanes, meta }) {
  return (meta?.order ?? []).findLast((kind) => lanes[kind].known > 0);
}

function settingsText(labels, { settings, target, draft }) {
  const rule = ruleName(settings);
  const drafter = settings.quantization ? `${settings.drafter} ${settings.quantization}` : settings.drafter;
  return [target.name, draft && draft.name !== target.name ? `${drafter} (${draft.name})` : drafter,
    `γ ${settings.gamma}`, `T ${settings.temperature}`, settings.top_k ? `top-k ${settings.top_k}` : "",
    settings.top_p < 1 ? `top-p ${settings.top_p}` : "", rule ? labels.t(rule.key, rule.args) : "", labels.t("race.state.seed", { seed: settings.seed })].filter(Boolean).join(" · ");
}

function modelsText(labels, { target, draft, device, machine, threads, memory_bytes, stack }) {
  const one = (model) => [model.name, model.dtype, model.quantization, model.attention !== "fused" && model.attention].filter(Boolean).join(", ");
  const size = device === "npu" || device === "cuda"
    ? labels.t("race.state.memory", { n: Math.round(memory_bytes / 2 ** 30) })
    : labels.t("race.state.threads", { n: threads });
  const versions = Object.entries(stack).map(([name, version]) => labels.t(`race.state.${name}`, { version }));
  return [one(target), draft && one(draft), machine, size, ...versions].filter(Boolean).join(" · ");
}
