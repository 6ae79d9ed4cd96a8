// Why lossless: people drag p and q of three tokens, and the mass of q is taken apart and put together again as p.

import { LAST_STAGE, POOL, PRESETS, STAGES, TOKENS, WHOLE, decompose, laneOf, milli, pieces, printed, withShare } from "./core_proof.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";
import { makeEquations } from "./proof_equations.mjs";
import { makePlayer } from "./player.mjs";

const SECONDS = 4.5;
const KEY_STEPS = { ArrowRight: 10, ArrowUp: 10, ArrowLeft: -10, ArrowDown: -10, PageUp: 100, PageDown: -100 };
const LANES = ["q", "out", "p"];
const FIRST = "typical";
const MEANINGS = [["drafted", "…"], ["accepted", "✓"], ["rejected", "✗"], ["residual", "↻"]];

export function makeProof({ labels, root }) {
  const state = { ...structuredClone(PRESETS[FIRST]), preset: FIRST, broken: false, edit: null };
  const player = makePlayer({ root, end: LAST_STAGE, seconds: SECONDS, stride: 1, onChange: draw });
  const picture = h("div", { class: "sv-proof-pieces", role: "img" });
  const drawn = new Map();
  const sliders = TOKENS.map((_, token) => Object.fromEntries(["q", "p"].map((name) => [name, makeSlider(token, name)])));
  const names = h("div", { class: "sv-proof-names", "aria-hidden": "true" });
  const figures = h("div", { class: "sv-proof-figures", "aria-hidden": "true" });
  const cells = {};
  TOKENS.forEach((word, token) => {
    names.append(onLane(h("span", { class: "sv-proof-token" }, word), laneOf(token, "out")));
    for (const name of LANES) {
      names.append(onLane(labels.text(h("span", { class: `sv-proof-name sv-proof-name-${name}` }), `proof.lane.${name}`), laneOf(token, name)));
      figures.append((cells[`${token}.${name}`] = onLane(h("span", { class: `sv-proof-figure sv-proof-name-${name}` }), laneOf(token, name))));
    }
  });
  names.append(onLane(labels.text(h("span", { class: "sv-proof-name sv-proof-name-pool" }), "proof.lane.pool"), POOL));
  figures.append((cells.pool = onLane(h("span", { class: "sv-proof-figure" }), POOL)));
  const field = h("div", { class: "sv-proof-field" }, picture, ...sliders.flatMap((one) => [one.q, one.p]));

  const presets = Object.keys(PRESETS).map((name) => {
    const button = labels.text(h("button", { type: "button", class: "sv-button sv-choice", "data-preset": name }), `proof.preset.${name}`);
    button.addEventListener("click", () => {
      Object.assign(state, structuredClone(PRESETS[name]), { preset: name, edit: null });
      player.play(0);
    });
    return button;
  });
  const broken = h("input", { type: "checkbox", class: "sv-check" });
  broken.addEventListener("change", () => {
    state.broken = broken.checked;
    player.play(2);
  });
  const play = h("button", { type: "button", class: "sv-button sv-go" });
  play.addEventListener("click", player.toggle);
  const steps = STAGES.map((name, stage) => {
    const button = h("button", { type: "button", class: "sv-button sv-choice" }, `${stage + 1} `, labels.text(h("span"), `proof.stage.${name}`));
    button.addEventListener("click", () => player.jump(stage));
    return button;
  });
  const legend = h("ul", { class: "sv-legend sv-proof-legend" }, ...MEANINGS.map(([name, mark]) =>
    h("li", { class: `sv-key sv-${name}` }, h("span", { class: "sv-key-mark", "aria-hidden": "true" }, mark), labels.text(h("span"), `proof.legend.${name}`))));
  const told = h("p", { class: "sv-proof-told" });
  const warning = labels.text(h("p", { class: "sv-alarm", role: "status" }), "proof.broken.on");
  const equations = makeEquations(labels);
  const node = h("section", { class: "sv-card sv-proof" },
    h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "proof.title")),
    labels.text(h("p", { class: "sv-lead" }), "proof.idea"),
    h("div", { class: "sv-deck" }, labels.attribute(h("div", { class: "sv-choices", role: "group" }, ...presets), "aria-label", "proof.preset.title"),
      h("label", { class: "sv-toggle" }, broken, labels.text(h("span"), "proof.broken.label"))),
    warning,
    h("div", { class: "sv-proof-picture" }, names, field, figures),
    legend,
    h("div", { class: "sv-deck" }, play, labels.attribute(h("div", { class: "sv-choices", role: "group" }, ...steps), "aria-label", "proof.stage.title")),
    told, equations.node);

  function makeSlider(token, name) {
    const slider = onLane(h("input", { type: "range", class: `sv-proof-slider sv-proof-slider-${name}`, min: 0, max: WHOLE, step: 1 }), laneOf(token, name));
    slider.addEventListener("input", () => share(name, token, Number(slider.value)));
    slider.addEventListener("keydown", (event) => {
      const step = KEY_STEPS[event.key];
      if (!step) return;
      event.preventDefault();
      share(name, token, state[name][token] + step);
    });
    return slider;
  }

  /** Sets one share. While the same handle moves, the others keep the proportions that they had before. */
  function share(name, token, value) {
    if (state.edit?.name !== name || state.edit.token !== token) state.edit = { name, token, from: state[name] };
    state[name] = withShare(state.edit.from, token, value);
    state.preset = null;
    player.jump(player.state.playing ? LAST_STAGE : player.state.at);
  }

  function draw() {
    const stage = player.state.at;
    const parts = decompose(state.p, state.q, state.broken);
    const figured = printed(parts);
    drawPieces(parts, stage);
    drawNames(figured, stage);
    for (const button of presets) setAttribute(button, "aria-pressed", button.dataset.preset === state.preset);
    steps.forEach((button, i) => setAttribute(button, "aria-pressed", i === Math.floor(stage)));
    setClass(node, "sv-is-broken", state.broken);
    setClass(warning, "sv-hidden", !state.broken);
    setText(play, labels.t(player.state.playing ? "proof.pause" : stage >= LAST_STAGE ? "proof.replay" : "proof.play"));
    setText(told, labels.t(toldKey(figured, Math.floor(stage)), { kept: milli(WHOLE - figured.lost), lost: milli(figured.lost), wrong: milli(figured.wrong) }));
    if (!player.state.playing) setAttribute(picture, "aria-label", described(figured));
    equations.draw(figured);
  }

  function drawNames(figured, stage) {
    sliders.forEach((one, token) => {
      for (const name of ["q", "p"]) {
        if (Number(one[name].value) !== state[name][token]) one[name].value = state[name][token];
        setAttribute(one[name], "aria-label", labels.t(`proof.slider.${name}`, { token: TOKENS[token] }));
        setAttribute(one[name], "aria-valuetext", milli(state[name][token]));
        setText(cells[`${token}.${name}`], milli(state[name][token]));
      }
      const done = stage >= LAST_STAGE;
      const same = figured.out[token] === figured.p[token];
      const cell = cells[`${token}.out`];
      setText(cell, done ? `${milli(figured.out[token])} ${same ? "✓" : "✗"}` : "");
      setClass(cell, "sv-is-wrong", done && !same);
    });
    setText(cells.pool, milli(figured.lost));
  }

  function drawPieces(parts, stage) {
    const done = stage >= LAST_STAGE;
    for (const [token] of TOKENS.entries()) {
      const { q, p, accepted, rejected, out } = parts;
      const [least, most] = [Math.min(out[token], p[token]), Math.max(out[token], p[token])];
      const ghosts = [
        { kind: "was-accepted", lane: "q", at: 0, size: accepted[token] },
        { kind: "was-rejected", lane: "q", at: accepted[token], size: rejected[token] },
        { kind: "all-p", lane: "p", at: 0, size: p[token] },
        { kind: "goal", lane: "out", at: 0, size: p[token] },
        { kind: "surplus", lane: "out", at: least, size: done && out[token] > p[token] ? most - least : 0 },
        { kind: "lack", lane: "out", at: least, size: done && out[token] < p[token] ? most - least : 0 },
      ];
      for (const one of ghosts) place({ ...one, token, lane: laneOf(token, one.lane), opacity: one.kind.startsWith("was") && !q[token] ? 0 : 1 });
    }
    place({ kind: "pool", token: 0, lane: POOL, at: 0, size: parts.lost, opacity: 1 });
    for (const one of pieces(parts, stage)) place(one);
  }

  function place({ kind, token, lane, at, size, opacity }) {
    const key = `${kind}.${token}`;
    if (!drawn.has(key)) {
      drawn.set(key, h("span", { class: `sv-piece sv-piece-${kind}` }));
      picture.append(drawn.get(key));
    }
    const { style } = drawn.get(key);
    style.setProperty("--lane", lane.toFixed(3));
    style.left = `${(100 * at) / WHOLE}%`;
    style.width = `${(100 * size) / WHOLE}%`;
    style.opacity = size > 1e-6 ? opacity : 0;
  }

  function toldKey(figured, stage) {
    if (stage < LAST_STAGE) return `proof.told.${STAGES[stage]}`;
    if (figured.lost === 0) return "proof.told.nothing";
    return figured.broken ? `proof.told.${figured.wrong ? "wrong" : "lucky"}` : "proof.told.refill";
  }

  function described(figured) {
    const each = TOKENS.map((token, i) => labels.t("proof.said.token", {
      token, q: milli(figured.q[i]), p: milli(figured.p[i]), accepted: milli(figured.accepted[i]),
      rejected: milli(figured.rejected[i]), refill: milli(figured.refill[i]), out: milli(figured.out[i]),
    }));
    return labels.t("proof.said", { list: each.join(" "), lost: milli(figured.lost) });
  }

  draw();
  const seen = new IntersectionObserver(([entry]) => {
    if (!entry.isIntersecting) return;
    seen.disconnect();
    player.play(0);
  });
  seen.observe(picture);
  return { node, draw };
}

function onLane(node, lane) {
  node.style.setProperty("--lane", lane);
  return node;
}
