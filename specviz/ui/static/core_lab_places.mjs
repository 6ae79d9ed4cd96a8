// Which drafted position of a run the lab draws again. Pure.

/** All drafted positions from the place `least` of their round on. */
const drafts = (lane, least = 0) =>
  lane.records.slice(0, lane.known).flatMap(({ drafted }, round) => drafted.map((position, place) => ({ round, place, position })).slice(least));

const bare = ({ round, place }) => ({ round, place });

/** The tested position at which p and q differ most, TV = 1 − Σ min(p, q), or null where nothing was drafted. */
export function mostApart(lane, least) {
  const tested = drafts(lane, least).filter(({ position }) => position.verdict !== "untested");
  if (!tested.length) return null;
  return bare(tested.reduce((best, one) => (one.position.overlap < best.position.overlap ? one : best)));
}

/** The drafted position for a selected one: for the token that a round added, the last drafted one before it. */
export function labPlace(lane, { round, place }, least = 0) {
  const last = (lane.records[round]?.drafted.length ?? 0) - 1;
  const at = Math.min(place, last);
  return round < lane.known && at >= least ? { round, place: at } : mostApart(lane, least);
}

/** The drafted position before (−1) or after (+1) one, across rounds; the first and the last stay. */
export function steppedPlace(lane, { round, place }, by, least) {
  const all = drafts(lane, least);
  const index = all.findIndex((one) => one.round === round && one.place === place);
  return bare(all[Math.max(0, Math.min(all.length - 1, index + by))]);
}
