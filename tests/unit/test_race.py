"""One request, two runs, one trace."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.errors import UserError
from specviz.events import Done, Event, Finished, Progress, Started
from specviz.models.load import Pair, load_pair
from specviz.race import first_difference, race
from specviz.settings import make_settings
from specviz.trace import Emitted, Trace, from_json, to_json


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return load_pair(str(folder), str(folder), device="cpu", dtype="float32", threads=1)


def trace_of(events: list[Event]) -> Trace:
    assert isinstance(events[-1], Done)
    return events[-1].trace


SETTINGS = make_settings(drafter="draft-model", gamma=4, temperature=0.0, max_new_tokens=20)


def test_a_race_tells_its_story_in_order_and_its_trace_holds_all_of_it(pair: Pair) -> None:
    events = list(race(pair, "hello", SETTINGS))
    kinds = [type(event) for event in events if not isinstance(event, Progress)]
    assert kinds == [Started, Finished, Started, Finished, Done]
    assert events[0] == Started("speculative")
    trace = trace_of(events)
    speculative, standard = trace.runs
    assert [e.record for e in events if isinstance(e, Progress) and e.kind == "speculative"] == list(speculative.rounds)
    assert [e.record for e in events if isinstance(e, Progress) and e.kind == "standard"] == list(standard.steps)
    assert speculative.token_ids == standard.token_ids
    assert speculative.text == standard.text
    assert trace.divergence is None
    assert trace.models.draft is not None
    assert all((run.peak_memory_bytes or 0) > 0 for run in trace.runs) == (sys.platform == "linux")
    assert from_json(to_json(trace)) == trace


def test_the_order_can_be_turned_and_the_baseline_left_out(pair: Pair) -> None:
    assert [run.kind for run in trace_of(list(race(pair, "a", SETTINGS, speculative_first=False))).runs] == [
        "standard",
        "speculative",
    ]
    assert [run.kind for run in trace_of(list(race(pair, "a", SETTINGS, baseline=False))).runs] == ["speculative"]


def test_the_same_seed_gives_the_same_run_and_another_one_another(pair: Pair) -> None:
    def tokens(seed: int) -> list[tuple[int, ...]]:
        settings = make_settings(drafter="draft-model", temperature=2.0, seed=seed, max_new_tokens=20)
        return [run.token_ids for run in trace_of(list(race(pair, "hello", settings))).runs]

    assert tokens(1) == tokens(1)
    assert tokens(1)[0] != tokens(2)[0]
    assert tokens(1)[1] != tokens(2)[1]


@pytest.mark.parametrize("after", [0, 1, 5, 30])
def test_a_stop_ends_the_race_with_what_was_done(pair: Pair, after: int) -> None:
    polls = 0

    def should_stop() -> bool:
        nonlocal polls
        polls += 1
        return polls > after

    trace = trace_of(list(race(pair, "hello", SETTINGS, should_stop=should_stop)))
    assert trace.runs[-1].finish_reason == "cancelled"
    assert from_json(to_json(trace)) == trace


def test_a_deadline_ends_the_race(pair: Pair) -> None:
    trace = trace_of(list(race(pair, "hello", SETTINGS, deadline=time.monotonic())))
    assert [run.finish_reason for run in trace.runs] == ["deadline"]


def test_a_race_left_half_way_leaves_the_pair_fit_for_the_next(pair: Pair) -> None:
    whole = trace_of(list(race(pair, "hello", SETTINGS))).runs
    events = race(pair, "another prompt", SETTINGS)
    for _ in range(3):
        next(events)
    events.close()  # type: ignore[attr-defined]
    assert [run.token_ids for run in trace_of(list(race(pair, "hello", SETTINGS))).runs] == [
        run.token_ids for run in whole
    ]


def test_a_standard_step_at_temperature_0_is_certain_of_its_token(pair: Pair) -> None:
    standard = trace_of(list(race(pair, "ab", SETTINGS))).run("standard")
    assert standard is not None and standard.steps
    for step in standard.steps:
        assert [(one.token_id, one.prob) for one in step.top_p] == [(step.emitted.token_id, 1.0)]


def test_a_prompt_that_does_not_fit_gets_a_sentence(pair: Pair) -> None:
    with pytest.raises(UserError, match="Shorten it"):
        list(race(pair, "x" * 300, SETTINGS))


def test_a_first_difference_is_reported_with_its_margin(pair: Pair) -> None:
    trace = trace_of(list(race(pair, "hello", SETTINGS)))
    speculative, standard = trace.runs
    other = (standard.steps[3].emitted.token_id + 1) % 256
    steps = list(standard.steps)
    steps[3] = replace(steps[3], emitted=Emitted(other, "?", 3, "target"))
    divergence = first_difference(pair, replace(trace, runs=(speculative, replace(standard, steps=tuple(steps)))))
    assert divergence is not None
    assert divergence.index == 3
    assert divergence.speculative.token_id == standard.token_ids[3]
    assert divergence.standard.token_id == other
    assert divergence.margin > 0
    assert divergence.speculative.prob > divergence.standard.prob


def test_readable_text_ends_before_the_stop_string(pair: Pair) -> None:
    text = trace_of(list(race(pair, "hello", SETTINGS))).runs[1].text
    stop = text[4:6]
    settings = make_settings(drafter="draft-model", gamma=4, temperature=0.0, max_new_tokens=20, stop=[stop])
    for run in trace_of(list(race(pair, "hello", settings))).runs:
        assert run.finish_reason == "stop_string"
        assert run.text == text[: text.index(stop)]


def test_the_drafter_is_named_in_the_trace(pair: Pair) -> None:
    lookup = make_settings(drafter="prompt-lookup", temperature=0.0, max_new_tokens=5)
    assert trace_of(list(race(pair, "abab", lookup))).models.draft is None
    packed = make_settings(drafter="quantized-self", quantization="int8", temperature=0.0, max_new_tokens=5)
    draft = trace_of(list(race(pair, "abab", packed))).models.draft
    assert draft is not None
    assert draft.quantization
