"""The command ``tiles``: what it writes, leaves out and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Command = Callable[..., Result]


def test_all_schedules_that_take_the_shape_are_reported(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "tiles.json"
    result = command("tiles", "--queries", 5, "--keys", 300, "--head-dim", 32, "--json", file)
    assert result.exit_code == 0, result.output
    reports = json.loads(file.read_text(encoding="utf-8"))
    assert [one["schedule"] for one in reports] == [
        "standard", "flash-attention-1", "flash-attention-2", "flash-attention-3", "flash-decoding",
        "ascend-flash-attention-score",
    ]  # fmt: skip
    assert "Left out: ascend-incre-flash takes one query, and there are 5." in result.stdout
    assert "not a hardware trace" in result.stdout
    assert "What was counted equals the closed forms." in result.stdout
    for one in reports:
        assert result.stdout.count(f" {one['schedule']} ") == 2, "whole in both tables, at 80 characters"
        assert one["counted"] == one["closed_form"]
        assert one["largest_difference"] < 1e-5
        assert one["steps"] > 0 and one["on_chip_peak_bytes"] > 0
        assert one["tiles"].keys() == {"full", "masked", "skipped"}
    tiles = {one["schedule"]: one["tile"] for one in reports}
    assert tiles["flash-attention-2"] == {"rows": 128, "keys": 128}


def test_one_schedule_is_one_object(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "tiles.json"
    options = ("--queries", 300, "--keys", 300, "--heads", 2, "--kv-heads", 1, "--no-causal", "--hardware", "H100")
    assert command("tiles", "--schedule", "flash-attention-2", *options, "--json", file).exit_code == 0
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["tiles"] == {"full": 2 * 3 * 3, "masked": 0, "skipped": 0}
    assert report["counted"]["flops"] == 4 * 2 * 300 * 300 * 64
    assert (report["causal"], report["hardware"]) == (False, "h100")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--schedule", "ascend-incre-flash"), "takes one query"),
        (("--schedule", "flash-attention-4"), "must be one of standard"),
        (("--hardware", "abacus"), "must be one of a100"),
        (("--heads", 9, "--kv-heads", 2), "do not divide"),
        (("--queries", 600), "at least as many keys"),
        (("--queries", 20000, "--keys", 20000), "Give fewer queries"),
        (("--json", "/nowhere/tiles.json"), "There is no folder"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(command: Command, options: tuple[object, ...], words: str) -> None:
    result = command("tiles", *options)
    assert result.exit_code == 2
    assert words in result.stderr
