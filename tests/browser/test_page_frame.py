"""The page itself: nothing from elsewhere, both themes readable, phones too."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.weights]

# Text nodes whose contrast to what lies behind them is too low (WCAG 2: 4.5, or 3 for large type).
LOW_CONTRAST = """
() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const over = ([r, g, b, a = 1], below) => [r, g, b].map((value, i) => value * a + below[i] * (1 - a));
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const faults = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !node.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (node.closest("script, style, svg, [disabled], [aria-hidden=true], .sv-said")) continue;
    const style = getComputedStyle(node);
    const below = behind(node);
    const [a, b] = [light(over(parse(style.color), below)), light(below)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faults.push(`${text.slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return faults;
}
"""


def test_nothing_is_asked_of_other_servers_and_nothing_fails(context: BrowserContext, address: str) -> None:
    elsewhere: list[str] = []
    errors: list[str] = []
    page = context.new_page()
    page.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else elsewhere.append(r.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(address)
    expect(page.locator("#race-view .sv-state")).to_be_visible()
    expect(page.locator(".sv-token").first).to_be_visible()
    page.wait_for_timeout(500)
    assert (elsewhere, errors) == ([], [])


def test_the_theme_switch_is_remembered(page: Page) -> None:
    body = page.locator("body")
    expect(body).not_to_have_class("dark")
    page.locator(".page-theme").click()
    expect(body).to_contain_class("dark")
    page.reload()
    expect(page.locator("#race-view .sv-state")).to_be_visible()
    expect(body).to_contain_class("dark")
    page.locator(".page-theme").click()
    expect(body).not_to_contain_class("dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(browser: Browser, address: str, scheme: Any) -> None:
    page = browser.new_page(color_scheme=scheme, reduced_motion="reduce")
    page.goto(address)
    expect(page.locator(".sv-token").first).to_be_visible()
    page.locator("#advanced > button").click()
    page.wait_for_timeout(300)
    assert page.evaluate(LOW_CONTRAST) == []
    page.close()


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_no_sideways_scrolling(browser: Browser, address: str, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800}, reduced_motion="reduce")
    page.goto(address)
    expect(page.locator("#race-view .sv-state")).to_be_visible()
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        "width => ['#run', '#stop', '#prompt textarea', '#export', '.page-theme']"
        ".filter(name => document.querySelector(name).getBoundingClientRect().right > width)",
        width,
    )
    assert beyond == []
    page.close()


def test_every_control_has_a_name(page: Page) -> None:
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, select')]
        .filter((node) => node.checkVisibility() && !(node.innerText?.trim() || node.getAttribute('aria-label')
          || node.title || node.labels?.length)).map((node) => node.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
