"""Q, K and V of one layer, as the target's own forward made them: seen through transformers' AttentionInterface."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from specviz.errors import UserError

NAME = "specviz-capture"


@dataclass(frozen=True, slots=True)
class Captured:
    """One layer's attention: ``q`` and its output ``o`` [heads, m, d] of the last m positions, ``k`` and ``v``
    [kv_heads, n, d] of all, float32 on the CPU, rotated as the model rotates them. Scores are q·k times ``scale``.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    scale: float


class _SeenError(Exception):
    """Ends the forward behind the layer that was asked for."""


class _Watch:
    """What to catch and what was caught; one forward at a time uses it."""

    layer: int | None = None
    caught: tuple[Tensor, Tensor, Tensor, Tensor, float] | None = None
    mask: Tensor | None = None


_watch = _Watch()


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    if getattr(module, "layer_idx", None) == _watch.layer:
        scale = options.get("scaling") or 1 / math.sqrt(query.shape[-1])
        _watch.caught = (query[0], key[0], value[0], output[0].transpose(0, 1), float(scale))
        _watch.mask = attention_mask
        raise _SeenError
    return output, None


AttentionInterface.register(NAME, _attend)
AttentionMaskInterface.register(NAME, sdpa_mask)


@torch.inference_mode()
def capture(module: PreTrainedModel, token_ids: list[int], layer: int, queries: int) -> Captured:
    """Read ``token_ids`` in one forward and return the attention of ``layer`` (from 0) for the last ``queries`` rows.

    Nothing of the module's own state changes, and no cache is used. Raises UserError if there is no such layer, the
    model's attention cannot be watched, or it is another than softmax over all earlier positions.
    """
    layers = module.config.get_text_config(decoder=True).num_hidden_layers
    if not 0 <= layer < layers:
        raise UserError(f"This model has {layers} layers; there is no layer {layer + 1}.")
    with _watching(module, layer):
        with suppress(_SeenError):
            module(torch.tensor(token_ids, device=module.device)[None], use_cache=False, logits_to_keep=1)
        if _watch.caught is None:
            raise UserError("This model's attention cannot be watched. Choose another target.")
        if not _is_causal(_watch.mask, len(token_ids)):
            raise UserError(
                f"In layer {layer + 1} positions do not see every earlier one, as the schedules assume. "
                f"Choose another layer, or an earlier round."
            )
        q, k, v, o, scale = _watch.caught
    if k.shape != v.shape:
        raise UserError("This model's keys and values differ in size, which the schedules do not take.")
    rows = slice(-queries, None)
    return Captured(_plain(q[:, rows]), _plain(k), _plain(v), _plain(o[:, rows]), scale)


def _is_causal(mask: Tensor | None, n: int) -> bool:
    """No mask stands for the causal one. What windows or biases hide or weigh is in a mask of its own."""
    if mask is None:
        return True
    return mask.dtype == torch.bool and bool(
        (mask == torch.ones(n, n, dtype=torch.bool, device=mask.device).tril()).all()
    )


def _plain(tensor: Tensor) -> Tensor:
    """A copy: a slice would keep all of the tensor it was cut from in memory."""
    return tensor.to("cpu", torch.float32, copy=True)


@contextmanager
def _watching(module: PreTrainedModel, layer: int) -> Iterator[None]:
    before = module.config._attn_implementation
    module.set_attn_implementation(NAME)
    _watch.layer, _watch.caught, _watch.mask = layer, None, None
    try:
        yield
    finally:
        module.set_attn_implementation(before)
        _watch.layer, _watch.caught, _watch.mask = None, None, None
