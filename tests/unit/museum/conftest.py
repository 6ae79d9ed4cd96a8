from __future__ import annotations

from pathlib import Path

import pytest

from specviz.models.load import Pair, load_pair


@pytest.fixture(scope="session")
def twins(folder: Path) -> Pair:
    """A tiny target and, as its draft, the same weights: every draft is accepted."""
    return load_pair(str(folder), str(folder), dtype="float32", threads=2)
