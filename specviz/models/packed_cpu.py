"""Linear layers on torch's packed CPU kernels.

The kernels compute in bfloat16 whatever the model's dtype is: their float32 path is a plain loop, measured 20 to
40 times slower.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specviz.models.grids import int4_grid, int8_grid

# What the kernels read at once. They do not check it: other widths read past the end of a row.
IN_MULTIPLE, OUT_MULTIPLE = 32, 16
KERNEL_DTYPE = torch.bfloat16


def pack(layer: nn.Linear, bits: int, group: int) -> nn.Module:
    """The packed twin of ``layer``, or ``layer`` itself where its shape does not fit the kernels."""
    if layer.in_features % max(group, IN_MULTIPLE) or layer.out_features % OUT_MULTIPLE:
        return layer
    return Int4Linear(layer, group) if bits == 4 else Int8Linear(layer)


class Int4Linear(nn.Module):
    """y = x Wᵀ + b with W in 4 bits: w ≈ (level − 8)·scale + zero, per group of a row.

    x [..., in_features] in the dtype of the original layer; so is y [..., out_features].
    """

    def __init__(self, layer: nn.Linear, group: int) -> None:
        super().__init__()
        self.in_features, self.out_features, self.group = layer.in_features, layer.out_features, group
        levels, scale, zero = int4_grid(layer.weight.detach(), group)
        self.packed: Tensor
        self.scale_and_zero: Tensor
        self.register_buffer("packed", torch.ops.aten._convert_weight_to_int4pack_for_cpu(levels, 1), False)
        scale_and_zero = torch.stack((scale.t(), zero.t()), -1).to(KERNEL_DTYPE)
        self.register_buffer("scale_and_zero", scale_and_zero.contiguous(), False)
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).to(KERNEL_DTYPE)
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, self.group, self.scale_and_zero)
        return _shaped(y, x, self.bias)


class Int8Linear(nn.Module):
    """y = x Wᵀ + b with W in 8 bits: w ≈ level·scale, one scale a row. Shapes as in Int4Linear."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = layer.in_features, layer.out_features
        levels, scale = int8_grid(layer.weight.detach())
        self.levels: Tensor
        self.scale: Tensor
        self.register_buffer("levels", levels, False)
        self.register_buffer("scale", scale.to(KERNEL_DTYPE), False)
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).to(KERNEL_DTYPE)
        y = torch.ops.aten._weight_int8pack_mm(rows, self.levels, self.scale)
        return _shaped(y, x, self.bias)


def _shaped(y: Tensor, x: Tensor, bias: Tensor | None) -> Tensor:
    y = y.to(x.dtype)
    if bias is not None:
        y = y + bias
    return y if x.dim() == 2 else y.view(*x.shape[:-1], -1)
