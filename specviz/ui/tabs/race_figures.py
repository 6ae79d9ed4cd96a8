"""Figures of the race that is shown, in a closed accordion: Plotly reaches a browser when somebody opens it."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components.base import Component
from gradio.components.plot import PlotData
from gradio.events import Dependency

from specviz.analysis.autopsy import autopsy
from specviz.analysis.metrics import summarize
from specviz.trace import TraceError, load
from specviz.ui.figures import Drawn, gamma_figure, time_figure

NAMES = ("time", "gamma")
CONFIG = {"displayModeBar": False, "doubleClick": False, "showTips": False}
# Not preprocessed, a file is Gradio's record of it, which Gradio has checked to be one that it serves.
EVENT: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "preprocess": False}


class RaceFigures:
    """Drawn from the exported trace while the accordion is open, and hidden while a race runs: no figure is ever seen
    beside another race than its own.
    """

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = words

    def build(self) -> None:
        words = self.words
        self.opened = gr.State(False)
        with gr.Accordion(words["figures.title"], open=False, elem_id="figures") as self.accordion:
            self.waiting = gr.HTML(_paragraph(words["figures.waiting"]), visible=False)
            with gr.Column(elem_id="figures-body") as self.body:
                self.remark = gr.HTML(elem_id="figures-remark")
                self.figures: list[Component] = []
                with gr.Row() as self.row:
                    for name in NAMES:
                        with gr.Column(min_width=280, elem_id=f"figure-{name}"):
                            gr.HTML(_heading(words[f"figures.{name}.title"], words[f"figures.{name}.unit"]))
                            plot = gr.Plot(show_label=False, container=False, visible=False)
                            self.figures += (plot, gr.HTML())

    def hide(self, races: Sequence[Callable[..., Any]]) -> None:
        """Hide while a race runs. To be called before the race is bound to the same events: they go in that order."""
        for begins in races:
            begins(lambda: _visible(True, False), outputs=[self.waiting, self.body], queue=False, **EVENT)

    def follow(self, file: Component, changes: Sequence[Dependency]) -> None:
        """Draw ``file`` when the accordion opens, and while it is open after each of ``changes``."""
        content = [self.remark, self.row, *self.figures]
        self.accordion.expand(lambda file: (True, *self.draw(file)), file, [self.opened, *content], **EVENT)
        self.accordion.collapse(lambda: False, outputs=self.opened, queue=False, **EVENT)
        for change in changes:
            drawn = change.then(self.redraw, [file, self.opened], content, **EVENT)
            drawn.success(lambda: _visible(False, True), outputs=[self.waiting, self.body], queue=False, **EVENT)

    def redraw(self, file: Mapping[str, Any] | None, opened: bool) -> list[Any]:
        return self.draw(file) if opened else self._content("")

    def draw(self, file: Mapping[str, Any] | None) -> list[Any]:
        """A remark, whether there are figures, then each of them and its caption."""
        words = self.words
        if file is None:
            return self._content(words["figures.none"])
        try:
            trace = load(Path(file["path"]))
        except TraceError:
            return self._content(words["figures.gone"])
        summary = summarize(trace.runs)
        disturbed = autopsy(summary).cause == "disturbed"
        return self._content(
            words["autopsy.cause.disturbed"] if disturbed else "",
            time_figure(summary, words),
            gamma_figure(summary, trace.settings.gamma, words),
        )

    def _content(self, remark: str, *drawn: Drawn) -> list[Any]:
        content = [_paragraph(remark), gr.update(visible=bool(drawn))]
        for figure, caption in drawn or [Drawn(None, "")] * len(NAMES):
            content += (gr.update(value=_plot(figure), visible=figure is not None), _paragraph(caption))
        return content


def _plot(figure: Any) -> PlotData | None:
    """A figure with its configuration, which Gradio would leave out."""
    if figure is None:
        return None
    return PlotData(type="plotly", plot=json.dumps(json.loads(figure.to_json()) | {"config": CONFIG}))


def _heading(title: str, unit: str) -> str:
    return f"<h3>{html.escape(title)}</h3><p>{html.escape(unit)}</p>"


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>" if text else ""


def _visible(*shown: bool) -> list[Any]:
    return [gr.update(visible=one) for one in shown]
