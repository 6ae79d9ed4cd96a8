"""Broken drafters: variants of ``DraftModel`` whose tokens or cache are not what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from specviz.decoding.distribution import Sampling, draw, probabilities
from specviz.decoding.drafters.base import Draft
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.models.base import LanguageModel
from specviz.museum.models import Overheard

FEW = 8  # top-k of a draft whose run sets none
PLAIN = Sampling(1.0)


def few(sampling: Sampling) -> Sampling:
    """The run's own sampling, with a top-k in any case."""
    return replace(sampling, top_k=sampling.top_k or FEW)


class UnprocessedQ(DraftModel):
    """Draws with temperature and top-k, and reports the plain softmax of the raw logits as q.

    huggingface/transformers, issue 47932.
    """

    def __init__(self, model: LanguageModel, sampling: Sampling, target_vocab: int, shared_vocab: int) -> None:
        self.overheard = Overheard(model)
        super().__init__(self.overheard, few(sampling), target_vocab, shared_vocab)

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        drafted = super().propose(gamma, uniforms, mark).token_ids
        return Draft(drafted, self._rows(PLAIN))

    def _rows(self, sampling: Sampling) -> Tensor:
        logits = torch.stack(self.overheard.take())[:, : self.shared_vocab]
        return self._align(probabilities(logits, sampling))


class GreedyScoredAsSampled(UnprocessedQ):
    """Drafts its likeliest token, and reports the softmax as if that token had been drawn from it.

    huggingface/transformers, issue 32867; jaymody/speculative-sampling, issue 3.
    """

    def __init__(self, model: LanguageModel, sampling: Sampling, target_vocab: int, shared_vocab: int) -> None:
        super().__init__(model, Sampling(0), target_vocab, shared_vocab)
        self.reported = sampling

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        drafted = DraftModel.propose(self, gamma, uniforms, mark).token_ids
        return Draft(drafted, self._rows(self.reported))


class WithoutReplacement(DraftModel):
    """Draws all γ tokens from the first position's q, each without those before it, and reports each position's own.

    The article's ``torch.multinomial(q, num_samples=γ)``: one forward, called parallel drafting.
    """

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        feed = torch.tensor(self._known(self._context[self.model.length :]), device=self.model.device)
        first = self._q(feed, keep=1)
        drafted: list[Tensor] = []
        for step in range(gamma):
            drafted.append(draw(without(first, drafted), uniforms[step]))
        mark()
        token_ids = torch.cat(drafted)
        own = self._q(token_ids[:-1], keep=gamma - 1) if gamma > 1 else first[:0]
        return Draft(token_ids, self._align(torch.cat((first, own))))

    def _q(self, feed: Tensor, keep: int) -> Tensor:
        return probabilities(self.model.forward(feed, keep)[:, : self.shared_vocab], self.sampling)


def without(q: Tensor, drawn: list[Tensor]) -> Tensor:
    """``q`` [1, V] with the tokens already drawn [1] gone; q itself when nothing else is left to draw."""
    left = q
    for token in drawn:
        left = left.scatter(-1, token[:, None], 0.0)
    return torch.where(left.sum(-1, keepdim=True) > 0, left, q)


class BonusGap(DraftModel):
    """After a full acceptance the last drafted token, never fed to the draft, stays missing from its cache.

    After vllm-project/vllm, pull request 9730, where the entry was wrong instead of missing: the draft goes on from
    another text than the target, and fewer of its tokens stand.
    What it reports is still what it draws from, so the output keeps its law.
    """

    def commit(self, token_ids: list[int], on_device: Tensor | None = None) -> None:
        super().commit(token_ids, on_device)
        if len(self._context) - self.model.length > 1:
            del self._context[-2]
