"""CANN's weight-only matrix product and its int4 packing, on host memory, as strict as its documents.

y = x @ ((weight + offset)·scale) + bias. What a chip refuses is refused here, so that a caller who leans on more
than the documents promise fails. The order of the eight levels inside an int32 is the emulation's own: on the device
it is between its two operators.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from tests.npu.emulator import counters
from tests.npu.emulator.memory import host, on_device, to_device
from tests.npu.emulator.operators import soc

LARGEST = 65_535
LEVELS_IN_INT32 = 8
SHIFTS = torch.arange(LEVELS_IN_INT32) * 4


def convert_weight_to_int4pack(weight: Tensor, inner_k_tiles: int = 0) -> Tensor:
    """[rows, columns] int32 in −8..7, contiguous → [rows, columns/8] int32."""
    _demand(not _inference_series(), "int4 weights are not for the Atlas inference series")
    _demand(inner_k_tiles == 0, "inner_k_tiles is reserved")
    _demand(weight.dtype == torch.int32 and weight.dim() == 2, f"weight is 2-D int32, not {_told(weight)}")
    _demand(weight.is_contiguous(), "weight is contiguous")
    _demand(weight.shape[1] % LEVELS_IN_INT32 == 0, f"weight's last size is a multiple of 8, not {weight.shape[1]}")
    _demand(bool(((weight >= -8) & (weight <= 7)).all()), "weight lies in -8..7")
    nibbles = (weight.long() & 0xF).unflatten(1, (-1, LEVELS_IN_INT32))
    return (nibbles << SHIFTS).sum(-1).to(torch.int32)


def unpack(packed: Tensor) -> Tensor:
    """The inverse: [rows, columns/8] int32, contiguous → [rows, columns] int8 in −8..7."""
    bytes_ = packed.view(torch.uint8)
    nibbles = torch.stack((bytes_ & 0xF, bytes_ >> 4), -1).flatten(1)
    return (nibbles ^ 8).to(torch.int8) - 8


def weight_quant_batchmatmul(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
    weight_dtype: int | None = None,
) -> Tensor:
    """x [M, K], weight [K, N] int8 or [K, N/8] int32 (or their transposed views) → y [M, N] in x's dtype."""
    _demand(quant_scale is None and quant_offset is None and weight_dtype is None, "a quantised y is not emulated")
    _demand(inner_precise == 0, "inner_precise 1 is for FRACTAL_NZ weights")
    inference_series = _inference_series()
    dtypes = (torch.float16,) if inference_series else (torch.float16, torch.bfloat16)
    _demand(x.dim() == 2 and x.dtype in dtypes, f"x is 2-D {dtypes} on {soc()}, not {_told(x)}")
    _demand(_laid_out(x), "x is contiguous, or a transposed view")
    _demand(weight.dim() == 2 and _laid_out(weight), "weight is 2-D, contiguous or a transposed view")
    if weight.dtype == torch.int32:
        _demand(not inference_series, "int4 weights are not for the Atlas inference series")
        levels = unpack(weight) if weight.is_contiguous() else unpack(weight.t()).t()
    else:
        _demand(weight.dtype == torch.int8, f"weight is int8 or packed int32, not {weight.dtype}")
        levels = weight
    (m, k), n = x.shape, levels.shape[1]
    _demand(k == levels.shape[0], f"x has K {k} and weight {levels.shape[0]}")
    _demand(m >= 1 and 1 <= k <= LARGEST and 1 <= n <= LARGEST, f"sizes K {k} and N {n} lie in 1..{LARGEST}")
    values = levels.float()
    if antiquant_offset is not None:
        _demand(antiquant_offset.shape == antiquant_scale.shape, "scale and offset have one shape")
        values += _spread(antiquant_offset, x, k, n, antiquant_group_size)
    values *= _spread(antiquant_scale, x, k, n, antiquant_group_size)
    y = x.float() @ values
    if bias is not None:
        _demand(bias.dtype == (torch.float32 if x.dtype == torch.bfloat16 else x.dtype), f"bias is not {bias.dtype}")
        _demand(bias.shape in ((n,), (1, n)) and bias.is_contiguous(), f"bias is contiguous [N], not {_told(bias)}")
        y = y + bias.float()
    return y.to(x.dtype)


def _spread(parameter: Tensor, x: Tensor, k: int, n: int, group: int) -> Tensor:
    """Scale or offset in float32, broadcast over the K rows of its group: [K, N], [N] or [1, N]."""
    _demand(parameter.dtype == x.dtype, f"scale and offset are {x.dtype} as x is, not {parameter.dtype}")
    _demand(parameter.dim() == 1 or _laid_out(parameter), "scale and offset are contiguous, or transposed views")
    if group == 0:
        _demand(parameter.shape in ((1,), (1, 1), (n,), (1, n)), f"one scale a column is [N], not {_told(parameter)}")
        return parameter.float()
    _demand(not _inference_series(), "groups are not for the Atlas inference series")
    _demand(group % 32 == 0 and 32 <= group <= k - 1, f"a group is a multiple of 32 in 32..K-1, not {group} of {k}")
    _demand(parameter.shape == (-(-k // group), n), f"scale and offset are [K/group, N], not {_told(parameter)}")
    return parameter.float().repeat_interleave(group, 0)[:k]


def _laid_out(tensor: Tensor) -> bool:
    return tensor.is_contiguous() or tensor.t().is_contiguous()


def _inference_series() -> bool:
    return soc().startswith("Ascend310P")


def _told(tensor: Tensor) -> str:
    return f"{list(tensor.shape)} {tensor.dtype}"


def _demand(met: bool, rule: str) -> None:
    if not met:
        raise RuntimeError(f"aclnnWeightQuantBatchMatmulV2, error code 161002: {rule}")


def _on_host(name: str, compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The kernel of one operator: ``compute`` on the memory of its tensors, the result on their device."""

    @functools.wraps(compute)
    def kernel(*args: object, **kwargs: object) -> Tensor:
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        _demand(all(on_device(tensor) for tensor in given), f"{name} takes tensors of the device alone")
        counters.call(name)
        counters.launched_on(name, given[0].device)
        y = compute(*map(host, args), **{key: host(value) for key, value in kwargs.items()})
        return to_device(y, given[0].device)

    return kernel


KERNELS = {
    f"npu::{name}": _on_host(name, compute)
    for name, compute in {
        "npu_convert_weight_to_int4pack": convert_weight_to_int4pack,
        "npu_weight_quant_batchmatmul": weight_quant_batchmatmul,
    }.items()
}
