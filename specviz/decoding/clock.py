"""Spans of a round on the device's own clock, without making the host wait for the device."""

from __future__ import annotations

import time
from typing import Any

import torch


class Clock:
    """``begin`` a round, ``mark`` the end of each span, read ``spans`` once the round's host sync is over.

    On an accelerator the marks are events in the device's stream; on the CPU work is done when a call returns.
    ``elapsed`` sums the spans of all rounds: a clock that stands still outside them.
    """

    def __init__(self, device: torch.device) -> None:
        self._backend: Any = None if device.type == "cpu" else getattr(torch, device.type)
        self._marks: list[Any] = []
        self.elapsed = 0.0

    def _now(self) -> Any:
        if self._backend is None:
            return time.perf_counter()
        event = self._backend.Event(enable_timing=True)
        event.record()
        return event

    def begin(self) -> None:
        self._marks = [self._now()]

    def mark(self) -> None:
        self._marks.append(self._now())

    def spans(self) -> list[float]:
        """Seconds between successive marks; adds them to ``elapsed``. Call after the last mark's work is done."""
        pairs = list(zip(self._marks, self._marks[1:], strict=False))
        if self._backend is None:
            spans = [end - start for start, end in pairs]
        else:
            self._marks[-1].synchronize()
            spans = [start.elapsed_time(end) / 1000 for start, end in pairs]
        self.elapsed += sum(spans)
        return spans
