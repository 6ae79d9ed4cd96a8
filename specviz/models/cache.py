"""A preallocated key/value cache whose rollback moves a pointer."""

from __future__ import annotations

import torch
from torch import Tensor


class KVCache:
    """Keys and values of one sequence, [1, kv_heads, capacity, head_dim] a layer.

    A forward writes each layer behind ``length`` and then moves ``length`` on; rolling back lowers it.
    What lies behind ``length`` is never read, so nothing is cleared and nothing is copied.
    """

    def __init__(self, shapes: list[tuple[int, int]], device: torch.device, dtype: torch.dtype) -> None:
        """``shapes``: (kv_heads, head_dim) of each layer."""
        self.shapes = shapes
        self.device = device
        self.dtype = dtype
        self.length = 0
        self.capacity = 0
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def allocate(self, capacity: int) -> None:
        """Empty the cache; get new memory only if it must grow. Where there is not enough, it ends up with none."""
        self.length = 0
        if capacity <= self.capacity:
            return
        self.free()  # let go of the old memory before asking for more
        # Not empty: a kernel may read a whole tile and weigh what is masked with 0, and 0 · NaN is NaN.
        keys, values = (
            [torch.zeros(1, heads, capacity, dim, device=self.device, dtype=self.dtype) for heads, dim in self.shapes]
            for _ in ("keys", "values")
        )
        self.keys, self.values, self.capacity = keys, values, capacity

    def free(self) -> None:
        """Empty the cache and give up its memory."""
        self.length = self.capacity = 0
        self.keys, self.values = [], []

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put ``keys``/``values`` [1, kv_heads, k, head_dim] behind ``length``; views over all up to them."""
        end = self.length + keys.shape[2]
        if end > self.capacity:
            raise IndexError(f"the cache holds {self.capacity} tokens, {end} are needed")
        self.keys[layer][:, :, self.length : end] = keys
        self.values[layer][:, :, self.length : end] = values
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def advance(self, count: int) -> None:
        """Count ``count`` written tokens as cached."""
        self.length += count

    def rollback(self, length: int) -> None:
        """Forget every token from ``length`` on."""
        if not 0 <= length <= self.length:
            raise IndexError(f"cannot roll back to {length} of {self.length} cached tokens")
        self.length = length
