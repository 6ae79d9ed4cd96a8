"""A small model drafts, one token after another, each conditioned on the last."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specviz.decoding.distribution import Sampling, draw, probabilities
from specviz.decoding.drafters.base import Draft
from specviz.decoding.prefill import prefill
from specviz.models.base import LanguageModel


class DraftModel:
    """Drafter over any LanguageModel: a smaller model, or a packed copy of the target (``quantized-self``).

    The model is fed what its cache lacks, whatever that is: usually the last committed token, after a full
    acceptance the last drafted token as well. ``shared_vocab`` ids mean the same in both vocabularies; others
    are never drafted. ``min_confidence`` > 0 ends a draft at a token less probable than that, for one more
    host sync a step.
    """

    def __init__(
        self,
        model: LanguageModel,
        sampling: Sampling,
        target_vocab: int,
        shared_vocab: int,
        min_confidence: float = 0.0,
    ) -> None:
        self.model = model
        self.sampling = sampling
        self.target_vocab = target_vocab
        self.shared_vocab = shared_vocab
        self.min_confidence = min_confidence
        self._context: list[int] = []
        self._committed: Tensor | None = None  # by the last round, on the device

    @property
    def context_limit(self) -> int:
        return self.model.context_limit

    def start(self, prompt_ids: list[int], capacity: int) -> None:
        self._context, self._committed = list(prompt_ids), None
        self.model.allocate(capacity)
        prefill(self.model, self._known(prompt_ids[:-1]))

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        token_ids: list[Tensor] = []
        rows: list[Tensor] = []
        feed = self._uncached()
        for step in range(gamma):
            logits = self.model.forward(feed, keep=1)[:, : self.shared_vocab]
            if self.sampling.greedy:
                feed = logits.argmax(-1)
                confidence = logits.float().softmax(-1).amax(-1) if self.min_confidence else None
            else:
                q = probabilities(logits, self.sampling)
                feed = draw(q, uniforms[step])
                rows.append(q)
                confidence = q.gather(-1, feed[:, None])[:, 0] if self.min_confidence else None
            token_ids.append(feed)
            mark()
            if confidence is not None and confidence.item() < self.min_confidence:
                break
        return Draft(torch.cat(token_ids), self._align(torch.cat(rows)) if rows else None)

    def commit(self, token_ids: list[int], on_device: Tensor | None = None) -> None:
        self._context += token_ids
        self._committed = on_device
        # Everything but the final token was drafted here; the last drafted token may not have been fed.
        self.model.rollback(min(self.model.length, len(self._context) - 1))

    def retrace(self, drafted_ids: list[int]) -> Tensor:
        rows: list[Tensor] = []
        feed = self._known(self._context[self.model.length :])
        for token in drafted_ids:
            logits = self.model.forward(torch.tensor(feed, device=self.model.device), keep=1)
            rows.append(logits[:, : self.shared_vocab].float())
            feed = self._known([token])
        return self._align(torch.cat(rows), -torch.inf)

    def _uncached(self) -> Tensor:
        """What the cache lacks, without a copy to the device where the last round left it there."""
        missing = self._context[self.model.length :]
        if self._committed is None or len(missing) > len(self._committed):
            return torch.tensor(self._known(missing), device=self.model.device)
        feed = self._committed[-len(missing) :]
        return feed.clamp(max=self.model.vocab_size - 1) if self.target_vocab > self.model.vocab_size else feed

    def _known(self, token_ids: list[int]) -> list[int]:
        """Should the target ever emit a padding id the draft has no row for, the draft reads its last row."""
        return [min(token, self.model.vocab_size - 1) for token in token_ids]

    def _align(self, rows: Tensor, nothing: float = 0.0) -> Tensor:
        """Rows over the target's vocabulary: padding ids that only the target has get probability 0, or logit −∞."""
        return torch.nn.functional.pad(rows, (0, self.target_vocab - rows.shape[-1]), value=nothing)
