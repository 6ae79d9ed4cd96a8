"""How traffic, memory and modelled time grow with the context, for the shape at hand: closed forms only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem
from specviz.attention.schedules import SCHEDULES
from specviz.attention.traffic import LENGTHS, curve

Points = list[tuple[int, int, int, float]]
VERIFICATION_ROWS = 5  # γ = 4, where the view is a prefill


def curves(
    problem: Problem, hardware: Hardware, names: Sequence[str], rows: int = VERIFICATION_ROWS
) -> dict[str, dict[str, Points]]:
    """{"verification" | "prefill": {schedule: [(keys, HBM bytes, peak bytes, modelled seconds), …]}}, all heads.

    The verification has so many ``rows``. A schedule that does not take a shape is left out there.
    """
    longest = LENGTHS[-1]
    found: dict[str, dict[str, Points]] = {"verification": {}, "prefill": {}}
    for name in names:
        for phase, square in (("verification", False), ("prefill", True)):
            shape = replace(problem, queries=longest if square else rows, keys=longest)
            if SCHEDULES[name].refuses(shape):
                continue
            found[phase][name] = [
                (point.keys, point.hbm_bytes, point.peak_memory_bytes, point.seconds)
                for point in curve(name, shape, hardware, square)
            ]
    return found
