"""The loop orders and tile rules are the published ones; every score that counts is computed once, no other tile is."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.attention import closed_forms
from specviz.attention.hardware import A100, ASCEND_910B, H100, Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules import NAMES, ascend_incre_flash, flash_decoding, plan
from specviz.attention.steps import TILE_PHASES, TileStep, Tiling
from specviz.attention.traffic import tally
from specviz.errors import UserError
from tests.unit.attention.shapes import machines, mask, plans, problems


@given(problems(), machines)
@settings(max_examples=60, deadline=None)
def test_scores_that_count_are_computed_once_and_fully_masked_tiles_never(problem: Problem, machine: Hardware) -> None:
    counts = mask(problem)
    for one in plans(problem, machine):
        times = np.zeros((problem.heads, *counts.shape), dtype=int)
        listed = times.copy()
        for step in one.steps():
            if step.phase not in TILE_PHASES:
                continue
            for row in range(step.rows.start, step.rows.stop):
                query, head = row // step.rows.group, step.rows.head + row % step.rows.group
                listed[head, query, slice(*step.keys)] += 1
                if step.kind != "skipped":
                    times[head, query, slice(*step.keys)] += 1
            tile = counts[step.rows.first_query : step.rows.last_query + 1, slice(*step.keys)]
            assert (step.kind == "full") == tile.all()
            if one.schedule.skips:
                assert (step.kind == "skipped") == (not tile.any())
        assert (listed == 1).all(), "each tile is listed once, skipped or not"
        assert (times[:, counts] == 1).all()
        assert one.schedule.skips or (times == 1).all()


@given(problems(), machines)
@settings(max_examples=40, deadline=None)
def test_skipped_tiles_cost_nothing_and_rows_are_finished_once(problem: Problem, machine: Hardware) -> None:
    for one in plans(problem, machine):
        finished: set[tuple[object, ...]] = set()
        for step in one.steps():
            if step.kind == "skipped":
                assert step == TileStep(step.worker, "attend", "skipped", step.rows, step.keys, step.split)
            if step.finishes:
                assert (step.phase == "merge", step.split, step.rows) not in finished
                finished.add((step.phase == "merge", step.split, step.rows))
        rows = {(step.split, step.rows) for step in one.steps() if step.phase in TILE_PHASES}
        assert {(split, rows) for merging, split, rows in finished if not merging} == rows


@pytest.mark.parametrize(
    "name", ["flash-attention-1", "flash-attention-2", "flash-attention-3", "ascend-flash-attention-score"]
)
def test_a_tile_that_begins_where_the_mask_ends_is_skipped(name: str) -> None:
    one = plan(name, Problem(128, 256), A100)
    one = replace(one, tiling=Tiling(32, 32))
    skipped = [(step.rows.start, step.keys.start) for step in one.steps() if step.kind == "skipped"]
    assert sorted(skipped) == [(i, j) for i in range(0, 128, 32) for j in range(0, 256, 32) if j > i + 128]
    assert tally(one.steps()).traffic == closed_forms.traffic(one)


@given(problems(longest=1500), st.sampled_from([A100, H100]))
@settings(max_examples=60, deadline=None)
def test_flash_attention_2_visits_as_many_tiles_as_its_formula_says(problem: Problem, machine: Hardware) -> None:
    one = plan("flash-attention-2", problem, machine)
    bm, bn = one.tiling.rows, one.tiling.keys
    steps = [step for step in one.steps() if step.rows.head == 0]
    for m in range(ceil(problem.queries / bm)):
        last = ceil(problem.keys / bn)
        if problem.causal:
            last = min(last, ceil(((m + 1) * bm + problem.keys - problem.queries) / bn))
        mine = [step for step in steps if step.worker == m and step.kind != "skipped"]
        assert [step.keys.start // bn for step in mine] == list(reversed(range(last)))
        assert sum(step.kind == "masked" for step in mine) <= ceil(bm / bn) + 1


def test_flash_attention_1_walks_keys_outside_and_rows_inside() -> None:
    one = plan("flash-attention-1", Problem(300, 900, 2, 1, 64, causal=False), A100)
    visits = [step for step in one.steps() if step.phase == "attend"]
    assert [(step.worker, step.keys.start, step.rows.start) for step in visits] == [
        (head, j, i) for head in range(2) for j in range(0, 900, 384) for i in range(0, 300, 64)
    ]
    assert all({move.what for move in step.stores} == {"O", "m, ℓ"} for step in visits)


@pytest.mark.parametrize("head_dim", [32, 64, 128, 256])
@pytest.mark.parametrize("machine", [A100, H100])
def test_flash_attention_1_sizes_its_tiles_by_the_on_chip_memory(head_dim: int, machine: Hardware) -> None:
    elements = int(machine.on_chip.value) // 2
    tiling = plan("flash-attention-1", Problem(9000, 9000, head_dim=head_dim), machine).tiling
    assert tiling.keys == ceil(elements / (4 * head_dim))
    assert tiling.rows == min(tiling.keys, head_dim)


def test_flash_attention_2_and_3_take_the_tiles_of_their_libraries() -> None:
    def tile(name: str, head_dim: int, machine: Hardware, causal: bool = True) -> tuple[int, int]:
        tiling = plan(name, Problem(4096, 4096, head_dim=head_dim, causal=causal), machine).tiling
        return tiling.rows, tiling.keys

    second = "flash-attention-2"
    assert [tile(second, d, A100) for d in (32, 64, 96, 192, 256)] == [(128, 128)] * 2 + [(128, 64)] * 3
    assert tile(second, 256, H100) == (64, 64)
    third = "flash-attention-3"
    assert [tile(third, d, H100) for d in (64, 96, 128, 192, 256)] == [
        (192, 128), (192, 144), (128, 128), (128, 112), (128, 80)
    ]  # fmt: skip
    assert [tile(third, d, H100, causal=False) for d in (64, 128)] == [(192, 192), (128, 176)]


def test_the_split_heuristic_gives_what_its_comment_promises() -> None:
    # 48 rows blocks on 108 cores in the library's words: two splits (0.89) are better than three (0.67).
    assert flash_decoding.splits(48, 64, 54) == 2
    assert flash_decoding.splits(173, 64, 108) == 1, "almost full already"
    assert flash_decoding.splits(2, 1, 108) == 1
    # 64 tiles in 11 and in 12 parts are 6 a part either way, so 12 is no choice.
    assert ceil(64 / 11) == ceil(64 / 12)
    assert flash_decoding.splits(1, 64, 6) != 12


def test_flash_decoding_splits_a_long_context_and_packs_grouped_heads() -> None:
    one = plan("flash-decoding", Problem(5, 8192, 9, 3, 64), A100)
    assert (one.tiling.rows, one.tiling.keys, one.tiling.group) == (64, 256, 3)
    assert one.tiling.splits > 8
    assert {step.worker for step in one.steps() if step.phase == "attend"} == set(range(3 * one.tiling.splits))
    assert plan("flash-decoding", Problem(4096, 4096, 9, 3, 64), A100).tiling.splits == 1


@pytest.mark.parametrize(
    ("keys", "kv_heads", "group", "splits", "tile"),
    [
        (1024, 3, 3, 1, 8192),  # grouped heads wait for 2,048 keys
        (4096, 3, 3, 8, 8192),  # 16 would leave 256 each
        (1024, 3, 1, 2, 8192),
        (65536, 1, 8, 48, 4096),
        (65536, 20, 16, 1, 2048),  # 20 are no longer few beside 48 cores
    ],
)
def test_incre_flash_splits_by_its_rule(keys: int, kv_heads: int, group: int, splits: int, tile: int) -> None:
    tiling = ascend_incre_flash.tile(Problem(1, keys, kv_heads * group, kv_heads, 128), ASCEND_910B)
    assert (tiling.splits, tiling.keys, tiling.rows) == (splits, tile, group)


def test_ascend_takes_128_rows_where_64_would_be_too_many_tiles() -> None:
    def rows(queries: int) -> int:
        return plan("ascend-flash-attention-score", Problem(queries, 4096, 8, 8), ASCEND_910B).tiling.rows

    assert rows(6 * 64) == 64
    assert rows(6 * 64 + 1) == 128


def test_ascend_scores_travel_through_l2_and_nvidia_scores_stay() -> None:
    problem = Problem(300, 2000, 2, 1, 64)
    for one in plans(problem):
        travels = any(step.l2_written for step in one.steps())
        assert travels == one.name.startswith("ascend"), one.name


@given(problems())
@settings(max_examples=30, deadline=None)
def test_workers_keep_to_their_own_rows_and_parts(problem: Problem) -> None:
    for one in plans(problem):
        owners: dict[int, set[tuple[int, int]]] = {}
        for step in one.steps():
            if step.phase == "attend":
                owners.setdefault(step.worker, set()).add((step.rows.head, step.split))
        assert all(len(owned) == 1 for owned in owners.values())
        starts = [step.worker for step in one.steps() if step.phase == "attend"]
        assert all(later >= earlier for earlier, later in pairwise(starts))


def test_what_is_no_schedule_or_does_not_take_the_shape_is_refused_in_a_sentence() -> None:
    with pytest.raises(UserError, match="must be one of standard"):
        plan("flash-attention-9", Problem(1, 1), A100)
    with pytest.raises(UserError, match=r"takes one query, and there are 5\."):
        plan("ascend-incre-flash", Problem(5, 10), A100)
    assert all(plan(name, Problem(1, 7), A100).name == name for name in NAMES)
