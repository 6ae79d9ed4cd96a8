"""What the browser may ask about attention, through the functions it calls, on a real tiny pair."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from specviz.attention import hardware
from specviz.attention.schedules import NAMES
from specviz.attention_lab import DEVICES, SCHEDULES, AttentionLab
from specviz.events import Done
from specviz.laboratory import Laboratory
from specviz.models.load import Pair, load_pair
from specviz.race import race
from specviz.runner import Limits
from specviz.service import Options, Service
from specviz.settings import make_settings
from specviz.trace import Trace
from specviz.ui.components import attention_server
from specviz.ui.components.attention_server import AttentionServer

Ask = Callable[..., dict[str, Any]]
GOOD: dict[str, Any] = {
    "run": "run",
    "round": 1,
    "phase": "verification",
    "layer": 1,
    "head": 0,
    "schedules": ["flash-attention-2", "standard"],
    "hardware": "a100",
    "owner": "me",
    "tile": [16, 16],
}


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return load_pair(str(folder), str(folder), device="cpu", dtype="float32", threads=1)


@pytest.fixture(scope="module")
def trace(pair: Pair) -> Trace:
    settings = make_settings(drafter="draft-model", temperature=2.0, max_new_tokens=60)
    *_, done = race(pair, "a prompt that is long enough for a few tiles", settings, baseline=False)
    assert isinstance(done, Done)
    return done.trace


@pytest.fixture(scope="module")
def server(pair: Pair, trace: Trace) -> Iterator[AttentionServer]:
    service = Service(Options(), load=lambda options, report: pair)
    laboratory = Laboratory(service)
    laboratory.add("run", trace)
    yield AttentionServer(AttentionLab(laboratory))
    service.close()


@pytest.fixture
def ask(server: AttentionServer) -> Ask:
    by_name = {function.__name__: function for function in server.functions}

    def ask(name: str, /, **asked: Any) -> dict[str, Any]:
        answer: dict[str, Any] = asyncio.run(by_name[name](asked))
        json.dumps(answer, allow_nan=False)
        return answer

    return ask


def test_the_page_offers_what_the_room_has() -> None:
    assert SCHEDULES == NAMES
    assert [name for name, _ in DEVICES] == list(hardware.NAMES)
    assert all(hardware.KNOWN[name].title == title for name, title in DEVICES if name in hardware.KNOWN)


def test_a_verification_comes_with_its_tokens_and_its_steps(ask: Ask, trace: Trace) -> None:
    found = ask("attention", **GOOD)
    round_ = trace.runs[0].rounds[1]
    assert found["queries"] == len(round_.drafted) + 1 == len(found["rows"])
    assert [row["verdict"] for row in found["rows"]] == [None, *(one.verdict for one in round_.drafted)]
    assert found["output_difference"] < 1e-5
    flash, standard = found["schedules"]
    assert (flash["name"], standard["name"]) == ("flash-attention-2", "standard")
    assert {len(column) for column in flash["steps"].values()} == {len(flash["steps"]["worker"])}
    assert flash["tile"] == {"rows": 16, "keys": 16, "splits": 1}
    assert found["standard_bytes"] == standard["totals"]["hbm_read"] + standard["totals"]["hbm_written"]
    for one in found["schedules"]:
        assert one["totals"]["hbm_read"] == one["totals"]["closed_read"]
        assert one["totals"]["hbm_written"] == one["totals"]["closed_written"]
        assert one["totals"]["difference"] < 1e-5
    assert set(found["curves"]["prefill"]) == {"flash-attention-2", "standard"}
    assert all({"name", "value", "unit", "source", "status"} == set(one) for one in found["hardware"]["figures"])


def test_published_tiles_and_the_prefill_are_shown_too(ask: Ask, trace: Trace) -> None:
    found = ask(
        "attention", **GOOD | {"phase": "prefill", "tile": None, "schedules": ["flash-attention-3"], "hardware": "h100"}
    )
    assert found["queries"] == found["keys"] == len(trace.prompt.token_ids)
    assert found["rows"] == [] and found["tile"] is None
    assert found["schedules"][0]["timeline"][0]["lane"] == "producer"


def test_a_step_tells_what_it_did_to_its_rows(ask: Ask) -> None:
    (flash, _) = ask("attention", **GOOD)["schedules"]
    last = len(flash["steps"]["worker"]) - 1
    first = ask("attention_step", key=flash["key"], step=0)["rows"]
    assert len(first) == flash["steps"]["r1"][0] - flash["steps"]["r0"][0]
    assert all(row["m_before"] is None and row["l_before"] == 0 for row in first)
    finished = ask("attention_step", key=flash["key"], step=last)["rows"]
    assert all(math.isfinite(row["m_after"]) and row["l_after"] > 0 for row in finished)


def test_attention_times_decoding_is_measured_here(ask: Ask) -> None:
    rows = ask("ablate", context=60, owner="me")["rows"]
    assert [(row["attention"], row["decoding"]) for row in rows] == [
        ("materialised", "standard"),
        ("materialised", "speculative"),
        ("fused", "standard"),
        ("fused", "speculative"),
    ]


def test_a_measurement_that_is_stopped_says_so(pair: Pair) -> None:
    service = Service(Options(limits=Limits(run_s=0.0)), load=lambda options, report: pair)
    lab = AttentionLab(Laboratory(service))
    ticket = lab.ablate(60, "me")
    while not ticket.ended:
        ticket.read(timeout=0.1)
    service.close()
    assert "as much time as a run may take here" in (ticket.error or "")


def test_a_measurement_is_asked_for_again_until_it_is_over_or_stopped(
    ask: Ask, server: AttentionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_server, "LISTEN_S", 0.0)
    answer = ask("ablate", context=60, owner="me")
    assert answer == {"busy": True}
    while answer.get("busy"):
        time.sleep(0.05)
        answer = ask("ablation", owner="me")
    assert len(answer["rows"]) == 4

    ask("ablate", context=150, owner="me")
    assert ask("stop_ablation", owner="me") == {}
    answer = {"busy": True}
    while answer.get("busy"):
        time.sleep(0.05)
        answer = ask("ablation", owner="me")
    assert "error" in answer
    assert "No measurement" in ask("ablation", owner="nobody")["error"]


def test_looking_at_a_picture_does_not_end_a_measurement(server: AttentionServer) -> None:
    attention, _, ablate, *_ = server.functions

    async def both() -> tuple[dict[str, Any], dict[str, Any]]:
        measured = asyncio.create_task(ablate({"context": 60, "owner": "me"}))
        await asyncio.sleep(0)
        return await attention(GOOD | {"round": 2}), await measured

    looked, measured = asyncio.run(both())
    assert looked["queries"] and len(measured["rows"]) == 4


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"run": "nobody's"}, "no longer on the server"),
        ({"round": 999}, "no speculative round"),
        ({"phase": "dream"}, "phase must be"),
        ({"layer": 2}, "no layer 3"),
        ({"head": 99}, "no head 100"),
        ({"schedules": []}, "One or two"),
        ({"schedules": ["a", "b", "c"]}, "One or two"),
        ({"schedules": "standard"}, "One or two"),
        ({"schedules": ["flash-attention-9"]}, "must be one of"),
        ({"schedules": ["ascend-incre-flash"]}, "one query"),
        ({"hardware": "abacus"}, "hardware must be"),
        ({"tile": [0, 1]}, "1 to 1024"),
        ({"tile": [1]}, "two whole numbers"),
        ({"tile": [1.5, 2]}, "two whole numbers"),
        ({"tile": [math.nan, 2]}, "two whole numbers"),
        ({"tile": "16"}, "two whole numbers"),
    ],
    ids=str,
)
def test_a_bad_question_gets_a_sentence(ask: Ask, changed: dict[str, Any], sentence: str) -> None:
    assert sentence in ask("attention", **GOOD | changed)["error"]


def test_steps_and_contexts_that_do_not_exist_get_a_sentence(ask: Ask) -> None:
    key = ask("attention", **GOOD)["schedules"][0]["key"]
    assert "no step" in ask("attention_step", key=key, step=10_000)["error"]
    assert ask("attention_step", key="guessed", step=0)["expired"]
    assert "2 to 8,192" in ask("ablate", context=1, owner="me")["error"]
