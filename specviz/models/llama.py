"""A lean forward for Llama-like models, straight through the weights of a transformers module.

At batch 1 a small model spends half its time in Python. This forward does the same mathematics as
``LlamaForCausalLM`` (RMSNorm, rotary positions, grouped-query attention, SwiGLU; Touvron et al. 2023,
arXiv 2302.13971) in about a third of the calls, and only for the tokens that are new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from specviz.models.attention import Attention, Heads, Kernel, kernel
from specviz.models.cache import KVCache

ARCHITECTURES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"}
# Rotary tables that depend on the position alone; "dynamic" and "longrope" depend on the length as well.
ROPE_TYPES = {"default", "linear", "llama3", "yarn"}

Linear = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Layer:
    """The callables of one decoder layer. Linear modules may be packed (see quantization.py)."""

    input_norm: Tensor
    q: Linear
    k: Linear
    v: Linear
    o: Linear
    post_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear


def supports(module: PreTrainedModel) -> bool:
    """Whether this forward computes exactly what ``module`` does."""
    config = module.config
    rope = getattr(config, "rope_parameters", None) or {}
    layer_types = getattr(config, "layer_types", None) or ["full_attention"]
    sliding = getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)
    return (
        type(module).__name__ in ARCHITECTURES
        and rope.get("rope_type", "default") in ROPE_TYPES
        and rope.get("partial_rotary_factor", 1.0) == 1.0
        and config.hidden_act == "silu"
        and not sliding
        and all(kind == "full_attention" for kind in layer_types)
    )


class LlamaModel:
    """A LanguageModel (see base.py) over a Llama-like transformers module. Shares the module's weights."""

    def __init__(self, module: PreTrainedModel) -> None:
        config = module.config
        self.module = module
        self.vocab_size: int = config.vocab_size
        self.context_limit: int = config.max_position_embeddings
        self.embedding: Tensor = module.get_input_embeddings().weight
        self.device, self.dtype = self.embedding.device, self.embedding.dtype
        self.heads: int = config.num_attention_heads
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps: float = config.rms_norm_eps
        self.layers = [_layer(layer) for layer in module.model.layers]
        self.norm: Tensor = module.model.norm.weight
        self.head: Linear = module.lm_head.forward
        self.cache = KVCache([(self.kv_heads, self.head_dim)] * len(self.layers), self.device, self.dtype)
        self.cos = self.sin = torch.empty(0, dtype=self.dtype, device=self.device)
        self.attention_heads = Heads(self.heads, self.kv_heads, self.head_dim, self.dtype, self.device)
        self.kernel: Kernel = kernel("fused", self.attention_heads)

    @property
    def length(self) -> int:
        return self.cache.length

    def allocate(self, capacity: int) -> None:
        self.cache.allocate(capacity)
        if len(self.cos) < capacity:
            positions = torch.arange(capacity, device=self.device)[None]
            cos, sin = self.module.model.rotary_emb(self.embedding[:1], positions)
            half = self.head_dim // 2
            self.cos = cos[0][:, None]
            # The sign of the half-turn lives in the table, so that no forward negates anything.
            self.sin = torch.cat((-sin[0][:, :half], sin[0][:, half:]), -1)[:, None]

    def free(self) -> None:
        self.cache.free()
        self.cos = self.sin = self.cos[:0].clone()

    def rollback(self, length: int) -> None:
        self.cache.rollback(length)

    def use_attention(self, kind: Attention) -> None:
        self.kernel = kernel(kind, self.attention_heads)

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        k, start = len(token_ids), self.cache.length
        cos, sin = self.cos[start : start + k], self.sin[start : start + k]
        mask = self.kernel.mask(k, start + k, self.attention_heads)

        x = F.embedding(token_ids, self.embedding)
        for index, layer in enumerate(self.layers):
            h = self._rms_norm(x, layer.input_norm)
            q = layer.q(h).view(k, self.heads, self.head_dim)
            key = layer.k(h).view(k, self.kv_heads, self.head_dim)
            value = layer.v(h).view(k, self.kv_heads, self.head_dim)
            q, key = _rotate(torch.cat((q, key), 1), cos, sin).split((self.heads, self.kv_heads), 1)
            keys, values = self.cache.write(index, key.transpose(0, 1)[None], value.transpose(0, 1)[None])
            attended = self.kernel.attend(q.transpose(0, 1)[None], keys, values, mask)
            x = x + layer.o(attended[0].transpose(0, 1).reshape(k, self.heads * self.head_dim))
            h = self._rms_norm(x, layer.post_norm)
            x = x + layer.down(F.silu(layer.gate(h)) * layer.up(h))
        self.cache.advance(k)
        if keep == 0:  # a prefill: nothing for the head to read, and not every kernel takes no rows
            return x.new_empty(0, self.vocab_size)
        return self.head(self._rms_norm(x[k - keep :], self.norm))

    def _rms_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.eps)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions (Su et al. 2021, arXiv 2104.09864), halves convention, ``sin`` signed. x [k, heads, d]."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((second, first), -1) * sin


def _layer(module: Any) -> Layer:
    attention, mlp = module.self_attn, module.mlp
    return Layer(
        input_norm=module.input_layernorm.weight,
        q=attention.q_proj.forward,
        k=attention.k_proj.forward,
        v=attention.v_proj.forward,
        o=attention.o_proj.forward,
        post_norm=module.post_attention_layernorm.weight,
        gate=mlp.gate_proj.forward,
        up=mlp.up_proj.forward,
        down=mlp.down_proj.forward,
    )
