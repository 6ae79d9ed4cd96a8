"""What is captured is the model's own attention, and the two ways to compute one agree."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, MistralConfig, MistralForCausalLM, PreTrainedModel

from specviz.errors import UserError
from specviz.models.attention import Attention, Heads, kernel
from specviz.models.attention_hook import capture
from specviz.models.llama import LlamaModel
from specviz.models.transformers_model import TransformersModel
from tests.conftest import tiny_gpt2, tiny_llama

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]


@pytest.fixture(params=["llama", "gpt2"])
def module(request: pytest.FixtureRequest) -> PreTrainedModel:
    return tiny_llama() if request.param == "llama" else tiny_gpt2()


@pytest.mark.parametrize("queries", [1, 4, len(TOKENS)])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_captured_output_follows_from_the_captured_q_k_v(module: PreTrainedModel, layer: int, queries: int) -> None:
    seen = capture(module, TOKENS, layer, queries)
    heads, n = seen.q.shape[0], len(TOKENS)
    assert seen.q.shape == seen.o.shape == (heads, queries, seen.q.shape[-1])
    assert seen.k.shape == seen.v.shape and seen.k.shape[1] == n
    groups = heads // seen.k.shape[0]
    scores = seen.q @ seen.k.repeat_interleave(groups, 0).transpose(-1, -2) * seen.scale
    mask = torch.ones(queries, n, dtype=torch.bool).tril(n - queries)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    torch.testing.assert_close(weights @ seen.v.repeat_interleave(groups, 0), seen.o, atol=1e-5, rtol=1e-5)


def test_grouped_key_heads_stay_grouped() -> None:
    seen = capture(tiny_llama(kv_heads=2), TOKENS, 0, 3)
    assert (seen.q.shape[0], seen.k.shape[0]) == (4, 2)


def test_capturing_leaves_the_model_as_it_was(module: PreTrainedModel) -> None:
    before, implementation = module(torch.tensor([TOKENS])).logits, module.config._attn_implementation
    capture(module, TOKENS, 1, 2)
    assert module.config._attn_implementation == implementation
    assert torch.equal(module(torch.tensor([TOKENS])).logits, before)


def test_a_layer_that_does_not_exist_gets_a_sentence(module: PreTrainedModel) -> None:
    for layer in (-1, 2):
        with pytest.raises(UserError, match="has 2 layers"):
            capture(module, TOKENS, layer, 1)


def test_what_is_caught_weighs_no_more_than_its_rows(module: PreTrainedModel) -> None:
    seen = capture(module, TOKENS, 0, 2)
    for tensor in (seen.q, seen.k, seen.v, seen.o):
        assert tensor.untyped_storage().nbytes() == tensor.nbytes


SMALL = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def test_a_window_is_refused_once_it_hides_something() -> None:
    module = MistralForCausalLM(MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=8)).eval()
    assert capture(module, TOKENS[:8], 0, 3).q.shape[1] == 3
    with pytest.raises(UserError, match="do not see every earlier one"):
        capture(module, TOKENS, 0, 3)
    assert module.config._attn_implementation == "sdpa"


def test_values_of_another_size_than_keys_are_refused() -> None:
    latent = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
    config = DeepseekV3Config(**SMALL, **latent, num_key_value_heads=4, first_k_dense_replace=2)
    with pytest.raises(UserError, match="keys and values differ in size"):
        capture(DeepseekV3ForCausalLM(config).eval(), TOKENS, 0, 3)


def test_fused_and_materialised_attention_agree(model: LlamaModel | TransformersModel) -> None:
    def logits(kind: Attention) -> torch.Tensor:
        model.use_attention(kind)
        model.allocate(len(TOKENS))
        model.forward(torch.tensor(TOKENS[:5]), keep=0)
        model.forward(torch.tensor(TOKENS[5:6]), keep=1)
        return model.forward(torch.tensor(TOKENS[6:]), keep=3).clone()

    fused, materialised = logits("fused"), logits("materialised")
    torch.testing.assert_close(fused, materialised, atol=1e-5, rtol=1e-4)
    assert torch.equal(logits("fused"), fused)


def test_a_fused_kernel_may_lay_its_output_out_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of CUDA's write [sequence, heads] in memory, whatever they are given."""
    real = F.scaled_dot_product_attention

    def strange(*given: torch.Tensor, **options: torch.Tensor) -> torch.Tensor:
        return real(*given, **options).transpose(1, 2).contiguous().transpose(1, 2)

    heads = Heads(4, 2, 8, torch.float32, torch.device("cpu"))
    q, keys, values = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    way = kernel("fused", heads)
    mask = way.mask(3, 5, heads)
    expected = way.attend(q, keys, values, mask)
    monkeypatch.setattr(F, "scaled_dot_product_attention", strange)
    torch.testing.assert_close(way.attend(q, keys, values, mask), expected)
