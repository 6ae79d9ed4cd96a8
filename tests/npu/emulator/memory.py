"""The memory of an NPU tensor, seen by the CPU: on the emulated device both are the same bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

DEVICE = "npu"
POISON = 0xFF  # as fakecann.c: NaN in every float format, -1 in every integer


def on_device(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE


def host(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor on the memory of an NPU tensor; anything else is returned as it is."""
    if not on_device(tensor):
        return tensor
    if tensor.is_conj() or tensor.is_neg():
        raise NotImplementedError("lazily conjugated or negated tensors are not emulated")
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    span = _span(tensor.size(), tensor.stride())
    if (tensor.storage_offset() + span) * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise RuntimeError(f"a view of {tuple(tensor.shape)} reaches past the end of its storage")
    memory = (ctypes.c_char * (span * tensor.element_size())).from_address(tensor.data_ptr())
    return torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.size(), tensor.stride())


def to_device(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A new NPU tensor with the values and strides of a CPU tensor: how a kernel's result gets to its device."""
    if value.layout != torch.strided or value.is_quantized or value.is_nested:
        raise NotImplementedError("sparse, quantized and nested tensors are not emulated")
    out = allocate(value.size(), value.stride(), value.dtype, device)
    host(out).copy_(value)
    return out


def allocate(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device, *, poison: bool = False
) -> torch.Tensor:
    """Memory from torch_npu's own allocator, which hands freed blocks out again: hence ``poison``."""
    span = _span(size, stride)
    flat = torch.ops.npu.empty_with_format([span], dtype=dtype, device=device)
    if poison and span:
        ctypes.memset(flat.data_ptr(), POISON, span * flat.element_size())
    return flat.set_(flat.untyped_storage(), 0, size, stride)


def _span(size: Sequence[int], stride: Sequence[int]) -> int:
    """Elements from the first to the last one that a strided tensor reaches."""
    return 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
