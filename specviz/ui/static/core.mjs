// What the race view knows: messages from Python merged into one model. Pure; runs in node and in the browser.
// The wire's arrays are described in components/wire.py.

export const KINDS = ["speculative", "standard"];

const newLane = () => ({ records: [], known: 0, ends: [0], tokens: [0], groups: [], untils: [], result: null });

export function newModel() {
  return {
    run: null, seq: -1, version: 0, state: "idle", note: null, lang: "en", meta: null, stats: null, divergence: null,
    lanes: { speculative: newLane(), standard: newLane() },
  };
}

/** Takes one message in. Idempotent: records merge by index; a new `run` starts afresh. Returns the model. */
export function merge(model, message) {
  if (message.run !== model.run) Object.assign(model, newModel(), { run: message.run, version: model.version });
  model.version += 1;
  if (message.seq >= model.seq) {
    model.seq = message.seq;
    model.state = message.state;
    model.note = message.note ?? null;
    model.lang = message.lang ?? model.lang;
    for (const key of ["meta", "stats", "divergence"]) if (message[key]) model[key] = message[key];
  }
  for (const kind of KINDS) {
    const lane = model.lanes[kind];
    if (message.records?.[kind]) addRecords(lane, message.records[kind], model.meta?.eos ?? []);
    lane.result = message.runs?.[kind] ?? lane.result;
  }
  return model;
}

function addRecords(lane, { from, items }, eos) {
  items.forEach((item, offset) => {
    lane.records[from + offset] ??= decode(item, from + offset);
  });
  // Only what has no gap before it can be played.
  while (lane.records[lane.known]) {
    const record = lane.records[lane.known];
    lane.known += 1;
    lane.ends.push(record.end);
    lane.tokens.push(lane.tokens.at(-1) + record.emitted.length);
    record.emitted.forEach((token, place) => addToken(lane, token, record.index, place, eos));
  }
}

/** Tokens of one glyph make one group: what a reader sees as a character is one chip. */
function addToken(lane, token, record, place, eos) {
  const last = lane.groups.at(-1);
  const count = (last?.until ?? 0) + 1;
  if (last && last.glyph === token.glyph && !last.end) {
    last.text += token.text;
    last.until = lane.untils[lane.untils.length - 1] = count;
    last.source = token.source;
  } else {
    lane.groups.push({
      glyph: token.glyph, text: token.text, source: token.source, record, place, until: count, end: eos.includes(token.id),
    });
    lane.untils.push(count);
  }
}

const candidates = (list) => (list ?? []).map(([id, text, prob]) => ({ id, text, prob }));

/** The first tokens of a glyph have no text in the sequence: then the token's own, from a list of candidates. */
const nameOf = (id, text, known) => text || known.find((one) => one.id === id)?.text || "";

function decode(item, index) {
  const [start, draftSeconds, verify, sample] = item.t;
  let at = start;
  const draftEnds = draftSeconds.map((seconds) => (at += seconds));
  const drafted = (item.d ?? []).map(([id, text, glyph, p, q, u, verdict, overlap, topP, topQ, residual]) => {
    const lists = { topP: candidates(topP), topQ: candidates(topQ), residual: candidates(residual) };
    return { id, text, glyph, name: nameOf(id, text, [...lists.topQ, ...lists.topP]), p, q, u, verdict, overlap, ...lists };
  });
  const finalTopP = candidates(item.f);
  const emitted = item.e.map(([id, text, glyph, source]) => ({ id, text, glyph, source, name: nameOf(id, text, finalTopP) }));
  return {
    index, context: item.n, drafted, emitted, finalTopP,
    start, draftEnds, draftEnd: at, verifyEnd: at + verify, end: at + verify + sample,
  };
}

/** min(1, p/q): the draw u has to fall below this. */
export const threshold = ({ p, q }) => (q > 0 ? Math.min(1, p / q) : p > 0 ? 1 : 0);

/** How many drafted tokens of a round the target tested, accepted. */
export function verdicts(round) {
  const count = (verdict) => round.drafted.filter((position) => position.verdict === verdict).length;
  return { accepted: count("accepted"), rejected: count("rejected"), untested: count("untested") };
}

/** The token a round added after its verdicts, or null where the run ended inside the draft. */
export function finalToken(round) {
  const last = round.emitted.at(-1);
  return last && last.source !== "draft" ? last : null;
}

/** The position before (−1) or after (+1) one, across rounds; the final token stands behind the drafted ones. */
export function neighbour(lane, { round, place }, by) {
  const places = (index) => lane.records[index].drafted.length + (finalToken(lane.records[index]) ? 1 : 0);
  if (place + by >= 0 && place + by < places(round)) return { round, place: place + by };
  const other = round + by;
  if (other < 0 || other >= lane.known) return { round, place };
  return { round: other, place: by > 0 ? 0 : places(other) - 1 };
}

/** Union of two candidate lists for mirrored bars, the drafted token always among them, likeliest first. */
export function mirrored(position, limit = 9) {
  const rows = new Map();
  const row = (id, text) => {
    if (!rows.has(id)) rows.set(id, { id, text, p: null, q: null, drafted: id === position.id });
    return rows.get(id);
  };
  for (const one of position.topP) row(one.id, one.text).p = one.prob;
  for (const one of position.topQ) row(one.id, one.text).q = one.prob;
  Object.assign(row(position.id, position.name), { p: position.p, q: position.q });
  const weight = ({ p, q }) => Math.max(p ?? 0, q ?? 0);
  const sorted = [...rows.values()].sort((a, b) => weight(b) - weight(a));
  const kept = sorted.slice(0, limit);
  if (!kept.some((one) => one.drafted)) kept[kept.length - 1] = sorted.find((one) => one.drafted);
  return kept;
}
