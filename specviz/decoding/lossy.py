"""Two lossy rules: they accept more than they may, and the text no longer follows the target's distribution.

Same signature as ``acceptance.rejection_sampling``, no uniform test: a drafted token stands or falls by the
distributions alone, and the first that falls is replaced by a draw from the target's p, not from the residual.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.decoding.acceptance import Judgement, count_leading
from specviz.decoding.distribution import SMALLEST_NORMAL, draw, one_hot


def typical_threshold(p: Tensor, epsilon: float, delta: float) -> Tensor:
    """min(ε, δ·e^(−H(p))) [...], H in nats: what a token's probability must exceed under p [..., V] to pass.

    The flatter p is, the less is asked (Cai et al. 2024, arXiv 2401.10774, §2.3.1).
    """
    negative_entropy = (p * p.clamp(min=SMALLEST_NORMAL).log()).sum(-1)
    return (delta * negative_entropy.exp()).clamp(max=epsilon)


def typical_accepts(p_token: Tensor, p: Tensor, epsilon: float, delta: float) -> Tensor:
    """Whether a token of probability ``p_token`` [...] stands where the target's distribution is ``p`` [..., V].

    Also asked of all tokens of one distribution at once: [V] and [V] → [V].
    """
    return p_token > typical_threshold(p, epsilon, delta)


def kl_divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p‖q) = Σ p·ln(p/q) [...] of rows [..., V], in nats; infinite where p has mass that q lacks."""
    return torch.where(p >= SMALLEST_NORMAL, p * (p / q).log(), 0.0).sum(-1)


def typical(
    p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor, *, epsilon: float, delta: float
) -> Judgement:
    """Typical acceptance: a token stands while p of it exceeds ``typical_threshold``.

    Where one falls, Medusa goes on with the target's likeliest token, since each of its steps begins greedily; here
    it is drawn from p, as under ``kl_threshold``.
    """
    p_drafted = _of(p, drafted)
    accepted = typical_accepts(p_drafted, p[: len(drafted)], epsilon, delta)
    return _judgement(p, q, drafted, accepted, u_final)


def kl_threshold(
    p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor, *, threshold: float
) -> Judgement:
    """Whatever was drafted stands while KL(p‖q) < ``threshold`` (nats) at its position.

    The article that proposes it adds 10⁻⁸ to p and q, so that KL stays finite where q lacks mass; here it is infinite.
    """
    certain = one_hot(drafted, p.shape[-1]) if q is None else q
    return _judgement(p, q, drafted, kl_divergence(p[: len(drafted)], certain) < threshold, u_final)


def _judgement(p: Tensor, q: Tensor | None, drafted: Tensor, accepted: Tensor, u_final: Tensor) -> Judgement:
    n = count_leading(accepted)
    p_next = p.index_select(0, n[None])[0]
    p_drafted = _of(p, drafted)
    q_drafted = torch.ones_like(p_drafted) if q is None else _of(q, drafted)
    return Judgement(n, draw(p_next, u_final), p_drafted, q_drafted, ~p_next.sum().isnan())


def _of(rows: Tensor, drafted: Tensor) -> Tensor:
    """Each drafted token's probability in its row: rows [≥ k, V], drafted [k] → [k]."""
    return rows[: len(drafted)].gather(-1, drafted[:, None])[:, 0]
