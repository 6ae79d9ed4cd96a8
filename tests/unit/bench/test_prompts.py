"""Prompt files of every kind of wrong, and the bundled one."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.bench.prompts import BUNDLED, read_prompts
from specviz.errors import UserError

GOOD = '{"id": "a", "prompt": "Hello"}\n'


def test_the_bundled_prompts_are_24_with_distinct_ids() -> None:
    prompts = read_prompts(BUNDLED)
    assert len(prompts) == len({prompt.id for prompt in prompts}) == 24


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(GOOD + "\n\n", encoding="utf-8")
    assert [prompt.text for prompt in read_prompts(file)] == ["Hello"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GOOD + "{not json\n", "line 2: expected a JSON object"),
        ('["a", "b"]\n', "line 1: expected a JSON object"),
        ('{"id": "a"}\n', 'with "id" and "prompt"'),
        ('{"id": "a", "prompt": "  "}\n', "line 1: The prompt is empty"),
        ('{"id": "a", "prompt": 3}\n', "must be text"),
        ("", "holds no prompts"),
        (GOOD + GOOD, "an id twice"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path: Path, content: str | bytes, said: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UserError, match=said):
        read_prompts(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.jsonl cannot be read"):
        read_prompts(tmp_path / "nowhere.jsonl")
