"""What a person can mend is one sentence on stderr, exit code 2, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specviz.cli.app import app

REFUSALS = {
    "empty prompt": (["run", "--prompt", "  "], "The prompt is empty"),
    "prompt beyond what is read": (["run", "--prompt", "word " * 5000], "The prompt has 25,000 characters"),
    "gamma 0": (["run", "--prompt", "Hi", "--gamma", "0"], "γ (gamma) must be a whole number from 1 to 15"),
    "negative temperature": (["run", "--prompt", "Hi", "--temperature", "-1"], "The temperature must be"),
    "temperature not a number": (["run", "--prompt", "Hi", "--temperature", "nan"], "The temperature must be"),
    "top-p 0": (["run", "--prompt", "Hi", "--top-p", "0"], "top-p must be above 0"),
    "epsilon above 1": (["run", "--prompt", "Hi", "--epsilon", "2"], "ε (epsilon) must be a number from 0 to 1"),
    "negative KL threshold": (["bench", "--kl-threshold", "-1"], "The KL threshold must be a number from 0 to 100"),
    "unknown rule": (
        ["run", "--prompt", "Hi", "--rule", "kl"],
        "rejection-sampling, greedy-match, typical, kl-threshold",
    ),
    "unknown drafter": (["run", "--prompt", "Hi", "--drafter", "magic"], "The drafter must be one of"),
    "json in no folder": (["run", "--prompt", "Hi", "--json", "/nowhere/x.json"], "There is no folder /nowhere"),
    "json is a folder": (["bench", "--json", "/tmp"], "/tmp is a folder"),
    "several gammas, one 0": (["bench", "--gamma", "0,4"], "γ (gamma) must be a whole number from 1 to 15"),
    "gamma in words": (["bench", "--gamma", "two"], "or several like 2,4,6"),
    "no repeats": (["bench", "--repeat", "0"], "at least 1"),
    "unknown peer": (["bench", "--peers", "vllm"], "hf-generate, hf-assisted"),
    "no prompts file": (["bench", "--prompts", "/nowhere.jsonl"], "/nowhere.jsonl cannot be read"),
    "contexts in words": (["ablate-attention", "--contexts", "long"], "whole numbers like 128,1024"),
    "a context of nothing": (["ablate-attention", "--contexts", "0,128"], "2 to 1,000,000 tokens"),
    "no repeats of the ablation": (["ablate-attention", "--repeat", "0"], "at least 1"),
    "no trace file": (["show", "/nowhere.json"], "/nowhere.json cannot be read"),
}

PARSE_ERRORS = {
    "no prompt": ["run"],
    "word for a number": ["run", "--prompt", "Hi", "--gamma", "many"],
    "no threads": ["run", "--prompt", "Hi", "--threads", "0"],
    "unknown option": ["run", "--prompt", "Hi", "--speed", "9"],
    "unknown command": ["fly"],
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
    assert result.stdout == ""


@pytest.mark.parametrize("arguments", PARSE_ERRORS.values(), ids=PARSE_ERRORS.keys())
def test_what_cannot_be_parsed_exits_with_2_too(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.stderr


@pytest.mark.parametrize("content", ["", "{}", "[1, 2", '{"version": 9}', "\x00\x01", '{"settings": {"gamma": -1}}'])
def test_a_bad_trace_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "trace.json"
    file.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(app, ["show", str(file)])
    assert result.exit_code == 2
    assert "not a SpecViz trace" in " ".join(result.stderr.split())


def test_a_bad_line_in_a_prompts_file(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"id": "a", "prompt": "Hello"}\n{"id": "b"\n', encoding="utf-8")
    result = CliRunner().invoke(app, ["bench", "--prompts", str(file)])
    assert result.exit_code == 2
    assert "line 2: expected a JSON object" in " ".join(result.stderr.split())


def test_as_a_program_nothing_is_imported_that_help_does_not_need() -> None:
    """torch, transformers and gradio take seconds; --help and refusals do without them."""
    program = "import sys; sys.argv[1:] = {!r}; import runpy\ntry: runpy.run_module('specviz', run_name='__main__')\n"
    program += "finally: print(sorted({{'torch', 'transformers', 'gradio', 'plotly'}} & sys.modules.keys()))"
    for arguments, code in ((["--help"], 0), (["run", "--prompt", ""], 2)):
        done = subprocess.run(
            [sys.executable, "-c", program.format(arguments)],
            capture_output=True, text=True, timeout=60, env=os.environ | {"NO_COLOR": "1"},
        )  # fmt: skip
        assert done.returncode == code
        assert done.stdout.strip().endswith("[]")
        assert "Traceback" not in done.stderr
