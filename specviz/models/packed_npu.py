"""Linear layers on CANN's weight-only kernel: y = x @ ((W + offset)·scale) + bias, W in 4 or 8 bits.

What it takes is described by the documents of ``torch_npu.npu_weight_quant_batchmatmul`` and
``aclnnWeightQuantBatchMatmulV2``; the levels and scales are those of the CPU (grids.py). This runs against torch_npu
2.13.0 on an emulated CANN runtime; no NPU has run it, so nothing is known of its speed there.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from specviz import devices
from specviz.errors import UserError
from specviz.models.grids import MIDDLE, int4_grid, int8_grid

# Bits of the weights by chip: Atlas A2, A3, 950; Atlas inference series. Others have no such kernel, and what is
# called Ascend910B without a number is one of the others (a first 910).
BITS = {r"Ascend(910B\d|910_93|950)": (4, 8), r"Ascend310P": (8,)}
LARGEST = 65_535  # of a weight's two sizes
LEVELS_IN_INT32 = 8
# The kernel adds the bias before it rounds; beside bfloat16 it wants it in float32.
BIAS_DTYPES = {torch.float16: torch.float16, torch.bfloat16: torch.float32}


def require(device: torch.device, bits: int) -> None:
    """Raises UserError where the chip has no kernel for weights of so few bits."""
    chip = devices.name(device)
    offered = next((offered for pattern, offered in BITS.items() if re.match(pattern, chip)), ())
    if bits in offered:
        return
    instead = "Choose the quantization int8, or" if offered else "Choose"
    raise UserError(f"{chip} has no kernel for int{bits} weights. {instead} the drafter draft-model or prompt-lookup.")


def pack(layer: nn.Linear, bits: int, group: int) -> nn.Module:
    """The packed twin of ``layer`` on its device, or ``layer`` itself where its shape does not fit the kernel."""
    if max(layer.in_features, layer.out_features) > LARGEST:
        return layer
    if bits == 8:
        return _int8(layer)
    if layer.in_features % group or layer.out_features % LEVELS_IN_INT32:
        return layer
    return _int4(layer, group)


class PackedLinear(nn.Module):
    """y = x Wᵀ + b. x [..., in_features] in the dtype of the original layer; so is y [..., out_features].

    ``weight`` holds levels, [in_features, out_features] int8 or [in_features, out_features/8] int32; ``scale`` and
    ``offset`` are [in_features/group, out_features], or with ``group`` 0 one value a column.
    """

    def __init__(self, layer: nn.Linear, weight: Tensor, scale: Tensor, offset: Tensor | None, group: int) -> None:
        super().__init__()
        self.dtype, self.group = scale.dtype, group
        self.weight: Tensor
        self.scale: Tensor
        self.offset: Tensor | None
        self.bias: Tensor | None
        self.register_buffer("weight", weight, False)
        self.register_buffer("scale", scale, False)
        self.register_buffer("offset", offset, False)
        bias = None if layer.bias is None else layer.bias.detach().to(BIAS_DTYPES[scale.dtype])
        self.register_buffer("bias", bias, False)

    def forward(self, x: Tensor) -> Tensor:
        import torch_npu

        y = torch_npu.npu_weight_quant_batchmatmul(
            x=x.reshape(-1, x.shape[-1]).to(self.dtype).contiguous(),
            weight=self.weight,
            antiquant_scale=self.scale,
            antiquant_offset=self.offset,
            bias=self.bias,
            antiquant_group_size=self.group,
        )
        return y.to(x.dtype).view(*x.shape[:-1], -1)


def _int8(layer: nn.Linear) -> PackedLinear:
    """One scale a row. For these the documents recommend a transposed view of [out_features, in_features]."""
    device = layer.weight.device
    levels, scale = int8_grid(layer.weight.detach().cpu())
    return PackedLinear(layer, levels.to(device).t(), scale.to(kernel_dtype(layer.weight)).to(device), None, 0)


def _int4(layer: nn.Linear, group: int) -> PackedLinear:
    """Groups along a row. For these they recommend [in_features, out_features/8] as it is."""
    import torch_npu

    grid = int4_grid(layer.weight.detach().cpu(), group)
    levels, scale, offset = (
        part.t().contiguous().to(layer.weight.device) for part in as_offsets(*grid, kernel_dtype(layer.weight))
    )
    packed = torch_npu.npu_convert_weight_to_int4pack(weight=levels)
    # A group of the whole row is the kernel's "one scale a row", not a group.
    return PackedLinear(layer, packed, scale, offset, group if group < layer.in_features else 0)


def as_offsets(levels: Tensor, scale: Tensor, zero: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The int4 grid (level − 8)·scale + zero, told as the kernel tells it: (level + offset)·scale.

    Levels [out, in] int32 in −8..7; scale and offset [out, in/group] in ``dtype``. A group whose steps are too small
    for ``dtype`` beside its zero (its weights are all but equal) holds that zero alone.
    """
    centred, scale = levels - MIDDLE, scale.to(dtype)
    offset = (zero.float() / scale.float()).to(dtype)
    flat = ~offset.isfinite()
    group = levels.shape[1] // scale.shape[1]
    centred = centred.masked_fill(flat.repeat_interleave(group, 1), 0)
    return centred, torch.where(flat, zero.to(dtype), scale), offset.masked_fill(flat, 1)


def kernel_dtype(weight: Tensor) -> torch.dtype:
    """The dtype the kernel computes in: the model's own; for a float32 model the device's 16 bits."""
    if weight.dtype in BIAS_DTYPES:
        return weight.dtype
    return torch.bfloat16 if devices.supports(weight.device, "bfloat16") else torch.float16
