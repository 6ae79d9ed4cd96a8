"""Flash-Decoding: the keys split among workers where few rows leave cores idle (the split-KV kernels of
FlashAttention-2's library; num_splits_heuristic in csrc/flash_attn/flash_api.cpp).

Each split gives a normalised O and its log-sum-exp in float32; a second kernel merges them,
O = Σ e^(LSEᵢ − LSE)·Oᵢ. The library packs the heads of a group into rows for one query; for several, the rule is
FlashAttention-3's.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules.common import (
    Sizes,
    attend,
    from_hbm,
    key_tiles,
    merge,
    reach,
    row_tiles,
    should_pack,
    skip,
)
from specviz.attention.steps import Keys, Move, Rows, Schedule, TileStep, Tiling

ROWS = 64
MOST_SPLITS = 128
BLOCKS_PER_CORE = 2  # thread blocks of 128 threads


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    keys = 256 if problem.head_dim <= 64 else 128 if problem.head_dim <= 128 else 64
    group = problem.group if should_pack(problem, ROWS) else 1
    row_blocks = problem.heads // group * ceil(problem.queries * group / ROWS)
    key_blocks = ceil(problem.keys / keys)
    return split(Tiling(ROWS, keys, group), problem, splits(row_blocks, key_blocks, int(hardware.cores.value)))


def split(tiling: Tiling, problem: Problem, parts: int) -> Tiling:
    """The tiling with its K/V tiles in ``parts`` runs of equal length, the last one shorter."""
    each = ceil(ceil(problem.keys / tiling.keys) / parts)
    return Tiling(tiling.rows, tiling.keys, tiling.group, parts, each * tiling.keys)


def splits(row_blocks: int, key_blocks: int, cores: int) -> int:
    """The fewest splits whose last wave of thread blocks is at least 85% as full as the best can be."""
    slots = BLOCKS_PER_CORE * cores
    if row_blocks >= 0.8 * slots:
        return 1

    def fullness(parts: int) -> float:
        waves = row_blocks * parts / slots
        return waves / ceil(waves)

    most = min(MOST_SPLITS, slots, key_blocks)
    # Where one part more leaves as many tiles in each, the last part would be empty.
    eligible = [n for n in range(1, most + 1) if n == 1 or ceil(key_blocks / n) != ceil(key_blocks / (n - 1))]
    best = max(map(fullness, eligible))
    return next(n for n in eligible if fullness(n) >= 0.85 * best)


def walk(problem: Problem, tiling: Tiling) -> Iterator[TileStep]:
    tiles = list(row_tiles(problem, tiling))
    for index, rows in enumerate(tiles):
        for part in range(tiling.splits):
            yield from _part(problem, tiling, index * tiling.splits + part, rows, part)
    if tiling.splits > 1:
        for index, rows in enumerate(tiles):
            size = Sizes(problem, rows, Keys(0, 0))
            yield merge(problem, tiling, index, rows, from_hbm(O=size.o, LSE=size.statistic))


def _part(problem: Problem, tiling: Tiling, worker: int, rows: Rows, part: int) -> Iterator[TileStep]:
    start = part * tiling.keys_per_split
    across = key_tiles(min(start + tiling.keys_per_split, problem.keys), tiling.keys, start)
    seen = [keys for keys in across if keys.start < reach(problem, rows)]
    for keys in reversed(across[len(seen) :]):
        yield skip(worker, rows, keys, part)
    if not seen:  # it still has to say that it saw nothing
        empty = Keys(start, start)
        stores = _result(tiling, Sizes(problem, rows, empty))
        yield TileStep(worker, "initialise", None, rows, empty, part, finishes=True, stores=stores)
    for keys in reversed(seen):
        size = Sizes(problem, rows, keys)
        last = keys == seen[0]
        yield attend(
            problem,
            worker,
            rows,
            keys,
            part,
            finishes=last,
            loads=(from_hbm(Q=size.q) if keys == seen[-1] else ()) + from_hbm(K=size.k, V=size.v),
            stores=_result(tiling, size) if last else (),
            held=size.fused(),
        )


def _result(tiling: Tiling, size: Sizes) -> tuple[Move, ...]:
    """What a worker writes: O in its own dtype if nothing is left to merge, otherwise in float32."""
    return from_hbm(O=size.o if tiling.splits == 1 else size.accumulators, LSE=size.statistic)


SCHEDULE = Schedule("flash-decoding", "Flash-Decoding; csrc/flash_attn/flash_api.cpp, num_splits_heuristic", tile, walk)
