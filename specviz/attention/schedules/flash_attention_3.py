"""FlashAttention-3 (arXiv 2407.08608, Algorithm 1 and §3.1; hopper/tile_size.h of its library), 16-bit.

The order is FlashAttention-2's; the tiles are larger, and heads of a group are packed into rows where that fills
them. Producer warps load K and V two tiles deep; how their work overlaps is in ``specviz.attention.timeline``.
"""

from __future__ import annotations

from collections.abc import Iterator

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules import flash_attention_2
from specviz.attention.schedules.common import should_pack
from specviz.attention.steps import Schedule, TileStep, Tiling

STAGES = 2
# Head dimension up to: rows, keys under a causal mask, keys without.
TILES = {64: (192, 128, 192), 96: (192, 144, 144), 128: (128, 128, 176), 192: (128, 112, 112), 256: (128, 80, 80)}


def tile(problem: Problem, hardware: Hardware) -> Tiling:
    rows, causal, full = next(sizes for limit, sizes in TILES.items() if problem.head_dim <= limit)
    return Tiling(rows, causal if problem.causal else full, problem.group if should_pack(problem, rows) else 1)


def walk(problem: Problem, tiling: Tiling) -> Iterator[TileStep]:
    return flash_attention_2.walk(problem, tiling, STAGES)


SCHEDULE = Schedule("flash-attention-3", "FlashAttention-3, arXiv 2407.08608, Algorithm 1", tile, walk)
