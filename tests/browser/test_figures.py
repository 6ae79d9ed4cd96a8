"""The figures of a finished run: fetched when asked for, readable in both themes, never of another race."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import eventually

pytestmark = [pytest.mark.browser, pytest.mark.weights]

MEASURED = re.compile(r"Measured at γ = (\d+): ([\d.]+)×")

# The fill of every text and of the ink's marks, and the colour they ought to have.
INKS = """
() => {
  const probe = document.querySelector('#figures').appendChild(document.createElement('i'));
  probe.style.color = 'var(--sv-ink)';
  const ink = getComputedStyle(probe).color;
  probe.remove();
  const drawn = document.querySelectorAll('#figures svg text, #figures svg .point[style*="rgb(22, 32, 45)"]');
  return [ink, [...new Set([...drawn].map((node) => getComputedStyle(node).fill))]];
}
"""


def open_figures(page: Page) -> None:
    page.locator("#figures > button").click()
    expect(page.locator("#figures .js-plotly-plot svg.main-svg").first).to_be_visible()


def test_plotly_comes_from_here_when_the_figures_are_opened(context: BrowserContext, address: str) -> None:
    asked: list[str] = []
    errors: list[str] = []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(address)
    expect(page.locator(".sv-token").first).to_be_visible()
    page.wait_for_timeout(500)
    assert not [url for url in asked if "plotly" in url.lower()]

    open_figures(page)
    expect(page.locator("#figures .js-plotly-plot")).to_have_count(2)
    expect(page.locator("#figure-time .barlayer .point path")).to_have_count(5)
    expect(page.locator("#figures .modebar-btn")).to_have_count(0)
    expect(page.locator("#figure-time")).to_contain_text("Speculative: ")
    expect(page.locator("#figure-gamma")).to_contain_text(MEASURED)
    assert [url for url in asked if "plotly" in url.lower()]
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert errors == []


def test_figures_follow_the_theme(page: Page) -> None:
    open_figures(page)
    seen = []
    for _ in ("light", "dark"):
        ink, fills = page.evaluate(INKS)
        assert fills == [ink]
        seen.append(ink)
        page.locator(".page-theme").click()
    assert len(set(seen)) == 2


def test_figures_fit_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    open_figures(page)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    beyond = page.evaluate(
        """() => [...document.querySelectorAll('#figures svg text')].filter((text) => {
          const [at, frame] = [text, text.closest('.svg-container')].map((node) => node.getBoundingClientRect());
          return at.left < frame.left - 1 || at.right > frame.right + 1;
        }).map((text) => text.textContent)"""
    )
    assert beyond == []


@pytest.mark.usefixtures("ready")
def test_figures_hide_while_a_race_runs_and_then_are_its_own(page: Page) -> None:
    open_figures(page)
    body = page.locator("#figures-body")
    before = body.inner_text()
    for control, value in (("max-new-tokens", "32"), ("gamma", "2")):
        box = page.locator(f"#{control} input[type=number]")
        box.fill(value)
        box.press("Tab")
    page.locator("#run").click()
    state = page.locator("#race-view .sv-state")
    expect(state).to_have_attribute("data-state", "running")
    assert not body.is_visible()
    expect(page.locator("#figures")).to_contain_text("The figures follow when the race has ended.")
    expect(state).to_have_attribute("data-state", "finished", timeout=120_000)
    expect(body).to_be_visible()
    expect(page.locator("#figures .js-plotly-plot")).to_have_count(2)

    said = MEASURED.search(body.inner_text())
    assert said and said[1] == "2"
    assert body.inner_text() != before
    eventually(lambda: f"{said[2]}×" in page.locator("#race-view .sv-tiles").inner_text())
