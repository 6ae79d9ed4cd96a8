"""Weight-only int4 and int8 copies of a model, on torch's packed CPU kernels.

At batch 1 a forward waits for weights to arrive from memory, so a copy with a quarter of the bytes drafts
several times faster than its original, and needs no training. The kernels compute in bfloat16 whatever the
model's dtype is: their float32 path is a plain loop, measured 20 to 40 times slower.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from specviz.errors import UserError

REFITS = 2  # further ones lower the error a little and agree with the original no more often
SMALLEST_SCALE = torch.finfo(torch.float32).tiny  # a group of equal weights has no spread to divide by
LEVELS = 15  # int4: 16 values, 15 steps between them
MIDDLE = 8  # the value that the int4 kernel takes as zero
# What the kernels read at once. They do not check it: other widths read past the end of a row.
IN_MULTIPLE, OUT_MULTIPLE = 32, 16
KERNEL_DTYPE = torch.bfloat16


@dataclass(frozen=True, slots=True)
class Scheme:
    """``group`` weights of a row share one scale; ``group`` 0 is one scale for the whole row.

    ``head`` is the scheme of the output head, which matters most: with int4 layers in groups of 32 the copy of
    the default target agreed with it on 98% of 1,342 greedy tokens with an int8 head and on 89% with an int4 one,
    for about 0.5 ms of 7 a step (bfloat16).
    """

    bits: int
    group: int
    head: str
    label: str


SCHEMES = {
    "int4-g32": Scheme(4, 32, "int8", "int4, groups of 32, head int8"),
    "int4-g32-head4": Scheme(4, 32, "int4-g32-head4", "int4, groups of 32, head too"),
    "int4-g64": Scheme(4, 64, "int8", "int4, groups of 64, head int8"),
    "int8": Scheme(8, 0, "int8", "int8, one scale a row"),
}


def quantized_copy(module: PreTrainedModel, scheme: str) -> PreTrainedModel:
    """A copy of ``module`` whose linear layers, the head included, hold packed weights.

    Everything else (embeddings, norms, biases, rotary tables) is the original's own memory, and the
    original is left as it is. A linear layer whose shape the kernels cannot take stays shared and
    unpacked. Raises UserError for an unknown scheme and for devices without these kernels.
    """
    if scheme not in SCHEMES:
        raise UserError(f"The quantization must be one of {', '.join(SCHEMES)}; you gave {scheme}.")
    if module.device.type != "cpu":
        raise UserError(
            f"The packed {scheme} kernels are for the CPU and this target is on {module.device.type}. "
            "Use the drafter draft-model or prompt-lookup."
        )
    # deepcopy looks each object up here before it copies it.
    replacements: dict[int, object] = {id(tensor): tensor for tensor in [*module.parameters(), *module.buffers()]}
    head = module.get_output_embeddings()
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            replacements[id(layer)] = pack(layer, SCHEMES[SCHEMES[scheme].head if layer is head else scheme])
    return copy.deepcopy(module, replacements)


def pack(layer: nn.Linear, scheme: Scheme) -> nn.Module:
    """The packed twin of ``layer``, or ``layer`` itself where its shape does not fit the kernels."""
    unit = max(scheme.group, IN_MULTIPLE)
    if layer.in_features % unit or layer.out_features % OUT_MULTIPLE:
        return layer
    return Int4Linear(layer, scheme.group) if scheme.bits == 4 else Int8Linear(layer)


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
