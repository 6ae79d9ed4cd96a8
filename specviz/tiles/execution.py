"""A schedule executed on one captured head: its steps as columns, what they did to m and ℓ, and what it adds up to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from specviz.attention import closed_forms, schedules
from specviz.attention.bounds import check_affordable
from specviz.attention.hardware import Hardware
from specviz.attention.online_softmax import OnlineSoftmax, Visit
from specviz.attention.reference import differences, expected
from specviz.attention.steps import Buffer, Plan
from specviz.attention.timeline import PIPELINES, Span, timeline
from specviz.attention.traffic import Tally, Time, step_seconds, tally, time_of
from specviz.errors import UserError
from specviz.tiles.view import View

Column = list[Any]
LARGEST_TILE = 1024
VISIT_BYTES = 2000  # of a visit's records and columns beside the numbers of its rows, as measured


@dataclass(frozen=True, slots=True)
class Execution:
    """A plan walked over one query head of a view, and the heads packed with it.

    ``visits`` hold what each step did to its rows; ``columns`` are the plain figures of the steps, one list a figure,
    with workers numbered within the head; ``buffers`` the distinct contents of on-chip memory, which the column
    ``held`` points into. ``counted`` is the tally of these steps, ``time`` modelled for all heads. ``from_exact`` is
    the largest difference of O from float64 attention, ``from_model`` from the model's own output.
    """

    plan: Plan
    visits: tuple[Visit, ...]
    columns: dict[str, Column]
    buffers: tuple[tuple[Buffer, ...], ...]
    counted: Tally
    time: Time
    spans: tuple[Span, ...]
    from_exact: float
    from_model: float

    @property
    def closed_form(self) -> closed_forms.Traffic:
        """What the whole call moves and computes, all heads, by formula."""
        return closed_forms.traffic(self.plan)

    @property
    def workers(self) -> int:
        """How many workers these steps use."""
        return len(set(self.columns["worker"]))

    @property
    def bytes(self) -> int:
        """What it weighs in memory, about."""
        return sum(7 * visit.m_after.nbytes + VISIT_BYTES for visit in self.visits)


def execute(view: View, head: int, name: str, hardware: Hardware, tile: tuple[int, int] | None = None) -> Execution:
    """Walk a schedule over a head of the captured Q, K, V, in its own order.

    ``tile`` (rows, keys) replaces the published tile size, so that a short context shows the order too. Raises
    UserError if there is no such head or schedule, if the schedule does not take the shape, or if it would take too
    long here.
    """
    problem, seen = view.problem, view.captured
    if not 0 <= head < problem.heads:
        raise UserError(f"This layer has {problem.heads} heads; there is no head {head + 1}.")
    plan = schedules.plan(name, problem, hardware)
    if tile is not None:
        plan = _with_tile(plan, *tile)
    check_affordable(plan, one_head=True)
    run = OnlineSoftmax(plan, seen.q, seen.k, seen.v, seen.scale)
    visits = tuple(run.run(head))
    wanted = expected(problem, seen.q, seen.k, seen.v, seen.scale, head)
    columns, buffers = _columns(plan, visits, run)
    modelled = plan.name in PIPELINES and plan.hardware.exponentials is not None
    return Execution(
        plan=plan,
        visits=visits,
        columns=columns,
        buffers=buffers,
        counted=tally(visit.step for visit in visits),
        time=time_of(plan),
        spans=timeline(plan) if modelled else (),
        from_exact=differences(run, wanted, head).output,
        from_model=float((run.output[head] - seen.o[head]).abs().max()),
    )


def _with_tile(plan: Plan, rows: int, keys: int) -> Plan:
    if not (1 <= rows <= LARGEST_TILE and 1 <= keys <= LARGEST_TILE):
        raise UserError(f"A tile has 1 to {LARGEST_TILE} rows and keys; you gave {rows} × {keys}.")
    tiling = plan.tiling
    per_split = math.ceil(tiling.keys_per_split / keys) * keys
    splits = math.ceil(plan.problem.keys / per_split) if per_split else tiling.splits
    return replace(plan, tiling=replace(tiling, rows=rows, keys=keys, keys_per_split=per_split, splits=splits))


def standard_bytes(view: View, hardware: Hardware) -> int:
    """HBM bytes that standard attention moves for one head: an even share of its closed form."""
    plan = schedules.plan("standard", view.problem, hardware)
    return closed_forms.traffic(plan).hbm // view.problem.heads


def _columns(
    plan: Plan, visits: tuple[Visit, ...], run: OnlineSoftmax
) -> tuple[dict[str, Column], tuple[tuple[Buffer, ...], ...]]:
    known: dict[tuple[Buffer, ...], int] = {}
    rows = [_figures(plan, visit, run, known) for visit in visits]
    numbers = {worker: i for i, worker in enumerate(sorted({visit.step.worker for visit in visits}))}
    names = rows[0].keys() if rows else ()
    columns: dict[str, Column] = {name: [row[name] for row in rows] for name in names}
    return columns | {"worker": [numbers[visit.step.worker] for visit in visits]}, tuple(known)


def _figures(plan: Plan, visit: Visit, run: OnlineSoftmax, known: dict[tuple[Buffer, ...], int]) -> dict[str, Any]:
    step = visit.step
    largest = float(visit.largest.max())
    weighted = bool((visit.tile_sum > 0).any())
    return {
        "phase": step.phase,
        "kind": step.kind,
        "r0": step.rows.start,
        "r1": step.rows.stop,
        "k0": step.keys.start,
        "k1": step.keys.stop,
        "split": step.split,
        "finishes": step.finishes,
        "hbm_read": step.hbm_read,
        "hbm_written": step.hbm_written,
        "l2": step.l2_read + step.l2_written,
        "flops": step.flops,
        "on_chip": step.on_chip,
        "seconds": step_seconds(step, plan),
        "largest": largest if math.isfinite(largest) else None,
        "mass": float(visit.mass(run.lse_of(step.rows)).mean()) if weighted else None,
        "held": known.setdefault(step.held, len(known)),
    }
