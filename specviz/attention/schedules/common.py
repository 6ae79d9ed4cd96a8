"""What the schedules share: cutting rows and keys into tiles, and what a tile is under the causal mask."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from specviz.attention.problem import Problem
from specviz.attention.steps import FLOAT, Buffer, Keys, Kind, Move, Rows, TileStep, Tiling


def row_tiles(problem: Problem, tiling: Tiling) -> Iterator[Rows]:
    """All rows, head by head (or packed group by packed group), top to bottom."""
    for head in range(0, problem.heads, tiling.group):
        for keys in key_tiles(problem.queries * tiling.group, tiling.rows):
            yield Rows(head, tiling.group, *keys)


def key_tiles(stop: int, size: int, start: int = 0) -> list[Keys]:
    return [Keys(first, min(first + size, stop)) for first in range(start, stop, size)]


def kind(problem: Problem, rows: Rows, keys: Keys) -> Kind:
    """What a computed tile is: every score of a full one counts."""
    return "full" if problem.visible(rows.first_query) >= keys.stop else "masked"


def reach(problem: Problem, rows: Rows) -> int:
    """How many keys, from the first on, any of these rows sees; tiles that start there or later are skipped."""
    return problem.visible(rows.last_query)


def skip(worker: int, rows: Rows, keys: Keys, split: int = 0) -> TileStep:
    return TileStep(worker, "attend", "skipped", rows, keys, split)


def attend(
    problem: Problem,
    worker: int,
    rows: Rows,
    keys: Keys,
    split: int = 0,
    *,
    finishes: bool,
    loads: tuple[Move, ...],
    stores: tuple[Move, ...],
    held: tuple[Buffer, ...],
) -> TileStep:
    """A fused visit: Q·Kᵀ, online softmax and P·V of one tile."""
    return TileStep(
        worker,
        "attend",
        kind(problem, rows, keys),
        rows,
        keys,
        split,
        finishes,
        loads,
        stores,
        held,
        flops=2 * product(problem, rows, keys),
        exponentials=len(rows) * len(keys),
    )


def merge(problem: Problem, tiling: Tiling, worker: int, rows: Rows, stores: tuple[Move, ...]) -> TileStep:
    """The parts of these rows read back, weighed by e^(LSEᵢ − LSE) and added up."""
    size = Sizes(problem, rows, Keys(0, 0))
    parts = tiling.splits
    return TileStep(
        worker,
        "merge",
        None,
        rows,
        Keys(0, problem.keys),
        finishes=True,
        loads=from_hbm(O=parts * size.accumulators, LSE=parts * size.statistic),
        stores=stores,
        held=(Buffer("O", 2 * size.accumulators), Buffer("LSE", parts * size.statistic)),
        exponentials=parts * len(rows),
    )


def product(problem: Problem, rows: Rows, keys: Keys) -> int:
    """FLOPs of Q·Kᵀ over one tile, and of P·V."""
    return 2 * len(rows) * len(keys) * problem.head_dim


def should_pack(problem: Problem, tile_rows: int) -> bool:
    """Whether packing the heads of a group fills row tiles clearly better: FlashAttention-3's should_pack_gqa."""

    def filled(rows: int) -> float:
        return rows / (ceil(rows / tile_rows) * tile_rows)

    return filled(problem.queries) < 0.9 * filled(problem.queries * problem.group)


class Sizes:
    """Bytes of a tile's arrays: ``q``, ``k`` and ``v`` as in memory, the rest float32 on chip."""

    def __init__(self, problem: Problem, rows: Rows, keys: Keys) -> None:
        r, k, d, b = len(rows), len(keys), problem.head_dim, problem.bytes_per_element
        self.q = self.o = r * d * b
        self.k = self.v = k * d * b
        self.p = r * k * b
        self.scores = r * k * FLOAT
        self.accumulators = r * d * FLOAT
        self.statistic = r * FLOAT  # one of m, ℓ, log-sum-exp

    def fused(self, stages: int = 1) -> tuple[Buffer, ...]:
        """On chip in a fused kernel with ``stages`` buffers for each of K and V."""
        return (
            Buffer("Q", self.q),
            Buffer("K", stages * self.k),
            Buffer("V", stages * self.v),
            Buffer("S", self.scores),
            Buffer("O", self.accumulators),
            Buffer("m, ℓ", 2 * self.statistic),
        )


def from_hbm(**sizes: int) -> tuple[Move, ...]:
    return tuple(Move(what, "hbm", size) for what, size in sizes.items())


def statistics(size: int) -> Move:
    return Move("m, ℓ", "hbm", size)
