"""When a run ends, at the exact token."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.decoding.text import StopStrings
from specviz.trace import FinishReason


@dataclass(slots=True)
class Ending:
    """Counts committed tokens and cuts a block where the run ends: only what stays is ever counted or shown."""

    eos_token_ids: frozenset[int]
    stop_strings: StopStrings
    max_new_tokens: int
    room: int  # tokens the context still holds

    @property
    def remaining(self) -> int:
        """How many tokens may still be committed; the round loop drafts no more than that."""
        return min(self.max_new_tokens, self.room)

    def cut(self, token_ids: list[int], texts: list[str] | None) -> tuple[list[int], FinishReason | None]:
        """The part of a block that is committed, and the reason if the run ends with it.

        ``texts`` are needed (and looked at) only if there are stop strings.
        """
        for index, token in enumerate(token_ids):
            self.max_new_tokens -= 1
            self.room -= 1
            reason: FinishReason | None = None
            if token in self.eos_token_ids:
                reason = "end_of_text"
            elif texts is not None and self.stop_strings.push(texts[index]):
                reason = "stop_string"
            elif self.max_new_tokens <= 0:
                reason = "max_tokens"
            elif self.room <= 0:
                reason = "context_limit"
            if reason:
                return token_ids[: index + 1], reason
        return token_ids, None


class Stopped(Exception):  # noqa: N818 (it is no error)
    """Raised from a clock mark to leave a round that nobody waits for any more; the round is dropped."""

    def __init__(self, reason: FinishReason) -> None:
        super().__init__(reason)
        self.reason = reason
