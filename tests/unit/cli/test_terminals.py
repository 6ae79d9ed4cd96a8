"""Outputs that cannot take what is printed: other encodings, a full disk, a reader that leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
SHOW = [sys.executable, "-m", "specviz", "show", str(PROJECT / "assets" / "traces" / "default.json")]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_marks_that_an_encoding_lacks_are_shown_by_number(encoding: str) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run(SHOW, capture_output=True, env=environment, cwd=PROJECT, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2713There" in done.stdout


def test_a_full_disk_behind_the_output_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(SHOW, stdout=full, stderr=subprocess.PIPE, text=True, cwd=PROJECT, timeout=60)
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    with subprocess.Popen(SHOW, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=PROJECT) as program:
        assert program.stdout and program.stderr
        program.stdout.close()
        assert program.stderr.read() == b""
