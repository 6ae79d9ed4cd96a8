// The three exhibits that leave the distribution alone: which of their numbers a card shows, and how. Pure.

import { distance, grouped } from "./core_lab.mjs";

const share = (value) => value.toFixed(3);

const FIGURES = {
  "bonus-gap": { acceptance_honest: share, acceptance_broken: share, drafted_honest: grouped, drafted_broken: grouped, standard_error: share },
  "off-by-one-rollback": { difference_honest: distance, difference_long: distance, difference_short: distance },
  "eos-ignored": { tokens_honest: grouped, tokens_broken: grouped, behind: grouped },
};
export const MEASURED = Object.keys(FIGURES);

/** The numbers of an exhibit as text: [{key, text}], key in museum.<name>.value. */
export const exhibitFigures = (name, values) => Object.entries(FIGURES[name]).map(([key, print]) => ({ key, text: print(values[key]) }));

/** What they amount to, and a remark where a token had to stand in for the end of text: [{key, args}]. */
export function exhibitSaid(name, { exposed, values }) {
  const args = Object.fromEntries(exhibitFigures(name, values).map(({ key, text }) => [key, text]));
  const said = [{ key: `museum.${name}.${exposed ? "exposed" : "hidden"}`, args }];
  return values.stand_in ? [...said, { key: `museum.${name}.stand_in`, args }] : said;
}
