"""Each row's softmax maximum m and sum ℓ: as a schedule leaves them, and as Ascend's own kernel returns them.

Both are of the scaled scores, over the keys that the row sees: m = max s, ℓ = Σ e^(s − m). In torch_npu a mask is True
where a key is hidden, the scale defaults to 1, and each number comes eight times in float32 (Ascend/op-plugin,
documentation of npu_fusion_attention).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specviz.attention.problem import Problem
from specviz.attention.reference import visible
from specviz.models.attention_hook import Captured
from specviz.tiles.execution import Execution

COPIES = 8


class Statistics(NamedTuple):
    """``m`` and ``ell`` [heads, queries] float32 on the CPU."""

    m: Tensor
    ell: Tensor


class Difference(NamedTuple):
    """The largest |Δm| and |Δ ln ℓ|. Both have the size of an error of a score."""

    m: float
    log_ell: float


def of_execution(execution: Execution, head: int) -> Statistics:
    """What the tiles' steps end with for one query head, [1, queries]: the tab's own m and ℓ, splits merged."""
    queries, splits = execution.plan.problem.queries, execution.plan.tiling.splits
    m = torch.full((splits, queries), -torch.inf, dtype=torch.float32)
    ell = torch.zeros(splits, queries, dtype=torch.float32)
    for visit in execution.visits:
        rows = visit.step.rows
        numbers = torch.arange(rows.start, rows.stop)
        mine = rows.head + numbers % rows.group == head
        query = numbers[mine] // rows.group
        m[visit.step.split, query], ell[visit.step.split, query] = visit.m_after[mine], visit.l_after[mine]
    largest = m.amax(0)
    return Statistics(largest[None], (ell * (m - largest).exp()).sum(0)[None])


def of_npu(seen: Captured, problem: Problem, device: torch.device, dtype: torch.dtype) -> Statistics:
    """What ``npu_fusion_attention`` returns for the captured Q, K, V, [heads, queries, COPIES].

    Raises RuntimeError where the chip has no such kernel.
    """
    import torch_npu

    q, k, v = (tensor[None].to(device, dtype) for tensor in (seen.q, seen.k, seen.v))
    hidden = None if problem.queries == 1 else ~visible(problem, 0, problem.queries)
    _, largest, total, *_ = torch_npu.npu_fusion_attention(
        q,
        k,
        v,
        head_num=problem.heads,
        input_layout="BNSD",
        atten_mask=None if hidden is None else hidden.to(device),
        scale=seen.scale,
        sparse_mode=0,
    )
    return Statistics(largest[0].float().cpu(), total[0].float().cpu())


def difference(schedule: Statistics, npu: Statistics) -> Difference:
    """Of a schedule's [heads, queries] from the kernel's, every copy; NaN anywhere is infinitely far."""
    pairs = ((schedule.m, npu.m), (schedule.ell.log(), npu.ell.log()))
    return Difference(
        *(float((ours[..., None] - theirs).abs().nan_to_num(nan=torch.inf).max()) for ours, theirs in pairs)
    )
