"""The commands on a real, very small model: what they print, write and refuse."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from specviz import trace as traces
from specviz.analysis.metrics import summarize
from specviz.bench.measurement import Measurement
from specviz.cli.doctor import forward_rows

Command = Callable[..., Result]


@pytest.fixture
def machine(folder: Path) -> tuple[str, ...]:
    """The tiny model, and the same as its own draft, on the CPU."""
    return ("--target", str(folder), "--dtype", "float32", "--device", "cpu", "--threads", "1")


@pytest.fixture
def recorded(command: Command, folder: Path, machine: tuple[str, ...], tmp_path: Path) -> tuple[Result, Path]:
    file = tmp_path / "trace.json"
    options = ("--drafter", "draft-model", "--draft", folder, "--temperature", 0, "--max-new-tokens", 24)
    return command("run", "--prompt", "Hello", *machine, *options, "--json", file), file


def test_run_writes_the_trace_that_it_shows(recorded: tuple[Result, Path]) -> None:
    result, file = recorded
    assert result.exit_code == 0, result.output
    trace = traces.load(file)
    summary = summarize(trace.runs)
    assert summary.speculation
    assert summary.speculation.alpha == 1
    assert [run.kind for run in trace.runs] == ["speculative", "standard"]
    assert f"{summary.speedup:.2f}×" in result.stdout
    assert "At temperature 0 both runs wrote the same tokens." in result.stdout
    assert result.stdout.count("✓") > 10


def test_show_repeats_what_run_printed(command: Command, recorded: tuple[Result, Path]) -> None:
    result, file = recorded
    again = command("show", file)
    assert again.exit_code == 0
    assert again.stdout == result.stdout


@pytest.mark.parametrize("rule", [("typical", "--epsilon", 0.2), ("kl-threshold", "--kl-threshold", 0.5)])
def test_a_lossy_run_says_so_while_it_runs_and_when_it_is_shown(
    command: Command, machine: tuple[str, ...], tmp_path: Path, rule: tuple[object, ...]
) -> None:
    file = tmp_path / "trace.json"
    options = ("--rule", *rule, "--drafter", "prompt-lookup", "--temperature", 0.8, "--max-new-tokens", 12)
    result = command("run", "--prompt", "abcabcabcabc", *machine, *options, "--json", file)
    assert result.exit_code == 0, result.output
    assert "is lossy: the text need not follow the target's distribution" in result.stdout
    assert "max tokens, lossy rule" in result.stdout
    assert "resampled" not in result.stdout
    assert command("show", file).stdout == result.stdout
    settings = traces.load(file).settings
    assert (settings.rule, settings.epsilon, settings.kl_threshold) in [
        ("typical", 0.2, 0.8), ("kl-threshold", 0.09, 0.5)
    ]  # fmt: skip


def test_without_a_baseline_nothing_is_compared(command: Command, machine: tuple[str, ...]) -> None:
    options = ("--drafter", "prompt-lookup", "--max-new-tokens", 4, "--no-baseline")
    result = command("run", "--prompt", "aaaa", *machine, *options)
    assert result.exit_code == 0, result.output
    assert "A comparison needs both runs." in result.stdout
    assert "standard" not in result.stdout


def test_a_full_disk_exits_with_2_after_the_run_was_shown(command: Command, machine: tuple[str, ...]) -> None:
    options = ("--drafter", "prompt-lookup", "--max-new-tokens", 2, "--json", "/dev/full")
    result = command("run", "--prompt", "Hi", *machine, *options)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert "committed tokens" in result.stdout
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_bench_measures_every_engine_on_every_prompt(
    command: Command, folder: Path, machine: tuple[str, ...], tmp_path: Path
) -> None:
    prompts, file = tmp_path / "prompts.jsonl", tmp_path / "bench.json"
    prompts.write_text('{"id": "a", "prompt": "Hello"}\n{"id": "b", "prompt": "there"}\n', encoding="utf-8")
    options = ("--drafter", "draft-model", "--draft", folder, "--gamma", "2,3", "--max-new-tokens", 12, "--repeat", 2)
    result = command(
        "bench", "--prompts", prompts, *machine, *options, "--peers", "hf-generate,hf-assisted", "--json", file
    )
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert {"machine", "versions", "rows", "ratios", "spread"} <= report.keys()
    measured = {(row["engine"], row["gamma"], row["prompt_id"]) for row in report["rows"]}
    engines = [("standard", None), ("hf-generate", None)]
    engines += [(engine, gamma) for engine in ("speculative", "hf-assisted") for gamma in (2, 3)]
    assert measured == {(*engine, prompt) for engine in engines for prompt in "ab"}
    assert all(ratio > 0 for ratio in report["ratios"].values())
    assert report["ratios"].keys() == {
        "speculative_over_standard", "standard_over_hf_generate", "speculative_over_hf_assisted", "recording_overhead"
    }  # fmt: skip
    ours = [row for row in report["rows"] if row["engine"] == "speculative"]
    theirs = [row for row in report["rows"] if row["engine"] == "hf-assisted"]
    assert all(row["alpha"] == 1 and row["tokens"] == 12 for row in ours)
    # The same draft, drafting as many tokens a round: what it leaves open is the first round, timed as prefill.
    for row in theirs:
        assert row["tokens"] == 12 - (row["gamma"] + 1)
    assert {row["gamma"]: row["tau"] for row in theirs} == {2: 3.0, 3: 4.0}


def test_bench_of_text_that_drafts_at_a_temperature(command: Command, machine: tuple[str, ...], tmp_path: Path) -> None:
    prompts, file = tmp_path / "prompts.jsonl", tmp_path / "bench.json"
    prompts.write_text('{"id": "a", "prompt": "abcabcabcabc"}\n', encoding="utf-8")
    options = ("--drafter", "prompt-lookup", "--temperature", 0.8, "--top-k", 20, "--max-new-tokens", 16, "--repeat", 2)
    result = command("bench", "--prompts", prompts, *machine, *options, "--peers", "hf-assisted", "--json", file)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [row["engine"] for row in report["rows"]] == ["standard", "speculative", "hf-assisted"]
    assert all(row["tok_s"] > 0 for row in report["rows"])
    assert report["ratios"]["standard_over_hf_generate"] is None
    assert not any(row["lossy"] for row in report["rows"]) and "lossy" not in result.stdout


def test_bench_says_that_a_rule_is_lossy(command: Command, machine: tuple[str, ...], tmp_path: Path) -> None:
    prompts, file = tmp_path / "prompts.jsonl", tmp_path / "bench.json"
    prompts.write_text('{"id": "a", "prompt": "abcabcabcabc"}\n', encoding="utf-8")
    options = ("--drafter", "prompt-lookup", "--temperature", 0.8, "--max-new-tokens", 8, "--repeat", 1)
    result = command("bench", "--prompts", prompts, *machine, *options, "--rule", "typical", "--json", file)
    assert result.exit_code == 0, result.output
    assert "speculative (lossy)" in result.stdout
    assert "typical (ε 0.09, δ 0.3) is lossy" in result.stdout
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["settings"]["rule"] == "typical"
    assert {row["engine"]: row["lossy"] for row in report["rows"]} == {"standard": False, "speculative": True}


def test_an_interrupted_bench_reports_what_it_has(
    command: Command, machine: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specviz.bench import plan

    runs = iter(range(6))

    def standard(*arguments: object) -> Measurement:
        if next(runs) == 5:
            raise KeyboardInterrupt
        return Measurement(tokens=4, decode_s=0.1, prefill_s=0.1)

    monkeypatch.setitem(plan.ENGINES, "standard", standard)
    file = tmp_path / "bench.json"
    options = ("--drafter", "prompt-lookup", "--max-new-tokens", 4, "--repeat", 1)
    result = command("bench", *machine, *options, "--json", file)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert result.exit_code == 130
    assert report["complete"] is False
    assert len(report["rows"]) == 8
    assert re.search(r"Interrupted after \d+ of \d+ measurements", result.output)
    assert report["ratios"]["speculative_over_standard"] > 0


def test_doctor_reports_the_machine_and_the_target(
    command: Command, machine: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache" / "models" / "some-model").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "some-model" / "weights").write_bytes(b"12345")
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("specviz.bench.probe.BYTES", 2**20)
    file = tmp_path / "doctor.json"
    result = command("doctor", *machine, "--gamma", 3, "--json", file)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    assert report["cache"]["bytes"] == {"models/some-model": 5}
    assert report["bandwidth_bytes_per_s"] > 0
    assert report["target"]["dtype"]["dtype"] == "float32"
    assert report["target"]["forward_seconds"].keys() == {"1", "2", "4", "8", "16"}
    assert "T(4)" in result.stdout
    assert report["problem"] is None


def test_doctor_shows_the_machine_even_if_the_target_cannot_be_loaded(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specviz.bench.probe.BYTES", 2**20)
    result = command("doctor", "--target", tmp_path / "nowhere", "--device", "cpu")
    assert result.exit_code == 2
    assert "read bandwidth" in result.stdout
    assert "nowhere" in result.stderr


@pytest.mark.parametrize(
    ("two_s", "verification_s", "words"),
    [
        (0.011, 0.012, "4.17×"),
        (0.011, 0.004, "something else kept this machine busy"),
        (0.004, 0.012, "something else kept this machine busy"),
    ],
)
def test_doctor_does_not_believe_times_that_cannot_be(two_s: float, verification_s: float, words: str) -> None:
    seconds = {1: 0.01, 2: two_s, 5: verification_s}
    target = {"dtype": {"reason": "asked for"}, "gamma": 4, "weight_bytes": 1, "forward_seconds": seconds}
    assert any(words in value for _, value in forward_rows(target, 1e9))
