"""How a run behaves on the device: waits, clock, memory, and a thread of its own."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from specviz import devices
from specviz.events import Finished, Progress, Started
from specviz.race import race
from specviz.selftest.report import NotApplicableError, Outcome
from specviz.selftest.subject import PROMPT, Subject, decode
from specviz.trace import Run, Timing

WAITS = 2  # for the round itself, inside its spans, and for its record, outside them
LEAST_COVERED, MOST_COVERED = 0.7, 1.05  # of wall time


def waits(subject: Subject) -> Outcome:
    """Device-to-host copies of each round but the first, as torch's synchronisation debug mode reports them.

    The mode is experimental, so it is first asked about one copy that is certainly made.
    """
    settings = subject.settings(0.7)
    if settings.drafter == "prompt-lookup":
        raise NotApplicableError("Prompt lookup sends what it copied to the device, which this cannot tell apart.")
    backend = getattr(torch, subject.device.type)
    if not hasattr(backend, "set_sync_debug_mode"):
        raise NotApplicableError(f"torch reports no synchronisation on {subject.device.type}.")
    with _reported(backend) as reports:
        torch.ones(2, device=subject.device).tolist()
        if (told := len(reports())) != 1:
            raise NotApplicableError(f"torch's synchronisation debug mode reported {told} of 1 known copy here.")
        counts = []
        for event in race(subject.pair, PROMPT, settings, baseline=False):
            if isinstance(event, Progress):
                counts.append(len(reports()))
    later = counts[1:]
    if not later:
        raise NotApplicableError("The run was over after its first round, which sends the prompt to the device.")
    measured = f"{min(later)} to {max(later)} a round"
    return Outcome(set(later) == {WAITS}, measured, f"{WAITS}: the round's and its record's")


@contextmanager
def _reported(backend: Any) -> Iterator[Any]:
    """A function that takes the reports since it was last called."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        backend.set_sync_debug_mode("warn")
        caught.clear()

        def reports() -> list[str]:
            messages = [str(warning.message) for warning in caught]
            caught.clear()
            return [message for message in messages if "synchronizing" in message]

        try:
            yield reports
        finally:
            backend.set_sync_debug_mode("default")


def clock(subject: Subject) -> Outcome:
    """A run's spans are positive and, with prefill and the making of records, add up to wall time.

    The host's clock ends the last span of a round; one that is 0 means that the device's clock ran ahead of it.
    """
    subject.pair.texts  # noqa: B018 - made here, not inside the run
    started = ended = 0.0
    for event in race(subject.pair, PROMPT, subject.settings(0.7), baseline=False):
        if isinstance(event, Started):
            started = time.perf_counter()
        elif isinstance(event, Finished):
            ended, run = time.perf_counter(), event.run
    spans = [span for round_ in run.rounds for span in _spans(round_.timing)]
    counted = run.prefill_s + sum(spans) + sum(round_.timing.overhead_s for round_ in run.rounds)
    share = counted / (ended - started)
    return Outcome(
        passed=min(spans) > 0 and LEAST_COVERED <= share <= MOST_COVERED,
        measured=f"{share:.3f} of wall time; shortest span {min(spans) * 1e6:.3g} µs",
        limit=f"{LEAST_COVERED} to {MOST_COVERED}; above 0",
        detail=f"{len(spans)} spans of {len(run.rounds)} rounds in {ended - started:.3g} s",
    )


def _spans(timing: Timing) -> list[float]:
    return [*timing.draft_s, timing.verify_s, timing.sample_s]


def memory(subject: Subject) -> Outcome:
    """The peak of a run holds the weights at least, and all but them is given back behind it."""
    if subject.device.type not in ("npu", "cuda"):
        raise NotApplicableError(f"torch counts no memory of its own on {subject.device.type}.")
    decode(subject.pair, subject.settings(0.0))
    subject.pair.free()
    before = _allocated(subject.device)
    run = decode(subject.pair, subject.settings(0.0))
    subject.pair.free()
    left = _allocated(subject.device) - before
    weights = sum({one.data_ptr(): one.nbytes for one in subject.pair.target_module.parameters()}.values())
    peak = run.peak_memory_bytes or 0
    return Outcome(
        passed=peak >= weights and left <= 0,
        measured=f"peak {peak / 1e6:.1f} MB; {left / 1e6:.3g} MB not given back",
        limit=f"at least {weights / 1e6:.1f} MB of weights; 0",
    )


def _allocated(device: torch.device) -> int:
    devices.synchronize(device)
    return int(getattr(torch, device.type).memory_allocated(device))


def thread(subject: Subject) -> Outcome:
    """A run in a thread that did not load the models gives the same tokens."""
    settings = subject.settings(0.7)
    here = decode(subject.pair, settings)
    found: list[Run | Exception] = []

    def work() -> None:
        try:
            found.append(decode(subject.pair, settings))
        except Exception as error:  # to be raised where it is seen
            found.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    (there,) = found
    if isinstance(there, Exception):
        raise there
    same = sum(a == b for a, b in zip(there.token_ids, here.token_ids, strict=False))
    return Outcome(there.token_ids == here.token_ids, f"{same} of {len(here.token_ids)} tokens", "the same tokens")
