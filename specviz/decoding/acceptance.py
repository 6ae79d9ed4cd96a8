"""The rules: which drafted tokens stand, and which token follows them.

Pure functions of the two distributions, the drafted tokens and the uniform numbers. Nothing here waits for
the device: the caller fetches the whole judgement at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specviz.decoding.distribution import draw, one_hot, residual


class Judgement(NamedTuple):
    """``n_accepted`` [] leading drafted tokens stand, then comes ``final_token`` []; both int64.

    ``p_drafted`` and ``q_drafted`` [k] are the drafted tokens' probabilities. ``finite`` [] is false when the
    target's numbers are no numbers (NaN), which rejects at the row where they begin.
    """

    n_accepted: Tensor
    final_token: Tensor
    p_drafted: Tensor
    q_drafted: Tensor
    finite: Tensor


def accept_probability(p: Tensor, q: Tensor) -> Tensor:
    """min(1, p/q), for a token's probabilities under target and draft (q > 0: it was drawn from q)."""
    return (p / q).clamp(max=1)


def count_leading(accepted: Tensor) -> Tensor:
    """How many verdicts [k] are true before the first false one."""
    fallen = (~accepted).long().cumsum(-1)  # CANN has cumprod on Atlas A2 and A3 alone
    return (fallen == 0).sum(-1)


def rejection_sampling(p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor) -> Judgement:
    """Speculative sampling (Leviathan et al. 2023, arXiv 2211.17192, Alg. 1; Chen et al. 2023, arXiv 2302.01318).

    ``p`` [k+1, V], ``q`` [k, V] or None for one-hot, ``drafted`` [k], ``u`` [k], ``u_final`` []. Token i stands
    while u_i < min(1, p_i/q_i); the first that falls is replaced by a draw from the residual. If all stand, the
    bonus token is drawn from the last row of p, which is the residual against q = 0.
    """
    k = len(drafted)
    p_drafted = p[:k].gather(-1, drafted[:, None])[:, 0]
    q_drafted = torch.ones_like(p_drafted) if q is None else q.gather(-1, drafted[:, None])[:, 0]
    n = count_leading(u < accept_probability(p_drafted, q_drafted))
    p_next = p.index_select(0, n[None])[0]
    if k == 0:
        left = p_next
    else:
        fell = n.clamp(max=k - 1)[None]
        q_next = one_hot(drafted.index_select(0, fell), p.shape[-1]) if q is None else q.index_select(0, fell)
        left = residual(p_next, q_next[0] * (n < k))
    return Judgement(n, draw(left, u_final), p_drafted, q_drafted, ~p_next.sum().isnan())


def greedy_match(logits: Tensor, drafted: Tensor) -> Judgement:
    """Temperature 0: a drafted token stands while it is the target's argmax; the next argmax follows.

    ``logits`` [k+1, V]. The residual of two certain distributions is the target's own choice, so the final
    token is an argmax of the target in every case.
    """
    k = len(drafted)
    choice = logits.argmax(-1)
    match = choice[:k] == drafted
    n = count_leading(match)
    final = choice.index_select(0, n[None])[0]
    behind = torch.arange(k + 1, device=n.device) > n
    finite = (can_be_chosen(logits, choice) | behind).all()
    return Judgement(n, final, match.float(), torch.ones_like(match, dtype=torch.float32), finite)


def can_be_chosen(logits: Tensor, choice: Tensor) -> Tensor:
    """Whether each row's argmax ``choice`` [n] means something: no logit [n, V] is NaN or +∞, and not all are −∞."""
    largest = logits.gather(-1, choice[:, None])[:, 0]
    return largest.isfinite() & ~logits.sum(-1).isnan()
