from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from specviz.cli.app import app
from tests.conftest import byte_tokenizer, tiny_llama

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few thousand random weights that reads and writes bytes, as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_llama(vocab_size=256).save_pretrained(folder)
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line itself, in a terminal of 200 columns without colour."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
