"""The Lossless tab in chromium: what is said of one run is not said of another, and nobody's question is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from specviz.trace import from_json, to_json

pytestmark = [pytest.mark.browser, pytest.mark.weights]

RECORDED = Path(__file__).parents[2] / "assets" / "traces" / "default.json"


@pytest.fixture
def lossless(page: Page, ready: None) -> Locator:
    page.get_by_role("tab", name="Lossless").click()
    return page.locator("#lossless-view")


def open_trace(page: Page, path: Path) -> None:
    page.get_by_role("tab", name="Race").click()
    page.locator("#import").locator("xpath=..").locator("input[type=file]").set_input_files(path)
    page.get_by_role("tab", name="Lossless").click()


def test_what_is_said_of_one_run_is_not_said_of_another(page: Page, lossless: Locator, tmp_path: Path) -> None:
    recorded = from_json(RECORDED.read_bytes())
    target = replace(recorded.models.target, fingerprint="another")
    settings = replace(recorded.settings, rule="typical", epsilon=0.25)
    text = to_json(replace(recorded, settings=settings, models=replace(recorded.models, target=target)))
    (tmp_path / "lossy.json").write_text(text.replace('"source":"residual"', '"source":"target"'))

    open_trace(page, tmp_path / "lossy.json")
    rule, status = lossless.get_by_label("Acceptance rule"), lossless.locator(".sv-lab-status")
    expect(rule).to_have_value("typical")
    expect(lossless.get_by_label("ε")).to_have_value("0.25")
    lossless.get_by_role("button", name="Redraw this position").click()
    expect(status).to_contain_text("other weights")
    open_trace(page, RECORDED)
    expect(rule).to_have_value("rejection-sampling")
    expect(status).to_have_text("")


@pytest.mark.slow
def test_exhibits_put_on_together_are_measured_one_after_another(lossless: Locator) -> None:
    measured = lossless.locator(".sv-exhibit").filter(has_text="Measure on this run")
    expect(measured).to_have_count(3)
    cards = measured.all()[1:]
    for card in cards:
        card.get_by_role("switch").click()
    for card in cards:
        expect(card.locator(".sv-exhibit-verdict")).to_be_visible(timeout=120_000)
        expect(card.get_by_role("switch")).to_have_attribute("aria-checked", "true")
