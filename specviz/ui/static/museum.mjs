// The bug museum: real failures of real systems, each a variant of one function, switched on only here.

import { exhibitFigures, exhibitSaid } from "./core_museum.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const PARTS = ["wrong", "notice", "expose"];
const UNFINISHED = ["loading", "queued", "running"];

export function makeMuseum(ui) {
  const { labels } = ui;
  const cards = ui.exhibits.map((exhibit) => (exhibit.bends ? bendingCard(ui, exhibit) : measuredCard(ui, exhibit)));
  const node = h("section", { class: "sv-card sv-museum" },
    h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "museum.title")),
    labels.text(h("p", { class: "sv-lead" }), "museum.idea"),
    h("ul", { class: "sv-exhibits" }, ...cards.map((card) => card.node)));
  return { node, draw: () => cards.forEach((card) => card.draw()) };
}

const titleId = (name) => `sv-exhibit-${name}`;

/** What every card says; `more` is its switch and what that shows. */
function makeCard(labels, { name, bends, sources }, ...more) {
  const on = labels.text(h("span", { class: "sv-tag sv-tag-exhibit" }), "museum.on");
  const links = sources.map(({ label: text, url }) => h("li", {}, url ? h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, text) : text));
  const node = h("li", { class: "sv-exhibit" },
    h("header", { class: "sv-exhibit-head" }, labels.text(h("h3", { id: titleId(name) }), `museum.${name}.title`), on),
    labels.text(h("p", { class: `sv-bends sv-bends-${bends}` }), bends ? "museum.bends" : "museum.keeps"),
    h("dl", {}, ...PARTS.flatMap((part) => [labels.text(h("dt", {}), `museum.part.${part}`), labels.text(h("dd", {}), `museum.${name}.${part}`)]),
      labels.text(h("dt", {}), sources.length === 1 ? "museum.part.source" : "museum.part.sources"), h("dd", {}, h("ul", { class: "sv-sources" }, ...links))),
    h("footer", { class: "sv-exhibit-foot" }, ...more));
  return {
    node,
    turn(isOn) {
      setClass(node, "sv-is-on", isOn);
      setClass(on, "sv-hidden", !isOn);
    },
  };
}

function makeSwitch(labels, name, key) {
  const text = labels.text(h("span"), key);
  const track = h("span", { class: "sv-switch-track", "aria-hidden": "true" });
  const node = h("button", { type: "button", role: "switch", class: "sv-switch", "aria-checked": "false", "aria-describedby": titleId(name) }, track, text);
  return labels.attribute(node, "data-exhibit", name);
}

/** Its samples are put beside the honest ones in the lab. */
function bendingCard({ labels, actions, choice }, exhibit) {
  const toggle = makeSwitch(labels, exhibit.name, "museum.switch.lab");
  const go = labels.text(h("button", { type: "button", class: "sv-button sv-choice" }), "museum.to_lab");
  const card = makeCard(labels, exhibit, toggle, go);
  toggle.addEventListener("click", () => actions.exhibit(choice.exhibit === exhibit.name ? null : exhibit.name));
  go.addEventListener("click", actions.showLab);
  return {
    node: card.node,
    draw() {
      const on = choice.exhibit === exhibit.name;
      card.turn(on);
      setAttribute(toggle, "aria-checked", on);
      setClass(go, "sv-hidden", !on);
    },
  };
}

/** It leaves the distribution alone: its own statistic is measured, honest beside broken, on the run shown. */
function measuredCard({ labels, server, store }, exhibit) {
  const { name } = exhibit;
  const state = { on: false, busy: false, problem: null, answer: null, run: null };
  const toggle = makeSwitch(labels, name, "museum.switch.measure");
  const status = h("p", { class: "sv-exhibit-status", role: "status" });
  const result = h("div", { class: "sv-exhibit-result" });
  const card = makeCard(labels, exhibit, toggle, status, result);
  toggle.addEventListener("click", () => {
    Object.assign(state, { on: !state.on, busy: false, problem: null, answer: null });
    if (state.on) measure();
    draw();
  });

  async function measure() {
    const { run } = store.model;
    Object.assign(state, { busy: true, run });
    const answer = await Promise.resolve(server.exhibit({ run, name, owner: store.owner })).catch(() => undefined);
    if (!state.busy || state.run !== run) return;
    state.busy = false;
    if (!answer || answer.error) Object.assign(state, { on: false, problem: answer?.error ?? labels.t("museum.failed") });
    else state.answer = answer;
    draw();
  }

  function draw() {
    const { model } = store;
    if (state.run !== null && state.run !== model.run) Object.assign(state, { on: false, busy: false, answer: null, problem: null, run: null });
    const wall = !model.run ? "museum.empty" : UNFINISHED.includes(model.state) ? "museum.running" : null;
    card.turn(state.on);
    setAttribute(toggle, "aria-checked", state.on);
    toggle.disabled = Boolean(wall) && !state.on;
    setText(status, state.busy ? labels.t("museum.busy") : state.problem ?? (wall ? labels.t(wall) : ""));
    setAttribute(status, "data-state", state.busy ? "busy" : state.problem ? "problem" : "none");
    result.replaceChildren(...(state.answer ? shown(state.answer) : []));
  }

  const figure = ({ key, text }) => h("div", {}, h("dt", {}, labels.t(`museum.${name}.value.${key}`)), h("dd", {}, text));

  function shown(answer) {
    const [verdict, ...remarks] = exhibitSaid(name, answer).map(({ key, args }) => labels.t(key, args));
    return [
      h("dl", { class: "sv-figures" }, ...exhibitFigures(name, answer.values).map(figure)),
      h("p", { class: `sv-exhibit-verdict ${answer.exposed ? "sv-is-wrong" : ""}` }, `${answer.exposed ? "✗ " : ""}${verdict}`),
      ...remarks.map((text) => h("p", { class: "sv-small sv-muted" }, text)),
    ];
  }
  return { node: card.node, draw };
}
