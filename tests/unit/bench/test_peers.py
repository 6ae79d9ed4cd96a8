"""Tokens of transformers are counted as they arrive, and the first arrival belongs to the prefill."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from specviz.bench import peers
from specviz.bench.peers import Arrivals


def test_what_arrives_after_the_first_is_counted_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.5, 10.75, 11.5])
    monkeypatch.setattr(peers, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    arrivals = Arrivals()
    for count in (20, 3, 2, 5):  # the prompt, then three rounds
        arrivals.put(torch.zeros(1, count))
    arrivals.end()
    measured = arrivals.measurement(started=10.0)
    assert (measured.tokens, measured.decode_s, measured.prefill_s) == (7, 1.0, 0.5)
    assert measured.tau == 3.5
    assert measured.tok_s == 7


def test_an_answer_that_came_at_once_has_no_rate() -> None:
    arrivals = Arrivals()
    for count in (20, 3):
        arrivals.put(torch.zeros(1, count))
    measured = arrivals.measurement(started=0.0)
    assert (measured.tokens, measured.tok_s, measured.tau) == (0, None, None)
