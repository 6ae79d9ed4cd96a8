"""Recorded runs of a tiny pair whose draft and target disagree often."""

from __future__ import annotations

import pytest
import torch

from specviz.events import Done
from specviz.models.load import Pair, load_pair
from specviz.race import Origin, race
from specviz.trace import Settings, Trace
from tests.conftest import byte_tokenizer, tiny_llama


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory)


def make_pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A byte model and, as its draft, the same weights with noise on them."""
    folders = []
    for noise in (0.0, 0.1):
        folder = tmp_path_factory.mktemp("model")
        model = tiny_llama(vocab_size=256)
        for weights in model.parameters():
            weights.data += noise * torch.randn_like(weights)
        model.save_pretrained(folder)
        tokenizer = byte_tokenizer()
        tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
        tokenizer.save_pretrained(folder)
        folders.append(folder)
    return load_pair(*(str(folder) for folder in folders), device="cpu", dtype="float32", threads=1)


def record(pair: Pair, settings: Settings, origin: Origin | None = None, prompt: str = "hello") -> Trace:
    """A speculative run alone."""
    *_, done = race(pair, prompt, settings, baseline=False, origin=origin)
    assert isinstance(done, Done)
    return done.trace
