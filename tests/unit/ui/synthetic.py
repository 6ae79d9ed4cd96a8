"""Races made up without a model, for tests of the page: an engine's events, a stop that is polled, a whole trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from specviz.events import Done, Event, Finished, Progress, Started
from specviz.settings import make_settings
from specviz.trace import (
    Candidate,
    Emitted,
    FinishReason,
    Machine,
    ModelInfo,
    Models,
    Position,
    Prompt,
    Round,
    Run,
    Settings,
    Step,
    Timing,
    Trace,
)

TARGET = ModelInfo("Synthetic target", "float32", 1000, 50, (0,))
MACHINE = Machine("cpu", "No machine", 1, 1, {})
SETTINGS = make_settings(gamma=2, max_new_tokens=400)
PAIR = SimpleNamespace(target_info=TARGET, machine=MACHINE)


def draft_info(pair: Any, settings: Settings) -> tuple[None, ModelInfo]:
    """Stands in for ``make_drafter``, of which the service needs the description alone."""
    return None, TARGET


def race(
    pair: Any,
    prompt: str,
    settings: Settings,
    *,
    baseline: bool,
    speculative_first: bool,
    should_stop: Callable[[], bool],
    deadline: float,
    origin: object = None,
    step_s: float = 0.01,
) -> Iterator[Event]:
    """Two tokens a round: one accepted, one resampled after a rejection."""
    runs = []
    for kind in ("speculative", "standard") if baseline else ("speculative",):
        yield Started(kind)
        records: list[Any] = []
        reason: FinishReason = "max_tokens"
        for index in range(settings.max_new_tokens // (2 if kind == "speculative" else 1)):
            if should_stop():
                reason = "cancelled"
                break
            time.sleep(step_s)
            records.append((_round if kind == "speculative" else _step)(index))
            yield Progress(kind, records[-1])
        rounds, steps = (records, []) if kind == "speculative" else ([], records)
        runs.append(Run(kind, tuple(rounds), tuple(steps), reason, 0.01, "text"))
        yield Finished(runs[-1])
        if reason == "cancelled":
            break
    yield Done(Trace(settings, Models(TARGET, TARGET), MACHINE, Prompt(prompt, (1, 2)), tuple(runs), "2026-01-01"))


def trace() -> Trace:
    """A short whole trace."""
    events = race(
        PAIR,
        "Hi",
        make_settings(gamma=2, max_new_tokens=8),
        baseline=True,
        speculative_first=True,
        should_stop=lambda: False,
        deadline=0,
        step_s=0,
    )
    return next(event.trace for event in events if isinstance(event, Done))


def _round(index: int) -> Round:
    best = (Candidate(7, " yes", 0.75), Candidate(8, " no", 0.25))
    position = Position(7, " yes", 2 * index, 0.75, 0.5, 0.4, "accepted", 0.75, best, best)
    rejected = Position(8, " no", 2 * index + 1, 0.25, 0.5, 0.9, "rejected", 0.75, best, best, best)
    emitted = (Emitted(7, " yes", 2 * index, "draft"), Emitted(7, " yes", 2 * index + 1, "residual"))
    timing = Timing(index * 0.04, (0.01, 0.01), 0.015, 0.005, 0.001)
    return Round(index, 2 + 2 * index, (position, rejected), emitted, best, timing)


def _step(index: int) -> Step:
    best = (Candidate(7, " yes", 0.75), Candidate(8, " no", 0.25))
    return Step(
        index, 2 + index, Emitted(7, " yes", index, "target"), best, Timing(index * 0.03, (), 0.025, 0.005, 0.0)
    )
