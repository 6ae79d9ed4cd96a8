// Which drafted position of a run the lab draws again. Pure.

const drafts = (lane) => lane.records.slice(0, lane.known).flatMap((record, round) => record.drafted.map((position, place) => ({ round, place, position })));

const bare = ({ round, place }) => ({ round, place });

/** The tested position at which p and q differ most, TV = 1 − Σ min(p, q), or null where nothing was drafted. */
export function mostApart(lane) {
  const tested = drafts(lane).filter(({ position }) => position.verdict !== "untested");
  if (!tested.length) return null;
  return bare(tested.reduce((best, one) => (one.position.overlap < best.position.overlap ? one : best)));
}

/** The drafted position for a selected one: the token a round added has the last drafted one before it. */
export function labPlace(lane, { round, place }) {
  const count = lane.records[round]?.drafted.length ?? 0;
  return count && round < lane.known ? { round, place: Math.min(place, count - 1) } : mostApart(lane);
}

/** The drafted position before (−1) or after (+1) one, across rounds; the first and the last stay. */
export function steppedPlace(lane, { round, place }, by) {
  const all = drafts(lane);
  const index = all.findIndex((one) => one.round === round && one.place === place);
  return bare(all[Math.max(0, Math.min(all.length - 1, index + by))]);
}
