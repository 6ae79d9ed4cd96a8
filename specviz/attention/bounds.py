"""What is executed stays within seconds and gigabytes; a larger shape has its closed forms."""

from __future__ import annotations

from math import ceil

from specviz.attention import closed_forms
from specviz.attention.steps import FLOAT, Plan
from specviz.errors import UserError

MOST_STEPS = 20_000
MOST_FLOPS = 60e9
MOST_BYTES = 2e9


def check_affordable(plan: Plan, one_head: bool = False) -> None:
    """Of all heads, or of one: raises UserError for what would take more than some seconds, or too much memory."""
    problem, tiling = plan.problem, plan.tiling
    remedy = "Choose larger tiles or a shorter text." if one_head else "Give fewer queries, keys or heads."
    share = problem.heads // tiling.group if one_head else 1
    grid = closed_forms.row_tiles(problem, tiling) // share * ceil(problem.keys / tiling.keys)
    steps = grid * (1 if plan.schedule.skips else 2)
    flops = closed_forms.traffic(plan).flops / share
    if steps > MOST_STEPS or flops > MOST_FLOPS:
        raise UserError(
            f"{plan.name} would take {steps:,} steps and {flops / 1e9:,.0f} GFLOP here; at most {MOST_STEPS:,} and "
            f"{MOST_FLOPS / 1e9:,.0f} are executed. {remedy}"
        )
    rows = problem.heads * problem.queries
    gathered = rows * tiling.splits * (problem.head_dim + 2)
    scores = 0 if plan.schedule.skips else problem.queries * problem.keys
    cached = problem.kv_heads * problem.keys * problem.head_dim
    needed = FLOAT * (gathered + scores + 4 * cached + 6 * rows * problem.head_dim)
    if needed > MOST_BYTES:
        raise UserError(
            f"{plan.name} would need {needed / 1e9:.1f} GB here; at most {MOST_BYTES / 1e9:.0f} GB are used. {remedy}"
        )
