"""Linear layers on CANN's weight-only kernel: y = x @ ((W + offset)·scale) + bias, W in 4 or 8 bits.

What it takes is described by the documents of ``torch_npu.npu_weight_quant_batchmatmul`` and
``aclnnWeightQuantBatchMatmulV2``; the levels and scales are those of the CPU (grids.py). This runs against torch_npu
2.13.0 on an emulated CANN runtime; no NPU has run it, so nothing is known of its speed there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specviz import devices
from specviz.errors import UserError
from specviz.models.grids import MIDDLE, int4_grid, int8_grid

# Bits of the weights by chip: Atlas A2, Atlas A3, Atlas inference series. Others have no such kernel.
BITS = {"Ascend910B": (4, 8), "Ascend910_93": (4, 8), "Ascend310P": (8,)}
LARGEST = 65_535  # of a weight's two sizes
LEVELS_IN_INT32 = 8
# The kernel adds the bias before it rounds; beside bfloat16 it wants it in float32.
BIAS_DTYPES = {torch.float16: torch.float16, torch.bfloat16: torch.float32}


def require(device: torch.device, bits: int) -> None:
    """Raises UserError where the chip has no kernel for weights of so few bits."""
    chip = devices.name(device)
    offered = next((offered for prefix, offered in BITS.items() if chip.startswith(prefix)), ())
    if bits in offered:
        return
    instead = "Choose the quantization int8, or" if offered else "Choose"
    raise UserError(f"{chip} has no kernel for int{bits} weights. {instead} the drafter draft-model or prompt-lookup.")


def pack(layer: nn.Linear, bits: int, group: int) -> nn.Module:
    """The packed twin of ``layer`` on its device, or ``layer`` itself where its shape does not fit the kernel."""
    if max(layer.in_features, layer.out_features) > LARGEST:
        return layer
    if bits == 8:
        return Int8Linear(layer)
    if layer.in_features % group or layer.out_features % LEVELS_IN_INT32:
        return layer
    return Int4Linear(layer, group)


class Int4Linear(nn.Module):
    """y = x Wᵀ + b with W in 4 bits: w ≈ (level + offset)·scale, per group of a row.

    x [..., in_features] in the dtype of the original layer; so is y [..., out_features]. ``packed`` is
    [in_features, out_features/8] int32, ``scale`` and ``offset`` [in_features/group, out_features].
    """

    def __init__(self, layer: nn.Linear, group: int) -> None:
        super().__init__()
        import torch_npu

        device, self.dtype = layer.weight.device, kernel_dtype(layer.weight)
        self.group = group if group < layer.in_features else 0  # the kernel's word for one scale a row
        levels, scale, offset = as_offsets(*int4_grid(layer.weight.detach().cpu(), group), self.dtype)
        self.packed: Tensor
        self.scale: Tensor
        self.offset: Tensor
        self.bias: Tensor | None
        packed = torch_npu.npu_convert_weight_to_int4pack(weight=levels.t().contiguous().to(device))
        self.register_buffer("packed", packed, False)
        self.register_buffer("scale", scale.t().contiguous().to(device), False)
        self.register_buffer("offset", offset.t().contiguous().to(device), False)
        self.register_buffer("bias", _bias(layer, self.dtype), False)

    def forward(self, x: Tensor) -> Tensor:
        import torch_npu

        y = torch_npu.npu_weight_quant_batchmatmul(
            x=_rows(x, self.dtype),
            weight=self.packed,
            antiquant_scale=self.scale,
            antiquant_offset=self.offset,
            bias=self.bias,
            antiquant_group_size=self.group,
        )
        return y.to(x.dtype).view(*x.shape[:-1], -1)


class Int8Linear(nn.Module):
    """y = x Wᵀ + b with W in 8 bits: w ≈ level·scale, one scale a row. Shapes of x and y as in Int4Linear.

    ``levels`` [out_features, in_features] int8: the documents recommend its transposed view for a scale a row.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        device, self.dtype = layer.weight.device, kernel_dtype(layer.weight)
        levels, scale = int8_grid(layer.weight.detach().cpu())
        self.levels: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        self.register_buffer("levels", levels.to(device), False)
        self.register_buffer("scale", scale.to(self.dtype).to(device), False)
        self.register_buffer("bias", _bias(layer, self.dtype), False)

    def forward(self, x: Tensor) -> Tensor:
        import torch_npu

        y = torch_npu.npu_weight_quant_batchmatmul(
            x=_rows(x, self.dtype), weight=self.levels.t(), antiquant_scale=self.scale, bias=self.bias
        )
        return y.to(x.dtype).view(*x.shape[:-1], -1)


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


def _rows(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.reshape(-1, x.shape[-1]).to(dtype).contiguous()


def _bias(layer: nn.Linear, dtype: torch.dtype) -> Tensor | None:
    return None if layer.bias is None else layer.bias.detach().to(BIAS_DTYPES[dtype])
