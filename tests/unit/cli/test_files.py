"""A record is written whole or not at all, and a full disk is a sentence."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from specviz.cli.files import check_writable, write
from specviz.errors import UserError


def test_a_full_device_is_reported_and_left_alone() -> None:
    full = Path("/dev/full")
    with pytest.raises(UserError, match="No space left on device"):
        write(full, "record")
    assert stat.S_ISCHR(full.stat().st_mode)


# In a process of its own: the limit would hold for pytest's log as well.
SMALL_FILES_ONLY = """
import pathlib, resource, signal, sys
from specviz.cli.files import write
from specviz.errors import UserError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
try:
    write(pathlib.Path(sys.argv[1]), "new" * 1000)
except UserError as error:
    print(error)
"""


def test_an_interrupted_write_keeps_the_old_file_and_leaves_no_half(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    write(file, "old")
    command = [sys.executable, "-c", SMALL_FILES_ONLY, str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "File too large" in said
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_goes_on_pointing_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    file, link = tmp_path / "elsewhere" / "trace.json", tmp_path / "link.json"
    link.symlink_to(file)
    for content in ("new file", "old file"):
        check_writable(link)
        write(link, content)
        assert link.is_symlink()
        assert file.read_text(encoding="utf-8") == content


def test_a_pipe_is_written_to() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, encoding="utf-8") as end:
        write(Path(f"/dev/fd/{writer}"), "record")
        os.close(writer)
        assert end.read() == "record"


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        check_writable(tmp_path / "nowhere" / "trace.json")
    with pytest.raises(UserError, match="File name too long"):
        check_writable(tmp_path / ("x" * 300))
    check_writable(tmp_path / "trace.json")
    check_writable(None)


def test_the_longest_name_that_is_taken_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("x" * 255)
    check_writable(file)
    write(file, "record")
    assert file.read_text(encoding="utf-8") == "record"
