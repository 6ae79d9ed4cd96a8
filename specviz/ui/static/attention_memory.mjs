// On-chip memory as a box that fills and empties, and the bytes that passed between it and HBM, beside standard attention's.

import { binary, bytes, nameOf, si, time as timeOf } from "./core_attention_text.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

const TRAVELS = { standard: "attention.chip.hbm", "ascend-flash-attention-score": "attention.chip.l2", "ascend-incre-flash": "attention.chip.l2" };

const ROOM_FOR_NAME = 0.08; // of the box

/** What one worker holds while its step runs. */
export function makeChip({ labels }) {
  const said = h("p", { class: "sv-att-figure" });
  const level = h("span", { class: "sv-att-level" });
  const box = h("div", { class: "sv-att-chip", role: "img" });
  const list = h("ul", { class: "sv-att-buffers" });
  const note = h("p", { class: "sv-muted sv-small" });
  const node = h("section", { class: "sv-att-side" }, labels.text(h("h4", {}), "attention.chip.title"), said,
    h("div", { class: "sv-att-track", "aria-hidden": "true" }, level), box, list, note);
  let shown = null;

  return {
    node,
    draw({ track: { schedule }, step, active }) {
      const { steps, buffers, on_chip_limit: limit, name } = schedule;
      const held = step === null ? [] : buffers[steps.held[step]];
      const sum = held.reduce((total, [, size]) => total + size, 0);
      level.style.transform = `scaleX(${Math.min(1, sum / limit).toFixed(4)})`;
      setClass(level, "sv-att-over", sum > limit);
      setText(said, labels.t(active.length > 1 ? "attention.chip.of_many" : "attention.chip.of", { held: binary(sum), limit: binary(limit), share: ((100 * sum) / limit).toFixed(1), n: active.length }));
      const key = held.map((one) => one.join(" ")).join();
      if (key === shown) return;
      shown = key;
      box.replaceChildren(...held.map(([what, size], i) => h("span", { class: `sv-att-buffer sv-att-tone-${i % 3}`, style: `flex-grow:${size}` }, size > ROOM_FOR_NAME * sum ? what : "")));
      list.replaceChildren(...held.map(([what, size], i) => h("li", {}, h("span", { class: `sv-att-swatch sv-att-tone-${i % 3}`, "aria-hidden": "true" }), `${what} ${binary(size)}`)));
      setAttribute(box, "aria-label", held.length ? held.map(([what, size]) => `${what} ${binary(size)}`).join(", ") : labels.t("attention.chip.empty"));
      setText(note, labels.t(TRAVELS[name] ?? "attention.chip.fused"));
    },
  };
}

/** What has been moved and computed so far. `numbers` says whether figures may change now: twice a second at most. */
export function makeCounters({ labels }) {
  const figure = (key) => {
    const value = h("dd");
    return { value, node: h("div", {}, labels.text(h("dt", {}), key), value) };
  };
  const moved = h("p", { class: "sv-att-figure" });
  const bar = h("span", { class: "sv-att-level" });
  const mark = h("span", { class: "sv-att-mark" });
  const standard = h("p", { class: "sv-muted sv-small" });
  const [flops, clock, l2, done] = ["flops", "time", "l2", "steps"].map((name) => figure(`attention.count.${name}`));
  const node = h("section", { class: "sv-att-side" }, labels.text(h("h4", {}), "attention.count.title"), moved,
    h("div", { class: "sv-att-track sv-att-hbm", "aria-hidden": "true" }, bar, mark), standard,
    h("dl", { class: "sv-att-figures" }, flops.node, l2.node, clock.node, done.node));
  return {
    node,
    draw({ track, time, done: over, numbers }, answer) {
      const { hbm, schedule } = track;
      const now = hbm.at(time);
      const most = Math.max(hbm.total, answer.standard_bytes, 1);
      bar.style.transform = `scaleX(${(now / most).toFixed(5)})`;
      mark.style.left = `${(100 * answer.standard_bytes) / most}%`;
      if (!numbers) return;
      setText(moved, labels.t("attention.count.moved", { now: bytes(now), total: bytes(hbm.total) }));
      const own = schedule.name === "standard";
      setText(standard, labels.t(own ? "attention.count.is_standard" : "attention.count.standard", { bytes: bytes(answer.standard_bytes), share: (hbm.total / answer.standard_bytes).toFixed(2) }));
      setText(flops.value, si(track.flops.at(time), "FLOP"));
      setText(clock.value, timeOf(time));
      setText(done.value, `${over} / ${schedule.totals.steps}`);
      setText(l2.value, bytes(track.l2.at(time)));
      setClass(l2.node, "sv-hidden", !track.l2.total);
      setAttribute(node, "aria-label", nameOf(schedule.name, labels.t));
    },
  };
}
