"""What the browser may ask of the laboratory, through the functions it calls, on a real tiny pair."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.events import Done
from specviz.laboratory import Laboratory
from specviz.models.load import Pair, load_pair
from specviz.race import race
from specviz.runner import Ticket
from specviz.service import Options, Service
from specviz.settings import make_settings
from specviz.trace import Trace
from specviz.ui.components.lab_server import LabServer

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return load_pair(str(folder), str(folder), device="cpu", dtype="float32", threads=1)


@pytest.fixture(scope="module")
def trace(pair: Pair) -> Trace:
    settings = make_settings(drafter="quantized-self", quantization="int8", temperature=2.0, max_new_tokens=20)
    *_, done = race(pair, "hello", settings, baseline=False)
    assert isinstance(done, Done)
    return done.trace


@pytest.fixture(scope="module")
def laboratory(pair: Pair, trace: Trace) -> Iterator[Laboratory]:
    service = Service(Options(), load=lambda options, report: pair)
    laboratory = Laboratory(service)
    laboratory.add("run", trace)
    yield laboratory
    service.close()


@pytest.fixture
def ask(laboratory: Laboratory) -> Ask:
    server = LabServer(laboratory)

    def ask(name: str, /, **asked: Any) -> dict[str, Any]:
        (function,) = server.functions(name)
        assert function.__name__ == name
        answer: dict[str, Any] = asyncio.run(function(asked))
        json.dumps(answer, allow_nan=False)
        return answer

    return ask


def test_a_look_gives_a_key_and_the_round_as_it_was(ask: Ask, trace: Trace) -> None:
    found = ask("look", run="run", round=1, owner="me")
    recorded = trace.runs[0].rounds[1]
    assert found["difference"] == 0
    assert found["k"] == len(recorded.drafted) and found["gamma"] == trace.settings.gamma
    outcome = found["outcome"]
    assert outcome["same"] and not outcome["changed"] and outcome["end"] == "round"
    assert [one["verdict"] for one in outcome["positions"]] == [one.verdict for one in recorded.drafted]
    assert [one["id"] for one in outcome["emitted"]] == [one.token_id for one in recorded.emitted]
    (drafted,) = [one for one in outcome["detail"]["candidates"] if one["drafted"]]
    assert drafted["id"] == recorded.drafted[0].token_id
    assert ask("look", run="run", round=1, owner="me")["key"] == found["key"]
    assert ask("look", run="run", round=2, owner="me")["key"] != found["key"]


def test_a_what_if_answers_for_the_place_asked(ask: Ask) -> None:
    key = ask("look", run="run", round=0, owner="me")["key"]
    outcome = ask("what_if", key=key, place=2, changes={"temperature": 0}, u={})
    assert outcome["changed"] and outcome["greedy"] and outcome["settings"]["temperature"] == 0
    assert outcome["detail"]["place"] == 2
    kept = ask("what_if", key=key, place=0, changes={}, u={"0": 0.0})
    assert kept["positions"][0]["u"] == 0.0 and kept["positions"][0]["verdict"] == "accepted"


def test_redraws_rounds_and_exhibits_answer_in_plain_json(ask: Ask) -> None:
    key = ask("look", run="run", round=0, owner="me")["key"]
    redrawn = ask("redraw", key=key, place=0, changes={}, exhibit="u-stuck-at-zero", n=1000, seed=1)
    assert [lane["exhibit"] for lane in redrawn["lanes"]] == [None, "u-stuck-at-zero"]
    assert all(lane["frames"][-1]["n"] == 1000 for lane in redrawn["lanes"])
    rounds = ask("rounds", run="run", round=0, changes={}, n=500, seed=1, owner="me")
    assert rounds["finding"]["verdict"] == "lossless" and rounds["depths"][0]["n"] == 500
    shown = ask("exhibit", run="run", name="off-by-one-rollback", owner="me")
    assert shown["exposed"] and all(math.isfinite(value) for value in shown["values"].values())


@pytest.mark.parametrize(
    ("name", "asked", "sentence"),
    [
        ("look", {"run": "nobody's", "round": 0, "owner": "me"}, "no longer on the server"),
        ("look", {"run": "run", "round": 999, "owner": "me"}, "no speculative round"),
        ("look", {"run": "run", "round": -1, "owner": "me"}, "whole number"),
        ("look", {"run": "run", "round": True, "owner": "me"}, "whole number"),
        ("look", {"run": "run", "round": math.nan, "owner": "me"}, "whole number"),
        ("look", {"run": "run", "round": math.inf, "owner": "me"}, "whole number"),
        ("look", {"run": ["run"], "round": 0, "owner": "me"}, "short text"),
        ("look", {"run": "run", "round": 0, "owner": "x" * 10_000}, "short text"),
        ("what_if", {"key": "guessed", "place": 0}, "no longer on the server"),
        ("redraw", {"key": "guessed", "n": 1000}, "no longer on the server"),
        ("rounds", {"run": "run", "round": 999, "n": 1000, "owner": "me"}, "no speculative round"),
        ("rounds", {"run": "run", "round": 0, "n": 10**9, "owner": "me"}, "redraws"),
        ("exhibit", {"run": "run", "name": "unheard-of", "owner": "me"}, "exhibit"),
    ],
    ids=str,
)
def test_a_bad_question_gets_a_sentence(ask: Ask, name: str, asked: dict[str, Any], sentence: str) -> None:
    assert sentence in ask(name, **asked)["error"]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"place": 99}, "no position"),
        ({"changes": {"temperature": "hot"}}, "temperature"),
        ({"changes": {"temperature": math.nan}}, "temperature"),
        ({"changes": {"seed": 1}}, "judged by"),
        ({"changes": [1]}, "object"),
        ({"changes": {"rule": "greedy-match", "temperature": 1}}, "temperature 0"),
        ({"u": {"0": 2}}, "draw u"),
        ({"u": {"0": math.nan}}, "draw u"),
        ({"u": {"9": 0.5}}, "draw u"),
        ({"u": {"x": 0.5}}, "numbers by position"),
        ({"u": {"0": None}}, "numbers by position"),
        ({"u": {"0": 10**400}}, "numbers by position"),
    ],
    ids=str,
)
def test_a_bad_change_gets_a_sentence(ask: Ask, asked: dict[str, Any], sentence: str) -> None:
    key = ask("look", run="run", round=0, owner="me")["key"]
    assert sentence in ask("what_if", key=key, **asked)["error"]


def test_a_branch_of_a_trace_from_elsewhere_keeps_to_the_operators_bound(pair: Pair, trace: Trace) -> None:
    service = Service(Options(token_limit=3), load=lambda options, report: pair)
    laboratory = Laboratory(service)
    laboratory.add("run", trace)
    asyncio.run(LabServer(laboratory).functions("look")[0]({"run": "run", "round": 0, "owner": "me"}))
    assert laboratory.branch("run", 0, {}, {}).settings.max_new_tokens == 3
    service.close()


def test_what_has_left_the_shelf_asks_to_look_again(pair: Pair, trace: Trace) -> None:
    service = Service(Options(), load=lambda options, report: pair)
    laboratory = Laboratory(service)
    (what_if,) = LabServer(laboratory).functions("what_if")
    assert asyncio.run(what_if({"key": "gone", "place": 0}))["expired"]
    service.close()


def test_a_newer_question_of_a_visitor_replaces_the_older_one_and_disturbs_nobody(
    laboratory: Laboratory, trace: Trace, ask: Ask
) -> None:
    laboratory.add("another", trace)
    looks = [laboratory.look("another", index % 3, "restless") for index in range(10)]
    tickets = [look for look in looks if isinstance(look, Ticket)]
    assert tickets
    assert "key" in ask("look", run="run", round=0, owner="patient")
    end = time.monotonic() + 30
    while not all(ticket.ended for ticket in tickets) and time.monotonic() < end:
        time.sleep(0.01)
    assert all(ticket.ended for ticket in tickets)
    assert tickets[-1].state == "finished"
    assert not isinstance(laboratory.look("another", 0, "restless"), Ticket)  # what is known waits for nobody
