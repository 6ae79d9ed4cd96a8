"""The default pair itself: what was converted, and that it loads without a network."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import torch

from specviz.models.fetch import converted_folder
from specviz.models.grids import int4_grid
from specviz.models.load import load_pair
from specviz.models.registry import SMOLLM2_135M

pytestmark = pytest.mark.weights


@pytest.fixture(scope="module")
def folder() -> Path:
    return converted_folder(SMOLLM2_135M)


def test_it_loads_offline_and_speaks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*address: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    pair = load_pair(device="cpu", dtype="float32")
    assert pair.name == "SmolLM2-135M-Instruct"
    assert pair.eos_token_ids == (2,)
    assert pair.target_info.parameters == 134_515_008
    assert pair.draft("draft-model").shared_vocab == 49_152
    prompt = pair.encode_chat("What is the capital of France? Answer with one word.")
    pair.target.allocate(len(prompt) + 8)
    token = int(pair.target.forward(torch.tensor(prompt), keep=1)[0].argmax())
    answer = [token]
    while token not in pair.eos_token_ids and len(answer) < 8:
        token = int(pair.target.forward(torch.tensor([token]), keep=1)[0].argmax())
        answer.append(token)
    assert "Paris" in pair.tokenizer.decode(answer)


def test_its_layers_lie_on_the_grid_of_int4_in_groups_of_32(folder: Path) -> None:
    module = load_pair(device="cpu", dtype="float32").target_module
    for layer in (module.model.layers[0].self_attn.q_proj, module.model.layers[29].mlp.down_proj):
        levels, scale, zero = int4_grid(layer.weight, 32)
        value = (levels - 8).unflatten(1, (-1, 32)) * scale[..., None] + zero[..., None]
        assert (value.flatten(1) - layer.weight).abs().max() < 1e-5
