"""Ascend's fused attention for inference, on keys and values that stay where the cache has them.

``npu_fused_infer_attention_score`` in the layout BNSD [batch, heads, sequence, head_dim], with grouped key heads. One
query row runs IncreFlashAttention, more of them (a verification, a chunk of the prompt) PromptFlashAttention under
the bottom-right causal mask (Ascend/op-plugin, documentation of the operator). Nothing here has run on an NPU yet:
docs/npu.md says what was checked, and how.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface

from specviz import npu
from specviz.errors import UserError

NAME = "npu-fused-infer"

BOTTOM_RIGHT_CAUSAL = 3  # sparse_mode
MASK_SIZE = 2048  # of the one mask that stands for any length under that mode
HEAD_DIM_MULTIPLE, MAX_HEAD_DIM, MAX_GROUP = 16, 512, 64
DTYPES = (torch.float16, torch.bfloat16)
FOREIGN = ("softcap", "s_aux", "position_bias", "head_mask")  # what other models add to their attention


def check(query_heads: int, key_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> None:
    """Raises UserError unless the operator takes such an attention on such a device."""
    if device.type != "npu":
        raise UserError(f"The attention {NAME} needs an Ascend NPU and the models are on {device.type}. Choose fused.")
    problem = None
    if not npu.is_atlas_a2_or_a3(device):
        problem = f"is made for Atlas A2 and A3, not for {npu.chip(device)}"
    elif dtype not in DTYPES:
        problem = f"computes in float16 and bfloat16, not in {str(dtype).removeprefix('torch.')}"
    elif head_dim % HEAD_DIM_MULTIPLE or head_dim > MAX_HEAD_DIM:
        problem = f"takes head sizes in steps of {HEAD_DIM_MULTIPLE} up to {MAX_HEAD_DIM}, not {head_dim}"
    elif query_heads % key_heads or query_heads // key_heads > MAX_GROUP:
        problem = f"takes up to {MAX_GROUP} query heads a key head, not {query_heads} on {key_heads}"
    if problem:
        raise UserError(f"The attention {NAME} {problem}. Choose fused.")


@functools.cache
def _compressed(device: torch.device) -> Tensor:
    """True = masked, as Ascend has it; [2048, 2048]."""
    return torch.ones(MASK_SIZE, MASK_SIZE, dtype=torch.bool, device=device).triu_(1)


def mask(k: int, device: torch.device) -> Tensor | None:
    """The mask for k query rows: none for one, which sees all."""
    return _compressed(device) if k > 1 else None


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None = None) -> Tensor:
    """q [1, heads, k, d], keys and values [1, key_heads, n, d] → [1, heads, k, d].

    The operator takes no strided keys, and the cache's are the head of a longer buffer; so it gets the buffer, and
    how much of it is valid.
    """
    import torch_npu

    _, heads, _, head_dim = q.shape
    output, _ = torch_npu.npu_fused_infer_attention_score(
        q.contiguous(),
        whole(keys),
        whole(values),
        atten_mask=mask,
        actual_seq_lengths_kv=[keys.shape[2]],
        num_heads=heads,
        num_key_value_heads=keys.shape[1],
        scale=scale or 1 / math.sqrt(head_dim),
        input_layout="BNSD",
        sparse_mode=0 if mask is None else BOTTOM_RIGHT_CAUSAL,
    )
    result: Tensor = output
    return result


def whole(view: Tensor) -> Tensor:
    """The contiguous buffer [1, heads, capacity, d] whose first rows ``view`` [1, heads, n, d] is; or a copy."""
    _, heads, n, head_dim = view.shape
    _, stride, row, element = view.stride()
    if heads == 1 or view.is_contiguous():
        return view.contiguous()
    capacity = stride // head_dim
    if element != 1 or row != head_dim or stride % head_dim or capacity < n:
        return view.contiguous()
    if (view.storage_offset() + heads * stride) * view.element_size() > view.untyped_storage().nbytes():
        return view.contiguous()
    return view.as_strided((1, heads, capacity, head_dim), (heads * stride, stride, head_dim, 1))


def _attend_for_transformers(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """One sequence without padding, so its causal mask is the operator's and transformers makes none."""
    if added := [name for name in FOREIGN if options.get(name) is not None]:
        raise UserError(f"The attention {NAME} knows no {added[0]}, which this model has. Choose fused.")
    return attend(query, key, value, mask(query.shape[2], query.device), scaling).transpose(1, 2), None


AttentionInterface.register(NAME, _attend_for_transformers)
AttentionMaskInterface.register(NAME, lambda *_, **__: None)
