"""The pictures of the documentation, taken from a running page: python docs/pictures.py http://127.0.0.1:7860

Each state is taken wide in light, wide in dark, and narrow (phone). Needs what ``make test`` installs.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

FOLDER = Path(__file__).parent / "images"
LOOKS = {"light": (1280, "light"), "dark": (1280, "dark"), "phone": (390, "light")}
ATTENTION = "#attention-view .sv-card"
PATIENCE_MS = 120_000  # the models may still be loading, and some experiments run them


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def race(page: Page) -> None:
    """The recorded race stopped at its seventeenth round, as far down as a screen shows."""
    narrow = page.viewport_size is not None and page.viewport_size["width"] < 800
    page.set_viewport_size({"width": 360, "height": 800} if narrow else {"width": 1440, "height": 1080})
    view = page.locator("#race-view")
    view.get_by_role("slider", name="Position in the record").fill("0")
    for _ in range(60):
        if view.locator(".sv-transport .sv-where").inner_text().startswith("round 17"):
            break
        view.get_by_role("button", name="One round on (right arrow)").click()
        page.wait_for_timeout(100)
    page.evaluate("window.scrollTo(0, 0)")


def microscope(page: Page) -> None:
    open_tab(page, "Microscope")
    expect(page.locator("#microscope-view .sv-scope-status")).to_have_attribute(
        "data-state", "ready", timeout=PATIENCE_MS
    )


def in_place(page: Page) -> None:
    page.add_style_tag(content=".sv-transport { position: static !important }")  # it would lie across the picture
    page.locator('#race-view .sv-chip[data-state="rejected"]').last.click()
    expect(page.locator("#race-view .sv-scope-status")).to_have_attribute("data-state", "ready", timeout=PATIENCE_MS)


def logarithmic(page: Page) -> None:
    microscope(page)
    page.locator("#microscope-view").get_by_role("button", name="Logarithmic").click()


def what_if(page: Page) -> None:
    microscope(page)
    mark = page.locator("#microscope-view").get_by_role("slider", name="The draw u at this position")
    mark.focus()
    page.keyboard.press("Home")
    for _ in range(6):
        page.keyboard.press("PageUp")


def certainty_ends(page: Page) -> None:
    microscope(page)
    page.locator("#microscope-view .sv-control-temperature input").fill("2")
    page.locator("#microscope-view .sv-chip").first.click()


def lossy_rule(page: Page) -> None:
    microscope(page)
    page.locator("#microscope-view .sv-rule-select").select_option("kl-threshold")


def proof(page: Page) -> None:
    open_tab(page, "Lossless")
    page.locator(".sv-proof").get_by_role("button", name="Overconfident draft").click()
    page.locator(".sv-proof").get_by_role("button", name="Resample").click()


def proof_broken(page: Page) -> None:
    proof(page)
    page.locator(".sv-proof").get_by_label("Replace the residual by p").check()


def redraw(page: Page) -> None:
    open_tab(page, "Lossless")
    page.locator(".sv-lab").get_by_role("button", name="Redraw this position").click()
    expect(page.locator(".sv-lab .sv-lab-made")).to_contain_text("draws", timeout=PATIENCE_MS)


def exposed(page: Page) -> None:
    open_tab(page, "Lossless")
    page.locator(".sv-lab").get_by_label("Beside it, from the museum").select_option("residual-is-p")
    page.locator(".sv-lab").get_by_role("button", name="Redraw this position").click()
    expect(page.locator(".sv-lab")).to_contain_text("Exposed", timeout=PATIENCE_MS)


def whole_rounds(page: Page) -> None:
    open_tab(page, "Lossless")
    page.locator(".sv-lab").get_by_role("button", name="Redraw whole rounds").click()
    expect(page.locator(".sv-lab table")).to_be_visible(timeout=PATIENCE_MS)


def museum(page: Page) -> None:
    open_tab(page, "Lossless")
    expect(page.locator(".sv-museum")).to_be_visible()


def attention(page: Page) -> None:
    tab = page.get_by_role("tab", name="Attention tiles")
    if tab.is_visible():
        tab.click()
    else:  # on a phone Gradio puts the last tabs into a menu
        page.get_by_role("button", name="More tabs").click()
        page.locator(".overflow-dropdown").get_by_text("Attention tiles").click()
    expect(page.locator("#attention-view .sv-att-status").first).to_have_attribute(
        "data-state", "none", timeout=PATIENCE_MS
    )
    page.add_style_tag(content=".sv-transport { position: static !important }")


def attention_prefill(page: Page) -> None:
    attention(page)
    view = page.locator("#attention-view")
    view.get_by_role("button", name="Prefill").click()
    expect(view.locator(".sv-att-panel").first).to_have_attribute("data-phase", "prefill")


def attention_two(page: Page) -> None:
    attention(page)
    view = page.locator("#attention-view")
    view.get_by_label("Beside it").select_option("flash-attention-1")
    expect(view.locator(".sv-att-panel:visible")).to_have_count(2)


STATES: dict[str, tuple[str | None, Callable[[Page], None]]] = {
    "race": (None, race),
    "microscope": ("#microscope-view", microscope),
    "microscope-in-place": ("#race-view .sv-panel", in_place),
    "microscope-logarithmic": ("#microscope-view", logarithmic),
    "microscope-what-if": ("#microscope-view", what_if),
    "microscope-certainty-ends": ("#microscope-view", certainty_ends),
    "microscope-lossy-rule": ("#microscope-view", lossy_rule),
    "lossless-proof": (".sv-proof", proof),
    "lossless-proof-broken": (".sv-proof", proof_broken),
    "lossless-lab": (".sv-lab", redraw),
    "lossless-lab-exposed": (".sv-lab", exposed),
    "lossless-whole-rounds": (".sv-lab", whole_rounds),
    "lossless-museum": (".sv-museum", museum),
    "attention": (f"{ATTENTION} >> nth=0", attention),
    "attention-prefill": (f"{ATTENTION} >> nth=0", attention_prefill),
    "attention-two": (f"{ATTENTION} >> nth=0", attention_two),
    "attention-growth": (f"{ATTENTION} >> nth=1", attention),
    "attention-ablation": (f"{ATTENTION} >> nth=2", attention),
}


def take(browser: Browser, address: str, name: str, look: str) -> None:
    element, reach = STATES[name]
    width, scheme = LOOKS[look]
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.goto(address)
    expect(page.locator("#race-view .sv-state")).to_be_visible()
    reach(page)
    page.wait_for_timeout(800)
    picture = Image.open(io.BytesIO(page.locator(element).screenshot() if element else page.screenshot()))
    picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(FOLDER / f"{name}-{look}.png", optimize=True)
    page.close()


def main(address: str, *names: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in names or STATES:
            for look in LOOKS:
                take(browser, address, name, look)
                print(f"{name}-{look}")


if __name__ == "__main__":
    main(*sys.argv[1:])
