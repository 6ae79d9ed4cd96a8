"""Memory that attention needs: a forward's peak under each schedule, and the saving published for training."""

from __future__ import annotations

from collections.abc import Callable

from specviz.attention.problem import Problem
from specviz.attention.steps import FLOAT, Plan

# Arrays alive at the peak of one training step in 16 bits, by which the published saving is reproduced.
TRAINING_STANDARD = {"N×N": 4, "N×d": 10}  # S, P and their gradients; Q, K, V, O, their gradients, two temporaries
TRAINING_FLASH = {"N×d": 13, "float32 per row": 2}  # the same, dQ gathered in float32 and a temporary; LSE and δ


def peak_bytes(plan: Plan) -> int:
    """Bytes of device memory at the peak of one forward: Q, K, V and O, and what the schedule keeps beside them.

    All heads run at once; standard attention holds S and P in full, both in Q's own dtype.
    """
    problem = plan.problem
    rows = problem.heads * problem.queries
    arrays = 2 * (rows + problem.kv_heads * problem.keys) * problem.head_dim * problem.bytes_per_element
    return arrays + _WORKSPACE[plan.name](plan, rows)


def training_saving(n: int, head_dim: int = 64) -> float:
    """How many times less memory FlashAttention took to train with, at sequence length n.

    Its authors state 10× at 2K and 20× at 4K (README of the library). That is a forward *and* a backward pass, and this
    count of arrays (ours; none of it is measured here) gives 10.6× and 20.4× for 16-bit elements and head dimension 64,
    whatever the batch and the heads. ``peak_bytes`` is for the forward alone.
    """
    standard = 2 * (TRAINING_STANDARD["N×N"] * n * n + TRAINING_STANDARD["N×d"] * n * head_dim)
    flash = 2 * TRAINING_FLASH["N×d"] * n * head_dim + FLOAT * TRAINING_FLASH["float32 per row"] * n
    return standard / flash


def _standard(plan: Plan, rows: int) -> int:
    return 2 * rows * plan.problem.keys * plan.problem.bytes_per_element


def _statistics(count: int) -> Callable[[Plan, int], int]:
    return lambda plan, rows: count * rows * FLOAT


def _parts(plan: Plan, rows: int) -> int:
    """log-sum-exp, and where the keys are split every part's O and log-sum-exp."""
    parts = plan.tiling.splits * (plan.problem.head_dim + 1) if plan.tiling.splits > 1 else 0
    return rows * (1 + parts) * FLOAT


def _score_workspace(plan: Plan, rows: int) -> int:
    """Two blocks ahead, on every core: S in float32, P, and P·V in float32; and the statistics that are given out."""
    return 2 * plan.hardware.vectors * _travelling(plan.problem, plan.tiling.rows, plan.tiling.keys) + rows * 16 * FLOAT


def _incre_workspace(plan: Plan, rows: int) -> int:
    """On every core S, P, P·V and O; and the parts if there are several."""
    problem, tiling = plan.problem, plan.tiling
    on_cores = plan.hardware.vectors * (
        _travelling(problem, tiling.rows, tiling.keys) + tiling.rows * problem.head_dim * FLOAT
    )
    return on_cores + (_parts(plan, rows) - rows * FLOAT)


def _travelling(problem: Problem, rows: int, keys: int) -> int:
    keys = min(keys, problem.keys)
    return rows * (keys * (FLOAT + problem.bytes_per_element) + problem.head_dim * FLOAT)


_WORKSPACE: dict[str, Callable[[Plan, int], int]] = {
    "standard": _standard,
    "flash-attention-1": _statistics(2),
    "flash-attention-2": _statistics(1),
    "flash-attention-3": _statistics(1),
    "flash-decoding": _parts,
    "ascend-flash-attention-score": _score_workspace,
    "ascend-incre-flash": _incre_workspace,
}
