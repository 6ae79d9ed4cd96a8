"""The grids of 4 and 8 bits that weights are rounded to: numbers alone, the same for every device.

They are fitted in float32 on the CPU, so that a copy holds the same levels and scales wherever it runs.
"""

from __future__ import annotations

import torch
from torch import Tensor

REFITS = 2  # further ones lower the error a little and agree with the original no more often
SMALLEST_SCALE = torch.finfo(torch.float32).tiny  # a group of equal weights has no spread to divide by
LEVELS = 15  # int4: 16 values, 15 steps between them
MIDDLE = 8  # the level whose value is the group's zero


def int4_grid(weight: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Levels [out, in] int32 in 0..15, scale and zero [out, in/group] in the weight's dtype.

    The first grid spans a group's smallest to its largest weight; weights that came from 4 bits in groups
    of this size (GGUF Q4_1 with 32) lie on it. Then the grid is fitted to its weights by least squares.
    """
    groups = weight.float().unflatten(1, (-1, group))
    low, high = groups.aminmax(dim=-1, keepdim=True)
    scale = ((high - low) / LEVELS).clamp_min(SMALLEST_SCALE)
    zero = low + MIDDLE * scale
    centred = _nearest(groups, scale, zero)
    for _ in range(REFITS):
        scale, zero = _least_squares(groups, centred, scale)
        centred = _nearest(groups, scale, zero)
    levels = (centred + MIDDLE).flatten(1).to(torch.int32)
    return levels, scale.squeeze(-1).to(weight.dtype), zero.squeeze(-1).to(weight.dtype)


def _nearest(groups: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """For each weight the level, −8..7, whose value is nearest."""
    return ((groups - zero) / scale).round_().clamp_(-MIDDLE, LEVELS - MIDDLE)


def _least_squares(groups: Tensor, centred: Tensor, fallback: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and zero, [..., 1], that bring scale·centred + zero nearest to each group's weights."""
    mean_level, mean_weight = centred.mean(-1, keepdim=True), groups.mean(-1, keepdim=True)
    spread = centred - mean_level
    slope = (spread * (groups - mean_weight)).sum(-1, keepdim=True) / spread.square().sum(-1, keepdim=True)
    scale = torch.where(slope > SMALLEST_SCALE, slope, fallback)  # false also where all levels are equal: 0/0
    return scale, mean_weight - scale * mean_level


def int8_grid(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Levels [out, in] int8 in −127..127 and scale [out] in the weight's dtype."""
    rows = weight.float()
    scale = (rows.abs().amax(1, keepdim=True) / 127).clamp_min(SMALLEST_SCALE)
    return (rows / scale).round_().to(torch.int8), scale.squeeze(1).to(weight.dtype)
