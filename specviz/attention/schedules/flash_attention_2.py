"""FlashAttention-2 (arXiv 2307.08691, Algorithm 1; csrc/flash_attn of its library).

One worker a Q tile. It walks the K/V tiles from the right, so that the masked ones come first, keeps O unnormalised
on chip and divides by ℓ once. The last K/V tile of Q tile i under a causal mask is
min(⌈Nk/Bn⌉, ⌈((i+1)·Bm + Nk − Nq)/Bn⌉).
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.attention.hardware import KIB, Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules.common import Sizes, attend, from_hbm, key_tiles, reach, row_tiles, skip
from specviz.attention.steps import Schedule, TileStep, Tiling

WIDE_TILES = (128 * KIB, 192 * KIB)  # on-chip memory of a core between which head dimension 256 takes 128 rows


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    """128×128 up to head dimension 64, 128×64 up to 192; at 256 128×64 on A100 and 64×64 on H100."""
    if problem.head_dim <= 64:
        return Tiling(128, 128)
    wide = WIDE_TILES[0] <= hardware.on_chip.value <= WIDE_TILES[1]
    return Tiling(128 if problem.head_dim <= 192 or wide else 64, 64)


def walk(problem: Problem, tiling: Tiling, stages: int = 1) -> Iterator[TileStep]:
    """``stages`` is how many K and V tiles lie on chip at once."""
    across = key_tiles(problem.keys, tiling.keys)
    for worker, rows in enumerate(row_tiles(problem, tiling)):
        edge = reach(problem, rows)
        for keys in reversed(across):
            if keys.start >= edge:
                yield skip(worker, rows, keys)
                continue
            size = Sizes(problem, rows, keys)
            last = keys.start == 0
            yield attend(
                problem,
                worker,
                rows,
                keys,
                finishes=last,
                loads=(from_hbm(Q=size.q) if keys.stop >= edge else ()) + from_hbm(K=size.k, V=size.v),
                stores=from_hbm(O=size.o, LSE=size.statistic) if last else (),
                held=size.fused(stages),
            )


SCHEDULE = Schedule("flash-attention-2", "FlashAttention-2, arXiv 2307.08691, Algorithm 1", tile, walk)
