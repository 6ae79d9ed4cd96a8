"""``doctor --selftest``: the table, the file and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from specviz.selftest import not_finite, run

Command = Callable[..., Result]
SOME = ("tokens: standard decoding", "NaN: both loops", "memory")


@pytest.fixture
def selftest(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command on the tiny model, with some of its checks."""
    all_of = run.examinations
    monkeypatch.setattr(run, "examinations", lambda subject: {name: all_of(subject)[name] for name in SOME})
    machine = ("--target", folder, "--dtype", "float32", "--device", "cpu", "--threads", "1")
    return lambda *more: command("doctor", "--selftest", *machine, *more)


def test_it_prints_every_check_and_writes_the_report(selftest: Command, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    result = selftest("--json", file)
    assert result.exit_code == 0, result.output
    assert all(name in result.stdout for name in SOME)
    assert "2 of 2 checks passed; 1 could not be made here." in result.stdout
    assert "memory: torch counts no memory of its own on cpu." in result.stdout
    text = file.read_text(encoding="utf-8")
    assert [check["passed"] for check in json.loads(text)["checks"]] == [True, True, None]
    assert str(tmp_path.parent) not in text


def test_a_check_that_fails_is_shown_with_its_reason_and_exit_code_1(
    selftest: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(not_finite, "decode", lambda *_: None)
    result = selftest()
    assert result.exit_code == 1
    assert "✗ failed" in result.stdout
    assert "speculative at temperature 0 went on" in result.stdout
    assert "--json FILE writes this report to a file" in result.stdout


def test_it_needs_the_models(selftest: Command, command: Command, tmp_path: Path) -> None:
    assert selftest("--no-model").exit_code == 2
    missing = command("doctor", "--selftest", "--device", "cpu", "--target", tmp_path / "nowhere")
    assert missing.exit_code == 2
    assert "Traceback" not in missing.output


def test_a_draft_that_nobody_would_look_at_is_refused(command: Command) -> None:
    result = command("doctor", "--no-model", "--draft", "nonsense")
    assert result.exit_code == 2
    assert "Only the self-test needs a draft model" in result.output
