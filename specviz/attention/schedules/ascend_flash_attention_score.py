"""Ascend FlashAttentionScore, and PromptFlashAttention which a verification runs (CANN ops-transformer, design notes).

Cube cores do the matrix products in blocks of 128×128, vector cores the softmax, 8×1024 float32 at a time. They share
no memory, so S, P and every product P·V pass through L2; O gathers in the vector core. Two cube blocks are issued
ahead (``specviz.attention.timeline``). A worker is a vector core with its half of a cube core; K/V tiles left to right.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules.common import Sizes, attend, from_hbm, key_tiles, reach, row_tiles, skip, statistics
from specviz.attention.steps import FLOAT, Buffer, Keys, Move, Rows, Schedule, TileStep, Tiling

CUBE = 128  # rows, and keys, of a cube core's block
VECTOR_ROWS = 8
KEYS = 1024
STATISTIC = 8 * FLOAT  # bytes in which the operator gives out one row's maximum, or sum: eight copies


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    """64 rows, or 128 where 64 would give more tiles than there are vector cores; 1024 keys."""
    tiles = problem.heads * ceil(problem.queries / 64)
    return Tiling(128 if tiles > hardware.vectors else 64, KEYS)


def walk(problem: Problem, tiling: Tiling) -> Iterator[TileStep]:
    across = key_tiles(problem.keys, tiling.keys)
    for worker, rows in enumerate(row_tiles(problem, tiling)):
        edge = reach(problem, rows)
        for keys in across:
            if keys.start >= edge:
                yield skip(worker, rows, keys)
            else:
                yield _attend(problem, worker, rows, keys, keys.stop >= edge)


def _attend(problem: Problem, worker: int, rows: Rows, keys: Keys, last: bool) -> TileStep:
    size = Sizes(problem, rows, keys)
    travels = through_l2(S=size.scores, P=size.p, PV=size.accumulators)
    return attend(
        problem,
        worker,
        rows,
        keys,
        finishes=last,
        loads=(from_hbm(Q=size.q) if keys.start == 0 else ()) + from_hbm(K=size.k, V=size.v) + travels,
        stores=travels + ((*from_hbm(O=size.o), statistics(2 * len(rows) * STATISTIC)) if last else ()),
        held=on_chip(problem, rows, keys),
    )


def on_chip(problem: Problem, rows: Rows, keys: Keys, block_keys: int = CUBE) -> tuple[Buffer, ...]:
    """One cube block (in L1, L0A, L0B, L0C) and one vector tile (in UB)."""
    size = Sizes(problem, rows, keys)
    block = Rows(rows.head, rows.group, 0, min(len(rows), CUBE))
    cube = Sizes(problem, block, Keys(0, min(len(keys), block_keys)))
    return (
        Buffer("Q", cube.q),
        Buffer("K", cube.k),
        Buffer("V", cube.v),
        Buffer("S block", cube.scores),
        Buffer("S rows", min(len(rows) * len(keys), VECTOR_ROWS * KEYS) * FLOAT),
        Buffer("O", size.accumulators),
        Buffer("m, ℓ", 2 * size.statistic),
    )


def through_l2(**sizes: int) -> tuple[Move, ...]:
    return tuple(Move(what, "l2", size) for what, size in sizes.items())


SCHEDULE = Schedule(
    "ascend-flash-attention-score",
    "CANN ops-transformer, FlashAttentionScore design notes",
    tile,
    walk,
    on_vector_cores=True,
)
