// What the components of a page share: modules are loaded once, so the tabs show the same run and the same selection.

import { newModel } from "./core.mjs";

/** model: the race as far as it is known; selected: {run, round, place} or null; owner: who asks the server. */
export function makeStore() {
  const listeners = new Set();
  const store = {
    model: newModel(),
    dictionaries: {},
    server: {},
    owner: [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join(""),
    selected: null,
    last: null, // what was selected last, also after its panel was closed

    /** A component brings its words and the server functions it may call. */
    join({ strings, server }) {
      for (const [lang, words] of Object.entries(strings ?? {})) store.dictionaries[lang] = { ...store.dictionaries[lang], ...words };
      if (server?.look) store.server = server;
    },

    /** Chooses a position of the present run, or none; `by` tells listeners who did. */
    select(at, by = null) {
      store.selected = at && { run: store.model.run, round: at.round, place: at.place };
      store.last = store.selected ?? store.last;
      store.changed(by);
    },

    /** `listener(by)` hears of every new message and selection; returns what ends that. */
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    changed(by = null) {
      for (const listener of [...listeners]) listener(by);
    },
  };
  return store;
}

export const store = makeStore();
