"""Ways to compute one attention: fused, as everywhere here; materialised, to compare; Ascend's own for inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.errors import UserError
from specviz.models import npu_attention

Attention = Literal["fused", "materialised", "npu-fused-infer"]
ATTENTIONS: tuple[Attention, ...] = ("materialised", "fused")
"""The two that every device has."""
CHOICES = ("fused", npu_attention.NAME)
"""The two that an operator chooses from."""


class Heads(NamedTuple):
    """The shape and number format of a model's attention."""

    query: int
    key: int
    dim: int
    dtype: torch.dtype
    device: torch.device


class Kernel(NamedTuple):
    """One way to compute it.

    ``mask(k, n, heads)`` is made once a forward for the last k of n positions; ``attend(q [1, query heads, k, d],
    keys [1, key heads, n, d], values, mask)`` → [1, query heads, k, d] once a layer.
    """

    mask: Callable[[int, int, Heads], Tensor | None]
    attend: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


@runtime_checkable
class Switchable(Protocol):
    """A language model whose attention can be exchanged."""

    def use_attention(self, kind: Attention) -> None:
        """From the next forward on. Raises UserError if this model or its device cannot."""
        ...


def kernel(kind: Attention, heads: Heads) -> Kernel:
    """That way to compute attention. Raises UserError where it cannot be had."""
    if kind == npu_attention.NAME:
        npu_attention.check(heads.query, heads.key, heads.dim, heads.dtype, heads.device)
    return KERNELS[kind]


def chosen(name: str) -> Attention:
    """An operator's choice. Raises UserError for one that is unknown."""
    if name not in CHOICES:
        raise UserError(f"The attention must be one of {', '.join(CHOICES)}; you gave {name!r}.")
    return name  # type: ignore[return-value]


def bottom_right_causal(k: int, n: int, heads: Heads) -> Tensor | None:
    """True = may look, [groups·k, n]; None for one row, which sees all. Bool keeps fused kernels in reach."""
    if k == 1:
        return None
    causal = torch.ones(k, n, dtype=torch.bool, device=heads.device).tril_(n - k)
    return causal.repeat(heads.query // heads.key, 1)


def fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """PyTorch's scaled dot-product attention, which tiles where it has a kernel that does."""
    return F.scaled_dot_product_attention(_grouped(q, keys), keys, values, attn_mask=mask).reshape(q.shape)


def materialised(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """S = QKᵀ/√d and P = softmax(S) written out in full, [m, n] a head."""
    scores = _grouped(q, keys) @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return (scores.float().softmax(-1).to(q.dtype) @ values).view(q.shape)


def _grouped(q: Tensor, keys: Tensor) -> Tensor:
    """Query heads that share a key head become rows of one attention problem: no key is repeated."""
    return q.reshape(1, keys.shape[1], -1, q.shape[-1])


KERNELS: dict[Attention, Kernel] = {
    "fused": Kernel(bottom_right_causal, fused),
    "materialised": Kernel(bottom_right_causal, materialised),
    "npu-fused-infer": Kernel(lambda k, n, heads: npu_attention.mask(k, heads.device), npu_attention.attend),
}
