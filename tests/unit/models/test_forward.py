"""Both forwards compute what transformers computes, whatever was fed and rolled back before."""

from __future__ import annotations

import weakref

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from specviz.models import llama
from specviz.models.cache import KVCache
from specviz.models.llama import LlamaModel
from specviz.models.transformers_model import TransformersModel
from specviz.models.wrap import wrap
from tests.conftest import tiny_gpt2, tiny_llama

TOKENS = torch.arange(1, 25)
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 32}


def qwen2() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**SHAPE, num_key_value_heads=2, initializer_range=0.4)).eval()


def mistral(window: int | None) -> MistralForCausalLM:
    torch.manual_seed(0)
    config = MistralConfig(**SHAPE, num_key_value_heads=1, sliding_window=window, initializer_range=0.4)
    return MistralForCausalLM(config).eval()


def llama3_rope() -> LlamaForCausalLM:
    module = tiny_llama()
    config = module.config
    config.rope_parameters = {
        "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }  # fmt: skip
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def reference(module: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = module(tokens[None]).logits[0]
    return logits


@pytest.mark.parametrize(
    "module",
    [tiny_llama(), tiny_llama(kv_heads=1), tiny_llama(kv_heads=4), qwen2(), mistral(None), llama3_rope()],
    ids=["llama", "one kv head", "no sharing", "qwen2", "mistral", "llama3 rope"],
)
def test_the_lean_forward_equals_transformers(module: LlamaForCausalLM) -> None:
    assert llama.supports(module)
    model = wrap(module)
    assert isinstance(model, LlamaModel)
    model.allocate(len(TOKENS))
    parts = [model.forward(part, keep=len(part)) for part in TOKENS.split([7, 1, 5, 1, 10])]
    torch.testing.assert_close(torch.cat(parts), reference(module, TOKENS), atol=1e-4, rtol=1e-4)


def test_what_the_lean_forward_does_not_compute_goes_to_transformers() -> None:
    assert not llama.supports(mistral(window=8))
    module = tiny_gpt2()
    model = wrap(module)
    assert isinstance(model, TransformersModel)
    model.allocate(len(TOKENS))
    parts = [model.forward(part, keep=len(part)) for part in TOKENS.split([7, 1, 5, 1, 10])]
    torch.testing.assert_close(torch.cat(parts), reference(module, TOKENS), atol=1e-4, rtol=1e-4)


def test_only_the_wanted_logits_come_back(model: LlamaModel | TransformersModel) -> None:
    model.allocate(10)
    assert model.forward(TOKENS[:4], keep=0).shape == (0, 32)
    assert model.forward(TOKENS[4:7], keep=2).shape == (2, 32)
    assert model.length == 7


def test_a_prefill_leaves_the_head_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LlamaModel(tiny_llama())
    monkeypatch.setattr(model, "head", lambda hidden: pytest.fail("no logits were asked for"))
    model.allocate(8)
    assert model.forward(TOKENS[:5], keep=0).shape == (0, 32)
    assert model.length == 5


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=8), data=st.data())
def test_after_any_feeding_and_rolling_back_the_cache_is_that_of_a_fresh_prefill(
    model: LlamaModel | TransformersModel, moves: list[tuple[int, int]], data: st.DataObject
) -> None:
    model.allocate(64)
    held: list[int] = []
    for fed, dropped in moves:
        tokens = data.draw(st.lists(st.integers(0, 31), min_size=fed, max_size=fed))
        model.forward(torch.tensor(tokens), keep=0)
        held = (held + tokens)[: max(1, len(held) + fed - dropped)]
        model.rollback(len(held))
    logits = model.forward(torch.tensor([5]), keep=1)
    fresh = wrap(model.module)
    fresh.allocate(64)
    expected = fresh.forward(torch.tensor([*held, 5]), keep=1)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)
    for layer in range(2):
        for kept, clean in ((model.cache.keys, fresh.cache.keys), (model.cache.values, fresh.cache.values)):
            torch.testing.assert_close(kept[layer][:, :, : model.length], clean[layer][:, :, : model.length],
                                       atol=1e-4, rtol=1e-4)  # fmt: skip


def test_rollback_and_reallocation_copy_nothing() -> None:
    cache = KVCache([(2, 8)], torch.device("cpu"), torch.float32)
    cache.allocate(16)
    address = cache.keys[0].data_ptr()
    cache.write(0, torch.ones(1, 2, 5, 8), torch.ones(1, 2, 5, 8))
    cache.advance(5)
    cache.rollback(2)
    cache.allocate(9)
    assert cache.length == 0
    assert cache.keys[0].data_ptr() == address


def test_a_cache_gives_its_memory_up_before_it_asks_for_more_and_holds_none_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = KVCache([(1, 4)] * 2, torch.device("cpu"), torch.float32)
    cache.allocate(8)
    old, alive = weakref.ref(cache.keys[0]), []

    def full(*sizes: int, **options: object) -> None:
        alive.append(old())
        raise MemoryError

    monkeypatch.setattr(torch, "zeros", full)
    with pytest.raises(MemoryError):
        cache.allocate(16)
    assert alive == [None]
    assert (cache.capacity, cache.length, cache.keys, cache.values) == (0, 0, [], [])


def test_a_cache_refuses_what_would_corrupt_it() -> None:
    cache = KVCache([(1, 4)], torch.device("cpu"), torch.float32)
    cache.allocate(3)
    with pytest.raises(IndexError, match="holds 3"):
        cache.write(0, torch.ones(1, 1, 4, 4), torch.ones(1, 1, 4, 4))
    for length in (-1, 1):
        with pytest.raises(IndexError, match="roll back"):
            cache.rollback(length)
