"""FlashAttention (arXiv 2205.14135), Algorithm 1: K/V tiles in the outer loop, Q tiles in the inner one.

So O, m and ℓ of every row go to memory and come back at each visit, O divided by ℓ each time. One worker a head.
Fully masked tiles are skipped (FlashAttention-2, §3.1.1 says it of both).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules.common import Sizes, attend, from_hbm, key_tiles, reach, row_tiles, skip, statistics
from specviz.attention.steps import Keys, Move, Rows, Schedule, TileStep, Tiling


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    """B_c = ⌈M/4d⌉ and B_r = min(⌈M/4d⌉, d), M being the on-chip memory in elements (Algorithm 1, line 1)."""
    block = ceil(int(hardware.on_chip.value) // problem.bytes_per_element / (4 * problem.head_dim))
    return Tiling(min(block, problem.head_dim), block)


def walk(problem: Problem, tiling: Tiling) -> Iterator[TileStep]:
    tiles = list(row_tiles(problem, tiling))
    for head in range(problem.heads):
        down = [rows for rows in tiles if rows.head == head]
        for rows in down:
            size = Sizes(problem, rows, Keys(0, 0))
            stores = _state(size)
            yield TileStep(head, "initialise", None, rows, Keys(0, 0), stores=stores)
        for keys in key_tiles(problem.keys, tiling.keys):
            fresh = True
            for rows in down:
                if keys.start >= reach(problem, rows):
                    yield skip(head, rows, keys)
                else:
                    yield _attend(problem, head, rows, keys, fresh)
                    fresh = False


def _attend(problem: Problem, head: int, rows: Rows, keys: Keys, fresh: bool) -> TileStep:
    size = Sizes(problem, rows, keys)
    state = _state(size)
    return attend(
        problem,
        head,
        rows,
        keys,
        finishes=keys.stop >= reach(problem, rows),
        loads=(from_hbm(K=size.k, V=size.v) if fresh else ()) + from_hbm(Q=size.q) + state,
        stores=state,
        held=size.fused(),
    )


def _state(size: Sizes) -> tuple[Move, ...]:
    return (*from_hbm(O=size.o), statistics(2 * size.statistic))


SCHEDULE = Schedule(
    "flash-attention-1", "FlashAttention, arXiv 2205.14135, Algorithm 1", tile, walk, divides_each_step=True
)
