// The outcome in one sentence, then the figures behind it. All of them come from `stats`; none is counted here.

import { isLossy } from "./core_rules.mjs";
import { fixed, label, percent, times, NONE } from "./core_text.mjs";
import { h, setAttribute, setText } from "./dom.mjs";

const TILES = {
  speedup: (stats) => times(stats.speedup),
  alpha: (stats) => percent(stats.speculation?.alpha),
  tau: (stats) => fixed(stats.speculation?.tau, 2),
  tokens: (stats) => fixed(stats.speculative?.tokens, 0),
  saved: (stats) => fixed(stats.speculation?.forwards_saved, 0),
  cost: (stats) => times(stats.cost),
  verify: (stats) => times(stats.verification_overhead),
};

export function makeTiles(ui) {
  const { labels } = ui;
  const outcome = h("p", { class: "sv-outcome" });
  const reason = h("p", { class: "sv-outcome sv-reason" });
  const parting = h("p", { class: "sv-parting" });
  const values = {};
  const tiles = Object.keys(TILES).map((name) => {
    values[name] = h("dd", { class: "sv-tile-value" }, NONE);
    return h("div", { class: `sv-tile sv-tile-${name}` }, labels.text(h("dt", {}), `race.tile.${name}`), values[name],
      labels.text(h("dd", { class: "sv-tile-note" }), `race.tile.${name}_note`));
  });
  const positions = h("div", { class: "sv-positions", role: "img" });
  const byPosition = h("div", { class: "sv-tile" }, labels.attribute(labels.text(h("dt", {}), "race.tile.positions"), "title", "race.tile.positions_note"),
    h("dd", {}, positions));
  const node = h("section", { class: "sv-results" }, outcome, reason, parting,
    h("dl", { class: "sv-tiles" }, ...tiles, byPosition));

  function drawPositions(conditional) {
    const few = conditional.length <= 6;
    positions.replaceChildren(...conditional.map((value, i) => {
      const bar = h("span", { class: "sv-position-bar", style: `--share:${value ?? 0}` });
      return h("span", { class: "sv-position", title: `${i + 1}: ${percent(value)}` }, h("span", { class: "sv-position-share" }, few ? percent(value) : ""), bar, h("span", {}, String(i + 1)));
    }));
    positions.setAttribute("aria-label", labels.t("race.tile.positions_said", { list: conditional.map(percent).join(", ") }));
  }

  return {
    node,
    draw(frame) {
      if (!frame.numbers) return;
      const { stats, divergence, meta } = ui.model;
      for (const [name, figure] of Object.entries(TILES)) setText(values[name], stats ? figure(stats) : NONE);
      const verdict = frame.running ? null : stats?.autopsy;
      const say = (part) => labels.t(`autopsy.${part}.${verdict[part]}`, verdict.values);
      setText(outcome, verdict ? say("outcome") : labels.t(frame.running ? "race.outcome.waiting" : "race.outcome.none"));
      setAttribute(outcome, "data-outcome", verdict?.outcome ?? "none");
      setText(reason, verdict ? say("cause") : "");
      setText(parting, frame.running ? "" : comparison(stats, divergence, meta));
      const key = JSON.stringify(stats?.speculation?.conditional ?? []);
      if (positions.key !== key || frame.force) drawPositions(stats?.speculation?.conditional ?? []);
      positions.key = key;
    },
  };

  /** What the two texts say of each other. */
  function comparison(stats, divergence, meta) {
    if (meta?.settings.temperature > 0) return stats?.speculative && stats.standard ? labels.t(isLossy(meta.settings) ? "race.sampled_lossy" : "race.sampled") : "";
    if (!divergence) return "";
    if (divergence.same) return labels.t("race.same_text");
    return labels.t("race.parting", {
      n: divergence.index + 1, margin: divergence.margin, speculative: label(divergence.speculative), standard: label(divergence.standard),
    });
  }
}
