"""Small real models for tests: random weights, real architectures, float32."""

from __future__ import annotations

import ctypes
from pathlib import Path

import hypothesis
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specviz.models.llama import LlamaModel
from specviz.models.transformers_model import TransformersModel

try:
    ctypes.CDLL("libfakecann.so")  # on the library path inside `make test-npu` only
    collect_ignore: list[str] = []
except OSError:
    collect_ignore = ["npu"]

# Time is measured in bench, not in tests: a busy machine must not fail a property.
hypothesis.settings.register_profile("specviz", deadline=None)
hypothesis.settings.load_profile("specviz")


def tiny_llama(vocab_size: int = 32, seed: int = 0, layers: int = 2, kv_heads: int = 2) -> LlamaForCausalLM:
    """A Llama of a few thousand random weights, sharp enough for its distributions to differ by context."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        max_position_embeddings=256,
        initializer_range=0.4,
    )
    return LlamaForCausalLM(config).eval()


def tiny_gpt2(vocab_size: int = 32, seed: int = 0) -> GPT2LMHeadModel:
    """An architecture that the lean forward does not know."""
    torch.manual_seed(seed)
    config = GPT2Config(vocab_size=vocab_size, n_embd=32, n_layer=2, n_head=4, n_positions=256, initializer_range=0.4)
    return GPT2LMHeadModel(config).eval()


def byte_tokenizer(extra: int = 0) -> PreTrainedTokenizerFast:
    """One token a byte (256), then ``extra`` special tokens: characters beyond ASCII need several tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    if extra:
        fast.add_special_tokens({"additional_special_tokens": [f"<extra{i}>" for i in range(extra)]})
    return fast


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a few thousand random weights that reads and writes bytes, as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_llama(vocab_size=256).save_pretrained(folder)
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_tokenizer()


@pytest.fixture(params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest) -> LlamaModel | TransformersModel:
    """A tiny language model behind each of the two forwards."""
    return LlamaModel(tiny_llama()) if request.param == "llama" else TransformersModel(tiny_gpt2())
