"""Ascend IncreFlashAttention, for one query (CANN ops-transformer, design notes and tiling of the C+V template).

The heads of a group are the rows of one tile. Where key/value heads are fewer than 0.4 of the vector cores, the keys
are split, no part below 512, and the parts merged by their log-sum-exp; with grouped heads only from 2,048 keys on.
As in FlashAttentionScore S, P and P·V travel through L2; so does O, at each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules.ascend_flash_attention_score import on_chip, through_l2
from specviz.attention.schedules.common import Sizes, attend, from_hbm, key_tiles, merge, row_tiles
from specviz.attention.steps import Keys, Rows, Schedule, TileStep, Tiling

FEW_HEADS = 0.4  # of the cores
LONG_FOR_GROUPS = 2048
SHORTEST_PART = 512
CUBE_KEYS = 256


def refuses(problem: Problem) -> str | None:
    if problem.queries == 1:
        return None
    return (
        f"ascend-incre-flash takes one query, and there are {problem.queries}. "
        f"Ascend runs a verification through ascend-flash-attention-score."
    )


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    """8192, 4096 or 2048 keys for groups below 5, below 10 and larger ones."""
    parts = splits(problem, hardware.vectors)
    keys = (8192, 4096, 2048)[min(problem.group // 5, 2)]
    return Tiling(problem.group, keys, problem.group, parts, ceil(problem.keys / parts))


def splits(problem: Problem, cores: int) -> int:
    few = problem.kv_heads < FEW_HEADS * cores
    if not few or (problem.group > 1 and problem.keys < LONG_FOR_GROUPS):
        return 1
    parts = cores // problem.kv_heads
    while parts > 1 and problem.keys // parts < SHORTEST_PART:
        parts -= 1
    return parts


def walk(problem: Problem, tiling: Tiling) -> Iterator[TileStep]:
    groups = list(row_tiles(problem, tiling))
    for index, rows in enumerate(groups):
        for part in range(tiling.splits):
            yield from _part(problem, tiling, index * tiling.splits + part, rows, part)
    if tiling.splits > 1:
        for index, rows in enumerate(groups):
            yield merge(problem, tiling, index, rows, from_hbm(O=Sizes(problem, rows, Keys(0, 0)).o))


def _part(problem: Problem, tiling: Tiling, worker: int, rows: Rows, part: int) -> Iterator[TileStep]:
    start = part * tiling.keys_per_split
    across = key_tiles(min(start + tiling.keys_per_split, problem.keys), tiling.keys, start)
    for keys in across:
        size = Sizes(problem, rows, keys)
        first, last = keys == across[0], keys == across[-1]
        travels = through_l2(S=size.scores, P=size.p, PV=size.accumulators)
        so_far = through_l2(O=size.accumulators)
        partial = from_hbm(O=size.accumulators, LSE=size.statistic)
        result = from_hbm(O=size.o) if tiling.splits == 1 else partial
        yield attend(
            problem,
            worker,
            rows,
            keys,
            part,
            finishes=last,
            loads=(from_hbm(Q=size.q) if first else so_far) + from_hbm(K=size.k, V=size.v) + travels,
            stores=travels + (result if last else so_far),
            held=on_chip(problem, rows, keys, CUBE_KEYS),
        )


SCHEDULE = Schedule(
    "ascend-incre-flash",
    "CANN ops-transformer, IncreFlashAttention design notes and tiling",
    tile,
    walk,
    on_vector_cores=True,
    refuses=refuses,
)
