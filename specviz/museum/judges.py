"""Broken verdicts: variants of ``acceptance.rejection_sampling``, with its signature."""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.decoding import lossy
from specviz.decoding.acceptance import Judgement, rejection_sampling
from specviz.decoding.distribution import draw

ARTICLE_THRESHOLD = 0.8  # of KL(p‖q), in nats


def u_stuck_at_zero(p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor) -> Judgement:
    """Every test is made with u = 0, so that whatever the target gives any chance to stands.

    vllm-project/vllm-ascend, issue 13730: a kernel for want of a random generator took the constant 0.
    """
    return rejection_sampling(p, q, drafted, torch.zeros_like(u), u_final)


def residual_is_p(p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor) -> Judgement:
    """A rejected token is replaced by a draw from all of p, not from what the draft left over of it.

    ShopeeLLM/Spec-RL, issue 14, whose authors keep it: they train with such texts and do not serve them.
    """
    judged = rejection_sampling(p, q, drafted, u, u_final)
    (p_next,) = p.index_select(0, judged.n_accepted[None])
    return judged._replace(final_token=draw(p_next, u_final))


def kl_acceptance(p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor) -> Judgement:
    """Drafts stand where KL(p‖q) < 0.8, whatever was drawn, and are otherwise replaced from p.

    The article's test, but for its 10⁻⁸ (see ``lossy.kl_threshold``); here it passes for lossless.
    """
    return lossy.kl_threshold(p, q, drafted, u, u_final, threshold=ARTICLE_THRESHOLD)
