"""What an execution is held against: attention in float64, row by row, and PyTorch's own kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.attention.online_softmax import OnlineSoftmax, check_shapes
from specviz.attention.problem import Problem

SCORES_AT_ONCE = 2**20


class Expected(NamedTuple):
    """Of all heads, or of one: ``output`` [heads, queries, d] and ``lse`` [heads, queries] in float64, and SDPA's
    output on the tensors as they are."""

    output: Tensor
    lse: Tensor
    sdpa: Tensor


class Differences(NamedTuple):
    """The largest absolute differences of an execution: its O from float64's and from SDPA's, its log-sum-exp from
    float64's."""

    output: float
    sdpa: float
    lse: float


def expected(
    problem: Problem, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, head: int | None = None
) -> Expected:
    """Attention over q [heads, queries, d], k and v [kv_heads, keys, d]; of one query head if it is given."""
    check_shapes(problem, q, k, v)
    if head is not None:
        group = slice(head // problem.group, head // problem.group + 1)
        problem, q, k, v = replace(problem, heads=1, kv_heads=1), q[head : head + 1], k[group], v[group]
    scale = problem.head_dim**-0.5 if scale is None else scale
    return Expected(*attention(problem, q, k, v, scale), sdpa(problem, q, k, v, scale))


def attention(problem: Problem, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """O [heads, queries, d] and the log-sum-exp of its scores [heads, queries], in float64."""
    output = torch.empty(q.shape, dtype=torch.float64)
    lse = torch.empty(q.shape[:2], dtype=torch.float64)
    rows = max(1, SCORES_AT_ONCE // problem.keys)
    for head in range(problem.heads):
        keys, values = (x[head // problem.group].double() for x in (k, v))
        for start in range(0, problem.queries, rows):
            stop = min(start + rows, problem.queries)
            seen = slice(0, problem.visible(stop - 1))
            scores = q[head, start:stop].double() @ keys[seen].T * scale
            if problem.causal:
                scores.masked_fill_(~visible(problem, start, stop)[:, seen], -torch.inf)
            lse[head, start:stop] = scores.logsumexp(-1)
            output[head, start:stop] = (scores - lse[head, start:stop, None]).exp_() @ values[seen]
    return output, lse


def sdpa(problem: Problem, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """PyTorch's scaled_dot_product_attention [heads, queries, d]. Its own causal mask is aligned to the top left."""
    mask = visible(problem, 0, problem.queries) if problem.causal else None
    batch = F.scaled_dot_product_attention(q[None], k[None], v[None], mask, scale=scale, enable_gqa=problem.group > 1)
    return batch[0]


def visible(problem: Problem, first: int, last: int) -> Tensor:
    """Which keys the queries from ``first`` to before ``last`` see, [queries, keys]."""
    return torch.arange(problem.keys) < torch.arange(first, last)[:, None] + problem.visible(0)


def differences(execution: OnlineSoftmax, wanted: Expected, head: int | None = None) -> Differences:
    """Of an execution that has run over all heads, or over ``head``, for which ``wanted`` then is."""
    heads = slice(None) if head is None else slice(head, head + 1)
    output, lse = execution.output[heads], execution.lse[heads]
    return Differences(
        output=_largest(output, wanted.output), sdpa=_largest(output, wanted.sdpa), lse=_largest(lse, wanted.lse)
    )


def _largest(ours: Tensor, theirs: Tensor) -> float:
    return float((ours.double() - theirs.double()).abs().max())
