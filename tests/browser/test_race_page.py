"""What a visitor does on the Race tab, in chromium, on the default pair."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from specviz.service import Service
from specviz.trace import from_json
from tests.browser.conftest import eventually

pytestmark = [pytest.mark.browser, pytest.mark.weights]


def state(page: Page) -> Locator:
    return page.locator("#race-view .sv-state")


def set_number(page: Page, control: str, value: float) -> None:
    box = page.locator(f"#{control} input[type=number]")
    box.fill(str(value))
    box.press("Tab")


def run(page: Page, prompt: str | None = None, tokens: int = 32) -> None:
    if prompt is not None:
        page.locator("#prompt textarea").fill(prompt)
    set_number(page, "max-new-tokens", tokens)
    page.locator("#run").click()
    expect(state(page)).to_have_attribute("data-state", "running")


def open_trace(page: Page, path: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.locator("#import").click()
    chooser.value.set_files(path)


def finish(page: Page) -> None:
    expect(state(page)).to_have_attribute("data-state", "finished", timeout=120_000)


def test_the_first_paint_is_a_recorded_run(page: Page) -> None:
    expect(state(page)).to_have_attribute("data-state", "recorded")
    expect(state(page)).to_contain_text("Recorded run of")
    expect(page.locator(".sv-lane-speculative .sv-token").first).to_be_visible()


@pytest.mark.usefixtures("ready")
def test_a_run_streams_every_kind_of_token_and_scrubs_back(page: Page) -> None:
    expect(page.locator("#header .page-status")).to_contain_text("SmolLM2")
    run(page, tokens=40)
    lane = page.locator(".sv-lane-speculative")
    expect(lane.locator(".sv-token").first).to_be_visible()
    expect(page.locator("#run")).to_be_disabled()
    finish(page)
    for source in ("draft", "residual"):
        expect(lane.locator(f".sv-token.sv-{source}").first).to_be_visible()
    expect(page.locator("#run")).to_be_enabled()
    expect(page.locator(".sv-lane-standard .sv-token").first).to_be_visible()

    page.locator(".sv-first").click()
    expect(page.locator(".sv-where")).to_contain_text(re.compile("round [01] of"))
    page.locator(".sv-on").click()
    first_round = page.locator(".sv-row").filter(has=page.get_by_text("Round 1", exact=True))
    expect(first_round).to_have_attribute("data-phase", "judged")
    for _ in range(40):
        if page.locator(".sv-chip[data-state=rejected]").count():
            break
        page.locator(".sv-on").click()
        page.wait_for_timeout(50)
    expect(page.locator(".sv-chip[data-state=rejected]").first).to_be_visible()


def choose_rule(page: Page, label: str) -> None:
    page.locator("#rule input").click()
    page.get_by_role("option", name=label).click()


def seen(page: Page) -> list[bool]:
    return [page.locator(f"#{name}").is_visible() for name in ("epsilon", "delta", "kl-threshold")]


@pytest.mark.usefixtures("ready")
def test_a_lossy_run_is_marked_and_speaks_of_no_residual(page: Page) -> None:
    mark = state(page).locator(".sv-lossy")
    expect(mark).to_be_hidden()
    page.locator("#advanced > button").click()
    expect(page.locator("#rule")).to_contain_text("exactly")
    assert seen(page) == [False, False, False]
    choose_rule(page, "KL threshold (lossy)")
    eventually(lambda: seen(page) == [False, False, True])
    choose_rule(page, "Typical acceptance (lossy)")
    eventually(lambda: seen(page) == [True, True, False])
    expect(page.locator("#rule")).to_contain_text("need not follow the target's distribution")
    for parameter in ("epsilon", "delta"):
        set_number(page, parameter, 1)

    run(page, tokens=40)
    expect(mark).to_have_text("lossy rule")
    finish(page)
    expect(mark).to_be_visible()
    expect(state(page)).to_contain_text("typical ε 1 δ 1")
    expect(page.locator(".sv-idea")).to_contain_text("The rule of this run is lossy")
    expect(page.locator(".sv-parting")).to_contain_text("this rule is lossy")
    expect(page.locator(".sv-legend")).to_contain_text("drawn from p")
    expect(page.locator(".sv-key.sv-residual")).to_be_hidden()
    assert page.locator(".sv-token.sv-residual").count() == 0
    page.locator(".sv-lane-speculative .sv-token.sv-replaced").first.click()
    expect(page.locator('.sv-rail .sv-chip[aria-pressed="true"]')).to_contain_text("from p")
    expect(page.locator(".sv-rail .sv-chip[data-state=rejected]").first).to_contain_text("too low")


def test_a_token_of_the_text_opens_its_evidence(page: Page) -> None:
    """The recorded run has them all: what was drafted and accepted, and what the target put after a rejection."""
    page.locator(".sv-last").click()
    for source, verdict in (("residual", "residual"), ("draft", "accepted")):
        page.locator(f".sv-lane-speculative .sv-token.sv-{source}").first.click()
        expect(page.locator(f".sv-panel .sv-verdict-{verdict}")).to_be_visible()
        expect(page.locator('.sv-rail .sv-chip[aria-pressed="true"]')).to_have_attribute("data-state", verdict)


def test_a_text_that_was_scrolled_up_follows_again_after_going_back(page: Page) -> None:
    text = page.locator(".sv-lane-speculative .sv-text")
    page.locator(".sv-last").click()
    eventually(lambda: text.evaluate("it => it.scrollTop > 24"))
    text.evaluate("it => it.scrollTo(0, 0)")
    page.wait_for_timeout(200)
    page.locator(".sv-first").click()
    page.locator(".sv-last").click()
    eventually(lambda: text.evaluate("it => it.scrollTop > 24"))


@pytest.mark.usefixtures("ready")
def test_stop_shows_what_was_done_and_frees_the_slot(page: Page, service: Service) -> None:
    run(page, tokens=400)
    expect(page.locator(".sv-lane-speculative .sv-token").first).to_be_visible()
    page.locator("#stop").click()
    expect(state(page)).to_have_attribute("data-state", "stopped")
    eventually(lambda: not service.runner.busy, seconds=3)
    expect(page.locator("#run")).to_be_enabled()
    assert page.locator(".sv-lane-speculative .sv-token").count() > 0


@pytest.mark.usefixtures("ready")
def test_a_closed_tab_frees_the_slot(page: Page, service: Service) -> None:
    run(page, tokens=400)
    assert service.runner.busy
    page.close()
    eventually(lambda: not service.runner.busy, seconds=3)


@pytest.mark.usefixtures("ready")
def test_two_visitors_queue_and_neither_sees_the_other(page: Page, context: BrowserContext, service: Service) -> None:
    second = context.new_page()
    second.goto(page.url)
    expect(state(second)).to_be_visible()
    run(page, "Count to twenty.", tokens=400)
    set_number(second, "max-new-tokens", 8)
    second.locator("#prompt textarea").fill("Name one colour.")
    second.locator("#run").click()
    expect(second.locator("#notice .notice")).to_contain_text("Runs ahead of yours: 1")
    page.locator("#stop").click()
    finish(second)
    expect(state(second)).to_contain_text("Name one colour.")
    expect(state(page)).to_contain_text("Count to twenty.")
    eventually(lambda: not service.runner.busy)


HOSTILE = ('<img src=x onerror="window.pwned=1">', "${window.pwned=7*7} {{window.pwned=1}} {{{pwned}}} `${1}`")


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("prompt", HOSTILE)
def test_a_hostile_prompt_is_text(page: Page, prompt: str) -> None:
    run(page, f"Repeat exactly: {prompt}", tokens=12)
    finish(page)
    expect(state(page)).to_contain_text(prompt)
    assert page.evaluate("window.pwned") is None
    assert page.locator("#race-view img").count() == 0


@pytest.mark.parametrize(
    ("control", "value", "words"),
    [
        ("prompt", "   ", "The prompt is empty"),
        ("prompt", "long " * 5_000, "25,000 characters"),
        ("seed", "-3", "The seed must be a whole number"),
        ("top-k", "-1", "top-k must be a whole number"),
    ],
)
def test_a_bad_request_is_answered_in_a_sentence(page: Page, control: str, value: str, words: str) -> None:
    before = state(page).inner_text()
    if control == "prompt":
        page.locator("#prompt textarea").fill(value)
    else:
        page.locator("#advanced > button").click()
        set_number(page, control, float(value))
    page.locator("#run").click()
    expect(page.locator("#notice .notice-error")).to_contain_text(words)
    expect(page.locator("#run")).to_be_enabled()
    assert state(page).inner_text() == before
    if control == "prompt":
        assert page.locator("#prompt textarea").input_value() == value


@pytest.mark.usefixtures("ready")
def test_a_trace_goes_out_and_comes_back(page: Page, tmp_path: Path) -> None:
    run(page, "What is the capital of France?", tokens=12)
    finish(page)
    with page.expect_download() as download:
        page.locator("#export").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    trace = from_json(path.read_bytes())
    assert trace.prompt.text == "What is the capital of France?"

    page.reload()
    expect(state(page)).to_have_attribute("data-state", "recorded")
    expect(state(page)).not_to_contain_text("What is the capital of France?")
    open_trace(page, path)
    expect(state(page)).to_contain_text("What is the capital of France?")
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"version": 99}))
    open_trace(page, bad)
    expect(page.locator("#notice .notice-error")).to_contain_text("not a SpecViz trace")
    expect(state(page)).to_contain_text("What is the capital of France?")
