// The Lossless tab from top to bottom: why nothing is lost, the lab that measures it, the museum of what goes wrong.

import { translator } from "./core_text.mjs";
import { inTurn } from "./core_whatif.mjs";
import { h, makeLabels } from "./dom.mjs";
import { makeLab } from "./lab.mjs";
import { makeMuseum } from "./museum.mjs";
import { makeProof } from "./proof.mjs";
import { store as shared } from "./store.mjs";
import { loadStyles } from "./styles.mjs";

/** Gradio's `js_on_load` calls this once with what it hands to a component. */
export async function mount({ element, props, server, watch, store = shared }) {
  await loadStyles("race.css", "lossless.css", "proof.css", "lab.css", "museum.css");
  const view = makeView(element.querySelector(".sv-lossless") ?? element, props, server, store);
  watch("lang", () => view.speak(props.lang));
  return view;
}

export function makeView(root, { strings, exhibits }, server, store) {
  const labels = makeLabels();
  const choice = { exhibit: null };
  let lang = store.model.lang;
  let scheduled = false;
  labels.speak(translator(strings, lang));
  const actions = {
    exhibit(name) {
      choice.exhibit = name;
      refresh();
    },
    showLab: () => lab.node.scrollIntoView({ block: "start" }),
  };
  const turn = inTurn(); // the server drops what a visitor asked before for what is asked now
  const patient = { look: server.look, redraw: server.redraw, rounds: (asked) => turn(() => server.rounds(asked)), exhibit: (asked) => turn(() => server.exhibit(asked)) };
  const ui = { root, labels, store, server: patient, exhibits, actions, choice };
  const proof = makeProof(ui);
  const lab = makeLab(ui);
  const museum = makeMuseum(ui);
  root.replaceChildren(h("div", { class: "sv-page" }, proof.node, lab.node, museum.node));
  const deaf = store.listen(refresh);

  function refresh() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      if (!root.isConnected) return deaf();
      if (store.model.lang !== lang) respeak();
      lab.draw();
      museum.draw();
    });
  }

  function respeak() {
    lang = store.model.lang;
    labels.speak(translator(strings, lang));
    proof.draw();
    lab.respeak();
  }

  refresh();
  return {
    speak(language) {
      store.model.lang = language;
      refresh();
    },
  };
}
