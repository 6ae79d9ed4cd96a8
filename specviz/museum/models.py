"""Language models with something between the engine and the cache."""

from __future__ import annotations

from torch import Tensor

from specviz.models.base import LanguageModel


class Wrapped:
    """A LanguageModel that passes everything on; its subclasses change one thing."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.vocab_size, self.context_limit = model.vocab_size, model.context_limit
        self.device, self.dtype = model.device, model.dtype

    @property
    def length(self) -> int:
        return self.model.length

    def allocate(self, capacity: int) -> None:
        self.model.allocate(capacity)

    def free(self) -> None:
        self.model.free()

    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        return self.model.forward(token_ids, keep)

    def rollback(self, length: int) -> None:
        self.model.rollback(length)


class Overheard(Wrapped):
    """Keeps the logits rows that it hands out, until they are taken."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__(model)
        self.rows: list[Tensor] = []

    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        logits = super().forward(token_ids, keep)
        self.rows += logits.clone()
        return logits

    def take(self) -> list[Tensor]:
        """The rows [V] since the last time, oldest first."""
        rows, self.rows = self.rows, []
        return rows


class OffByOneRollback(Wrapped):
    """A cache rolled back by one token too few (``by=1``, a rejected token stays) or too many (``by=-1``).

    openvinotoolkit/openvino.genai, issue 4190 (a rejected last draft token stays counted) and lablup/mlxcel, issue 994
    (two too many, in the draft's cache).
    """

    def __init__(self, model: LanguageModel, by: int) -> None:
        super().__init__(model)
        self.by = by

    def allocate(self, capacity: int) -> None:
        super().allocate(2 * capacity)  # what is left behind a round has to fit

    def rollback(self, length: int) -> None:
        super().rollback(min(max(length + self.by, 0), self.length))
