"""Whatever the schedule, what comes out is attention; and m, ℓ and the rescale factors are what they are called."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.attention.hardware import A100, H100, Hardware
from specviz.attention.online_softmax import OnlineSoftmax
from specviz.attention.problem import Problem
from specviz.attention.reference import differences, expected
from specviz.attention.schedules import flash_decoding, plan
from specviz.attention.steps import Plan
from tests.unit.attention.shapes import machines, plans, problems, tensors


def executed(plan_: Plan, *qkv: torch.Tensor, head: int | None = None) -> OnlineSoftmax:
    execution = OnlineSoftmax(plan_, *qkv)
    for _ in execution.run(head):
        pass
    return execution


@given(problems(longest=250), machines, st.integers(0, 99))
@settings(max_examples=150, deadline=None)
def test_every_schedule_gives_the_attention_of_float64(problem: Problem, machine: Hardware, seed: int) -> None:
    qkv = tensors(problem, seed)
    wanted = expected(problem, *qkv)
    for one in plans(problem, machine):
        found = differences(executed(one, *qkv), wanted)
        assert max(found) < 1e-5, (one.name, found)


def test_it_agrees_with_torch_on_an_easy_shape_whose_mask_torch_can_say_itself() -> None:
    problem = Problem(70, 70, 2, 2, 32)
    q, k, v = tensors(problem)
    torchs = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
    for one in plans(problem):
        assert torch.allclose(executed(one, q, k, v).output, torchs, atol=1e-5), one.name


@given(problems(longest=200))
@settings(max_examples=40, deadline=None)
def test_m_and_l_of_every_row_are_carried_from_visit_to_visit(problem: Problem) -> None:
    q, k, v = tensors(problem, dtype=torch.float64)
    for one in plans(problem):
        if not one.schedule.skips:
            continue
        execution = OnlineSoftmax(one, q, k, v)
        rows = problem.queries * one.tiling.group
        m = torch.full((one.tiling.splits, problem.heads, rows), -torch.inf, dtype=torch.float64)
        ell = torch.zeros_like(m)
        for visit in execution.run():
            if visit.step.phase != "attend":
                continue
            at = (visit.step.split, visit.step.rows.head, slice(visit.step.rows.start, visit.step.rows.stop))
            assert torch.equal(visit.m_before, m[at]) and torch.equal(visit.l_before, ell[at])
            assert torch.equal(visit.m_after, torch.maximum(m[at], visit.largest))
            seen = visit.m_after > -torch.inf
            assert torch.allclose(visit.rescale[seen], (visit.m_before - visit.m_after)[seen].exp())
            assert torch.allclose(visit.l_after, visit.l_before * visit.rescale + visit.tile_sum)
            m[at], ell[at] = visit.m_after, visit.l_after
        wanted = expected(problem, q, k, v)
        assert differences(execution, wanted).lse < 1e-12
        assert (execution.output - wanted.output).abs().max() < 1e-12


def test_m_is_the_largest_score_and_l_the_sum_that_belongs_to_it() -> None:
    problem = Problem(9, 400, 3, 1, 40)
    q, k, v = tensors(problem, dtype=torch.float64)
    scores = q @ k.transpose(1, 2) * 40**-0.5
    scores = scores.masked_fill(torch.arange(400) > torch.arange(9)[:, None] + 391, -torch.inf)
    execution = executed(plan("flash-attention-2", problem, A100), q, k, v)
    assert torch.allclose(execution.m[0], scores.amax(-1))
    assert torch.allclose(execution.l[0], (scores - scores.amax(-1, keepdim=True)).exp().sum(-1))


@given(problems(longest=200), machines)
@settings(max_examples=40, deadline=None)
def test_the_mass_of_a_rows_tiles_is_one(problem: Problem, machine: Hardware) -> None:
    qkv = tensors(problem)
    for one in plans(problem, machine):
        execution = OnlineSoftmax(one, *qkv)
        visits = [visit for visit in execution.run() if visit.step.phase in ("attend", "values")]
        total = torch.zeros(problem.heads, problem.queries * one.tiling.group)
        for visit in visits:
            rows = visit.step.rows
            total[rows.head, rows.start : rows.stop] += visit.mass(execution.lse_of(rows))
        assert torch.allclose(total[:: one.tiling.group], torch.tensor(1.0), atol=1e-5), one.name


@pytest.mark.parametrize("parts", range(1, 9))
def test_the_merge_does_not_depend_on_the_split(parts: int) -> None:
    problem = Problem(37, 500, 4, 2, 128)
    q, k, v = tensors(problem, dtype=torch.float64)
    one = plan("flash-decoding", problem, A100)
    one = replace(one, tiling=flash_decoding.split(replace(one.tiling, keys=64), problem, parts))
    found = differences(executed(one, q, k, v), expected(problem, q, k, v))
    assert max(found) < 1e-12


def test_a_row_that_sees_nothing_of_a_split_is_merged_without_harm() -> None:
    problem = Problem(200, 200, 1, 1, 64)
    one = plan("flash-decoding", problem, A100)
    one = replace(one, tiling=flash_decoding.split(replace(one.tiling, keys=32), problem, 7))
    assert {step.phase for step in one.steps()} == {"attend", "initialise", "merge"}
    qkv = tensors(problem)
    assert max(differences(executed(one, *qkv), expected(problem, *qkv))) < 1e-5


@pytest.mark.parametrize("name", ["standard", "flash-attention-3", "flash-decoding"])
def test_one_head_can_be_executed_alone(name: str) -> None:
    problem = Problem(5, 300, 6, 2, 64)
    qkv = tensors(problem)
    one = plan(name, problem, H100)
    execution = executed(one, *qkv, head=4)
    assert max(differences(execution, expected(problem, *qkv, head=4), head=4)) < 1e-5
    assert not execution.output[0].any()
    assert 0 < len(list(one.steps(4))) < len(list(one.steps()))


def test_o_so_far_is_finished_by_one_division_and_flash_attention_1_divides_each_time() -> None:
    problem = Problem(20, 260, 1, 1, 64, causal=False)
    qkv = tensors(problem)
    for name in ("flash-attention-1", "flash-attention-2"):
        one = replace(plan(name, problem, A100))
        one = replace(one, tiling=replace(one.tiling, rows=20, keys=100))
        execution = OnlineSoftmax(one, *qkv)
        for visit in execution.run():
            if visit.step.phase == "attend" and not visit.step.finishes:
                keys = visit.step.keys
                seen = slice(0, keys.stop) if name == "flash-attention-1" else slice(keys.start, 260)
                part = torch.softmax(qkv[0][0] @ qkv[1][0, seen].T / 8, -1) @ qkv[2][0, seen]
                divisor = torch.ones_like(visit.l_after) if name == "flash-attention-1" else visit.l_after
                assert torch.allclose(execution.so_far(visit.step) / divisor[:, None], part, atol=1e-5)


def test_bfloat16_is_gathered_in_float32() -> None:
    problem = Problem(5, 700, 3, 1, 64)
    qkv = tensors(problem, dtype=torch.bfloat16)
    execution = executed(plan("flash-attention-2", problem, A100), *qkv)
    assert execution.output.dtype == torch.float32
    assert differences(execution, expected(problem, *qkv)).output < 1e-5


def test_tensors_of_another_shape_are_refused() -> None:
    problem = Problem(5, 8, 2, 2, 32)
    q, k, v = tensors(problem)
    with pytest.raises(ValueError, match="this problem has"):
        OnlineSoftmax(plan("standard", problem, A100), q, k[:1], v)
