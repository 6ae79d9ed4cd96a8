"""Device → host: several tensors in one copy, so that the host waits once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def fetch(*tensors: Tensor) -> list[Any]:
    """What ``tensor.tolist()`` gives for each, all numbers as floats (whole ones are exact up to 2²⁴)."""
    flat = torch.cat([tensor.reshape(-1).float() for tensor in tensors]).tolist()
    nested, start = [], 0
    for tensor in tensors:
        nested.append(_nest(flat[start : start + tensor.numel()], list(tensor.shape)))
        start += tensor.numel()
    return nested


def _nest(numbers: list[float], shape: list[int]) -> Any:
    if not shape:
        return numbers[0]
    if len(shape) == 1:
        return numbers
    width = len(numbers) // shape[0] if shape[0] else 0
    return [_nest(numbers[i * width : (i + 1) * width], shape[1:]) for i in range(shape[0])]
