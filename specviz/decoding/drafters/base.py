"""What a drafter is: it proposes tokens and hands over the exact distributions it drew them from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from torch import Tensor


class Draft(NamedTuple):
    """``token_ids`` [k] int64 and ``q`` [k, V] float32, row i being what token i was drawn from.

    ``q=None`` means one-hot: the token was certain (copied text, or greedy at temperature 0).
    """

    token_ids: Tensor
    q: Tensor | None


class Drafter(Protocol):
    """Proposes up to γ tokens a round. Keeps its own cache in step with what was committed."""

    @property
    def context_limit(self) -> int:
        """The most tokens it can read."""
        ...

    def start(self, prompt_ids: list[int], capacity: int) -> None:
        """Begin a run: everything up to the last prompt token is read now, as part of the prefill."""
        ...

    def propose(self, gamma: int, uniforms: Tensor, mark: Callable[[], None]) -> Draft:
        """Draft k ≤ γ tokens; token i is drawn with ``uniforms[i]`` and nothing else.

        ``mark`` is called at the end of each draft step (the clock's, and where a stop is noticed).
        """
        ...

    def commit(self, token_ids: list[int], on_device: Tensor | None = None) -> None:
        """The round committed these tokens: a prefix of the draft and one more. Rolls back in O(1).

        ``on_device`` [k]: the same tokens where they lie on the target's device already, so that nothing is copied.
        """
        ...

    def retrace(self, drafted_ids: list[int]) -> Tensor | None:
        """The logits [k, V] float32 that these tokens were drawn from (−∞ for ids it never drafts), None where drafts
        are certain. Stands in for ``propose`` when a recorded run is gone through again, by the same forwards.
        """
        ...
