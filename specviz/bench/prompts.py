"""Prompt files: one JSON object a line, with "id" and "prompt"."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from specviz.errors import UserError
from specviz.settings import check_prompt

BUNDLED = Path(__file__).parents[2] / "assets" / "prompts.jsonl"


class BenchPrompt(NamedTuple):
    id: str
    text: str


def read_prompts(path: Path) -> list[BenchPrompt]:
    """Every prompt of the file, in order. Raises UserError that names the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Name a file with one JSON object a line.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text. Name a file with one JSON object a line.") from None
    prompts = [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise UserError(f"{path} holds no prompts. Give it one JSON object a line.")
    if len({prompt.id for prompt in prompts}) < len(prompts):
        raise UserError(f"{path} uses an id twice. Give each prompt its own.")
    return prompts


def _parse(line: str, place: str) -> BenchPrompt:
    try:
        entry = json.loads(line)
        identity, text = entry["id"], entry["prompt"]
    except (ValueError, TypeError, KeyError):
        raise UserError(f'{place}: expected a JSON object with "id" and "prompt".') from None
    try:
        return BenchPrompt(str(identity), check_prompt(text))
    except UserError as refusal:
        raise UserError(f"{place}: {refusal}") from None
