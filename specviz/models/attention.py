"""Two ways to compute one attention: fused, as everywhere here, or with its score matrix materialised, to compare."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

import torch.nn.functional as F
from torch import Tensor

Attention = Literal["fused", "materialised"]
ATTENTIONS: tuple[Attention, ...] = ("materialised", "fused")

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(q [1, h, m, d], keys [1, h, n, d], values [1, h, n, d], mask [m, n], True = may look, or None) → [1, h, m, d]."""


@runtime_checkable
class Switchable(Protocol):
    """A language model whose attention can be exchanged."""

    def use_attention(self, kind: Attention) -> None:
        """From the next forward on."""
        ...


def fused(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """PyTorch's scaled dot-product attention, which tiles where it has a kernel that does."""
    return F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


def materialised(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """S = QKᵀ/√d and P = softmax(S) written out in full, [m, n] a head."""
    scores = q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.float().softmax(-1).to(q.dtype) @ values


FUNCTIONS: dict[Attention, Attend] = {"fused": fused, "materialised": materialised}
