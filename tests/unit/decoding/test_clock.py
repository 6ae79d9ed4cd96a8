"""Spans of a round, on the CPU and on a device whose work ends later than the call that gave it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
import torch

from specviz.decoding.clock import Clock


def test_spans_abut_and_add_up_to_the_round() -> None:
    clock = Clock(torch.device("cpu"))
    began = time.perf_counter()
    clock.begin()
    time.sleep(0.02)
    clock.mark()
    time.sleep(0.01)
    clock.mark()
    time.sleep(0.03)
    first, second, rest = clock.spans()
    total = time.perf_counter() - began
    assert first >= 0.02 and second >= 0.01 and rest >= 0.03
    assert clock.elapsed == pytest.approx(first + second + rest)
    assert total - 0.005 < clock.elapsed <= total


class Event:
    """Reached 50 ms after the one before it, whatever the host does."""

    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at_ms, Event.made = Event.made * 50.0, Event.made + 1

    def elapsed_time(self, end: Event) -> float:
        return end.at_ms - self.at_ms

    def synchronize(self) -> None:
        raise AssertionError("a round must not wait for an event")


def test_on_a_device_the_marks_divide_the_time_that_the_host_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "npu", SimpleNamespace(Event=Event), raising=False)
    clock = Clock(SimpleNamespace(type="npu"))  # type: ignore[arg-type]
    times = iter([10.0, 10.12])
    monkeypatch.setattr("specviz.decoding.clock.time", SimpleNamespace(perf_counter=lambda: next(times)))
    clock.begin()
    clock.mark()
    clock.mark()
    assert clock.spans() == pytest.approx([0.05, 0.05, 0.02])
    assert clock.elapsed == pytest.approx(0.12)
