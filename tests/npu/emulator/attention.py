"""The fused attention kernels of Ascend, by plain softmax in float32, as strict about arguments as the hardware.

Ascend's conventions: a mask is True where a key is *not* seen, ``scale`` defaults to 1, and sparse modes 2 to 4
take one compressed 2048×2048 mask whatever the lengths are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.npu.emulator import counters
from tests.npu.emulator.memory import host, to_device
from tests.npu.emulator.operators import soc

ASCEND_MASK_SIZE = 2048
COPIES_OF_A_ROW = 8  # npu_fusion_attention returns each row's maximum and sum eight times
UNLIMITED = 2147483647
_LEFT_UP, _RIGHT_DOWN, _BAND = 2, 3, 4
_MASK_DTYPES = (torch.bool, torch.uint8, torch.int8)

Kernel = Callable[..., Any]


# ---- the softmax itself ----


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor | None, scale: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """``query [N, Sq, D]``, ``key`` and ``value [Nkv, Sk, D]`` → output, and each row's maximum and sum ``[N, Sq, 1]``.

    ``hidden`` broadcasts to ``[N, Sq, Sk]``. A row that sees no key gives 0.
    """
    heads = (key.shape[0], query.shape[0] // key.shape[0])  # query heads in groups, one key head a group
    grouped = query.float().unflatten(0, heads)
    scores = (grouped @ key.float().unsqueeze(1).mT).flatten(0, 1) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    maximum = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(torch.float32).min)
    weights = (scores - maximum).exp()
    total = weights.sum(-1, keepdim=True)
    shares = (weights / total.clamp_min(torch.finfo(torch.float32).tiny)).unflatten(0, heads)
    output = (shares @ value.float().unsqueeze(1)).flatten(0, 1)
    return output.to(query.dtype), maximum, total


def _hidden(
    mask: torch.Tensor | None, mode: int, before: int, after: int, queries: int, keys: int
) -> torch.Tensor | None:
    """Which keys a sparse mode hides from which queries, ``[…, queries, keys]``; None hides nothing."""
    row, column = torch.arange(queries)[:, None], torch.arange(keys)[None, :]
    shift = keys - queries  # the last query stands at the last key
    if mode in (_LEFT_UP, _RIGHT_DOWN, _BAND):
        _check_compressed(mask, mode)
        if mode == _LEFT_UP:
            return column > row
        if mode == _RIGHT_DOWN:
            return column > row + shift
        return (column > row + shift + after) | (column < row + shift - before)
    if mode == 1 and mask is None:
        raise RuntimeError("sparse_mode 1 needs a whole atten_mask")
    if mode not in (0, 1):
        raise RuntimeError(f"sparse_mode {mode} is not supported")
    if mask is None:
        return None
    seen = mask.bool()[..., :queries, :keys]
    return seen | (column > row + after) | (column < row - before) if mode == 0 else seen


def _check_compressed(mask: torch.Tensor | None, mode: int) -> None:
    size = (ASCEND_MASK_SIZE, ASCEND_MASK_SIZE)
    if mask is None or tuple(mask.shape[-2:]) != size or mask.numel() != ASCEND_MASK_SIZE**2:
        found = "none" if mask is None else tuple(mask.shape)
        raise RuntimeError(f"sparse_mode {mode} needs the compressed 2048x2048 atten_mask, got {found}")
    if not torch.equal(mask.bool().reshape(size), _causal()):
        raise RuntimeError(f"sparse_mode {mode}: the atten_mask must be True strictly above the diagonal")


@functools.cache
def _causal() -> torch.Tensor:
    return torch.ones(ASCEND_MASK_SIZE, ASCEND_MASK_SIZE, dtype=torch.bool).triu(1)


def _check_mask(mask: torch.Tensor | None, shapes: Sequence[tuple[int, ...]]) -> None:
    """A whole mask must have one of ``shapes``; its last two sizes may be rounded up to whole blocks of 32."""
    if mask is None:
        return
    if mask.dtype not in _MASK_DTYPES:
        raise RuntimeError(f"atten_mask must be bool, int8 or uint8, not {mask.dtype}")
    if not any(_fits(tuple(mask.shape), shape) for shape in shapes):
        raise RuntimeError(f"atten_mask {tuple(mask.shape)} is none of the shapes {list(shapes)}")


def _fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(found) == len(wanted) and all(
        f == w or (i >= len(wanted) - 2 and w < f <= -(-w // 32) * 32)
        for i, (f, w) in enumerate(zip(found, wanted, strict=True))
    )


# ---- layouts: all work is done in BNSD ----


def _to_bnsd(tensor: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return tensor.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    raise NotImplementedError(f"input_layout {layout!r} is not emulated")


def _from_bnsd(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BSND":
        tensor = tensor.transpose(1, 2)
    elif layout == "BSH":
        tensor = tensor.transpose(1, 2).flatten(2)
    elif layout == "SBH":
        tensor = tensor.permute(2, 0, 1, 3).flatten(2)
    return tensor.contiguous()


def _key_heads(key: torch.Tensor, layout: str, head_dim: int) -> int:
    return (
        key.shape[-1] // head_dim if layout in ("BSH", "SBH") else key.shape[{"BSND": 2, "BNSD": 1, "TND": 1}[layout]]
    )


# ---- npu_fusion_attention: training and prefill, what torch_npu's SDPA calls ----


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
        _refuse(
            name, pse=pse, padding_mask=padding_mask, prefix=prefix, softmax_layout=softmax_layout, sink=sink, **others
        )
        if keep_prob != 1:
            raise NotImplementedError(f"{name}: dropout is not emulated")
        _check_dtypes(name, query, key, value, (torch.float16, torch.bfloat16, torch.float32))
        q, k, v, mask = (t if t is None else host(t) for t in (query, key, value, atten_mask))
        sparse = (sparse_mode, pre_tockens, next_tockens)
        if input_layout == "TND":
            output, maximum, total = _packed(q, k, v, mask, sparse, scale, actual_seq_qlen, actual_seq_kvlen)
        else:
            _refuse(name, actual_seq_qlen=actual_seq_qlen, actual_seq_kvlen=actual_seq_kvlen)
            heads = _key_heads(k, input_layout, q.shape[-1] // (head_num if input_layout in ("BSH", "SBH") else 1))
            q, k, v = (_to_bnsd(t, input_layout, n) for t, n in ((q, head_num), (k, heads), (v, heads)))
            _check_heads(name, q, k, head_num, heads)
            rows, columns = q.shape[2], k.shape[2]
            if sparse_mode in (0, 1):
                batches = {q.shape[0], 1}
                whole = [(b, n, rows, columns) for b in batches for n in (head_num, 1)]
                _check_mask(mask, [(rows, columns), *whole])
            hidden = _hidden(mask, *sparse, rows, columns)
            # One entry of the batch after the other; a mask may differ by entry.
            parts = [_attend(q[b], k[b], v[b], _of_entry(hidden, b), scale) for b in range(q.shape[0])]
            output, maximum, total = (torch.stack(part) for part in zip(*parts, strict=True))
            output = _from_bnsd(output, input_layout)
        repeated = (t.expand(*t.shape[:-1], COPIES_OF_A_ROW).contiguous() for t in (maximum, total))
        tensors = (output, *repeated, torch.empty(0, dtype=query.dtype))
        return (*(to_device(t, query.device) for t in tensors), *seeds(query.device))

    return kernel


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
        hidden = _hidden(mask, *sparse, row_end - rows, column_end - columns)
        parts.append([t.transpose(0, 1) for t in _attend(q, k, v, hidden, scale)])
        rows, columns = row_end, column_end
    return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def _numbers(lengths: Sequence[int] | torch.Tensor) -> list[int]:
    return host(lengths).tolist() if isinstance(lengths, torch.Tensor) else list(lengths)


# ---- npu_fused_infer_attention_score: inference, the new rows of a cache ----


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
    if not soc().startswith(("Ascend910B", "Ascend910_93")):
        raise RuntimeError(f"{name}: only Atlas A2 and A3 have this operator, not {soc()}")
    _refuse(name, **others)
    _check_dtypes(name, query, key, value, (torch.float16, torch.bfloat16))
    for what, tensor in (("query", query), ("key", key), ("value", value), ("atten_mask", mask)):
        if tensor is not None and not tensor.is_contiguous():
            raise RuntimeError(f"{name}: {what} must be contiguous, its strides are {tensor.stride()}")
    if inner_precise not in (0, 1, 2, 3):
        raise RuntimeError(f"{name}: inner_precise {inner_precise} is not one of 0, 1, 2, 3")
    source, _, target = layout.partition("_")
    if source not in ("BNSD", "BSND", "BSH") or target not in ("", "BSND"):
        raise NotImplementedError(f"{name}: input_layout {layout!r} is not emulated")

    key_heads = key_heads or heads
    q, k, v = (_to_bnsd(host(t), source, n) for t, n in ((query, heads), (key, key_heads), (value, key_heads)))
    _check_heads(name, q, k, heads, key_heads)
    if q.shape[-1] % 16 or q.shape[-1] > 512:
        raise RuntimeError(f"{name}: head_dim {q.shape[-1]} is not a multiple of 16 up to 512")
    if q.shape[2] > 1 and heads > 256:
        raise RuntimeError(f"{name}: {heads} heads are more than 256")
    if heads // key_heads > 64:
        raise RuntimeError(f"{name}: num_heads is more than 64 times num_key_value_heads")
    if k.shape != v.shape:
        raise RuntimeError(f"{name}: key {tuple(k.shape)} and value {tuple(v.shape)} must have one shape")

    batch, _, rows, _ = q.shape
    columns = k.shape[2]
    if rows == 1:  # IncreFlashAttention: sparse_mode, pre_tokens and next_tokens mean nothing
        if target:
            raise RuntimeError(f"{name}: {layout} needs more than one query row")
        _check_mask(mask, [(batch, columns), (batch, 1, columns), (batch, 1, 1, columns)])
        mask = None if mask is None else mask.reshape(batch, 1, 1, -1)
        sparse = (0, UNLIMITED, UNLIMITED)
    elif sparse[0] in (0, 1):
        batches = {batch, 1}
        whole = [shape for b in batches for shape in ((b, rows, columns), (b, 1, rows, columns))]
        _check_mask(mask, [(rows, columns), *whole])
        mask = mask.unsqueeze(1) if mask is not None and mask.dim() == 3 else mask
    mask = None if mask is None else host(mask)

    output, lse = torch.full_like(q, torch.nan), torch.full((*q.shape[:3], 1), torch.nan)
    lengths = zip(_lengths(query_lengths, batch, rows), _lengths(key_lengths, batch, columns), strict=True)
    for b, (r, c) in enumerate(lengths):
        hidden = _of_entry(_hidden(mask, *sparse, r, c), b)
        o, maximum, total = _attend(q[b, :, :r], k[b, :, :c], v[b, :, :c], hidden, scale)
        output[b, :, :r], lse[b, :, :r] = o, maximum + total.log()
    output = _from_bnsd(output, target or source)
    return to_device(output, query.device), to_device(lse if with_lse else torch.zeros(1), query.device)


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


# ---- checks ----


def _refuse(name: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if isinstance(value, torch.Tensor) or value not in (None, 0, ""):
            raise NotImplementedError(f"{name}: {argument} is not emulated")


def _check_dtypes(
    name: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, allowed: Sequence[torch.dtype]
) -> None:
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"{name}: query, key and value must have one dtype")
    if query.dtype not in allowed:
        raise RuntimeError(f"{name}: {query.dtype} is not one of {', '.join(map(str, allowed))}")
    if not query.device == key.device == value.device:
        raise RuntimeError(f"{name}: query, key and value must be on one device")


def _check_heads(name: str, query: torch.Tensor, key: torch.Tensor, heads: int, key_heads: int) -> None:
    if query.shape[1] != heads or key.shape[1] != key_heads or heads % key_heads:
        raise RuntimeError(f"{name}: {heads} and {key_heads} heads do not fit {tuple(query.shape)}, {tuple(key.shape)}")
    if query.shape[0] != key.shape[0] or query.shape[-1] != key.shape[-1]:
        raise RuntimeError(f"{name}: query {tuple(query.shape)} and key {tuple(key.shape)} do not fit")


def _lengths(given: Sequence[int] | None, batch: int, size: int) -> list[int]:
    """The valid length of each entry of the batch: one for all, or one each."""
    lengths = [size] if given is None else list(given)
    lengths = lengths * batch if len(lengths) == 1 else lengths[:batch]
    if len(lengths) != batch or not all(0 <= n <= size for n in lengths):
        raise RuntimeError(f"actual_seq_lengths {given} do not fit a batch of {batch} with {size} positions")
    return lengths


def _of_entry(hidden: torch.Tensor | None, entry: int) -> torch.Tensor | None:
    if hidden is None or hidden.dim() < 4:
        return hidden
    return hidden[entry if hidden.shape[0] > 1 else 0]


KERNELS: dict[str, Kernel] = {
    "npu::npu_fusion_attention": _fusion("npu_fusion_attention", lambda device: (0, 0, 0)),
    "npu::npu_fusion_attention_v3": _fusion(
        "npu_fusion_attention_v3", lambda device: (to_device(torch.zeros(1, dtype=torch.int64), device),) * 2
    ),
    "npu::npu_fused_infer_attention_score": fused_infer,
    "npu::npu_fused_infer_attention_score_v2": fused_infer_v2,
}
