"""How load, matrix products and softmax of one core overlap, modelled from the device's peaks; nothing is measured.

FlashAttention-3 (arXiv 2407.08608, §3.1, Fig. 1): a producer warp loads K and V two tiles deep, and consumer
warpgroups of 64 rows take turns, one at its matrix products while another is at its softmax. Ascend
FlashAttentionScore: the cube core is given two blocks ahead, so that it does not wait for the vector core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import NamedTuple

from specviz.attention.schedules.flash_attention_3 import STAGES
from specviz.attention.steps import Plan
from specviz.errors import UserError

WARPGROUP_ROWS = 64
AHEAD = 2  # cube blocks


class Span(NamedTuple):
    """``what`` was done for K/V tile number ``tile`` (in the order of the walk) from ``start`` to ``end`` seconds.

    ``lane`` is who did it; no two spans of one ``unit`` (load, matrix, softmax) overlap.
    """

    lane: str
    unit: str
    what: str
    tile: int
    start: float
    end: float


class _Task(NamedTuple):
    lane: str
    unit: str
    what: str
    tile: int
    seconds: float
    after: tuple[tuple[str, str, int], ...]  # (lane, what, tile)


def timeline(plan: Plan, tiles: int = 8, overlap: bool = True) -> tuple[Span, ...]:
    """The first ``tiles`` K/V tiles of one worker with whole tiles. Without ``overlap`` each task waits for the last.

    Raises UserError for a schedule or a device that is not modelled.
    """
    if plan.name not in PIPELINES or plan.hardware.exponentials is None:
        raise UserError(
            f"The overlap is modelled for {' and '.join(PIPELINES)}, on devices whose rate of exponentials is known."
        )
    count = min(tiles, ceil(plan.problem.keys / plan.tiling.keys))
    ends: dict[tuple[str, str, int], float] = {}
    free: dict[str, float] = {}
    spans = []
    for task in PIPELINES[plan.name](plan, count):
        waits = [ends[name] for name in task.after if name in ends] if overlap else ends.values()
        start = max((free.get(task.unit, 0.0), *waits))
        end = start + task.seconds
        ends[task.lane, task.what, task.tile] = free[task.unit] = end
        spans.append(Span(*task[:4], start, end))
    return tuple(spans)


def _flash_attention_3(plan: Plan, tiles: int) -> Iterator[_Task]:
    """In the order of issue: PV of a tile and QKᵀ of the next one, warpgroup by warpgroup."""
    problem, keys = plan.problem, min(plan.tiling.keys, plan.problem.keys)
    groups = [f"consumer {n + 1}" for n in range(ceil(plan.tiling.rows / WARPGROUP_ROWS))]
    load, product, softmax = _rates(plan)
    tile_bytes = keys * problem.head_dim * problem.bytes_per_element / _sharers(plan)
    rows = min(WARPGROUP_ROWS, plan.tiling.rows)
    product_flops = 2 * rows * keys * problem.head_dim

    def loading(what: str, user: str, tile: int) -> _Task:
        freed = tuple((group, user, tile - STAGES) for group in groups)
        return _Task("producer", "load", what, tile, load(tile_bytes), freed)

    def values(group: str, tile: int) -> _Task:
        after = ((group, "softmax", tile), ("producer", "V", tile))
        return _Task(group, "matrix", "P·V", tile, product(product_flops), after)

    for tile in range(tiles):
        yield loading("K", "Q·Kᵀ", tile)
        yield loading("V", "P·V", tile)
        for group in groups:
            if tile:
                yield values(group, tile - 1)
            yield _Task(group, "matrix", "Q·Kᵀ", tile, product(product_flops), (("producer", "K", tile),))
            after = ((group, "Q·Kᵀ", tile),)
            yield _Task(group, "softmax", "softmax", tile, softmax(rows * keys), after)
    for group in groups:
        yield values(group, tiles - 1)


def _ascend(plan: Plan, tiles: int) -> Iterator[_Task]:
    """In the order of issue: QKᵀ two tiles before the softmax that the vector core is at."""
    problem, rows, keys = plan.problem, plan.tiling.rows, min(plan.tiling.keys, plan.problem.keys)
    _, product, softmax = _rates(plan)
    product_seconds = product(2 * rows * keys * problem.head_dim)

    def scores(tile: int) -> _Task:
        return _Task("cube", "matrix", "Q·Kᵀ", tile, product_seconds, ())

    yield from map(scores, range(min(AHEAD, tiles)))
    for tile in range(tiles):
        yield _Task("vector", "softmax", "softmax", tile, softmax(rows * keys), (("cube", "Q·Kᵀ", tile),))
        yield _Task("cube", "matrix", "P·V", tile, product_seconds, (("vector", "softmax", tile),))
        if tile + AHEAD < tiles:
            yield scores(tile + AHEAD)
        if tile:
            yield _rescale(tile - 1, softmax(rows * problem.head_dim))
    yield _rescale(tiles - 1, softmax(rows * problem.head_dim))


def _rescale(tile: int, seconds: float) -> _Task:
    return _Task("vector", "softmax", "rescale O", tile, seconds, (("cube", "P·V", tile),))


def _rates(plan: Plan) -> tuple[Callable[[float], float], ...]:
    """Seconds of one worker for bytes loaded, FLOPs and exponentials: its even share of the device's peaks."""
    hardware = plan.hardware
    assert hardware.exponentials is not None
    peaks = (hardware.bandwidth.value, hardware.flops.value, hardware.exponentials.value)
    return tuple(lambda amount, peak=peak: amount * plan.slots / peak for peak in peaks)


def _sharers(plan: Plan) -> int:
    """Workers that walk the same keys side by side: one load from HBM serves them all through L2."""
    row_tiles = ceil(plan.problem.queries * plan.tiling.group / plan.tiling.rows)
    return min(row_tiles * plan.problem.group // plan.tiling.group, plan.slots)


PIPELINES: dict[str, Callable[[Plan, int], Iterator[_Task]]] = {
    "flash-attention-3": _flash_attention_3,
    "ascend-flash-attention-score": _ascend,
}
