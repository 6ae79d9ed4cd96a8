// Attention × decoding as measured: rows put side by side at each context. Pure.

export const COMBINATIONS = ["materialised", "fused"].flatMap((attention) => ["standard", "speculative"].map((decoding) => ({ attention, decoding, name: `${attention}_${decoding}` })));
export const CONTEXTS = [128, 1024, 4096, 8192];
export const USUAL = [128, 1024];
export const isSlow = (context) => context > 1024;
export const CLAIM = [3, 8]; // what the articles promise of both together

/** [{context, cells: one row for each combination, or null}], contexts ascending. */
export function byContext(rows) {
  const contexts = [...new Set(rows.map((row) => row.context))].sort((a, b) => a - b);
  const cell = (context, { attention, decoding }) => rows.find((row) => row.context === context && row.attention === attention && row.decoding === decoding) ?? null;
  return contexts.map((context) => ({ context, cells: COMBINATIONS.map((combination) => cell(context, combination)) }));
}

/** The top of an axis that shows every gain and the whole of the claim. */
export const gainTop = (rows) => Math.max(CLAIM[1] + 1, Math.ceil(Math.max(0, ...rows.map((row) => row.gain ?? 0)) + 0.5));

/** The gain of both together at each context, as {least, most} over the contexts; null without any. */
export function together(rows) {
  const gains = rows.filter((row) => row.attention === "fused" && row.decoding === "speculative" && row.gain !== null).map((row) => row.gain);
  return gains.length ? { least: Math.min(...gains), most: Math.max(...gains) } : null;
}

/** How what was measured stands to the claim: below, within, above, or reaching into it. */
export function standing({ least, most }) {
  if (most < CLAIM[0]) return "below";
  if (least >= CLAIM[0]) return most <= CLAIM[1] ? "within" : "above";
  return "partly";
}
