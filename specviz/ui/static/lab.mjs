// The losslessness lab: one position of the run on the page drawn again many times, the honest sampler beside an exhibit.

import { folded, grouped, remark } from "./core_lab.mjs";
import { labPlace, mostApart, steppedPlace } from "./core_lab_places.mjs";
import { label } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";
import { makeControls } from "./lab_controls.mjs";
import { makeLanes } from "./lab_lanes.mjs";
import { makePlot } from "./lab_plot.mjs";
import { roundsTable } from "./lab_rounds.mjs";
import { makePlayer } from "./player.mjs";

const SECONDS = 6;
const NUMBERS_MS = 500; // figures change at most twice a second
const UNFINISHED = ["loading", "queued", "running"];

export function makeLab(ui) {
  const { labels, store, server, root } = ui;
  const state = { busy: null, problem: null, answer: null, of: null, rounds: null };
  const keys = new Map(); // "run:round" → the server's handle of its evidence
  let lastNumbers = 0;
  const player = makePlayer({ root, end: 1, seconds: SECONDS, onChange: grow });
  const controls = makeControls(ui);
  const lanes = makeLanes(ui);
  const plot = makePlot(ui);

  const button = (key, act, more = "") => {
    const node = labels.text(h("button", { type: "button", class: `sv-button ${more}` }), key);
    node.addEventListener("click", act);
    return node;
  };
  const where = h("p", { class: "sv-lab-where" });
  const step = (by, key, mark) => {
    const node = labels.attribute(h("button", { type: "button", class: "sv-button" }, mark), "aria-label", key);
    node.addEventListener("click", () => store.select(steppedPlace(store.model.lanes.speculative, place(), by, least()), "lab"));
    return node;
  };
  const moves = [step(-1, "lab.previous", "←"), step(1, "lab.next", "→")];
  const apart = button("lab.most_apart", () => store.select(mostApart(store.model.lanes.speculative, least()), "lab"));
  const redraw = button("lab.redraw", () => run("redraw"), "sv-go");
  const rounds = button("lab.rounds", () => run("rounds"), "sv-choice");
  const status = h("p", { class: "sv-lab-status", role: "status" });
  const play = h("button", { type: "button", class: "sv-button sv-choice" });
  play.addEventListener("click", player.toggle);
  const skip = button("lab.skip", () => player.jump(1), "sv-choice");
  const growth = labels.attribute(h("input", { type: "range", class: "sv-range", min: 0, max: 1000, step: 1 }), "aria-label", "lab.growth");
  growth.addEventListener("input", () => player.jump(growth.value / 1000));
  const made = h("h3", { class: "sv-lab-made" });
  const hint = h("p", { class: "sv-lab-remark" });
  const table = h("div");
  const roundsMade = h("h3");
  const drawn = h("div", { class: "sv-lab-result" }, made, hint, h("div", { class: "sv-deck sv-growth" }, play, skip, growth), lanes.node, plot.node,
    labels.text(h("p", { class: "sv-muted sv-small" }), "lab.key"));
  const node = h("section", { class: "sv-card sv-lab" },
    h("header", { class: "sv-card-head" }, labels.text(h("h2", {}), "lab.title")),
    labels.text(h("p", { class: "sv-lead" }), "lab.idea"),
    h("div", { class: "sv-deck sv-lab-place" }, ...moves, where, apart), controls.node,
    h("div", { class: "sv-deck" }, redraw, rounds, status), drawn, table);

  /** The first place of a round at which the exhibit shows. */
  const least = () => ui.exhibits.find((one) => one.name === ui.choice.exhibit)?.place ?? 0;

  /** The position to draw: the selected one, else where p and q differ most. */
  function place() {
    const { model, selected, last } = store;
    const at = selected ?? (last?.run === model.run ? last : null);
    return at ? labPlace(model.lanes.speculative, at, least()) : mostApart(model.lanes.speculative, least());
  }

  /** Why nothing can be drawn now, as a key; null if it can. */
  function obstacle() {
    if (!store.model.run) return "lab.state.empty";
    if (UNFINISHED.includes(store.model.state)) return "lab.state.running";
    return place() ? null : "lab.state.no_drafts";
  }

  async function run(kind) {
    const at = { ...place(), run: store.model.run };
    const wish = controls.wish();
    const asked = { kind, at, wish };
    Object.assign(state, { busy: asked, problem: null });
    draw();
    const answer = await (kind === "redraw" ? askRedraw(at, wish) : askRounds(at, wish)).catch(() => undefined);
    if (state.busy !== asked) return;
    state.busy = null;
    if (!answer || answer.error) state.problem = { at, text: answer?.error ?? labels.t("lab.state.failed") };
    else if (kind === "redraw") show(answer, asked);
    else showRounds({ answer, of: { ...at, ...wish } });
    draw();
  }

  const askRounds = async ({ round, run: of }, { changes, n, seed }) => server.rounds({ run: of, round, changes, n, seed, owner: store.owner });

  /** The evidence of a round is looked up once; a handle that has expired is asked for again. */
  async function askRedraw(at, { changes, exhibit, n, seed }, again = true) {
    const name = `${at.run}:${at.round}`;
    if (!keys.has(name)) {
      const found = await server.look({ run: at.run, round: at.round, owner: `${store.owner} lab` }); // the microscope may be looking too
      if (!found || found.error) return found;
      keys.set(name, found.key);
    }
    const answer = await server.redraw({ key: keys.get(name), place: at.place, changes, exhibit, n, seed });
    if (!answer?.expired) return answer;
    keys.delete(name);
    return again ? askRedraw(at, { changes, exhibit, n, seed }, false) : answer;
  }

  function showRounds(rounds) {
    state.rounds = rounds;
    table.replaceChildren(roundsTable(labels, rounds.answer, roundsMade));
  }

  function show(answer, { at, wish }) {
    Object.assign(state, { answer: folded(answer), of: { ...at, ...wish } });
    lanes.show(state.answer);
    plot.show(state.answer);
    player.play(0);
  }

  function grow() {
    const { at, playing } = player.state;
    const now = performance.now();
    const numbers = !playing || at === 0 || now - lastNumbers >= NUMBERS_MS;
    if (numbers) lastNumbers = now;
    if (state.answer) {
      lanes.draw(at, numbers);
      plot.draw(at);
    }
    setText(play, labels.t(playing ? "lab.pause" : at >= 1 ? "lab.replay" : "lab.play"));
    skip.disabled = at >= 1;
    if (document.activeElement !== growth || playing) growth.value = Math.round(1000 * at);
    growth.setAttribute("aria-valuetext", labels.t("lab.growth_at", { count: grouped(state.answer ? reachedDraws(at) : 0) }));
  }

  const reachedDraws = (at) => state.answer.lanes[0].frames[Math.floor(at * (state.answer.lanes[0].frames.length - 1))].n;

  function draw() {
    const wall = obstacle();
    const at = wall ? null : place();
    controls.draw(store.model.meta?.settings ?? null);
    if (state.problem && !isAt(state.problem.at, at)) state.problem = null;
    setText(where, at ? positionText(at, store.model.lanes.speculative.records[at.round].drafted[at.place]) : labels.t("lab.nowhere"));
    for (const one of [...moves, apart, redraw, rounds]) one.disabled = Boolean(wall) || (Boolean(state.busy) && (one === redraw || one === rounds));
    const note = wall ?? (state.busy ? `lab.state.${state.busy.kind}` : isStale(at) ? "lab.state.changed" : null);
    setText(status, state.problem && !wall && !state.busy ? state.problem.text : note ? labels.t(note) : "");
    setAttribute(status, "data-state", wall ? "empty" : state.busy ? "busy" : state.problem ? "problem" : "none");
    if (state.rounds) sayMade(table, roundsMade, "lab.rounds.made", state.rounds.of);
    setClass(drawn, "sv-hidden", !state.answer);
    if (!state.answer) return;
    sayMade(drawn, made, "lab.made", state.of);
    const said = remark(state.answer);
    setText(hint, said ? labels.t(said.key, said.args) : "");
    grow();
  }

  /** What a result was made of; one of an earlier run says so. */
  function sayMade(result, heading, key, { run: of, round, place: at, n, seed }) {
    const old = of !== store.model.run;
    setClass(result, "sv-is-old", old);
    setText(heading, labels.t(old ? `${key}_before` : key, { round: round + 1, place: at + 1, count: grouped(n), seed }));
  }

  const isAt = (one, at) => one.run === store.model.run && one.round === at?.round && one.place === at.place;

  /** Is a position or an exhibit chosen that the picture does not show? */
  function isStale(at) {
    if (!state.answer || !at) return false;
    return state.of.exhibit !== ui.choice.exhibit || state.of.round !== at.round || state.of.place !== at.place;
  }

  function positionText({ round, place: at }, position) {
    return labels.t("lab.where", { round: round + 1, place: at + 1, token: label(position.name), tv: (1 - position.overlap).toFixed(3) });
  }

  return {
    node, draw,
    /** The words have changed: what is drawn from an answer is said again. */
    respeak() {
      if (state.rounds) showRounds(state.rounds);
      if (!state.answer) return draw();
      lanes.show(state.answer);
      plot.show(state.answer);
      draw();
    },
  };
}
