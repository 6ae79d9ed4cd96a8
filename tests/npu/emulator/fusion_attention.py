"""``npu_fusion_attention``: training and prefill, what torch_npu's scaled_dot_product_attention calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

COPIES_OF_A_ROW = 8  # each row's maximum and sum are returned eight times


def _fusion(name: str, seeds: Callable[[torch.device], tuple[Any, ...]]) -> Kernel:
    def kernel(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        head_num: int,
        input_layout: str,
        pse: torch.Tensor | None = None,
        padding_mask: torch.Tensor | None = None,
        atten_mask: torch.Tensor | None = None,
        scale: float = 1.0,
        keep_prob: float = 1.0,
        pre_tockens: int = UNLIMITED,
        next_tockens: int = UNLIMITED,
        inner_precise: int = 0,
        prefix: Sequence[int] | None = None,
        actual_seq_qlen: Sequence[int] | torch.Tensor | None = None,
        actual_seq_kvlen: Sequence[int] | torch.Tensor | None = None,
        sparse_mode: int = 0,
        gen_mask_parallel: bool = True,
        sync: bool = False,
        softmax_layout: str = "",
        sink: torch.Tensor | None = None,
        **others: Any,
    ) -> tuple[Any, ...]:
        counters.call(name)
        counters.launched_on(name, query.device)
        if soc().startswith("Ascend310P"):
            raise RuntimeError(f"{name} is not supported on {soc()}")
        refuse(
            name, pse=pse, padding_mask=padding_mask, prefix=prefix, softmax_layout=softmax_layout, sink=sink, **others
        )
        if keep_prob != 1:
            raise NotImplementedError(f"{name}: dropout is not emulated")
        check_tensors(name, query, key, value, atten_mask, (torch.float16, torch.bfloat16, torch.float32))
        q, k, v, mask = (t if t is None else host(t) for t in (query, key, value, atten_mask))
        sparse = (sparse_mode, pre_tockens, next_tockens)
        if input_layout == "TND":
            output, maximum, total = _packed(q, k, v, mask, sparse, scale, actual_seq_qlen, actual_seq_kvlen)
        else:
            refuse(name, actual_seq_qlen=actual_seq_qlen, actual_seq_kvlen=actual_seq_kvlen)
            output, maximum, total = _batched(name, q, k, v, mask, sparse, scale, head_num, input_layout)
        repeated = (t.expand(*t.shape[:-1], COPIES_OF_A_ROW).contiguous() for t in (maximum, total))
        tensors = (output, *repeated, torch.empty(0, dtype=query.dtype))
        return (*(to_device(t, query.device) for t in tensors), *seeds(query.device))

    return kernel


def _batched(
    name: str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    sparse: tuple[int, int, int],
    scale: float,
    heads: int,
    layout: str,
) -> tuple[torch.Tensor, ...]:
    """Sequences of one length, in any layout with a batch."""
    key_heads = _key_heads(key, layout, query.shape[-1] // (heads if layout in ("BSH", "SBH") else 1))
    q, k, v = (to_bnsd(t, layout, n) for t, n in ((query, heads), (key, key_heads), (value, key_heads)))
    check_heads(name, q, k, heads, key_heads)
    batch, rows, columns = q.shape[0], q.shape[2], k.shape[2]
    if sparse[0] in (0, 1):
        check_mask(mask, [(rows, columns), *((b, n, rows, columns) for b in {batch, 1} for n in (heads, 1))])
    hidden = hidden_keys(mask, *sparse, rows, columns)
    parts = [attend(q[b], k[b], v[b], of_entry(hidden, b), scale) for b in range(batch)]
    output, maximum, total = (torch.stack(part) for part in zip(*parts, strict=True))
    return from_bnsd(output, layout), maximum, total


def _packed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    sparse: tuple[int, int, int],
    scale: float,
    query_ends: Sequence[int] | torch.Tensor | None,
    key_ends: Sequence[int] | torch.Tensor | None,
) -> tuple[torch.Tensor, ...]:
    """Layout TND: sequences of different lengths one behind the other, ``[T, N, D]``; the ends are cumulative."""
    if query_ends is None or key_ends is None:
        raise RuntimeError("TND needs actual_seq_qlen and actual_seq_kvlen")
    parts, rows, columns = [], 0, 0
    for row_end, column_end in zip(_numbers(query_ends), _numbers(key_ends), strict=True):
        q, k, v = (t.transpose(0, 1) for t in (query[rows:row_end], key[columns:column_end], value[columns:column_end]))
        hidden = hidden_keys(mask, *sparse, row_end - rows, column_end - columns)
        parts.append([t.transpose(0, 1) for t in attend(q, k, v, hidden, scale)])
        rows, columns = row_end, column_end
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _numbers(lengths: Sequence[int] | torch.Tensor) -> list[int]:
    return host(lengths).tolist() if isinstance(lengths, torch.Tensor) else list(lengths)


def _key_heads(key: torch.Tensor, layout: str, head_dim: int) -> int:
    return key.shape[-1] // head_dim if layout in ("BSH", "SBH") else key.shape[layout.index("N")]


KERNELS: dict[str, Kernel] = {
    "npu::npu_fusion_attention": _fusion("npu_fusion_attention", lambda device: (0, 0, 0)),
    "npu::npu_fusion_attention_v3": _fusion(
        "npu_fusion_attention_v3", lambda device: (to_device(torch.zeros(1, dtype=torch.int64), device),) * 2
    ),
}
