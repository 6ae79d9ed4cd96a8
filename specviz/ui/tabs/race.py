"""The Race tab: ask on the left, watch on the right. Speculative and standard decoding of one prompt, side by side."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gradio as gr
from gradio.events import Dependency

from specviz.errors import UserError
from specviz.laboratory import Laboratory
from specviz.runner import Ticket
from specviz.settings import (
    DEFAULT_DELTA,
    DEFAULT_EPSILON,
    DEFAULT_KL_THRESHOLD,
    check_prompt,
    make_settings,
)
from specviz.trace import RunKind, Trace, TraceError, load, save
from specviz.ui.components.lab_server import LabServer, draws, mapping, text, whole
from specviz.ui.components.notice import CLEAR, notice
from specviz.ui.components.race_view import RaceView
from specviz.ui.components.wire import name_of, recorded
from specviz.ui.examples import Example
from specviz.ui.tabs.race_controls import ORDERS, ask_controls, sampling_controls
from specviz.ui.tabs.race_figures import RaceFigures
from specviz.ui.tabs.race_stream import frames

if TYPE_CHECKING:
    from specviz.service import RaceEvent

log = logging.getLogger(__name__)

Outputs = tuple[Any, Any, Any]  # for the view, the notice and the export button; gr.skip() leaves one as it is
PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}


class RaceTab:
    """Layout and events of the tab. One instance serves every visitor and keeps nothing of any of them."""

    def __init__(self, laboratory: Laboratory, words: Mapping[str, str], lang: str) -> None:
        self.laboratory, self.service = laboratory, laboratory.service
        self.words, self.lang = words, lang

    def build(self, examples: list[Example], first: Path) -> Dependency:
        """Put the tab into the surrounding Blocks; returns the event after which a race has ended.

        ``first`` is the recorded race shown at the start, if it exists.
        """
        words = self.words
        with gr.Row(elem_id="race-layout"):
            with gr.Column(elem_id="race-ask"):
                ask = ask_controls(words, examples)
            with gr.Column(elem_id="race-watch"):
                view = RaceView(
                    self._first(first),
                    lang=self.lang,
                    server_functions=LabServer(self.laboratory).functions("look", "what_if"),
                    label="view",
                    elem_id="race-view",
                )
                with gr.Row(elem_id="race-files"):
                    export = gr.DownloadButton(
                        words["page.export"], value=first if first.exists() else None, size="sm", elem_id="export"
                    )
                    upload = gr.UploadButton(words["page.import"], size="sm", elem_id="import")
                figures = RaceFigures(words)
                figures.build()
            with gr.Column(elem_id="race-settings"):
                sampling = sampling_controls(words, self.service.options.token_limit)

        self._shown, self._buttons = [view, ask.notice, export], [ask.run, ask.stop]
        self._figures, self.view = figures, view
        buttons = self._buttons
        asked = [ask.run.click, ask.prompt.submit]
        gr.on(asked, lambda: _buttons(running=True), outputs=buttons, queue=False, **PRIVATE)
        figures.hide(asked)
        racing = gr.on(
            asked,
            self.race,
            inputs=[ask.prompt, *sampling],
            outputs=self._shown,
            api_name="race",
            trigger_mode="once",
            concurrency_limit=None,  # the runner queues, and it knows positions and waiting times
            show_progress="hidden",
            preprocess=False,  # make_settings checks everything, for the page and for callers of the API alike
        )
        ended = racing.then(lambda: _buttons(running=False), outputs=buttons, queue=False, **PRIVATE)
        ask.stop.click(self.stop, queue=False, **PRIVATE)
        opened = upload.upload(self.show_file, upload, self._shown, trigger_mode="once", **PRIVATE)
        self._export, self._changes = export, [ended, opened]
        return ended

    def follow(self, branches: Sequence[Any], tabs: gr.Tabs) -> None:
        """Run a branch where a view asks for one, and show it on this tab; then let the figures follow all races."""
        self._figures.hide(branches)
        ended = []
        for asked in branches:  # a component's own event is a function, not a trigger that gr.on takes
            asked(lambda: gr.Tabs(selected="race"), outputs=tabs, queue=False, **PRIVATE)
            asked(lambda: _buttons(running=True), outputs=self._buttons, queue=False, **PRIVATE)
            branching = asked(self.branch, outputs=self._shown, trigger_mode="once", concurrency_limit=None, **PRIVATE)
            ended.append(branching.then(lambda: _buttons(running=False), outputs=self._buttons, queue=False, **PRIVATE))
        self._figures.follow(self._export, [*self._changes, *ended])

    def _first(self, path: Path) -> str | None:
        if not path.exists():
            return None
        trace = load(path)
        self.laboratory.add(name_of(trace), trace, for_good=True)
        return recorded(trace, self.lang)

    async def race(
        self,
        prompt: str,
        drafter: str,
        gamma: float,
        temperature: float,
        max_new_tokens: float,
        seed: float,
        top_k: float,
        top_p: float,
        rule: str,
        stop_strings: str,
        min_confidence: float,
        order: str,
        request: gr.Request,
        epsilon: float = DEFAULT_EPSILON,
        delta: float = DEFAULT_DELTA,
        kl_threshold: float = DEFAULT_KL_THRESHOLD,
    ) -> AsyncIterator[Outputs]:
        """Decode a prompt speculatively and in the standard way, one after the other.

        Yields the race view's JSON messages, a notice, and at the end the trace as a file.
        """
        name, _, quantization = drafter.partition(":") if isinstance(drafter, str) else (drafter, "", "")
        try:
            settings = make_settings(
                drafter=name,
                quantization=quantization,
                gamma=gamma,
                temperature=temperature,
                max_new_tokens=max_new_tokens,
                seed=seed,
                top_k=top_k,
                top_p=top_p,
                rule=rule,
                stop=_lines(stop_strings),
                min_confidence=min_confidence,
                epsilon=epsilon,
                delta=delta,
                kl_threshold=kl_threshold,
                token_limit=self.service.options.token_limit,
            )
            ticket = self.service.race(check_prompt(prompt), settings, _visitor(request), _order(order))
        except UserError as refusal:
            yield gr.skip(), notice(str(refusal)), gr.skip()
            return
        async for shown in self._follow(ticket):
            yield shown

    async def branch(self, event: gr.EventData, request: gr.Request) -> AsyncIterator[Outputs]:
        """Go on from a round as it would have been; the event brings {run, round, changes, u}."""
        asked = event._data
        try:
            if not isinstance(asked, Mapping):
                raise UserError(self.words["page.branch.unclear"])
            ask = partial(self.laboratory.branch, text(asked, "run"), whole(asked, "round"), mapping(asked, "changes"))
            branch = await asyncio.to_thread(ask, draws(asked))
            ticket = self.service.race(branch.prompt, branch.settings, _visitor(request), origin=branch.origin)
        except UserError as refusal:
            yield gr.skip(), notice(str(refusal)), gr.skip()
            return
        async for shown in self._follow(ticket):
            yield shown

    async def _follow(self, ticket: Ticket[RaceEvent]) -> AsyncIterator[Outputs]:
        """Show a race while it is made; at its end offer the trace as a file and to the laboratory."""
        try:
            async with aclosing(frames(ticket, self.service, self.words, self.lang)) as stream:
                async for view, message, trace, run in stream:
                    shown = gr.skip() if view is None else view, gr.skip() if message is None else message
                    if trace is None:
                        # Once the view shows this race, the file of the one before is not offered with it.
                        yield *shown, gr.skip() if view is None else None
                        continue
                    await asyncio.to_thread(self.laboratory.add, run, trace)
                    try:
                        with TemporaryDirectory(prefix="specviz-") as folder:
                            yield *shown, await asyncio.to_thread(_file, trace, Path(folder))
                    except OSError:
                        log.exception("A trace could not be written")
                        yield shown[0], notice(self.words["page.export.failed"]), None
        finally:
            ticket.cancel()  # a closed tab, a reload, an error: whatever it was, nobody reads on

    def stop(self, request: gr.Request) -> None:
        """End this visitor's race; its reader then shows what was done until then."""
        self.service.stop(_visitor(request))

    def show_file(self, path: str) -> Outputs:
        """Show an uploaded trace in place of the present one; a bad file leaves everything as it is."""
        try:
            trace = load(Path(path))
        except TraceError as refusal:
            Path(path).unlink(missing_ok=True)
            return gr.skip(), notice(str(refusal)), gr.skip()
        self.laboratory.add(name_of(trace), trace)
        return recorded(trace, self.lang), CLEAR, path


def _visitor(request: gr.Request) -> str:
    return request.session_hash or secrets.token_hex(16)


def _buttons(*, running: bool) -> tuple[Any, Any]:
    return gr.update(interactive=not running), gr.update(interactive=running)


def _order(order: object) -> tuple[RunKind, ...]:
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order]
    raise UserError(f"The order must be one of {', '.join(ORDERS)}; you gave {str(order)[:40]!r}.")


def _lines(text: object) -> object:
    r"""Stop strings, one a line, a line break inside one written as \n."""
    if not isinstance(text, str):
        return text
    return [line.replace("\\n", "\n") for line in text.splitlines() if line]


def _file(trace: Trace, folder: Path) -> str:
    """The trace as a file with a telling name. Gradio copies it to its own store and deletes it there after a while."""
    settings = trace.settings
    name = "-".join(filter(None, ("specviz", settings.drafter, settings.quantization, trace.recorded[:10])))
    path = folder / f"{name}.json"
    save(trace, path)
    return str(path)
