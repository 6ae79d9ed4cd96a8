"""One drafted position drawn many times at once, with the engine's own functions.

Under every rule here whether a token stands depends on that token and u alone, so a position is three vectors over
the vocabulary: what drafts are drawn from, how likely each stands, and what replaces one that falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from specviz.decoding.acceptance import accept_probability
from specviz.decoding.distribution import residual
from specviz.decoding.lossy import kl_divergence, typical_accepts
from specviz.trace import Settings


def draw_many(weights: Tensor, uniforms: Tensor) -> Tensor:
    """``distribution.draw`` of one ``weights`` [V] for many ``uniforms`` [N] → token ids [N], number for number."""
    cumulative = weights.cumsum(-1)
    total = cumulative[-1:]
    last = torch.searchsorted(cumulative, total)  # that has weight
    return torch.minimum(torch.searchsorted(cumulative, uniforms * total, right=True), last)


class Redrawn(NamedTuple):
    """``tokens`` [N] that the position emitted, and whether each is the ``accepted`` [N] draft."""

    tokens: Tensor
    accepted: Tensor


@dataclass(frozen=True, slots=True)
class Sampler:
    """How one position emits a token. ``draft``, ``accept`` and ``replacement`` are [V], float32 as the engine draws.

    A token x drawn from ``draft`` stands where u < ``accept[x]``; otherwise one is drawn from ``replacement``.
    """

    draft: Tensor
    accept: Tensor
    replacement: Tensor

    def redraw(self, draft_u: Tensor, test_u: Tensor, final_u: Tensor) -> Redrawn:
        """N independent tokens from three uniform numbers each, all [N] in [0, 1)."""
        drafted = draw_many(self.draft, draft_u)
        accepted = test_u < self.accept[drafted]
        return Redrawn(torch.where(accepted, drafted, draw_many(self.replacement, final_u)), accepted)


def rejection_sampling(p: Tensor, q: Tensor) -> Sampler:
    """u < min(1, p/q), replaced from the residual; p and q [V]."""
    ratio = accept_probability(p, q)
    return Sampler(q, ratio.nan_to_num(nan=0.0), residual(p, q))  # 0/0: no u is below it


def greedy_match(p: Tensor, q: Tensor) -> Sampler:
    """Temperature 0, where p and q are certain: the target's own choice stands and replaces all others."""
    return Sampler(q, p, p)


def typical(p: Tensor, q: Tensor, epsilon: float, delta: float) -> Sampler:
    """Typical acceptance, replaced from p: see ``lossy.typical``."""
    return Sampler(q, typical_accepts(p, p, epsilon, delta).to(p), p)


def kl_threshold(p: Tensor, q: Tensor, threshold: float) -> Sampler:
    """All drafts stand where KL(p‖q) is below the threshold, none elsewhere; replaced from p."""
    return Sampler(q, (kl_divergence(p, q) < threshold).to(p).expand_as(p), p)


def sampler_of(settings: Settings, p: Tensor, q: Tensor) -> Sampler:
    """What ``rules.rule_of(settings)`` does at one position, or the greedy match at temperature 0."""
    if settings.temperature == 0 or settings.rule == "greedy-match":
        return greedy_match(p, q)
    match settings.rule:
        case "typical":
            return typical(p, q, settings.epsilon, settings.delta)
        case "kl-threshold":
            return kl_threshold(p, q, settings.kl_threshold)
        case _:
            return rejection_sampling(p, q)
