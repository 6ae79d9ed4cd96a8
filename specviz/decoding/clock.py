"""The time of a round, and how much of it each part took on the device, without one more wait for the device."""

from __future__ import annotations

import time
from typing import Any

import torch


class Clock:
    """``begin`` a round, ``mark`` the end of each part, read ``spans`` when the round is over.

    On an accelerator the marks are events in the device's stream; on the CPU work is done when a call returns. The
    host's own clock says how long all of it took. ``elapsed`` sums the rounds: a clock that stands still outside them.
    """

    def __init__(self, device: torch.device) -> None:
        self._backend: Any = None if device.type == "cpu" else getattr(torch, device.type)
        self._marks: list[Any] = []
        self._began = 0.0
        self.elapsed = 0.0

    def _now(self) -> Any:
        if self._backend is None:
            return time.perf_counter()
        event = self._backend.Event(enable_timing=True)
        event.record()
        return event

    def begin(self) -> None:
        """Nothing may be waiting on the device, or its time would be counted here."""
        self._began = time.perf_counter()
        self._marks = [self._now()]

    def mark(self) -> None:
        self._marks.append(self._now())

    def wait(self) -> None:
        """Until the device has reached the last mark. A round needs no such wait: it has fetched its tokens."""
        if self._backend is not None:
            self._marks[-1].synchronize()

    def spans(self) -> list[float]:
        """Seconds between successive marks, then those from the last one until now; adds all to ``elapsed``.

        Call when the device has reached the last mark, which it has once anything made after it was fetched.
        """
        pairs = list(zip(self._marks, self._marks[1:], strict=False))
        if self._backend is None:
            spans = [end - start for start, end in pairs]
        else:
            spans = [start.elapsed_time(end) / 1000 for start, end in pairs]
        spans.append(max(0.0, time.perf_counter() - self._began - sum(spans)))
        self.elapsed += sum(spans)
        return spans
