"""A recorded round's real attention under every schedule: the model's own output comes back, and the counts agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from specviz.attention.closed_forms import Traffic
from specviz.attention.hardware import find
from specviz.attention.problem import Problem
from specviz.attention.schedules import NAMES
from specviz.errors import UserError
from specviz.models.attention_hook import Captured
from specviz.models.load import Pair
from specviz.settings import make_settings
from specviz.tiles.execution import Execution, execute, standard_bytes
from specviz.tiles.traffic import curves
from specviz.tiles.view import Phase, View, look
from specviz.trace import Trace
from tests.unit.microscope.conftest import make_pair, record

A100 = find("a100")
FOR_MANY = [name for name in NAMES if name != "ascend-incre-flash"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory)


@pytest.fixture(scope="module")
def trace(pair: Pair) -> Trace:
    settings = make_settings(drafter="draft-model", gamma=4, max_new_tokens=60, temperature=1.0, seed=5)
    return record(pair, settings, prompt="a prompt of some length, so that there are several tiles to see")


@pytest.fixture(scope="module", params=["verification", "prefill"])
def view(request: pytest.FixtureRequest, pair: Pair, trace: Trace) -> View:
    phase: Phase = request.param
    return look(trace, 5, pair, phase, layer=1)


def test_rows_are_the_tokens_that_were_verified(pair: Pair, trace: Trace) -> None:
    round_ = trace.runs[0].rounds[5]
    view = look(trace, 5, pair, "verification", 0)
    assert view.problem.queries == len(round_.drafted) + 1
    assert view.problem.keys == round_.context_length + len(round_.drafted)
    assert [row.verdict for row in view.rows] == [None, *(one.verdict for one in round_.drafted)]
    assert (view.problem.heads, view.problem.kv_heads, view.layers) == (4, 2, 2)
    square = look(trace, 5, pair, "prefill", 0)
    assert square.problem.queries == square.problem.keys == len(trace.prompt.token_ids)
    assert square.rows == ()


def test_the_prefill_of_a_run_without_rounds_is_shown(pair: Pair, trace: Trace) -> None:
    standard = replace(trace, runs=tuple(run for run in trace.runs if run.kind == "standard"))
    assert look(standard, 0, pair, "prefill", 0).problem.queries == len(trace.prompt.token_ids)
    with pytest.raises(UserError, match="no speculative round"):
        look(standard, 0, pair, "verification", 0)


@pytest.mark.parametrize("tile", [None, (16, 16), (8, 24)], ids=str)
@pytest.mark.parametrize("name", FOR_MANY)
def test_every_schedule_gives_the_models_own_output(view: View, name: str, tile: tuple[int, int] | None) -> None:
    for head in range(view.problem.heads):
        one = execute(view, head, name, A100, tile)
        assert one.from_exact < 1e-5
        assert one.from_model < 1e-5
        masses = sum_of_masses(one)
        assert masses is None or masses == pytest.approx(1, abs=1e-5)


def sum_of_masses(one: Execution) -> float | None:
    """The attention of the first row tile over all tiles of keys: all of it."""
    steps = one.columns
    first = [i for i, phase in enumerate(steps["phase"]) if phase == "attend" and steps["r0"][i] == 0]
    return sum(steps["mass"][i] or 0.0 for i in first) if first else None


@pytest.mark.parametrize("tile", [None, (16, 16)], ids=str)
@pytest.mark.parametrize("name", FOR_MANY)
def test_counted_steps_of_all_heads_are_the_closed_form(view: View, name: str, tile: tuple[int, int] | None) -> None:
    group = execute(view, 0, name, A100, tile).plan.tiling.group
    runs = [execute(view, head, name, A100, tile) for head in range(0, view.problem.heads, group)]
    sums = Traffic(*(sum(parts) for parts in zip(*(run.counted.traffic for run in runs), strict=True)))
    assert sums == runs[0].closed_form


def test_columns_are_of_one_length_and_point_at_their_buffers(view: View) -> None:
    one = execute(view, 0, "flash-attention-2", A100, (16, 16))
    assert {len(column) for column in one.columns.values()} == {len(one.visits)}
    held = one.columns["held"]
    assert set(held) == set(range(len(one.buffers)))
    for index, visit in zip(held, one.visits, strict=True):
        assert one.buffers[index] == visit.step.held
    kinds = one.columns["kind"]
    assert ("skipped" in kinds) == (view.phase == "prefill")
    assert one.workers == -(-view.problem.queries // 16)
    last = execute(view, view.problem.heads - 1, "flash-attention-2", A100, (16, 16))
    assert last.columns["worker"] == one.columns["worker"], "workers are numbered within the head"


def test_one_query_runs_ascends_incremental_kernel_and_more_are_refused(pair: Pair, trace: Trace, view: View) -> None:
    with pytest.raises(UserError, match="one query"):
        execute(view, 0, "ascend-incre-flash", find("ascend-910b"))
    last = len(trace.runs[0].rounds) - 1
    single = look(trace, last, pair, "verification", 0)
    if single.problem.queries == 1:
        assert execute(single, 0, "ascend-incre-flash", find("ascend-910b")).from_exact < 1e-5


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"head": 4}, "no head 5"),
        ({"head": -1}, "no head"),
        ({"name": "flash-attention-9"}, "must be one of"),
        ({"tile": (0, 16)}, "1 to 1024"),
        ({"tile": (16, 4096)}, "1 to 1024"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_gets_a_sentence(view: View, asked: dict[str, Any], sentence: str) -> None:
    wanted: dict[str, Any] = {"head": 0, "name": "flash-attention-2", "tile": None} | asked
    with pytest.raises(UserError, match=sentence):
        execute(view, wanted["head"], wanted["name"], A100, wanted["tile"])


def long_prefill(n: int) -> View:
    q, kv = torch.randn(9, n, 64), torch.randn(3, n, 64)
    return View("prefill", 0, 30, Captured(q, kv, kv, torch.zeros_like(q), 0.125), (), 2)


def test_too_many_tiles_are_refused_with_what_can_be_chosen_on_the_page() -> None:
    with pytest.raises(UserError, match=r"250,000 steps.*Choose larger tiles"):
        execute(long_prefill(4000), 0, "flash-attention-2", A100, (8, 8))


def test_curves_grow_as_published(view: View) -> None:
    drawn = curves(view.problem, A100, ["standard", "flash-attention-2"])
    for phase in ("verification", "prefill"):
        standard, flash = drawn[phase]["standard"], drawn[phase]["flash-attention-2"]
        assert standard[-1][0] == flash[-1][0] == 2**20
        assert all(one[1] > other[1] for one, other in zip(standard[3:], flash[3:], strict=True))
    square = drawn["prefill"]["standard"]
    assert square[-1][1] / square[-2][1] == pytest.approx(4, rel=0.01)  # Θ(N²)
    assert standard_bytes(view, A100) > 0


def test_curves_do_not_depend_on_how_short_the_picture_is() -> None:
    one = Problem(1, 1, 9, 3, 64)
    drawn = curves(one, A100, NAMES, rows=5)
    assert drawn == curves(Problem(300, 300, 9, 3, 64), A100, NAMES, rows=5)
    assert "ascend-incre-flash" not in drawn["verification"] | drawn["prefill"]
    single = curves(one, A100, ["ascend-incre-flash"], rows=1)
    assert list(single["verification"]) == ["ascend-incre-flash"] and not single["prefill"]


def test_the_log_sum_exp_is_that_of_the_captured_scores(view: View) -> None:
    seen, problem = view.captured, view.problem
    one = execute(view, 1, "flash-attention-2", A100, (16, 16))
    group = problem.heads // problem.kv_heads
    scores = seen.q[1].double() @ seen.k[1 // group].double().T * seen.scale
    visible = torch.arange(problem.keys) <= torch.arange(problem.queries)[:, None] + problem.keys - problem.queries
    lse = scores.masked_fill(~visible, -torch.inf).logsumexp(-1)
    for visit in one.visits:
        if visit.step.finishes and visit.step.kind != "skipped":
            rows = visit.step.rows
            assert rows.group == 1
            found = visit.m_after.double() + visit.l_after.double().log()
            torch.testing.assert_close(found, lse[rows.start : rows.stop], atol=1e-5, rtol=1e-5)
