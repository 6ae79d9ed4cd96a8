"""What the documents say is there, is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specviz.models.registry import PAIRS

ROOT = Path(__file__).parents[2]
NAMED = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "docs" / "testing.md").read_text(encoding="utf-8"))


def test_the_page_about_tests_names_some() -> None:
    assert len(NAMED) > 20


@pytest.mark.parametrize(("file", "test"), NAMED, ids=lambda part: part or "all")
def test_every_test_that_the_documents_name_exists(file: str, test: str) -> None:
    (found,) = (ROOT / "tests").rglob(file)
    assert f"def {test}" in found.read_text(encoding="utf-8")


def test_the_readme_lists_every_named_pair_and_where_it_was_tried() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for pair in PAIRS.values():
        (row,) = [line for line in readme.splitlines() if line.startswith(f"| `{pair.name}` |")]
        assert row.endswith(f"| {pair.tried} |")
