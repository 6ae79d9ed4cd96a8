"""Figures of a finished race, drawn by Plotly from its ``Summary``, each with a caption that says the same in words.

Colours are the light steps of ``static/palette.css``; ``static/figures.css`` gives text, lines and dark theme theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from specviz.analysis.autopsy import ENOUGH_TOKENS
from specviz.analysis.gamma import GammaCurve, gamma_curve
from specviz.analysis.metrics import Decoding, Summary
from specviz.settings import MAX_GAMMA

INK, RULE = "#16202d", "#dde2e9"
STANDARD, SPECULATIVE = "#64748b", "#009e73"
DRAFT, VERIFY, SAMPLE = "#cc79a7", "#0072b2", "#8a94a3"

HEIGHT = 296  # pixels, as are the margins
MARGIN = {"l": 8, "r": 8, "t": 24, "b": 32}
LINE = 16  # height of a label
CLEAR = "rgba(0,0,0,0)"

Words = Mapping[str, str]


class Drawn(NamedTuple):
    """``figure`` is None where there is nothing to draw; the caption then says why."""

    figure: go.Figure | None
    caption: str


class Phase(NamedTuple):
    """One part of a token's time."""

    word: str
    ms: float
    marker: dict[str, Any]


def time_figure(summary: Summary, words: Words) -> Drawn:
    """Milliseconds per committed token, standard beside speculative, stacked in the order of a round."""
    said, columns = [words["figures.time.about"]], []
    for kind, run in (("standard", summary.standard), ("speculative", summary.speculative)):
        if run is None or not run.decode_s:
            said.append(words[f"figures.time.no_{kind}"])
        elif run.tokens < ENOUGH_TOKENS:
            said.append(f"{words[f'race.lane.{kind}']}: {words['autopsy.cause.short_run'].format(tokens=run.tokens)}")
        else:
            columns.append((words[f"race.lane.{kind}"], _phases(run, words, drafts=kind == "speculative")))
            said.append(words[f"figures.time.{kind}"].format(**_per_token(run)))
    if not columns:
        return Drawn(None, " ".join(said[1:]))
    figure = _blank()
    top = max(sum(phase.ms for phase in phases) for _, phases in columns)
    line = LINE * top / (HEIGHT - MARGIN["t"] - MARGIN["b"])
    for place, (_, phases) in enumerate(columns):
        _draw_column(figure, place, phases, line, words)
    figure.update_layout(barmode="stack")
    figure.update_xaxes(
        range=[-0.14, 1.86],
        tickvals=[*range(len(columns))],
        ticktext=[name for name, _ in columns],
        ticks="",
    )
    figure.update_yaxes(range=[0, top * 1.02], visible=False)
    return Drawn(figure, " ".join(said))


def gamma_figure(summary: Summary, gamma: int, words: Words) -> Drawn:
    """The speedup to expect at each γ, and what was measured at this run's own."""
    standard, speculative = summary.standard, summary.speculative
    if not (standard and speculative and summary.speedup):
        return Drawn(None, words["figures.gamma.no_pair"])
    if (tokens := min(standard.tokens, speculative.tokens)) < ENOUGH_TOKENS:
        return Drawn(None, words["autopsy.cause.short_run"].format(tokens=tokens))
    curve = gamma_curve(summary, max(MAX_GAMMA, gamma))
    if curve is None:
        return Drawn(None, words["figures.gamma.no_drafts"])
    figure = _blank()
    _draw_curve(figure, curve, gamma, summary.speedup, words)
    return Drawn(figure, " ".join(_about_curve(curve, gamma, summary.speedup, words)))


def _phases(run: Decoding, words: Words, *, drafts: bool) -> list[Phase]:
    forward = ("race.swim.verify", VERIFY) if drafts else ("figures.time.forward", STANDARD)
    ms = 1000 / run.tokens
    phases = [
        Phase(words["race.swim.draft"], run.draft_s * ms, _patterned(DRAFT, "/")),
        Phase(words[forward[0]], run.verify_s * ms, {"color": forward[1]}),
        Phase(words["race.swim.sample"], run.sample_s * ms, _patterned(SAMPLE, ".")),
    ]
    return [phase for phase in phases if phase.ms > 0]


def _per_token(run: Decoding) -> dict[str, str]:
    return {
        "total": _ms(run.decode_s / run.tokens),
        "draft": _ms(run.draft_s / run.tokens),
        "verify": _ms(run.verify_s / run.tokens),
        "sample": _ms(run.sample_s / run.tokens),
        "tau": f"{run.tokens / run.target_forwards:.2f}",
    }


def _draw_column(figure: go.Figure, place: int, phases: Sequence[Phase], line: float, words: Words) -> None:
    """One bar, a label right of each part, the total above."""
    tops = [sum(phase.ms for phase in phases[: i + 1]) for i in range(len(phases))]
    heights = _apart([top - phase.ms / 2 for top, phase in zip(tops, phases, strict=True)], line, below=tops[-1])
    bar = {"x": [place], "width": 0.24, "hoverinfo": "skip"}
    for phase, height in zip(phases, heights, strict=True):
        figure.add_bar(**bar, y=[phase.ms], name=phase.word, marker=phase.marker)
        _write(figure, f"{phase.word} {_ms(phase.ms / 1000)}", x=place + 0.12, y=height, xanchor="left", xshift=6)
    total = f"<b>{words['figures.time.total'].format(total=_ms(tops[-1] / 1000))}</b>"
    _write(figure, total, x=place - 0.12, y=tops[-1], xanchor="left", yanchor="bottom", yshift=2)


def _apart(heights: Sequence[float], line: float, *, below: float) -> list[float]:
    """Middles of labels, from the lowest: as wanted, but below a height and a line apart, the lower one giving way."""
    placed: list[float] = []
    limit = below - line / 2
    for height in reversed(heights):
        placed.append(min(height, limit))
        limit = placed[-1] - line
    return placed[::-1]


def _draw_curve(figure: go.Figure, curve: GammaCurve, gamma: int, measured: float, words: Words) -> None:
    best, most = curve.best
    gammas = [*range(1, len(curve.speedups) + 1)]
    figure.add_hline(y=1, line={"color": STANDARD, "width": 1.5, "dash": "dash"})
    sizes = [13 if one == best else 5 for one in gammas]
    figure.add_scatter(
        x=gammas,
        y=curve.speedups,
        name="predicted",
        mode="lines+markers",
        line={"color": SPECULATIVE, "width": 2.5},
        marker={"color": SPECULATIVE, "size": sizes, "opacity": 1, "line_width": 0},
        hovertemplate="γ = %{x}: %{y:.2f}×<extra></extra>",
    )
    figure.add_scatter(
        x=[gamma],
        y=[measured],
        name="measured",
        mode="markers",
        marker={"color": INK, "size": 12, "symbol": "diamond"},
        hoverinfo="skip",
    )
    key = "◆ {}<br><span style='color: {}'>●</span> {}".format(
        words["figures.gamma.point"].format(measured=f"{measured:.2f}", gamma=gamma),
        SPECULATIVE,
        words["figures.gamma.best"].format(most=f"{most:.2f}", best=best),
    )
    _write(figure, key, xref="paper", x=0, xanchor="left", yref="paper", y=1, yanchor="bottom", yshift=4, align="left")
    _write(figure, words["figures.gamma.even"], **_away_from(curve.speedups))

    low, high = min(*curve.speedups, measured, 1), max(*curve.speedups, measured, 1)
    room = max(0.15 * (high - low), 0.05)
    figure.update_layout(margin={"t": 48, "b": 48})
    figure.update_yaxes(range=[low - room, high + room], ticksuffix="×", gridcolor=RULE, nticks=7, zeroline=False)
    figure.update_xaxes(
        title={"text": words["figures.gamma.axis"], "font_size": 12, "standoff": 8},
        range=[0.5, len(gammas) + 0.5],
        nticks=8,
    )


def _away_from(speedups: Sequence[float]) -> dict[str, Any]:
    """Place of the label on the line of 1: the end and the side where the curve is not."""
    left, right = ([speedup - 1 for speedup in end] for end in (speedups[:5], speedups[-5:]))
    at_left = min(map(abs, left)) > min(map(abs, right))
    above = (left[0] if at_left else right[-1]) < 0
    return {
        "x": 0.6 if at_left else len(speedups) + 0.4,
        "xanchor": "left" if at_left else "right",
        "y": 1,
        "yanchor": "bottom" if above else "top",
    }


def _about_curve(curve: GammaCurve, gamma: int, measured: float, words: Words) -> Iterable[str]:
    best, most = curve.best
    yield words["figures.gamma.measured"].format(
        gamma=gamma,
        measured=f"{measured:.2f}",
        predicted=f"{curve.speedups[gamma - 1]:.2f}",
        best=best,
        most=f"{most:.2f}",
    )
    yield words["figures.gamma.formula"].format(alpha=f"{curve.alpha:.2f}", cost=f"{curve.cost:.2f}")
    line = "figures.gamma.line" if curve.overhead >= 1 else "figures.gamma.flat"
    yield words[line].format(overhead=f"{curve.overhead:.2f}", positions=f"{round(curve.positions, 1):g}")
    if (idle := 1 - curve.drafting_share) >= 0.005:
        yield words["figures.gamma.rare"].format(share=f"{100 * idle:.0f}%")
    if curve.draft_length < gamma - 0.5:
        yield words["figures.gamma.shorter"].format(length=f"{curve.draft_length:.1f}", gamma=gamma)


def _write(figure: go.Figure, text: str, **place: Any) -> None:
    figure.add_annotation(text=text, showarrow=False, borderpad=0, **place)


def _patterned(color: str, shape: str) -> dict[str, Any]:
    """The swimlanes' hatching and dots: one colour on a clear ground, so that both themes shine through."""
    return {
        "color": CLEAR,
        "pattern": {"shape": shape, "fgcolor": color, "bgcolor": CLEAR, "size": 5, "solidity": 0.4},
        "line": {"color": color, "width": 1},
    }


def _blank() -> go.Figure:
    """An empty figure in the page's type, clear, without legend, zoom or pan."""
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=HEIGHT,
        margin=MARGIN,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"family": "system-ui, sans-serif", "size": 12, "color": INK},
        showlegend=False,
        dragmode=False,
        hovermode="x",
        hoverlabel={"font_family": "system-ui, sans-serif"},
    )
    figure.update_xaxes(fixedrange=True, showgrid=False, zeroline=False, showline=True, linecolor=SAMPLE)
    figure.update_yaxes(fixedrange=True, automargin=True)
    return figure


def _ms(seconds: float) -> str:
    """1.234 → "1.23 s", 0.0412 → "41.2 ms", 0.00098 → "0.98 ms"."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    ms = 1000 * seconds
    return f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"
