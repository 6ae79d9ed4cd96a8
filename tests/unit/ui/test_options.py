"""What an operator chose reaches the loading of the models."""

from __future__ import annotations

import pytest

from specviz.errors import UserError
from specviz.models import load
from specviz.service import Options, load_models


def test_every_choice_about_the_models_reaches_their_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = {
        "TARGET": "a",
        "DRAFT": "b",
        "DEVICE": "npu:1",
        "DTYPE": "float16",
        "ATTENTION": "npu-fused-infer",
        "THREADS": "3",
    }
    options = Options.from_environment({f"SPECVIZ_{name}": value for name, value in chosen.items()})
    asked: dict[str, object] = {}

    def record(target: str, draft: str, **others: object) -> None:
        asked.update(others, target=target, draft=draft)
        raise UserError("enough")

    monkeypatch.setattr(load, "load_pair", record)
    with pytest.raises(UserError, match="enough"):
        load_models(options, print)
    asked.pop("progress")
    assert asked == {name.lower(): value for name, value in chosen.items()} | {"threads": 3}
