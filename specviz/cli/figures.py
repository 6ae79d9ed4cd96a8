"""The figures of a race as terminal tiles, and the sentence that says why."""

from __future__ import annotations

from rich import box
from rich.columns import Columns
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from specviz.analysis.autopsy import autopsy
from specviz.analysis.metrics import Decoding, Speculation, Summary
from specviz.trace import Settings, is_lossy
from specviz.ui.i18n import strings


def tiles(summary: Summary, settings: Settings) -> Columns:
    """One tile a figure; a figure that cannot be had is left out. A rule has a tile if it is lossy."""
    rule = [("lossy rule", settings.rule)] if is_lossy(settings) else []
    figures = [*rule, *_comparison(summary), *_acceptance(summary.speculation)]
    return Columns([_tile(name, value) for name, value in figures])


def times(summary: Summary) -> Table:
    """Where the time of each run went."""
    runs = {"speculative": summary.speculative, "standard": summary.standard}
    shown = {name: _figures(run) for name, run in runs.items() if run}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in shown:
        table.add_column(name, justify="right")
    for figure in next(iter(shown.values()), {}):
        table.add_row(figure, *(figures[figure] for figures in shown.values()))
    return table


def positions(speculation: Speculation) -> Table:
    """Acceptance by position in the draft, under its two readings."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("position in the draft")
    for i in range(len(speculation.conditional)):
        table.add_column(str(i + 1), justify="right")
    table.add_row("accepted, if all before it were", *map(_percent, speculation.conditional))
    table.add_row("accepted up to here (survival)", *map(_percent, speculation.survival))
    return table


def sentence(summary: Summary) -> Text:
    """Faster or slower, and what cost the most; a slower run is said in the same type as a faster one."""
    judged = autopsy(summary)
    words = strings("en")
    text = words[f"autopsy.outcome.{judged.outcome}"] + " " + words[f"autopsy.cause.{judged.cause}"]
    colour = {"faster": "green", "slower": "red"}.get(judged.outcome, "default")
    return Text(text.format(**judged.values), style=f"bold {'yellow' if judged.cause == 'disturbed' else colour}")


def _comparison(summary: Summary) -> list[tuple[str, str]]:
    figures = [
        ("speedup", summary.speedup, "×"),
        ("predicted, i.i.d.", summary.predicted_speedup, "×"),
        ("c, draft over target step", summary.cost, ""),
        ("T(γ+1) / T(1)", summary.verification_overhead, ""),
    ]
    return [(name, f"{value:.2f}{unit}") for name, value, unit in figures if value is not None]


def _acceptance(speculation: Speculation | None) -> list[tuple[str, str]]:
    if speculation is None or speculation.tau is None:
        return []
    return [
        ("α, accepted of tested", f"{_percent(speculation.alpha)} of {speculation.tested}"),
        ("τ, tokens per forward", f"{speculation.tau:.2f}"),
        ("target forwards saved", str(speculation.forwards_saved)),
    ]


def _figures(run: Decoding) -> dict[str, str]:
    seconds = {
        "prefill": run.prefill_s,
        "draft": run.draft_s,
        "verify": run.verify_s,
        "sample": run.sample_s,
        "decode, their sum": run.decode_s,
        "recording, apart": run.overhead_s,
    }
    return {
        "committed tokens": str(run.tokens),
        "target forwards": str(run.target_forwards),
        **{name: f"{value:.3f} s" for name, value in seconds.items()},
        "tokens per second": "–" if run.tok_s is None else f"{run.tok_s:.1f}",
    }


def _tile(name: str, value: str) -> Panel:
    return Panel(Text(value, style="bold", justify="center"), title=name, padding=(0, 2))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"
