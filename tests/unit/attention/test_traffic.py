"""Bytes and FLOPs counted from the steps are those of the formulas, and grow as the papers say."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.attention import closed_forms
from specviz.attention.bounds import check_affordable
from specviz.attention.hardware import A100, Hardware, custom
from specviz.attention.memory import peak_bytes, training_saving
from specviz.attention.problem import Problem
from specviz.attention.schedules import NAMES, SCHEDULES, plan
from specviz.attention.traffic import LENGTHS, curve, of_step, step_seconds, tally, time_of
from specviz.errors import UserError
from tests.unit.attention.shapes import machines, mask, plans, problems


@given(problems(longest=1200), machines)
@settings(max_examples=80, deadline=None)
def test_counted_traffic_is_the_closed_form(problem: Problem, machine: Hardware) -> None:
    for one in plans(problem, machine):
        assert tally(one.steps()).traffic == closed_forms.traffic(one), (one.name, one.tiling)
        assert len({step.worker for step in one.steps()}) == closed_forms.workers(one)


@given(problems(longest=200), st.integers(1, 90), st.integers(1, 90), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_closed_forms_hold_for_any_tile(problem: Problem, rows: int, keys: int, parts: int) -> None:
    for one in plans(problem):
        tiling = replace(one.tiling, rows=rows, keys=keys)
        each = ceil(ceil(problem.keys / parts) / keys) * keys
        if tiling.keys_per_split:
            tiling = replace(tiling, splits=ceil(problem.keys / each), keys_per_split=each)
        cut = replace(one, tiling=tiling)
        assert tally(cut.steps()).traffic == closed_forms.traffic(cut), (one.name, tiling)


def test_a_head_can_be_counted_alone_and_the_heads_add_up() -> None:
    one = plan("flash-attention-2", Problem(5, 700, 6, 2, 64), A100)
    alone = [tally(one.steps(head)).traffic.hbm for head in range(6)]
    assert sum(alone) == closed_forms.traffic(one).hbm


def test_standard_attention_by_hand() -> None:
    n, d = 1024, 64
    moved = closed_forms.traffic(plan("standard", Problem(n, n, head_dim=d), A100))
    assert moved.hbm == 2 * (4 * n * d + 4 * n * n)  # Q, K, V, O once, S and P twice, 16 bits
    assert moved.flops == 4 * n * n * d


def test_flash_attention_2_by_hand() -> None:
    moved = closed_forms.traffic(plan("flash-attention-2", Problem(256, 256), A100))
    # Row tile 1 reads one K/V tile, row tile 2 two: 256 rows of Q, 3·128 of K and of V, 128 B each.
    assert moved.hbm_read == 128 * (256 + 2 * 3 * 128)
    assert moved.hbm_written == 256 * (128 + 4)
    assert moved.flops == 4 * 64 * 3 * 128 * 128


def test_flash_moves_less_by_about_m_over_d_squared() -> None:
    """Standard Θ(Nd + N²) against FlashAttention's Θ(N²d²/M) (arXiv 2205.14135, Theorem 2)."""
    n, d, m = 2**15, 64, 49152

    def hbm(name: str, elements: int = m, length: int = n) -> int:
        machine = custom(108, 2 * elements, 1e12, 1e14)
        return closed_forms.traffic(plan(name, Problem(length, length, head_dim=d, causal=False), machine)).hbm

    assert hbm("standard", length=2 * n) / hbm("standard") == pytest.approx(4, rel=0.01)
    assert hbm("flash-attention-1", length=2 * n) / hbm("flash-attention-1") == pytest.approx(4, rel=0.01)
    assert hbm("flash-attention-1") / hbm("flash-attention-1", 2 * m) == pytest.approx(2, rel=0.02)
    assert hbm("standard", 2 * m) == hbm("standard")
    assert hbm("flash-attention-1") < hbm("standard") / 3


@given(problems(), machines)
@settings(max_examples=30, deadline=None)
def test_what_lies_on_chip_covers_what_was_loaded(problem: Problem, machine: Hardware) -> None:
    for one in plans(problem, machine):
        if one.schedule.on_vector_cores:
            continue  # what a cube core reads arrives block by block
        for step in one.steps():
            if step.phase in ("attend", "scores"):
                held = dict(step.held)
                assert all(held[move.what] >= move.bytes for move in step.loads if move.what in ("Q", "K", "V"))


def test_flops_follow_the_mask() -> None:
    problem = Problem(512, 512, 1, 1, 64)
    useful = 4 * 64 * int(mask(problem).sum())
    for one in plans(problem):
        flops = closed_forms.traffic(one).flops
        assert useful <= flops <= 4 * 64 * 512 * 512
        assert one.schedule.skips or flops == 4 * 64 * 512 * 512


def test_curves_reach_from_128_to_a_million_without_a_step_being_walked() -> None:
    for name in NAMES:
        queries = 1 if SCHEDULES[name].refuses(Problem(5, 512)) else 5
        points = curve(name, Problem(queries, 512, 9, 3), A100, square=False)
        assert [point.keys for point in points] == list(LENGTHS)
        assert all(later.hbm_bytes > earlier.hbm_bytes for earlier, later in pairwise(points))
    square = [curve(name, Problem(5, 512), A100, square=True)[-1] for name in ("standard", "flash-attention-2")]
    assert square[0].hbm_bytes > 7 * square[1].hbm_bytes
    assert square[0].peak_memory_bytes > 1000 * square[1].peak_memory_bytes
    assert curve("standard", Problem(300, 512), A100, square=False)[0].keys == 512


def test_a_verification_that_leaves_cores_idle_is_quicker_when_split() -> None:
    problem = Problem(5, 65536, 16, 2, 128)
    second, decoding = (time_of(plan(name, problem, A100)) for name in ("flash-attention-2", "flash-decoding"))
    assert second.busy == pytest.approx(16 / 108)
    assert decoding.busy > 0.8
    assert decoding.seconds < second.seconds / 10
    assert decoding.roofline == max(decoding.memory, decoding.compute, decoding.softmax) == decoding.memory


def test_steps_on_one_core_take_its_share_of_the_peaks() -> None:
    one = plan("flash-attention-2", Problem(5, 512), A100)
    for step in one.steps():
        assert step_seconds(step, one) >= of_step(step).hbm * 108 / 2e12


def test_the_published_memory_saving_is_that_of_training() -> None:
    """10× at 2K and 20× at 4K: forward and backward, 16 bits, head dimension 64."""
    assert training_saving(2048) == pytest.approx(10, abs=0.6)
    assert training_saving(4096) == pytest.approx(20, abs=0.5)


def test_peak_memory_of_a_forward_holds_s_and_p_only_in_standard_attention() -> None:
    problem = Problem(2048, 2048, 8, 8, 64)
    arrays = 4 * 8 * 2048 * 64 * 2
    assert peak_bytes(plan("standard", problem, A100)) == arrays + 2 * 8 * 2048 * 2048 * 2
    assert peak_bytes(plan("flash-attention-2", problem, A100)) == arrays + 8 * 2048 * 4
    for one in plans(Problem(1, 8192, 8, 2, 64)):
        assert peak_bytes(one) > 0


def test_what_would_take_too_long_or_too_much_memory_is_refused() -> None:
    small = plan("flash-attention-2", Problem(8192, 8192, 9, 3), A100)
    with pytest.raises(UserError, match="Give fewer queries"):
        check_affordable(small)
    check_affordable(small, one_head=True)
    with pytest.raises(UserError, match="GB"):
        check_affordable(plan("ascend-flash-attention-score", Problem(1, 2**16, 64, 64, 256), A100))
    with pytest.raises(UserError, match="steps"):
        check_affordable(replace(small, problem=Problem(2**20, 2**20)))
