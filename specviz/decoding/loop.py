"""What the speculative and the standard loop share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from specviz.decoding.clock import Clock
from specviz.decoding.ending import Ending, Stopped
from specviz.decoding.recording import Recorder
from specviz.models.base import LanguageModel
from specviz.trace import FinishReason

NOT_FINITE = (
    "The target model produced numbers that are not finite (NaN), so no token can be chosen. "
    "Run it in float32, or check its weights."
)
DRAFT_NOT_FINITE = (
    "The draft model produced numbers that are not finite (NaN), so there is nothing to draw from. "
    "Choose another drafter, or run the models in float32."
)

Poll = Callable[[], FinishReason | None]


class Loop:
    """One run: its model, clock and ending. A subclass yields records; ``finish_reason`` says why it ended."""

    def __init__(self, target: LanguageModel, ending: Ending, recorder: Recorder, poll: Poll) -> None:
        """``poll`` is asked at every mark of the clock whether the run should stop, and why."""
        self.target = target
        self.ending = ending
        self.recorder = recorder
        self.poll = poll
        self.clock = Clock(target.device)
        self.prefill_s = 0.0
        self.finish_reason: FinishReason = "cancelled"

    def mark(self) -> None:
        """End a span on the clock; leave the round if someone has stopped the run."""
        self.clock.mark()
        if reason := self.poll():
            raise Stopped(reason)

    @contextmanager
    def prefilling(self) -> Iterator[None]:
        """Time the prefill apart; the run's clock starts at zero after it."""
        self.clock.begin()
        yield
        self.mark()
        self.clock.wait()
        self.prefill_s = sum(self.clock.spans())
        self.clock.elapsed = 0.0

    def texts(self, token_ids: list[int]) -> list[str] | None:
        """Text of tokens about to be committed, if a stop string needs it."""
        if not self.ending.stop_strings:
            return None
        return [text for text, _ in self.recorder.detokenizer.peek(token_ids)]
