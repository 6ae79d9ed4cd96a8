"""A record is written whole or not at all, and a full disk is a sentence."""

from __future__ import annotations

import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.cli.files import check_writable, write
from specviz.errors import UserError


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """Let the system refuse whatever grows beyond 1 kB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_device_is_reported_and_left_alone() -> None:
    full = Path("/dev/full")
    with pytest.raises(UserError, match="No space left on device"):
        write(full, "record")
    assert stat.S_ISCHR(full.stat().st_mode)


@pytest.mark.usefixtures("small_files_only")
def test_an_interrupted_write_keeps_the_old_file_and_leaves_no_half(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    write(file, "old")
    with pytest.raises(UserError, match="File too large"):
        write(file, "new" * 1000)
    assert file.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(UserError, match="no folder"):
        check_writable(tmp_path / "nowhere" / "trace.json")
    check_writable(tmp_path / "trace.json")
    check_writable(None)
