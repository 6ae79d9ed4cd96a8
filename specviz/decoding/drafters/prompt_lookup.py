"""Drafting by copying: what followed the last few tokens when they stood in the text before."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Draft

MAX_NGRAM = 3


class PromptLookup:
    """N-gram lookup in prompt and output (Saxena 2023, "Prompt Lookup Decoding"). q is one-hot, at no model cost.

    The longest n-gram (up to three tokens) that ends the text is looked up; its most recent earlier occurrence is
    continued. An index from n-gram to position makes that O(1) a token.
    """

    def __init__(self, target_vocab: int, device: torch.device) -> None:
        self.target_vocab = target_vocab
        self.device = device
        self._text: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    @property
    def context_limit(self) -> int:
        return 2**31  # it reads text, not a cache

    def start(self, prompt_ids: list[int], capacity: int) -> None:
        self._text, self._after = [], {}
        self.commit(prompt_ids)

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        copied: list[int] = []
        for n in range(MAX_NGRAM, 0, -1):
            start = self._after.get(tuple(self._text[-n:]))
            if start is not None:
                copied = self._text[start : start + gamma]
                break
        mark()
        return Draft(torch.tensor(copied, dtype=torch.int64, device=self.device), None)

    def commit(self, token_ids: list[int], on_device: Tensor | None = None) -> None:
        for token in token_ids:
            # An n-gram is indexed once something follows it, so that the text's end never finds itself.
            end = len(self._text)
            for n in range(1, min(MAX_NGRAM, end) + 1):
                self._after[tuple(self._text[end - n :])] = end
            self._text.append(token)

    def retrace(self, drafted_ids: list[int]) -> None:
        return None
