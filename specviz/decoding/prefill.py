"""Reading the prompt."""

from __future__ import annotations

from collections.abc import Callable

import torch

from specviz.models.base import LanguageModel

# Bounds the attention mask, and how long a stop can go unnoticed.
CHUNK = 512


def prefill(model: LanguageModel, token_ids: list[int], mark: Callable[[], None] = lambda: None) -> None:
    """Feed ``token_ids`` in chunks, computing no logits. ``mark`` is called after each chunk."""
    for start in range(0, len(token_ids), CHUNK):
        model.forward(torch.tensor(token_ids[start : start + CHUNK], device=model.device), keep=0)
        mark()
