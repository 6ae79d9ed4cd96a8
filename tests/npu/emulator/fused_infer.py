"""``npu_fused_infer_attention_score``: inference, the new rows of a cache. As strict as its public documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tests.npu.emulator import counters
from tests.npu.emulator.memory import host, to_device
from tests.npu.emulator.operators import Kernel, soc
from tests.npu.emulator.softmax import (
    UNLIMITED,
    attend,
    check_heads,
    check_mask,
    check_tensors,
    from_bnsd,
    hidden_keys,
    of_entry,
    refuse,
    to_bnsd,
)


def _infer(
    name: str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    heads: int,
    key_heads: int,
    scale: float,
    layout: str,
    sparse: tuple[int, int, int],
    inner_precise: int,
    query_lengths: Sequence[int] | None,
    key_lengths: Sequence[int] | None,
    with_lse: bool,
    others: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows beyond a query's length come back as NaN: the hardware promises nothing about them."""
    counters.call(name)
    counters.launched_on(name, query.device)
    refuse(name, **others)
    source, _, target = layout.partition("_")
    if source not in ("BNSD", "BSND", "BSH") or target not in ("", "BSND"):
        raise NotImplementedError(f"{name}: input_layout {layout!r} is not emulated")
    _check_tensors(name, query, key, value, mask)
    if inner_precise not in (0, 1, 2, 3):
        raise RuntimeError(f"{name}: inner_precise {inner_precise} is not one of 0, 1, 2, 3")

    key_heads = key_heads or heads
    q, k, v = (to_bnsd(host(t), source, n) for t, n in ((query, heads), (key, key_heads), (value, key_heads)))
    check_heads(name, q, k, heads, key_heads)
    _check_sizes(name, q, k, v)
    if target and q.shape[2] == 1:
        raise RuntimeError(f"{name}: {layout} needs more than one query row")
    mask, sparse = _masking(mask, sparse, q.shape[0], q.shape[2], k.shape[2])

    output, lse = torch.full_like(q, torch.nan), torch.full((*q.shape[:3], 1), torch.nan)
    rows, columns = (_lengths(n, *t.shape[0:3:2]) for n, t in ((query_lengths, q), (key_lengths, k)))
    for b, (r, c) in enumerate(zip(rows, columns, strict=True)):
        hidden = of_entry(hidden_keys(mask, *sparse, r, c), b)
        o, maximum, total = attend(q[b, :, :r], k[b, :, :c], v[b, :, :c], hidden, scale)
        output[b, :, :r], lse[b, :, :r] = o, maximum + total.log()
    output = from_bnsd(output, target or source)
    return to_device(output, query.device), to_device(lse if with_lse else torch.zeros(1), query.device)


def _check_tensors(
    name: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> None:
    if not soc().startswith(("Ascend910B", "Ascend910_93")):
        raise RuntimeError(f"{name}: only Atlas A2 and A3 have this operator, not {soc()}")
    check_tensors(name, query, key, value, mask, (torch.float16, torch.bfloat16))
    for what, tensor in (("query", query), ("key", key), ("value", value), ("atten_mask", mask)):
        if tensor is not None and not tensor.is_contiguous():
            raise RuntimeError(f"{name}: {what} must be contiguous, its strides are {tensor.stride()}")


def _check_sizes(name: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """In BNSD."""
    _, heads, rows, dim = query.shape
    if dim % 16 or dim > 512:
        raise RuntimeError(f"{name}: head_dim {dim} is not a multiple of 16 up to 512")
    if rows > 1 and heads > 256:
        raise RuntimeError(f"{name}: {heads} heads are more than 256")
    if heads > 64 * key.shape[1]:
        raise RuntimeError(f"{name}: num_heads is more than 64 times num_key_value_heads")
    if key.shape != value.shape:
        raise RuntimeError(f"{name}: key {tuple(key.shape)} and value {tuple(value.shape)} must have one shape")


def _masking(
    mask: torch.Tensor | None, sparse: tuple[int, int, int], batch: int, rows: int, columns: int
) -> tuple[torch.Tensor | None, tuple[int, int, int]]:
    """The mask on the host, with four sizes where it differs by entry, and the sparse mode that is in force."""
    batches = {batch, 1}
    if rows == 1:  # IncreFlashAttention: sparse_mode, pre_tokens and next_tokens mean nothing
        sparse = (0, UNLIMITED, UNLIMITED)
        check_mask(mask, [(batch, columns), (batch, 1, columns), (batch, 1, 1, columns)])
        mask = None if mask is None else mask.reshape(batch, 1, 1, -1)
    elif sparse[0] in (0, 1):
        whole = [shape for b in batches for shape in ((b, rows, columns), (b, 1, rows, columns))]
        check_mask(mask, [(rows, columns), *whole])
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
    return None if mask is None else host(mask), sparse


def fused_infer(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    atten_mask: torch.Tensor | None = None,
    actual_seq_lengths: Sequence[int] | None = None,
    actual_seq_lengths_kv: Sequence[int] | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    pre_tokens: int = UNLIMITED,
    next_tokens: int = UNLIMITED,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 0,
    softmax_lse_flag: bool = False,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _infer(
        "npu_fused_infer_attention_score",
        query,
        key,
        value,
        atten_mask,
        heads=num_heads,
        key_heads=num_key_value_heads,
        scale=scale,
        layout=input_layout,
        sparse=(sparse_mode, pre_tokens, next_tokens),
        inner_precise=inner_precise,
        query_lengths=actual_seq_lengths,
        key_lengths=actual_seq_lengths_kv,
        with_lse=softmax_lse_flag,
        others=others,
    )


def fused_infer_v2(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    atten_mask: torch.Tensor | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    num_query_heads: int = 1,
    num_key_value_heads: int = 0,
    softmax_scale: float = 1.0,
    pre_tokens: int = UNLIMITED,
    next_tokens: int = UNLIMITED,
    input_layout: str = "BSH",
    sparse_mode: int = 0,
    inner_precise: int = 0,
    return_softmax_lse: bool = False,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _infer(
        "npu_fused_infer_attention_score_v2",
        query,
        key,
        value,
        atten_mask,
        heads=num_query_heads,
        key_heads=num_key_value_heads,
        scale=softmax_scale,
        layout=input_layout,
        sparse=(sparse_mode, pre_tokens, next_tokens),
        inner_precise=inner_precise,
        query_lengths=actual_seq_qlen,
        key_lengths=actual_seq_kvlen,
        with_lse=return_softmax_lse,
        others=others,
    )


def _lengths(given: Sequence[int] | None, batch: int, size: int) -> list[int]:
    """The valid length of each entry of the batch: one for all, or one each."""
    lengths = [size] if given is None else list(given)
    lengths = lengths * batch if len(lengths) == 1 else lengths[:batch]
    if len(lengths) != batch or not all(0 <= n <= size for n in lengths):
        raise RuntimeError(f"actual_seq_lengths {given} do not fit a batch of {batch} with {size} positions")
    return lengths


KERNELS: dict[str, Kernel] = {
    "npu::npu_fused_infer_attention_score": fused_infer,
    "npu::npu_fused_infer_attention_score_v2": fused_infer_v2,
}
