// Small helpers for drawing: element builders that only ever set text, and labels that follow the language.

/** An element: h("button", {class, type, "aria-label", …}, child | "text", …). Strings become text, never HTML. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Sets text only where it changed: the cheapest redraw is none. */
export function setText(node, text) {
  if (node.shown === text) return;
  node.shown = text;
  node.textContent = text;
}

export function setAttribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

export function setClass(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

/** Static labels: `text(node, key)` and `attribute(node, name, key)` are said again when the language changes. */
export function makeLabels() {
  const labels = [];
  let translate = (key) => key;
  const add = (say) => {
    labels.push(say);
    say();
  };
  return {
    t: (key, args) => translate(key, args),
    text: (node, key) => {
      add(() => setText(node, translate(key)));
      return node;
    },
    attribute: (node, name, key) => {
      add(() => node.setAttribute(name, translate(key)));
      return node;
    },
    speak(newTranslate) {
      translate = newTranslate;
      for (const say of labels) say();
    },
  };
}
