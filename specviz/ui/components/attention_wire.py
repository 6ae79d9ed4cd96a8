"""Executed schedules as plain JSON for the browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specviz.ui.components.wire import finite

if TYPE_CHECKING:
    from specviz.attention.hardware import Figure, Hardware
    from specviz.attention.online_softmax import Visit
    from specviz.bench.ablation import Cell
    from specviz.tiles.execution import Execution
    from specviz.tiles.view import View

Json = dict[str, Any]
FIGURES = (
    "cores",
    "vector_cores",
    "on_chip",
    "l2",
    "memory",
    "bandwidth",
    "on_chip_bandwidth",
    "flops",
    "exponentials",
)
VISIT = ("m_before", "m_after", "l_before", "l_after", "rescale", "largest")


def attention(
    view: View,
    head: int,
    tile: tuple[int, int] | None,
    hardware: Hardware,
    executions: Sequence[tuple[str, Execution]],
) -> Json:
    """A view and the schedules that were executed over it, each with the name by which its steps are asked about."""
    from specviz.tiles.execution import standard_bytes
    from specviz.tiles.traffic import VERIFICATION_ROWS, curves

    problem = view.problem
    rows = problem.queries if view.phase == "verification" else VERIFICATION_ROWS
    names = ["standard", *dict.fromkeys(one.plan.name for _, one in executions if one.plan.name != "standard")]
    body = {
        "phase": view.phase,
        "layer": view.layer,
        "layers": view.layers,
        "head": head,
        "queries": problem.queries,
        "keys": problem.keys,
        "heads": problem.heads,
        "kv_heads": problem.kv_heads,
        "head_dim": problem.head_dim,
        "tile": tile,
        "rows": [asdict(row) for row in view.rows],
        "output_difference": executions[0][1].from_model,
        "hardware": {"name": hardware.name, "title": hardware.title, "figures": _figures(hardware)},
        "schedules": [_schedule(key, one) for key, one in executions],
        "standard_bytes": standard_bytes(view, hardware),
        "curve_queries": rows,
        "curves": curves(problem, hardware, names, rows),
    }
    answer: Json = finite(body)
    return answer


def visit(one: Visit) -> Json:
    """What a step did to each of its rows."""
    columns = {name: getattr(one, name).tolist() for name in VISIT}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    answer: Json = finite({"rows": rows})
    return answer


def ablation(cells: Sequence[Cell]) -> Json:
    """The four combinations behind one context, as in the recorded document."""
    from specviz.bench.ablation import summary

    return {"rows": summary(cells)}


def _schedule(key: str, one: Execution) -> Json:
    plan, counted, time = one.plan, one.counted, one.time
    share = plan.problem.heads // plan.tiling.group
    closed = one.closed_form
    return {
        "key": key,
        "name": plan.name,
        "source": plan.schedule.source,
        "group": plan.tiling.group,
        "tile": {"rows": plan.tiling.rows, "keys": plan.tiling.keys, "splits": plan.tiling.splits},
        "slots": plan.slots,
        "workers": one.workers,
        "steps": one.columns,
        "buffers": [[[buffer.what, buffer.bytes] for buffer in held] for held in one.buffers],
        "on_chip_limit": plan.hardware.on_chip.value,
        "totals": {
            "hbm_read": counted.traffic.hbm_read,
            "hbm_written": counted.traffic.hbm_written,
            "closed_read": closed.hbm_read / share,
            "closed_written": closed.hbm_written / share,
            "l2": counted.traffic.l2_read + counted.traffic.l2_written,
            "flops": counted.traffic.flops,
            "exponentials": counted.traffic.exponentials,
            **counted.tiles,
            "steps": counted.steps,
            "on_chip_peak": counted.on_chip_peak,
            "difference": one.from_exact,
            "seconds": time.seconds,
            "memory_s": time.memory,
            "compute_s": time.compute,
            "softmax_s": time.softmax,
            "busy": time.busy,
        },
        "timeline": [
            {
                "lane": span.lane,
                "unit": span.unit,
                "what": span.what,
                "tile": span.tile,
                "start": span.start,
                "stop": span.end,
            }
            for span in one.spans
        ]
        or None,
    }


def _figures(hardware: Hardware) -> list[Json]:
    named: list[tuple[str, Figure | None]] = [(name, getattr(hardware, name)) for name in FIGURES]
    named += list(hardware.buffers)
    return [{"name": name, **asdict(figure)} for name, figure in named if figure is not None]
