"""The Race tab without a browser: what a visitor gets back, and that no slot stays taken."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.errors import UserError
from specviz.laboratory import Laboratory
from specviz.runner import APOLOGY, Limits
from specviz.service import LOAD_FAILED, Options, Service
from specviz.trace import Trace, from_json, to_json
from specviz.ui.i18n import strings
from specviz.ui.tabs.race import RaceTab
from tests.unit.ui import synthetic

GOOD: dict[str, Any] = {
    "prompt": "Hi",
    "drafter": "quantized-self:int4-g64",
    "gamma": 2,
    "temperature": 0.7,
    "max_new_tokens": 8,
    "seed": 2,
    "top_k": 0,
    "top_p": 1,
    "rule": "rejection-sampling",
    "stop_strings": "",
    "min_confidence": 0,
    "order": "speculative-first",
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr("specviz.race.race", synthetic.race)
    monkeypatch.setattr("specviz.race.make_drafter", synthetic.draft_info)
    monkeypatch.setattr("specviz.service.describe", lambda pair: "made up")
    service = Service(Options(token_limit=512), load=lambda options, report: synthetic.PAIR)  # type: ignore[arg-type,return-value]
    yield service
    service.close()


@pytest.fixture
def tab(service: Service) -> RaceTab:
    return RaceTab(Laboratory(service), strings("en"), "en")


def visitor(name: str = "ada") -> Any:
    return SimpleNamespace(session_hash=name)


def run(frames: AsyncIterator[Any]) -> list[Any]:
    async def collect() -> list[Any]:
        return [frame async for frame in frames]

    return asyncio.run(collect())


def messages(frames: list[Any]) -> list[dict[str, Any]]:
    return [json.loads(view) for view, _, _ in frames if isinstance(view, str)]


def sentences(frames: list[Any]) -> list[str]:
    return [said["text"] for _, said, _ in frames if said.get("text")]


def is_idle(service: Service) -> bool:
    end = time.monotonic() + 3
    while service.runner.busy and time.monotonic() < end:
        time.sleep(0.01)
    return not service.runner.busy


def test_a_run_streams_and_ends_with_the_whole_trace(tab: RaceTab, service: Service) -> None:
    saved: list[str] = []

    async def collect() -> list[Any]:
        frames = []
        async for frame in tab.race(**GOOD, request=visitor()):
            frames.append(frame)
            if isinstance(frame[2], str):
                saved.append(Path(frame[2]).read_text())
        return frames

    frames = asyncio.run(collect())
    shown = messages(frames)
    assert [message["state"] for message in shown][-1] == "finished"
    assert {message["state"] for message in shown[:-1]} == {"running"}
    assert len({message["run"] for message in shown}) == 1
    assert shown[-1]["records"]["speculative"]["items"][0]["e"][1][3] == "residual"
    trace = from_json(saved[0])
    assert (trace.prompt.text, len(trace.runs[1].steps)) == ("Hi", 8)
    assert not Path(frames[-1][2]).exists(), "the export is Gradio's copy; ours is gone"
    assert is_idle(service)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"prompt": "  "}, "prompt is empty"),
        ({"prompt": "x" * 30_000}, "30,000 characters"),
        ({"prompt": None}, "must be text"),
        ({"gamma": 0}, "γ (gamma) must be a whole number from 1 to 15; you gave 0"),
        ({"temperature": -1}, "temperature must be a number"),
        ({"temperature": math.nan}, "you gave nan"),
        ({"top_p": math.inf}, "you gave inf"),
        ({"max_new_tokens": 513}, "from 1 to 512"),
        ({"drafter": "oracle"}, "drafter must be one of"),
        ({"drafter": 3}, "drafter must be one of"),
        ({"drafter": "quantized-self:int2"}, "quantization must be one of"),
        ({"rule": "greedy-match"}, "needs temperature 0"),
        ({"rule": "kl"}, "rule must be one of"),
        ({"epsilon": 2}, "ε (epsilon) must be a number from 0 to 1"),
        ({"delta": None}, "δ (delta) must be a number from 0 to 1"),
        ({"kl_threshold": math.nan}, "KL threshold must be a number from 0 to 100"),
        ({"order": "backwards"}, "order must be one of"),
        ({"order": {}}, "order must be one of"),
        ({"stop_strings": "\n".join("abcdefghijklmnopqr")}, "At most 16 stop strings"),
    ],
)
def test_a_bad_request_changes_nothing_but_the_notice(
    tab: RaceTab, service: Service, wrong: dict[str, Any], words: str
) -> None:
    frames = run(tab.race(**(GOOD | wrong), request=visitor()))
    assert len(frames) == 1
    assert not messages(frames)
    assert words in sentences(frames)[0]
    assert frames[0][1]["kind"] == "error"
    assert is_idle(service)


def test_the_parameters_of_a_rule_reach_the_race(tab: RaceTab) -> None:
    asked = GOOD | {"rule": "typical", "epsilon": 0.25, "delta": 0.5, "kl_threshold": 0.1}
    settings = messages(run(tab.race(**asked, request=visitor())))[0]["meta"]["settings"]
    assert {name: settings[name] for name in ("rule", "epsilon", "delta", "kl_threshold")} == {
        name: asked[name] for name in ("rule", "epsilon", "delta", "kl_threshold")
    }


def test_leaving_frees_the_slot(tab: RaceTab, service: Service) -> None:
    async def leave() -> None:
        frames = tab.race(**(GOOD | {"max_new_tokens": 512}), request=visitor())
        async for view, _, _ in frames:
            if isinstance(view, str):
                break
        assert service.runner.busy
        await frames.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert is_idle(service)


def test_stop_ends_the_run_and_shows_what_was_done(tab: RaceTab, service: Service) -> None:
    async def stopped() -> list[Any]:
        frames = []
        async for frame in tab.race(**(GOOD | {"max_new_tokens": 512}), request=visitor()):
            frames.append(frame)
            if len(messages(frames)) == 2:
                tab.stop(visitor())
        return frames

    frames = asyncio.run(stopped())
    last = messages(frames)[-1]
    assert last["state"] == "stopped"
    assert last["runs"]["speculative"]["finish_reason"] == "cancelled"
    assert 1 <= len(last["records"]["speculative"]["items"]) < 256
    assert is_idle(service)


def test_nobody_else_can_stop_a_run(tab: RaceTab, service: Service) -> None:
    ticket = service.race("Hi", synthetic.SETTINGS, "ada")
    tab.stop(visitor("eve"))
    assert not ticket.stopping
    tab.stop(visitor("ada"))
    assert is_idle(service)


def test_the_queue_is_announced(tab: RaceTab, service: Service) -> None:
    first = service.race("Hi", synthetic.SETTINGS, "first")
    first.read(0, timeout=3)

    async def wait() -> list[Any]:
        frames = []
        async for frame in tab.race(**GOOD, request=visitor()):
            frames.append(frame)
            if len(frames) == 1:
                first.cancel()
        return frames

    frames = asyncio.run(wait())
    assert sentences(frames)[0].startswith("Runs ahead of yours: 1.")
    assert messages(frames)[-1]["state"] == "finished"


def test_a_bug_in_the_engine_is_an_apology(tab: RaceTab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> Iterator[Any]:
        raise ZeroDivisionError

    monkeypatch.setattr("specviz.race.race", broken)
    frames = run(tab.race(**GOOD, request=visitor()))
    assert sentences(frames)[-1] == APOLOGY
    assert not messages(frames)


def test_a_race_that_breaks_leaves_no_file_of_the_one_before(tab: RaceTab, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaking(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield from itertools.islice(synthetic.race(*args, **kwargs), 20)
        raise ZeroDivisionError

    monkeypatch.setattr("specviz.race.race", breaking)
    frames = run(tab.race(**GOOD | {"max_new_tokens": 100}, request=visitor()))
    assert messages(frames)[-1]["state"] == "failed"
    assert all(export is None for view, _, export in frames if isinstance(view, str))


def test_the_time_limit_is_said(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    short = Service(Options(limits=Limits(run_s=0.3)), load=lambda options, report: synthetic.PAIR)  # type: ignore[arg-type,return-value]
    try:
        tab = RaceTab(Laboratory(short), strings("en"), "en")
        frames = run(tab.race(**(GOOD | {"max_new_tokens": 500}), request=visitor()))
    finally:
        short.close()
    assert "time limit" in sentences(frames)[-1]
    assert messages(frames)[-1]["state"] == "stopped"


def test_a_full_disk_costs_the_export_alone(tab: RaceTab, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(trace: Trace, path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specviz.ui.tabs.race.save", full)
    frames = run(tab.race(**GOOD, request=visitor()))
    assert messages(frames)[-1]["state"] == "finished"
    assert sentences(frames)[-1].startswith("The trace could not be written")
    assert frames[-1][2] is None


def test_a_failed_load_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    answers: list[Any] = [
        UserError("No network. Name a local folder."),
        UserError("Still none."),
        OSError(5),
        synthetic.PAIR,
    ]

    def load(options: Options, report: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    flaky = Service(Options(), load=load)
    try:
        tab = RaceTab(Laboratory(flaky), strings("en"), "en")
        assert sentences(run(tab.race(**GOOD, request=visitor())))[-1] == "Still none."
        assert flaky.state.phase == "failed"
        assert sentences(run(tab.race(**GOOD, request=visitor())))[-1] == LOAD_FAILED
        assert messages(run(tab.race(**GOOD, request=visitor())))[-1]["state"] == "finished"
        assert flaky.state.phase == "ready"
    finally:
        flaky.close()


def test_closing_the_server_ends_the_loading_at_its_next_step(service: Service) -> None:
    begun, ended = threading.Event(), threading.Event()

    def load(options: Options, report: Any) -> Any:
        try:
            while True:
                report("Step by step")
                begun.set()
                time.sleep(0.01)
        finally:
            ended.set()

    loading = Service(Options(), load=load)
    assert begun.wait(3)
    loading.close()
    assert ended.is_set()


def test_a_trace_file_is_shown(tab: RaceTab, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(to_json(synthetic.trace()))
    view, said, export = tab.show_file(str(path))
    assert json.loads(view)["state"] == "recorded"
    assert (said["text"], export) == ("", str(path))


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b'{"version": 2}', b"\xff\xfe", b"[" * 100_000])
def test_a_bad_trace_file_leaves_everything_as_it_is(tab: RaceTab, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    view, said, export = tab.show_file(str(path))
    assert not isinstance(view, str)
    assert not isinstance(export, str)
    assert "not a SpecViz trace" in said["text"]
    assert not path.exists()
