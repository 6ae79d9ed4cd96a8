"""A real server with the real default pair, and a real chromium."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from specviz.service import Options, Service
from specviz.ui.app import serve

expect.set_options(timeout=20_000)


@pytest.fixture(scope="package")
def service() -> Iterator[Service]:
    service = Service(Options(threads=2))
    yield service
    eventually(lambda: service.state.phase != "loading", 120)  # a thread inside PyTorch at exit ends the process badly
    service.close()


@pytest.fixture(scope="package")
def address(service: Service) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    page, address = serve(service, host="127.0.0.1", port=port)
    yield address
    page.close(verbose=False)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # The system's chromium where there is one; otherwise the one that playwright installs.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    expect(page.locator("#race-view .sv-state")).to_be_visible()
    return page


@pytest.fixture
def ready(service: Service) -> None:
    """Wait for the models; the first test to ask may have to wait while they are fetched and converted."""
    eventually(lambda: service.state.phase != "loading", seconds=600)
    assert service.state.phase == "ready", service.state.message


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not true within {seconds:g} s"
        time.sleep(0.05)
