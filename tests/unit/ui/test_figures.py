"""Figures of a finished race: their numbers are those of the analysis, and what cannot be drawn is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from specviz.analysis.gamma import gamma_curve
from specviz.analysis.metrics import Summary, summarize
from specviz.settings import make_settings
from specviz.trace import Timing, Trace, load, save
from specviz.ui import figures
from specviz.ui.components.base import STATIC
from specviz.ui.figures import Drawn, gamma_figure, time_figure
from specviz.ui.i18n import strings
from specviz.ui.tabs.race_figures import RaceFigures
from tests.unit.ui import synthetic

WORDS = strings("en")
RECORDED = Path(__file__).parents[3] / "assets" / "traces" / "default.json"


def raced(tokens: int, *, baseline: bool = True) -> Trace:
    events = synthetic.race(
        synthetic.PAIR,
        "Hi",
        make_settings(gamma=2, max_new_tokens=tokens),
        baseline=baseline,
        speculative_first=True,
        should_stop=lambda: False,
        deadline=0,
        step_s=0,
    )
    return next(event.trace for event in events if isinstance(event, synthetic.Done))


def summary(trace: Trace) -> Summary:
    return summarize(trace.runs)


def drawn(result: Drawn) -> Any:
    assert result.figure is not None
    return result.figure


def labels(figure: Any) -> list[str]:
    return [note.text for note in figure.layout.annotations]


@pytest.mark.parametrize("trace", [load(RECORDED), raced(40)], ids=["recorded", "synthetic"])
def test_the_bars_add_up_to_the_time_of_a_token(trace: Trace) -> None:
    measured = summary(trace)
    assert measured.standard and measured.speculative
    figure = drawn(time_figure(measured, WORDS))
    bars = {(bar.x[0], bar.name): bar.y[0] for bar in figure.data}
    for place, run in enumerate((measured.standard, measured.speculative)):
        whole = sum(ms for (at, _), ms in bars.items() if at == place)
        assert whole == pytest.approx(1000 * run.decode_s / run.tokens) == pytest.approx(1000 / (run.tok_s or 0))
    ms = 1000 / measured.speculative.tokens
    assert bars[1, "draft"] == pytest.approx(measured.speculative.draft_s * ms)
    assert bars[1, "verify"] == pytest.approx(measured.speculative.verify_s * ms)
    assert bars[1, "sample"] == pytest.approx(measured.speculative.sample_s * ms)
    assert (0, "draft") not in bars


def test_every_part_is_named_and_numbered_and_said_in_words() -> None:
    figure, caption = time_figure(summary(raced(40)), WORDS)
    assert labels(figure) == [
        "forward 25.0 ms",
        "sample 5.0 ms",
        "<b>30.0 ms a token</b>",
        "draft 10.0 ms",
        "verify 7.5 ms",
        "sample 2.5 ms",
        "<b>20.0 ms a token</b>",
    ]
    assert "Standard: 30.0 ms a token, 25.0 ms of it the target forward and 5.0 ms sampling." in caption
    assert "10.0 ms of it drafting, 7.5 ms verification and 2.5 ms sampling" in caption
    assert "one verification commits 2.00 tokens" in caption


def test_labels_of_thin_parts_stand_apart() -> None:
    trace = load(RECORDED)
    figure = drawn(time_figure(summary(trace), WORDS))
    pixels = (figures.HEIGHT - figures.MARGIN["t"] - figures.MARGIN["b"]) / figure.layout.yaxis.range[1]
    heights = [note.y * pixels for note in figure.layout.annotations if note.x > 1 and not note.text.startswith("<b>")]
    assert len(heights) == 3
    assert all(above - below >= 0.95 * figures.LINE for below, above in pairwise(heights))


def test_the_curve_is_the_analysis_and_the_point_is_the_measurement() -> None:
    trace = load(RECORDED)
    measured, gamma = summary(trace), trace.settings.gamma
    curve = gamma_curve(measured)
    assert curve and measured.speedup
    figure, caption = gamma_figure(measured, gamma, WORDS)
    predicted, point = figure.data  # type: ignore[union-attr]
    assert (list(predicted.x), list(predicted.y)) == (list(range(1, 16)), list(curve.speedups))
    assert (list(point.x), list(point.y)) == ([gamma], [measured.speedup])
    assert figure.layout.shapes[0].y0 == figure.layout.shapes[0].y1 == 1  # type: ignore[union-attr]
    best, most = curve.best
    assert f"measured {measured.speedup:.2f}× at γ = {gamma}" in labels(figure)[0]
    assert f"at best {most:.2f}× at γ = {best}" in labels(figure)[0]
    for number in (measured.speedup, curve.speedups[gamma - 1], most, curve.alpha, curve.cost, curve.overhead):
        assert f"{number:.2f}" in caption
    assert "i.i.d." in caption
    assert "straight line" in caption


def test_the_caption_says_what_the_curve_does_not_know() -> None:
    noisy = summary(raced(40))  # verification cheaper than a step
    assert "taken as 1: the 0.60 measured at k = 3" in gamma_figure(noisy, 2, WORDS).caption
    trace = raced(40)
    rounds = list(trace.runs[0].rounds)
    rounds[::4] = [
        replace(one, drafted=(), emitted=one.emitted[:1], timing=replace(one.timing, draft_s=())) for one in rounds[::4]
    ]
    idle = summarize([replace(trace.runs[0], rounds=tuple(rounds)), trace.runs[1]])
    caption = gamma_figure(idle, 6, WORDS).caption
    assert "In 25% of the rounds nothing was drafted" in caption
    assert "after 2.0 tokens on average where γ allowed 6" in caption


def test_one_run_alone_is_drawn_and_not_compared() -> None:
    alone = summary(raced(40, baseline=False))
    figure, caption = time_figure(alone, WORDS)
    assert {bar.x[0] for bar in drawn(Drawn(figure, caption)).data} == {0}
    assert list(figure.layout.xaxis.ticktext) == ["Speculative"]  # type: ignore[union-attr]
    assert "There was no standard run." in caption
    assert gamma_figure(alone, 2, WORDS) == Drawn(None, WORDS["figures.gamma.no_pair"])


def test_too_few_tokens_are_said_instead_of_drawn() -> None:
    short = summary(raced(8))
    for result in (time_figure(short, WORDS), gamma_figure(short, 2, WORDS)):
        assert result.figure is None
        assert "8 tokens are too few to judge by" in result.caption


def test_runs_without_drafts_times_or_anything_are_said() -> None:
    trace = raced(40)
    silent = tuple(replace(one, drafted=(), timing=replace(one.timing, draft_s=())) for one in trace.runs[0].rounds)
    undrafted = summarize([replace(trace.runs[0], rounds=silent), trace.runs[1]])
    assert gamma_figure(undrafted, 2, WORDS) == Drawn(None, WORDS["figures.gamma.no_drafts"])
    zero = Timing(0, (0.0,), 0, 0, 0)
    timeless = summarize([replace(trace.runs[0], rounds=tuple(replace(one, timing=zero) for one in silent))])
    for nothing in (timeless, summarize([])):
        assert time_figure(nothing, WORDS).figure is None
        assert "There was no speculative run." in time_figure(nothing, WORDS).caption
        assert gamma_figure(nothing, 2, WORDS).figure is None


def test_colours_are_the_palettes_and_the_sheet_knows_each() -> None:
    light = (STATIC / "palette.css").read_text().split(".dark")[0]
    sheet = (STATIC / "figures.css").read_text()
    named = {
        "ink": figures.INK,
        "rule": figures.RULE,
        "standard": figures.STANDARD,
        "accepted": figures.SPECULATIVE,
        "draft": figures.DRAFT,
        "target": figures.VERIFY,
        "sample": figures.SAMPLE,
    }
    for name, color in named.items():
        assert f"--sv-{name}: {color};" in light
        assert f"var(--sv-{name})" in sheet
    written = {tuple(map(int, found)) for found in re.findall(r"rgb\((\d+), (\d+), (\d+)\)", sheet)}
    assert written <= {tuple(bytes.fromhex(color[1:])) for color in named.values()}


def test_what_is_sent_has_no_mode_bar_and_no_path(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    save(raced(40), path)
    tab = RaceFigures(WORDS)
    remark, row, time, about_time, gamma, about_gamma = tab.draw({"path": str(path)})
    assert row["visible"]
    for update, caption in ((time, about_time), (gamma, about_gamma)):
        sent = json.loads(update["value"].plot)
        assert sent["data"] and sent["config"]["displayModeBar"] is False
        assert caption.startswith("<p>") and "ms" in about_time
    assert "busy with something else" in remark  # verification cheaper than a step

    path.unlink()
    for file, said in ((None, "figures.none"), ({"path": str(path)}, "figures.gone")):
        remark, row, *rest = tab.draw(file)
        assert WORDS[said] in remark
        assert not row["visible"]
        assert [one["value"] for one in rest[::2]] == [None, None]
        assert rest[1::2] == ["", ""]
        assert str(tmp_path) not in repr((remark, rest))


def test_nothing_is_drawn_for_a_closed_accordion(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    save(raced(40), path)
    tab = RaceFigures(WORDS)
    assert tab.redraw({"path": str(path)}, False)[2]["value"] is None
    assert tab.redraw({"path": str(path)}, True)[2]["value"] is not None
