// The what-if scrubber: settings of the judging, changed on a recorded round.

import { RULES, SLIDERS, stopsWith } from "./core_whatif.mjs";
import { h, setAttribute, setClass, setText } from "./dom.mjs";

export function makeWhatIf({ labels, evidence }) {
  const sliders = Object.entries(SLIDERS).map(([name, range]) => makeSlider(labels, evidence, name, range));
  const rule = labels.attribute(h("select", { class: "sv-select sv-rule-select" }), "aria-label", "whatif.setting.rule");
  rule.addEventListener("change", () => evidence.change("rule", rule.value));
  const options = RULES.map((name) => labels.text(h("option", { value: name }), `whatif.rule.${name}`));
  rule.append(...options);
  const law = h("p", { class: "sv-muted sv-rule-note" });
  const fields = h("fieldset", { class: "sv-whatif" }, labels.text(h("legend", { class: "sv-panel-name" }), "whatif.title"),
    h("label", { class: "sv-control" }, labels.text(h("span", { class: "sv-control-name" }), "whatif.setting.rule"), rule), law, ...sliders.map((one) => one.node));
  return {
    node: fields,
    draw({ settings, base, state }) {
      fields.disabled = state !== "ready";
      rule.value = RULES.includes(settings.rule) ? settings.rule : RULES[0]; // by which the engine judges then
      setClass(rule, "sv-differs", settings.rule !== base.settings.rule);
      setText(law, labels.t(`whatif.rule_note.${RULES.includes(settings.rule) ? settings.rule : RULES[0]}`));
      for (const slider of sliders) slider.draw(settings, base.settings);
    },
  };
}

function makeSlider(labels, evidence, name, { min, max, step, digits, stops, rule }) {
  const input = h("input", { type: "range", class: "sv-scrub", ...(stops ? { min: 0, step: 1 } : { min, max, step }) });
  const value = h("output", { class: "sv-control-value" });
  const node = h("label", { class: `sv-control sv-control-${name}` }, labels.text(h("span", { class: "sv-control-name" }), `whatif.setting.${name}`), input, value);
  let places = stops;
  input.addEventListener("input", () => evidence.change(name, stops ? places[input.value] : Number(input.value)));
  const said = (one) => (stops ? (one === 0 ? labels.t("whatif.all") : String(one)) : one.toFixed(digits));
  return {
    node,
    draw(settings, recorded) {
      const now = settings[name];
      if (stops) {
        places = stopsWith(stops, recorded[name]);
        setAttribute(input, "max", places.length - 1);
      } else setAttribute(input, "max", Math.max(max, recorded[name]));
      const at = stops ? places.indexOf(now) : now;
      if (Number(input.value) !== at) input.value = at;
      const [low, high] = [Number(input.min), Number(input.max)];
      input.style.setProperty("--done", high > low ? (at - low) / (high - low) : 0);
      setText(value, said(now));
      setAttribute(input, "aria-valuetext", now === recorded[name] ? said(now) : labels.t("whatif.changed", { value: said(now), recorded: said(recorded[name]) }));
      setClass(node, "sv-differs", now !== recorded[name]);
      setClass(node, "sv-hidden-keep", Boolean(rule) && rule !== settings.rule);
    },
  };
}
