"""From logits to the distributions p and q, and from a distribution and a uniform number to a token.

Pure functions of tensors. Target and draft go through the same ones, so that q is exactly what the draft
token was drawn from. Temperature 0 is no distribution at all here: greedy decoding compares argmaxes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SMALLEST_NORMAL = torch.finfo(torch.float32).tiny  # what is below is 0 to some devices


@dataclass(frozen=True, slots=True)
class Sampling:
    """How logits become probabilities. ``top_k=0`` and ``top_p=1`` switch those filters off."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """Logits [..., V] of any float type → probabilities [..., V] float32: temperature, top-k, top-p, softmax.

    Top-k keeps every token that ties with the k-th; top-p keeps the smallest set of likeliest tokens whose
    mass reaches it, never fewer than one (Holtzman et al. 2020, arXiv 1904.09751, §3.1).
    """
    logits = logits.float()
    # Below the likeliest nothing can overflow, however small the temperature: it ends at −∞, which is no chance.
    scaled = (logits - logits.amax(-1, keepdim=True)) / max(sampling.temperature, SMALLEST_NORMAL)
    if 0 < sampling.top_k < scaled.shape[-1]:
        kth = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < kth, -torch.inf)
    if sampling.top_p < 1:
        scaled = _keep_nucleus(scaled, sampling)
    return scaled.softmax(-1)


def _keep_nucleus(scaled: Tensor, sampling: Sampling) -> Tensor:
    """Mask everything outside the top-p set. After top-k only the survivors need sorting."""
    width = sampling.top_k if 0 < sampling.top_k < scaled.shape[-1] else scaled.shape[-1]
    values, order = scaled.topk(width, dim=-1)
    probs = values.softmax(-1)
    mass_before = probs.cumsum(-1) - probs
    kept = mass_before < sampling.top_p
    kept[..., 0] = True
    return torch.full_like(scaled, -torch.inf).scatter(-1, order, values.masked_fill(~kept, -torch.inf))


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """The token at which the running sum of ``weights`` [..., V] ≥ 0 passes ``uniform`` [...] in [0, 1).

    Weights need not be normalised. Inverse transform sampling: one uniform number decides one token, which
    makes a run repeatable on every device, and a zero weight is never drawn.
    """
    cumulative = weights.cumsum(-1)
    total = cumulative[..., -1:]
    # Should uniform · total round up to the total, the sum still ends at the last token that has weight.
    return ((cumulative <= uniform[..., None] * total) & (cumulative < total)).sum(-1)


def residual(p: Tensor, q: Tensor) -> Tensor:
    """norm(max(p − q, 0)) [..., V]: what a rejected position is drawn from (Leviathan et al. 2023, §2.3).

    Where p and q agree to rounding there is nothing left over (and a rejection has no chance): p itself.
    """
    leftover = (p - q).clamp(min=0)
    total = leftover.sum(-1, keepdim=True)
    return torch.where(total > 0, leftover / total, p)


def overlap(p: Tensor, q: Tensor) -> Tensor:
    """Σ min(p, q) [...]: the chance that a token drafted from q is accepted (Leviathan et al. 2023, §3.2)."""
    return torch.minimum(p, q).sum(-1).clamp(max=1)  # rounding may lift the sum above it


def one_hot(token_ids: Tensor, vocab_size: int) -> Tensor:
    """The distribution that is certain of each token: [k] → [k, V] float32."""
    probs = torch.zeros(*token_ids.shape, vocab_size, dtype=torch.float32, device=token_ids.device)
    return probs.scatter(-1, token_ids[..., None], 1.0)


def as_law(weights: Tensor) -> NDArray[np.float64]:
    """The distribution that drawing from ``weights`` [V] on the CPU has, in float64, as exact laws need it."""
    law: NDArray[np.float64] = weights.double().numpy()
    return law / law.sum()


def uniforms(seed: int, rows: int, columns: int, stream: int = 0) -> Tensor:
    """All random numbers of one run, [rows, columns] float32 in [0, 1), on the CPU.

    Drawn once, before the first round: nothing can be re-seeded half-way. ``stream`` tells apart runs that
    share a seed.
    """
    generator = torch.Generator().manual_seed((seed * 2 + stream) % 2**63)
    # Named, because loading a model changes the default of the whole process for a while.
    return torch.rand(rows, columns, generator=generator, dtype=torch.float32)
