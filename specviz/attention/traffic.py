"""Bytes and FLOPs of a schedule, counted step by step, and the time that a machine's peaks allow for them.

Every tile load is counted as coming from HBM: hits in L2, which real devices have, are not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple

from specviz.attention import closed_forms, schedules
from specviz.attention.closed_forms import Traffic
from specviz.attention.hardware import Hardware
from specviz.attention.memory import peak_bytes
from specviz.attention.problem import Problem
from specviz.attention.steps import TILE_PHASES, Kind, Plan, TileStep

LENGTHS = tuple(2**power for power in range(7, 21))  # 128 to 1M


@dataclass(frozen=True, slots=True)
class Tally:
    """What the steps of a schedule add up to. ``steps`` leaves out skipped tiles; ``tiles`` counts score tiles."""

    traffic: Traffic
    steps: int
    tiles: dict[Kind, int]
    on_chip_peak: int


def tally(steps: Iterable[TileStep]) -> Tally:
    """Counted one by one."""
    sums, count, peak = [0] * len(Traffic._fields), 0, 0
    tiles: dict[Kind, int] = {"full": 0, "masked": 0, "skipped": 0}
    for step in steps:
        if step.phase in TILE_PHASES and step.kind:
            tiles[step.kind] += 1
        if step.kind != "skipped":
            count += 1
            sums = [total + part for total, part in zip(sums, of_step(step), strict=True)]
            peak = max(peak, step.on_chip)
    return Tally(Traffic(*sums), count, tiles, peak)


def of_step(step: TileStep) -> Traffic:
    return Traffic(
        step.hbm_read, step.hbm_written, step.l2_read, step.l2_written, step.flops, step.exponentials
    )  # fmt: skip


class Time(NamedTuple):
    """Modelled seconds. ``memory``, ``compute`` and ``softmax``: each part alone at the device's peak; ``roofline`` the
    longest of them. ``busy`` is the share of the cores that the workers keep busy, and ``seconds`` the roofline over
    it: each core has an even share of every peak, bandwidth included. None of it is measured on the device."""

    memory: float
    compute: float
    softmax: float
    busy: float

    @property
    def roofline(self) -> float:
        return max(self.memory, self.compute, self.softmax)

    @property
    def seconds(self) -> float:
        return self.roofline / self.busy


def time_of(plan: Plan) -> Time:
    """From the closed form."""
    workers = closed_forms.workers(plan)
    busy = workers / (plan.slots * ceil(workers / plan.slots))
    return Time(*_seconds(closed_forms.traffic(plan), plan.hardware, 1), busy)


def step_seconds(step: TileStep, plan: Plan) -> float:
    """Modelled seconds of one step on its own core: the longest of its transfers, its products and its softmax."""
    return max(_seconds(of_step(step), plan.hardware, plan.slots))


def _seconds(traffic: Traffic, hardware: Hardware, shares: int) -> tuple[float, float, float]:
    exponentials = hardware.exponentials.value if hardware.exponentials else float("inf")
    return (
        traffic.hbm * shares / hardware.bandwidth.value,
        traffic.flops * shares / hardware.flops.value,
        traffic.exponentials * shares / exponentials,
    )


class Point(NamedTuple):
    """One length of a curve, from closed forms alone."""

    keys: int
    hbm_bytes: int
    flops: int
    peak_memory_bytes: int
    seconds: float


def curve(
    name: str, problem: Problem, hardware: Hardware, square: bool, lengths: Sequence[int] = LENGTHS
) -> list[Point]:
    """One schedule against the number of keys: ``square`` as a prefill, otherwise with the problem's own queries.

    Lengths shorter than the queries are left out. Raises UserError where the schedule does not take the shape.
    """
    points = []
    for length in lengths:
        queries = length if square else problem.queries
        if queries <= length:
            plan = schedules.plan(name, replace(problem, queries=queries, keys=length), hardware)
            traffic = closed_forms.traffic(plan)
            points.append(Point(length, traffic.hbm, traffic.flops, peak_bytes(plan), time_of(plan).seconds))
    return points
