"""Ways in which real systems got speculative sampling wrong. Negative controls: each must be noticed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specviz.decoding.acceptance import Judgement, rejection_sampling
from specviz.decoding.distribution import Sampling, probabilities
from specviz.decoding.drafters.base import Draft
from specviz.decoding.drafters.draft_model import DraftModel


def u_stuck_at_zero(p: Tensor, q: Tensor | None, drafted: Tensor, u: Tensor, u_final: Tensor) -> Judgement:
    """Everything the target gives any chance to is accepted (romsto/Speculative-Decoding, issue 1)."""
    return rejection_sampling(p, q, drafted, torch.zeros_like(u), u_final)


def residual_is_p(p: Tensor, q: Tensor) -> Tensor:
    """A rejected position drawn from the target's whole distribution."""
    return p


class UnprocessedQ(DraftModel):
    """Draws with top-k or a temperature, reports the plain softmax (transformers, issue 32867)."""

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        return Draft(super().propose(gamma, uniforms, mark).token_ids, self._plain_softmax(gamma))

    def _plain_softmax(self, gamma: int) -> Tensor:
        return torch.stack(self._rows[-gamma:])

    def start(self, prompt_ids: list[int], capacity: int) -> None:
        self._rows: list[Tensor] = []
        forward = type(self.model).forward

        def remember(token_ids: Tensor, keep: int) -> Tensor:
            logits = forward(self.model, token_ids, keep)
            self._rows += list(probabilities(logits, Sampling()))
            return logits

        self.model.forward = remember  # type: ignore[method-assign]
        super().start(prompt_ids, capacity)


class GreedyScoredAsSampled(UnprocessedQ):
    """Drafts its argmax, reports the softmax as if the token had been drawn from it (vllm, issue 9730)."""

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        sampling, self.sampling = self.sampling, Sampling(0)
        try:
            return Draft(DraftModel.propose(self, gamma, uniforms, mark).token_ids, self._plain_softmax(gamma))
        finally:
            self.sampling = sampling
