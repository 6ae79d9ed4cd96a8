"""The page: header, tabs, and how it is served. The models load behind it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read while gradio is imported

import gradio as gr

import specviz
from specviz.attention_lab import AttentionLab
from specviz.laboratory import Laboratory
from specviz.service import LoadState, Options, Service
from specviz.trace import MAX_TRACE_BYTES
from specviz.ui.components.base import CSS_PATHS, STATIC
from specviz.ui.components.header import Header
from specviz.ui.components.lab_server import LabServer
from specviz.ui.examples import example_prompts
from specviz.ui.i18n import strings
from specviz.ui.tabs import lossless, microscope, tiles
from specviz.ui.tabs.race import RaceTab
from specviz.ui.theme import theme

ASSETS = Path(__file__).parents[2] / "assets"
FILE_LIFE_S = 3600
# Gradio's own frame lies outside the scope that it gives to css_paths.
HEAD = "<style>@media (max-width: 860px) { .gradio-container > .app { padding: 16px } }</style>"


def build(service: Service, lang: str = "en") -> gr.Blocks:
    """The whole page as Gradio blocks; every event of every visitor goes to this one service."""
    words = strings(lang)
    laboratory = Laboratory(service)
    server = LabServer(laboratory)
    with gr.Blocks(
        title="SpecViz",
        analytics_enabled=False,
        fill_width=True,
        delete_cache=(FILE_LIFE_S, FILE_LIFE_S),
    ) as page:
        header = Header(words, elem_id="header")
        race = RaceTab(laboratory, words, lang)
        with gr.Tabs() as tabs:
            with gr.Tab(words["page.tab.race"], id="race"):
                raced = race.build(example_prompts(ASSETS / "prompts.jsonl"), ASSETS / "traces" / "default.json")
            with gr.Tab(words["page.tab.microscope"], id="microscope"):
                scope = microscope.build(server, lang)
            with gr.Tab(words["page.tab.lossless"], id="lossless"):
                lossless.build(server, lang)
            with gr.Tab(words["page.tab.tiles"], id="tiles"):
                tiles.build(AttentionLab(laboratory), lang, ASSETS / "ablation.json")
        race.follow([race.view.branch, scope.branch], tabs)

        async def follow_loading() -> AsyncIterator[str]:
            """The status line, until the models are there or cannot be."""
            said: LoadState | None = None
            while True:
                state = service.state
                if state != said:
                    yield _status(state, words)
                if state.phase != "loading":
                    return
                said = state
                await asyncio.sleep(0.5)

        # After a race too: it tries again what could not be loaded at the start.
        for trigger in (page.load, raced.then):
            trigger(
                follow_loading,
                outputs=header,
                api_visibility="private",
                show_progress="hidden",
                concurrency_limit=None,
            )
    return page


def launch(options: Options | None = None, *, host: str | None = None, port: int | None = None) -> None:
    """Serve the page until interrupted.

    ``host`` and ``port`` left out come from GRADIO_SERVER_NAME and GRADIO_SERVER_PORT, else 127.0.0.1 and the first
    free port from 7860 on. Raises UserError for options that cannot be used, OSError for an address that is taken.
    """
    if specviz.NPU_PROBLEM:
        print(f"No NPU is used: {specviz.NPU_PROBLEM}", flush=True)
    service = Service(options or Options.from_environment())
    try:
        page, address = serve(service, host=host, port=port)
        print(f"SpecViz is at {address} (Ctrl+C ends it)", flush=True)
        page.block_thread()
    finally:
        service.close()


def serve(service: Service, *, host: str | None = None, port: int | None = None) -> tuple[gr.Blocks, str]:
    """Start serving the page of a service in the background; returns it and its address. Raises OSError."""
    page = build(service).queue(max_size=256)
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        theme=theme(),
        css_paths=[*CSS_PATHS, STATIC / "page.css", STATIC / "figures.css"],
        head=HEAD,
        favicon_path=STATIC / "favicon.svg",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        max_file_size=MAX_TRACE_BYTES,
        prevent_thread_lock=True,
        quiet=True,
    )
    return page, address


def _status(state: LoadState, words: dict[str, str]) -> str:
    if state.phase == "loading":
        return f"{words['page.status.loading']} {state.message}".strip()
    return state.message
