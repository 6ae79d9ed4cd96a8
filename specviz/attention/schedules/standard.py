"""Standard attention: S and P written to memory in full (FlashAttention, arXiv 2205.14135, Algorithm 0).

Three kernels a head. What each reads is counted once, as if a matrix product never read an operand twice: the best
case for it. Nothing is skipped: the causal mask is laid over scores that were computed. The tile only cuts the
matrices for the picture; no byte depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules.common import Sizes, from_hbm, key_tiles, kind, product, row_tiles
from specviz.attention.steps import FLOAT, Buffer, Keys, Rows, Schedule, TileStep, Tiling

TILE = 128


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    return Tiling(TILE, TILE)


def walk(problem: Problem, tiling: Tiling) -> Iterator[TileStep]:
    across = key_tiles(problem.keys, tiling.keys)
    workers = list(enumerate(row_tiles(problem, tiling)))
    per_head = len(workers) // problem.heads
    for first in range(0, len(workers), per_head):
        head = workers[first : first + per_head]
        for worker, rows in head:
            for keys in across:
                yield _scores(problem, worker, rows, keys)
        for worker, rows in head:
            yield _softmax(problem, worker, rows)
        for worker, rows in head:
            for keys in across:
                yield _values(problem, worker, rows, keys)


def _scores(problem: Problem, worker: int, rows: Rows, keys: Keys) -> TileStep:
    size = Sizes(problem, rows, keys)
    loads = from_hbm(Q=size.q) if keys.start == 0 else ()
    loads += from_hbm(K=size.k) if rows.start == 0 else ()
    return TileStep(
        worker,
        "scores",
        kind(problem, rows, keys),
        rows,
        keys,
        loads=loads,
        stores=from_hbm(S=size.p),
        held=(Buffer("Q", size.q), Buffer("K", size.k), Buffer("S", size.scores)),
        flops=product(problem, rows, keys),
    )


def _softmax(problem: Problem, worker: int, rows: Rows) -> TileStep:
    everything = Keys(0, problem.keys)
    size = Sizes(problem, rows, everything)
    return TileStep(
        worker,
        "softmax",
        None,
        rows,
        everything,
        loads=from_hbm(S=size.p),
        stores=from_hbm(P=size.p),
        held=(Buffer("S", problem.keys * FLOAT),),  # one row at a time
        exponentials=len(rows) * problem.keys,
    )


def _values(problem: Problem, worker: int, rows: Rows, keys: Keys) -> TileStep:
    size = Sizes(problem, rows, keys)
    last = keys.stop == problem.keys
    return TileStep(
        worker,
        "values",
        None,
        rows,
        keys,
        finishes=last,
        loads=from_hbm(P=size.p) + (from_hbm(V=size.v) if rows.start == 0 else ()),
        stores=from_hbm(O=size.o) if last else (),
        held=(Buffer("P", size.p), Buffer("V", size.v), Buffer("O", size.accumulators)),
        flops=product(problem, rows, keys),
    )


SCHEDULE = Schedule("standard", "FlashAttention, arXiv 2205.14135, Algorithm 0", tile, walk, skips=False)
