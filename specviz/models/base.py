"""What the engine needs of a causal language model: feed a suffix, get logits, move back."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class LanguageModel(Protocol):
    """A causal LM with its own preallocated key/value cache, batch size 1.

    One run at a time uses an instance; ``allocate`` starts a run.
    """

    vocab_size: int
    context_limit: int
    device: torch.device
    dtype: torch.dtype

    @property
    def length(self) -> int:
        """How many tokens are cached."""
        ...

    def allocate(self, capacity: int) -> None:
        """Empty the cache and make room for ``capacity`` tokens."""
        ...

    def free(self) -> None:
        """Empty the cache and give up its memory; ``allocate`` gets new."""
        ...

    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        """Append ``token_ids`` [k] (int64, on ``device``); logits [keep, vocab_size] of the last ``keep``."""
        ...

    def rollback(self, length: int) -> None:
        """Forget every token from ``length`` on. Moves a pointer; copies nothing."""
        ...
