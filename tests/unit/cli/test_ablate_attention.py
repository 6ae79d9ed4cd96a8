"""ablate-attention measures every combination and writes what the page shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from typer.testing import Result

Command = Callable[..., Result]


def test_every_combination_is_measured_and_written(command: Command, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "ablation.json"
    machine = ("--target", folder, "--draft", folder, "--dtype", "float32", "--device", "cpu", "--threads", 1)
    asked = ("--drafter", "draft-model", "--contexts", "20,9000", "--max-new-tokens", 8, "--repeat", 2)
    result = command("ablate-attention", *machine, *asked, "--json", file)
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["complete"] and document["settings"]["repeat"] == 2
    assert [(row["context"], row["attention"], row["decoding"]) for row in document["rows"]] == [
        (context, attention, decoding)
        for context in (20, 256 - 8)  # the longest that the model holds beside the answer
        for attention in ("materialised", "fused")
        for decoding in ("standard", "speculative")
    ]
    assert all(row["tok_s"] > 0 for row in document["rows"])
    assert "materialised" in result.stdout
