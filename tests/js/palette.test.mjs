// Text in every colour is readable on what lies behind it, in both themes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(new URL("../../specviz/ui/static/palette.css", import.meta.url), "utf8");
const theme = (selector) => {
  const block = css.slice(css.indexOf(`${selector} {`)).split("}")[0];
  return Object.fromEntries([...block.matchAll(/--sv-([a-z-]+): (#[0-9a-f]{6})/g)].map((match) => [match[1], match[2]]));
};
const light = (hex) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};

for (const selector of [":root", ".dark"]) {
  const colours = theme(selector);
  const names = Object.keys(colours).filter((name) => name.endsWith("-text")).map((name) => name.slice(0, -5));
  test(`${selector}: coloured text has a contrast of at least 4.5`, () => {
    assert.ok(names.length >= 8);
    for (const name of names) {
      for (const behind of ["surface", "raised", `${name}-tint`].filter((one) => colours[one])) {
        const value = contrast(colours[`${name}-text`], colours[behind]);
        assert.ok(value >= 4.5, `${name} on ${behind}: ${value.toFixed(2)}`);
      }
    }
  });

  test(`${selector}: ink and muted text are readable on every ground`, () => {
    const grounds = Object.keys(colours).filter((name) => name.endsWith("-tint") || ["surface", "raised"].includes(name));
    for (const name of ["ink", "muted"]) {
      for (const behind of grounds) {
        const value = contrast(colours[name], colours[behind]);
        assert.ok(value >= 4.5, `${name} on ${behind}: ${value.toFixed(2)}`);
      }
    }
  });

  test(`${selector}: marks stand out from their card by at least 3, but for those that carry a sign and a word`, () => {
    for (const name of ["target", "accepted", "rejected", "standard", "rule-strong"]) {
      assert.ok(contrast(colours[name], colours.raised) >= 3, `${name}: ${contrast(colours[name], colours.raised).toFixed(2)}`);
    }
  });
}
