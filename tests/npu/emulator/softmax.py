"""Softmax attention in float32 with Ascend's masks and layouts: what its fused kernels have in common.

A mask is True where a key is *not* seen. Sparse modes 2 to 4 take one compressed 2048×2048 mask whatever the lengths
are, and hide keys by position.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

ASCEND_MASK_SIZE = 2048
UNLIMITED = 2147483647
_LEFT_UP, _RIGHT_DOWN, _BAND = 2, 3, 4
_MASK_DTYPES = (torch.bool, torch.uint8, torch.int8)


def attend(
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


def hidden_keys(
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
    given = mask.bool()[..., :queries, :keys]
    return given | (column > row + after) | (column < row - before) if mode == 0 else given


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


def check_mask(mask: torch.Tensor | None, shapes: Sequence[tuple[int, ...]]) -> None:
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


def to_bnsd(tensor: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return tensor.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    raise NotImplementedError(f"input_layout {layout!r} is not emulated")


def from_bnsd(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BSND":
        tensor = tensor.transpose(1, 2)
    elif layout == "BSH":
        tensor = tensor.transpose(1, 2).flatten(2)
    elif layout == "SBH":
        tensor = tensor.permute(2, 0, 1, 3).flatten(2)
    return tensor.contiguous()


def refuse(name: str, **arguments: Any) -> None:
    for argument, value in arguments.items():
        if isinstance(value, torch.Tensor) or value not in (None, 0, ""):
            raise NotImplementedError(f"{name}: {argument} is not emulated")


def check_tensors(
    name: str,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dtypes: Sequence[torch.dtype],
) -> None:
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(f"{name}: query, key and value must have one dtype")
    if query.dtype not in dtypes:
        raise RuntimeError(f"{name}: {query.dtype} is not one of {', '.join(map(str, dtypes))}")
    if any(t is not None and t.device != query.device for t in (key, value, mask)):
        raise RuntimeError(f"{name}: query, key, value and atten_mask must be on one device")


def check_heads(name: str, query: torch.Tensor, key: torch.Tensor, heads: int, key_heads: int) -> None:
    if query.shape[1] != heads or key.shape[1] != key_heads or heads % key_heads:
        raise RuntimeError(f"{name}: {heads} and {key_heads} heads do not fit {tuple(query.shape)}, {tuple(key.shape)}")
    if query.shape[0] != key.shape[0] or query.shape[-1] != key.shape[-1]:
        raise RuntimeError(f"{name}: query {tuple(query.shape)} and key {tuple(key.shape)} do not fit")


def of_entry(hidden: torch.Tensor | None, entry: int) -> torch.Tensor | None:
    if hidden is None or hidden.dim() < 4:
        return hidden
    return hidden[entry if hidden.shape[0] > 1 else 0]
