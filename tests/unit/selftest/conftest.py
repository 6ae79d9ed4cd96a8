"""A pair whose draft is a real model's noisy copy, and the same model as the CPU's reference."""

from __future__ import annotations

import pytest

from specviz.selftest.subject import Subject
from tests.unit.microscope.conftest import make_pair


@pytest.fixture(scope="package")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    pair = make_pair(tmp_path_factory)
    return Subject(pair, pair)
