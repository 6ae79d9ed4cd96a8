"""``show``: a recorded trace in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from specviz import trace as traces
from specviz.analysis.metrics import summarize
from specviz.cli import figures, transcript
from specviz.trace import Trace


def show(
    file: Annotated[Path, typer.Argument(help="A trace written by run --json or exported from the page.")],
) -> None:
    """Show a recorded trace: every round, both texts, and the figures."""
    trace = traces.load(file)
    console = Console(highlight=False)
    console.print(transcript.heading(trace.settings), "")
    if trace.branch:
        console.print(transcript.taken_over(trace.branch))
    speculative = trace.run("speculative")
    for round_ in speculative.rounds if speculative else ():
        console.print(transcript.round_line(round_))
    console.print(report(trace))


def report(trace: Trace) -> Group:
    """Both texts, the figures, and what they mean."""
    parts: list[RenderableType] = []
    for run in trace.runs:
        lossy = ", lossy rule" if run.kind == "speculative" and traces.is_lossy(trace.settings) else ""
        title = f"{run.kind}: {run.finish_reason.replace('_', ' ')}{lossy}"
        parts += ["", Text(title, "bold"), transcript.plain_text(run)]
    speculative, standard = trace.run("speculative"), trace.run("standard")
    if trace.settings.temperature == 0 and speculative and standard:
        parts += ["", transcript.agreement(speculative, standard, trace.divergence)]
    summary = summarize(trace.runs)
    parts += ["", figures.tiles(summary, trace.settings), figures.times(summary)]
    if summary.speculation and summary.speculation.conditional:
        parts.append(figures.positions(summary.speculation))
    if summary.speculation:
        parts.append(figures.sentence(summary))
    return Group(*parts)
