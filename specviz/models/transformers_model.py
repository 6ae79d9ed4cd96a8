"""Any causal LM of transformers behind the LanguageModel interface, on our preallocated cache."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from specviz.models.attention import Attention, Heads, kernel
from specviz.models.cache import KVCache


class PointerLayer(CacheLayerMixin):
    """One layer of a KVCache, as transformers wants to see it."""

    is_sliding = False
    is_croppable = True

    def __init__(self, cache: KVCache, layer: int) -> None:
        super().__init__()
        self.cache, self.layer = cache, layer
        self.is_initialized = True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: KVCache.allocate has made the memory."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return self.cache.write(self.layer, key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.cache.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.cache.length

    def get_max_length(self) -> int:
        return -1


class TransformersModel:
    """A LanguageModel (see base.py) that calls the module's own forward."""

    def __init__(self, module: PreTrainedModel) -> None:
        config = module.config.get_text_config(decoder=True)
        self.module = module
        self.vocab_size: int = module.get_output_embeddings().out_features
        self.context_limit: int = config.max_position_embeddings
        self.device, self.dtype = module.device, module.dtype
        heads = config.num_attention_heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
        self.heads = Heads(heads, kv_heads, head_dim, self.dtype, self.device)
        layers = config.num_hidden_layers
        self.cache = KVCache([(kv_heads, head_dim)] * layers, self.device, self.dtype)
        self.view = Cache(layers=[PointerLayer(self.cache, layer) for layer in range(layers)])

    @property
    def length(self) -> int:
        return self.cache.length

    def allocate(self, capacity: int) -> None:
        self.cache.allocate(capacity)

    def free(self) -> None:
        self.cache.free()

    def rollback(self, length: int) -> None:
        self.cache.rollback(length)

    def use_attention(self, kind: Attention) -> None:
        kernel(kind, self.heads)
        names = {"fused": "sdpa", "materialised": "eager"}
        self.module.set_attn_implementation(names.get(kind, kind))

    @torch.inference_mode()
    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        # keep=0 would mean "all" to transformers.
        output = self.module(token_ids[None], cache=self.view, use_cache=True, logits_to_keep=max(keep, 1))
        self.cache.advance(len(token_ids))
        logits: Tensor = output.logits[0]
        return logits[len(logits) - keep :]
