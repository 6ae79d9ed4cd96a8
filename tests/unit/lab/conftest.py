from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specviz.events import Done
from specviz.microscope.evidence import Evidence, gather
from specviz.models.load import Pair, load_pair
from specviz.race import race
from specviz.settings import make_settings
from specviz.trace import Settings, Trace
from tests.conftest import byte_tokenizer, tiny_llama

PROMPT = "one two three"


@pytest.fixture(scope="session")
def pair(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A tiny target, and as its draft the same weights a little disturbed: they disagree, but not about everything."""
    other = tmp_path_factory.mktemp("draft")
    draft = tiny_llama(vocab_size=256)
    with torch.no_grad():
        for weights in draft.parameters():
            weights += 0.06 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1))
    draft.save_pretrained(other)
    byte_tokenizer().save_pretrained(other)
    return load_pair(str(folder), str(other), dtype="float32", threads=2)


@pytest.fixture(scope="session")
def settings() -> Settings:
    return make_settings(drafter="draft-model", temperature=1.0, gamma=3, max_new_tokens=24)


def decode(pair: Pair, settings: Settings) -> Trace:
    (done,) = [event for event in race(pair, PROMPT, settings, baseline=False) if isinstance(event, Done)]
    return done.trace


@pytest.fixture(scope="session")
def trace(pair: Pair, settings: Settings) -> Trace:
    return decode(pair, settings)


@pytest.fixture(scope="session")
def evidence(pair: Pair, trace: Trace) -> Evidence:
    return gather(trace, 1, pair)
