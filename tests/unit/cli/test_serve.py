"""``serve`` hands the operator's choices to the page; what is not given comes from the environment."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import pytest
from typer.testing import Result

from specviz.service import Options


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Options, str | None, int | None]]:
    """What the page was launched with, instead of a page."""
    seen: list[tuple[Options, str | None, int | None]] = []

    def launch(options: Options, *, host: str | None, port: int | None) -> None:
        seen.append((options, host, port))
        if port == 1:
            raise OSError("Cannot find empty port in range: 1-1.")

    page = types.ModuleType("specviz.ui.app")
    page.launch = launch  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "specviz.ui.app", page)
    return seen


def test_options_go_before_the_environment(
    command: Callable[..., Result],
    launched: list[tuple[Options, str | None, int | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPECVIZ_TARGET", "from-environment")
    monkeypatch.setenv("SPECVIZ_DTYPE", "float32")
    result = command("serve", "--target", "given", "--host", "0.0.0.0", "--port", 7000)
    assert result.exit_code == 0, result.output
    options, host, port = launched[0]
    assert (options.target, options.dtype, options.device, host, port) == ("given", "float32", "auto", "0.0.0.0", 7000)


@pytest.mark.usefixtures("launched")
def test_a_port_in_use_or_a_bad_environment_is_a_sentence(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = command("serve", "--port", 1)
    assert result.exit_code == 2
    assert "Choose another --host or --port" in result.stderr
    for name, value in (("SPECVIZ_THREADS", "many"), ("GRADIO_SERVER_PORT", "abc"), ("GRADIO_SERVER_PORT", "99999")):
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            result = command("serve")
        assert result.exit_code == 2
        assert name in result.stderr
    for port in (0, -1, 65_536):
        assert command("serve", "--port", port).exit_code == 2
