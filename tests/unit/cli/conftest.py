from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from specviz.cli.app import app


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line itself, in a terminal of 200 columns without colour."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
