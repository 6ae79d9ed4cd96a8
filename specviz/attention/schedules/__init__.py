"""The schedules by name, each in its own file."""

from __future__ import annotations

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules import (
    ascend_flash_attention_score,
    ascend_incre_flash,
    flash_attention_1,
    flash_attention_2,
    flash_attention_3,
    flash_decoding,
    standard,
)
from specviz.attention.steps import Plan
from specviz.errors import UserError

SCHEDULES = {
    schedule.name: schedule
    for schedule in (
        standard.SCHEDULE,
        flash_attention_1.SCHEDULE,
        flash_attention_2.SCHEDULE,
        flash_attention_3.SCHEDULE,
        flash_decoding.SCHEDULE,
        ascend_flash_attention_score.SCHEDULE,
        ascend_incre_flash.SCHEDULE,
    )
}
NAMES = tuple(SCHEDULES)


def plan(name: str, problem: Problem, hardware: Hardware) -> Plan:
    """That schedule's tiles for a problem on a machine.

    Raises UserError if there is no such schedule or it does not take the shape.
    """
    if name not in SCHEDULES:
        raise UserError(f"The schedule must be one of {', '.join(NAMES)}; you gave {name[:40]!r}.")
    schedule = SCHEDULES[name]
    refusal = schedule.refuses(problem)
    if refusal:
        raise UserError(refusal)
    return Plan(schedule, problem, hardware, schedule.tile(problem, hardware))
