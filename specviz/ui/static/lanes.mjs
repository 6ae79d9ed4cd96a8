// The two texts growing side by side: one span a glyph group, coloured by where its tokens came from.

import { fraction, groupsShown } from "./core_time.mjs";
import { NONE, rate, seconds, visible } from "./core_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

export function makeLanes(ui) {
  const lanes = [makeLane(ui, "speculative"), makeLane(ui, "standard")];
  const node = h("div", { class: "sv-lanes" }, ...lanes.map((lane) => lane.node));
  return {
    node,
    draw(frame) {
      const most = Math.max(1, ...Object.values(ui.model.lanes).map((lane) => lane.tokens.at(-1)));
      for (const lane of lanes) lane.draw(frame, most);
    },
  };
}

function makeLane(ui, kind) {
  const { labels } = ui;
  const title = labels.text(h("h2", { class: "sv-lane-title" }), `race.lane.${kind}`);
  const speed = h("span", { class: "sv-lane-rate" });
  const clock = h("span", { class: "sv-lane-clock" });
  const bar = h("div", { class: "sv-lane-bar" });
  const spans = h("span");
  const ghosts = Object.assign(h("span", { class: "sv-ghosts", "aria-hidden": "true" }), { key: "" });
  const caret = h("span", { class: "sv-caret", "aria-hidden": "true" });
  const empty = labels.text(h("span", { class: "sv-muted" }), "race.lane.empty");
  const text = labels.attribute(
    h("div", { class: "sv-text", tabindex: "0", role: "region" }, spans, ghosts, caret, empty), "aria-label", `race.lane.${kind}`);
  const takenWord = labels.text(h("span", { class: "sv-taken-word" }), "race.branch.taken");
  const taken = h("span", { class: "sv-taken" });
  text.prepend(takenWord, taken);
  const node = h("section", { class: `sv-lane sv-lane-${kind}` },
    h("header", { class: "sv-lane-head" }, title, clock,
      h("span", { class: "sv-rate-box" }, speed, labels.text(h("span", { class: "sv-unit" }), "race.unit.tok_s"))),
    h("div", { class: "sv-lane-track" }, bar), text);
  const drawn = { version: -1, spaces: false };
  let following = true;
  text.addEventListener("scroll", () => {
    following = text.scrollTop + text.clientHeight >= text.scrollHeight - 24;
  }, { passive: true });
  spans.addEventListener("click", (event) => {
    const token = event.target.closest("[data-record]");
    if (!token) return;
    const [record, place] = [Number(token.dataset.record), Number(token.dataset.place)];
    if (kind === "speculative") ui.actions.showPosition(record, place);
    else ui.actions.showRecord(kind, record);
  });

  function drawText(lane, at, frame) {
    const count = groupsShown(lane, at.tokens);
    if (frame.force || drawn.run !== ui.model.run || drawn.spaces !== frame.spaces) {
      spans.replaceChildren();
      Object.assign(drawn, { run: ui.model.run, spaces: frame.spaces });
    }
    const before = spans.childNodes.length;
    if (count < before) following = true; // whoever goes back wants to see the end of the text there
    while (spans.childNodes.length > count) spans.lastChild.remove();
    if (count && spans.childNodes.length === count) setText(spans.lastChild, shownText(lane.groups[count - 1], frame));
    const added = document.createDocumentFragment();
    for (let i = spans.childNodes.length; i < count; i++) added.append(span(lane.groups[i], frame));
    spans.append(added);
    return spans.childNodes.length !== before;
  }

  /** A branch begins with what it took over from another run. */
  function drawTaken(branch, frame) {
    for (const one of [takenWord, taken]) setClass(one, "sv-hidden", !branch);
    setText(taken, frame.spaces ? visible(branch?.text ?? "") : branch?.text ?? "");
  }

  function shownText(group, frame) {
    if (group.end) return labels.t("race.end_chip");
    return frame.spaces ? visible(group.text) : group.text;
  }

  function span(group, frame) {
    const drafted = ui.model.lanes[kind].records[group.record].drafted.length;
    // Where it stands in its round: what the target added comes behind all that was drafted, accepted or not.
    const place = group.source === "draft" ? group.place : drafted;
    const one = h("span", { class: `sv-token sv-${group.source}`, "data-record": group.record, "data-place": place });
    if (group.source === "target" && drafted) one.classList.add("sv-replaced");
    if (group.end) one.classList.add("sv-end");
    if (frame.choreograph) one.classList.add("sv-landing");
    setText(one, shownText(group, frame));
    return one;
  }

  /** Drafted tokens stand as outlines behind the text until the target has judged them. */
  function drawGhosts(lane, at, frame) {
    const shown = frame.choreograph && at.active ? lane.records[at.active.index].drafted.slice(0, at.active.drafted) : [];
    const key = shown.length ? `${at.active.index}:${shown.length}:${frame.spaces}` : "";
    if (key === ghosts.key) return;
    ghosts.key = key;
    ghosts.replaceChildren(...shown.map((one) => h("span", { class: "sv-ghost" }, frame.spaces ? visible(one.text) : one.text)));
  }

  function draw(frame, most) {
    const lane = ui.model.lanes[kind];
    const at = frame[kind];
    const { branch } = ui.model.meta ?? {};
    drawTaken(branch, frame);
    const changed = drawText(lane, at, frame);
    drawGhosts(lane, at, frame);
    const blank = at.tokens === 0 && ghosts.key === "";
    setClass(empty, "sv-hidden", !blank || Boolean(branch));
    setClass(caret, "sv-hidden", blank || at.complete);
    setAttribute(bar, "style", `transform:scaleX(${fraction(at.tokens, most).toFixed(4)})`);
    if (frame.numbers) {
      setText(speed, rate(at.rate));
      setText(clock, at.judged ? `${labels.t("race.tokens", { n: at.tokens })} · ${seconds(at.elapsed)}` : NONE);
    }
    if (changed && following) text.scrollTop = text.scrollHeight;
  }
  return { node, draw };
}
