// What the lab is asked to do: acceptance rule and its parameters, the exhibit beside it, how many draws, which seed.

import { DRAWS, PARAMETERS, USUAL_DRAWS, grouped, ruleChanges, ruleWished } from "./core_lab.mjs";
import { RULES } from "./core_whatif.mjs";
import { h, setClass, setText } from "./dom.mjs";

export function makeControls({ labels, exhibits, actions, choice }) {
  const chosen = { rule: null, draws: USUAL_DRAWS, seed: 0, values: {} };
  let recorded = null; // settings of the run on the page
  const wished = () => ruleWished(chosen, recorded);
  const field = (key, control, ...more) => h("label", { class: "sv-field" }, labels.text(h("span", { class: "sv-field-name" }), key), control, ...more);
  const option = (value, key) => labels.text(h("option", { value }), key);

  const rule = h("select", { class: "sv-select" }, ...RULES.map((name) => option(name, `lab.rule.${name}`)));
  rule.addEventListener("change", () => {
    chosen.rule = rule.value;
    draw();
  });

  const parameters = PARAMETERS.map((one) => {
    const input = h("input", { type: "number", class: "sv-number", min: one.min, max: one.max, step: one.step, value: one.value });
    input.addEventListener("change", () => {
      const value = Number(input.value);
      const usable = input.value !== "" && value >= one.min && value <= one.max;
      if (usable) chosen.values[one.name] = value;
      else input.value = wished().values[one.name];
    });
    const said = h("span", { class: "sv-field-name" }, one.sign, " ", labels.text(h("span"), `lab.parameter.${one.name}`));
    return { one, input, node: h("label", { class: "sv-field sv-field-short" }, said, input) };
  });

  const amount = h("output", { class: "sv-amount" });
  const draws = h("input", { type: "range", class: "sv-range", min: 0, max: DRAWS.length - 1, step: 1, value: chosen.draws });
  draws.addEventListener("input", () => {
    chosen.draws = Number(draws.value);
    draw();
  });

  const seed = h("input", { type: "number", class: "sv-number", min: 0, max: 2 ** 31 - 1, step: 1, value: chosen.seed });
  seed.addEventListener("change", () => {
    const value = Number(seed.value);
    if (seed.value !== "" && Number.isInteger(value) && value >= 0 && value < 2 ** 31) chosen.seed = value;
    seed.value = chosen.seed;
  });

  const exhibit = h("select", { class: "sv-select" }, option("", "lab.exhibit.none"),
    ...exhibits.filter((one) => one.bends).map((one) => option(one.name, `museum.${one.name}.title`)));
  exhibit.addEventListener("change", () => actions.exhibit(exhibit.value || null));

  const node = h("div", { class: "sv-fields" },
    field("lab.control.rule", rule), ...parameters.map((one) => one.node),
    field("lab.control.draws", draws, amount), field("lab.control.seed", seed), field("lab.control.exhibit", exhibit));

  function draw(settings = recorded) {
    recorded = settings;
    const { rule: name, values } = wished();
    if (rule.value !== name) rule.value = name;
    for (const { one, input, node: place } of parameters) {
      setClass(place, "sv-hidden", one.rule !== name);
      if (document.activeElement !== input && Number(input.value) !== values[one.name]) input.value = values[one.name];
    }
    setText(amount, grouped(DRAWS[chosen.draws]));
    draws.setAttribute("aria-valuetext", grouped(DRAWS[chosen.draws]));
    if (exhibit.value !== (choice.exhibit ?? "")) exhibit.value = choice.exhibit ?? "";
    setClass(exhibit, "sv-is-alarming", Boolean(choice.exhibit));
  }

  return {
    node, draw,
    wish: () => ({ changes: ruleChanges(wished()), exhibit: choice.exhibit, n: DRAWS[chosen.draws], seed: chosen.seed }),
  };
}
