"""The microscope in chromium: the models' own numbers, what-ifs at once, and one selection for both of its places."""

from __future__ import annotations

import re
from statistics import median

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.weights]

SCRUB_MS = 50


@pytest.fixture
def scope(page: Page, ready: None) -> Locator:
    """The Microscope tab on the recorded run's first rejection, with the full distributions."""
    page.get_by_role("tab", name="Microscope").click()
    scope = page.locator("#microscope-view")
    expect(scope.locator(".sv-scope-status")).to_have_attribute("data-state", "ready", timeout=60_000)
    expect(scope.locator('.sv-chip[aria-pressed="true"]')).to_have_attribute("data-state", "rejected")
    return scope


def test_the_full_evidence_agrees_with_the_record(scope: Locator) -> None:
    expect(scope.locator(".sv-verdict")).to_contain_text("Rejected: u =")
    expect(scope.locator(".sv-overlap")).to_contain_text("the chance that a draft token is accepted here")
    expect(scope.locator(".sv-bars .sv-picked")).to_contain_text("picked")
    for name in ("entropy_p", "entropy_q", "tv", "kl", "rank", "difference"):
        expect(scope.locator(f".sv-number-{name} dd")).to_have_text(re.compile(r"\d|∞"))
    expect(scope.locator(".sv-reset")).to_be_disabled()


def test_a_dragged_u_turns_the_verdict_within_fifty_milliseconds(page: Page, scope: Locator) -> None:
    chip = scope.locator('.sv-chip[aria-pressed="true"]')
    line = scope.locator(".sv-draw-line").bounding_box()
    assert line
    page.mouse.move(line["x"] + 0.9 * line["width"], line["y"] + 8)
    page.mouse.down()
    for step in range(40):
        page.mouse.move(line["x"] + (0.9 - 0.02 * step) * line["width"], line["y"] + 8)
        page.wait_for_timeout(16)
    page.mouse.up()
    expect(chip).to_have_attribute("data-state", "accepted")
    expect(chip).to_contain_text("was rejected")
    expect(scope.locator(".sv-branch")).to_be_visible()
    took = page.evaluate("performance.getEntriesByName('specviz-whatif').map((one) => one.duration)")
    assert len(took) > 10
    assert median(took) <= SCRUB_MS
    scope.locator(".sv-reset").click()
    expect(chip).to_have_attribute("data-state", "rejected")


def test_u_moves_by_keyboard_too_and_says_where_it_is(page: Page, scope: Locator) -> None:
    mark = scope.get_by_role("slider", name="The draw u at this position")
    mark.focus()
    page.keyboard.press("Home")
    expect(mark).to_have_attribute("aria-valuetext", re.compile(r"^The draw u is 0\.00; accepted below .* accepted$"))


def test_where_certainty_ends_the_view_says_so(scope: Locator) -> None:
    scope.locator(".sv-control-temperature input").fill("2")
    expect(scope.locator(".sv-chip[data-state=unknown]").first).to_be_visible()
    expect(scope.locator(".sv-certain")).to_contain_text(re.compile("Certainty ends behind|the round ends there"))


def test_a_lossy_rule_is_marked_and_its_law_is_shown(scope: Locator) -> None:
    expect(scope.locator(".sv-lossy")).not_to_be_visible()
    scope.locator(".sv-rule-select").select_option("kl-threshold")
    expect(scope.locator(".sv-lossy")).to_be_visible()
    expect(scope.locator(".sv-verdict")).to_contain_text("KL(p‖q) =")
    expect(scope.locator(".sv-overlap")).to_contain_text("TV(out, p) =")
    expect(scope.locator(".sv-control-kl_threshold")).to_be_visible()
    expect(scope.locator(".sv-control-epsilon")).not_to_be_visible()


def test_both_places_show_one_selection(page: Page, scope: Locator) -> None:
    heading = scope.locator(".sv-panel h2")
    heading.click()  # keys go to the tab button until then
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(heading).to_have_text(re.compile("position 2|the token the target added"))
    said = heading.inner_text()
    page.get_by_role("tab", name="Race").click()
    expect(page.locator("#race-view .sv-panel h2")).to_have_text(said)
    expect(page.locator('#race-view .sv-rail .sv-chip[aria-pressed="true"]')).to_be_visible()
