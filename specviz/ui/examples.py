"""The example prompts of the page: a few of assets/prompts.jsonl that differ in what a drafter finds easy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

SHOWN = (
    "story-dragon",
    "explain-sky",
    "python-fib",
    "recipe-pancake",
    "repeat-json",
    "math-word",
    "copy-edit",
    "translate-fr",
)


class Example(NamedTuple):
    name: str
    prompt: str


def example_prompts(path: Path) -> list[Example]:
    """The examples shown, in the order of SHOWN. Raises OSError, KeyError."""
    lines = path.read_text(encoding="utf-8").splitlines()
    prompts = {record["id"]: record["prompt"] for record in map(json.loads, filter(None, lines))}
    return [Example(name, prompts[name]) for name in SHOWN]
