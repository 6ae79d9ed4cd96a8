"""The cache folder under interruption, competition and full disks, with real processes and real errors."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from specviz.errors import UserError
from specviz.models import store

ROOT = Path(__file__).parents[3]


def files_below(folder: Path) -> list[str]:
    """All that is there but the locks, which are empty and stay."""
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".lock" or path.is_dir()
    )


def make_folder(part: Path) -> None:
    part.mkdir()
    (part / "weights").write_text("whole")


def test_what_is_there_is_not_built_again(tmp_path: Path) -> None:
    store.build_once(tmp_path / "model", make_folder)
    assert store.build_once(tmp_path / "model", lambda part: pytest.fail("built twice")) == tmp_path / "model"


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), ValueError("parser"), UserError("no")])
def test_a_failed_build_leaves_nothing(tmp_path: Path, problem: BaseException) -> None:
    def build(part: Path) -> None:
        make_folder(part)
        raise problem

    with pytest.raises(type(problem)):
        store.build_once(tmp_path / "model", build)
    assert files_below(tmp_path) == []
    store.build_once(tmp_path / "model", make_folder)
    assert files_below(tmp_path) == ["model", "model/weights"]


def test_a_full_disk_is_told_in_words(tmp_path: Path) -> None:
    def build(part: Path) -> None:
        make_folder(part)
        with Path("/dev/full").open("w") as file:  # every write to it fails as on a full disk
            file.write("x" * 100_000)

    with pytest.raises(UserError, match=r"is full; nothing was kept\. Make room, or set SPECVIZ_CACHE"):
        store.build_once(tmp_path / "model", build)
    assert files_below(tmp_path) == []


def test_a_cache_that_is_no_folder_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        store.build_once(tmp_path / "file" / "model", make_folder)


def test_too_little_room_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="GB are needed"):
        store.require_space(tmp_path / "not" / "yet", 2**60)


def run_builder(folder: Path, body: str) -> subprocess.Popen[bytes]:
    code = f"""
    import sys, time
    from pathlib import Path
    from specviz.models import store
    folder = Path({str(folder)!r})
    def build(part):
        part.mkdir()
        (folder / "log").open("a").write("built\\n")
        {body}
    store.build_once(folder / "model", build)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=environment)


def test_two_processes_build_once(tmp_path: Path) -> None:
    builders = [run_builder(tmp_path, "time.sleep(0.5)") for _ in range(2)]
    assert [builder.wait(30) for builder in builders] == [0, 0]
    assert (tmp_path / "log").read_text() == "built\n"
    assert (tmp_path / "model").is_dir()


def test_what_a_killed_process_left_is_removed_and_built_anew(tmp_path: Path) -> None:
    builder = run_builder(tmp_path, "time.sleep(60)")
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".model.part-*/model")) and time.monotonic() < deadline:
        time.sleep(0.02)
    builder.kill()
    builder.wait(30)
    assert not (tmp_path / "model").exists()
    assert list(tmp_path.glob(".model.part-*"))
    store.build_once(tmp_path / "model", make_folder)
    assert files_below(tmp_path) == ["log", "model", "model/weights"]


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "x"))
    assert store.root() == tmp_path / "x"
    monkeypatch.delenv("SPECVIZ_CACHE")
    assert store.root().name == "specviz"


@pytest.mark.parametrize("asked", ["", "~/models"])
def test_without_a_home_folder_the_way_out_is_named(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPECVIZ_CACHE", asked)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # a user that the system does not know
    with pytest.raises(UserError, match="Set SPECVIZ_CACHE"):
        store.root()
