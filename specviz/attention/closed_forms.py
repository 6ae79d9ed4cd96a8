"""What each schedule moves and computes, by formula: one term a row tile, no step is walked.

Notation of the formulas: R rows in tiles of r, C(tile) the keys that its rows' K/V tiles cover up to the last one they
see, d the head dimension, b bytes of an element, 4 bytes of a float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specviz.attention.problem import Problem
from specviz.attention.schedules.ascend_flash_attention_score import STATISTIC
from specviz.attention.steps import FLOAT, Plan, Tiling

Numbers = NDArray[np.int64]


class Traffic(NamedTuple):
    """Bytes to and from HBM and L2, FLOPs of the matrix products, and exponentials of the softmax."""

    hbm_read: int
    hbm_written: int
    l2_read: int
    l2_written: int
    flops: int
    exponentials: int

    @property
    def hbm(self) -> int:
        return self.hbm_read + self.hbm_written


class _RowTiles:
    """Row tiles of one head, or of one packed group: ``rows`` in each, K/V ``tiles`` visited, keys ``covered``."""

    def __init__(self, problem: Problem, tiling: Tiling) -> None:
        total = problem.queries * tiling.group
        starts = np.arange(0, total, tiling.rows, dtype=np.int64)
        stops = np.minimum(starts + tiling.rows, total)
        last_query = (stops - 1) // tiling.group
        reach = last_query + 1 + problem.keys - problem.queries if problem.causal else np.full_like(stops, problem.keys)
        self.heads = problem.heads // tiling.group
        self.total = total
        self.rows: Numbers = stops - starts
        self.tiles: Numbers = -(-reach // tiling.keys)
        self.covered: Numbers = np.minimum(self.tiles * tiling.keys, problem.keys)
        self.scores = self.heads * int(self.rows @ self.covered)


def traffic(plan: Plan) -> Traffic:
    """The closed form of a plan."""
    return FORMS[plan.name](plan.problem, plan.tiling)


def workers(plan: Plan) -> int:
    """How many workers run side by side: a head in FlashAttention-1, otherwise a row tile (of a split)."""
    if plan.name == "flash-attention-1":
        return plan.problem.heads
    return row_tiles(plan.problem, plan.tiling) * plan.tiling.splits


def row_tiles(problem: Problem, tiling: Tiling) -> int:
    """Row tiles of all heads."""
    return problem.heads // tiling.group * -(-problem.queries * tiling.group // tiling.rows)


def standard(problem: Problem, tiling: Tiling) -> Traffic:
    """A head reads Q, K, V, S and P and writes S, P and O: 2·Nd + 2·Nk·d + 4·Nq·Nk elements, both ways."""
    q, kv, scores = problem.queries * problem.head_dim, problem.keys * problem.head_dim, problem.queries * problem.keys
    read = problem.heads * problem.bytes_per_element * (q + 2 * kv + 2 * scores)
    written = problem.heads * problem.bytes_per_element * (2 * scores + q)
    return _traffic(problem, read, written, problem.heads * scores)


def flash_attention_1(problem: Problem, tiling: Tiling) -> Traffic:
    """K and V once; at each of a row tile's visits r(2db + 8) read and r(db + 8) written; R(db + 8) at the start."""
    of = _RowTiles(problem, tiling)
    visits = int(of.rows @ of.tiles)
    row = problem.head_dim * problem.bytes_per_element
    read = of.heads * (2 * problem.keys * row + visits * (2 * row + 2 * FLOAT))
    written = of.heads * (of.total + visits) * (row + 2 * FLOAT)
    return _traffic(problem, read, written, of.scores)


def flash_attention_2(problem: Problem, tiling: Tiling) -> Traffic:
    """Q once, 2·C·db of K and V for each row tile; O and one float32 a row written."""
    of = _RowTiles(problem, tiling)
    row = problem.head_dim * problem.bytes_per_element
    read = of.heads * (of.total * row + 2 * int(of.covered.sum()) * row)
    return _traffic(problem, read, of.heads * of.total * (row + FLOAT), of.scores)


def flash_decoding(problem: Problem, tiling: Tiling) -> Traffic:
    """As FlashAttention-2 where one part is left; otherwise Q for each part that sees something, and s parts of
    R(4d + 4) written and read again."""
    if tiling.splits == 1:
        return flash_attention_2(problem, tiling)
    of = _RowTiles(problem, tiling)
    row = problem.head_dim * problem.bytes_per_element
    parts_seen = -(-of.tiles // (tiling.keys_per_split // tiling.keys))
    read = of.heads * (int(of.rows @ parts_seen) * row + 2 * int(of.covered.sum()) * row)
    return _with_merge(problem, tiling, read, of.heads * of.total * (row + FLOAT), of.scores)


def ascend_flash_attention_score(problem: Problem, tiling: Tiling) -> Traffic:
    """HBM as FlashAttention-2 but for two statistics a row, eight copies each; through L2 and back (4 + b) bytes a
    score and 4d a row and visit."""
    of = _RowTiles(problem, tiling)
    hbm = flash_attention_2(problem, tiling)
    written = hbm.hbm_written + of.heads * of.total * (2 * STATISTIC - FLOAT)
    products = of.heads * int(of.rows @ of.tiles) * problem.head_dim * FLOAT
    l2 = of.scores * (FLOAT + problem.bytes_per_element) + products
    return hbm._replace(hbm_written=written, l2_read=l2, l2_written=l2)


def ascend_incre_flash(problem: Problem, tiling: Tiling) -> Traffic:
    """Q for each part, K and V once a row tile; O passes through L2 between the visits of a part as well."""
    rows, row = problem.heads, problem.head_dim * problem.bytes_per_element
    full_parts, rest = divmod(problem.keys, tiling.keys_per_split)
    visits = full_parts * -(-tiling.keys_per_split // tiling.keys) + -(-rest // tiling.keys)
    read = rows * tiling.splits * row + 2 * row_tiles(problem, tiling) * problem.keys * row
    scores = problem.heads * problem.keys
    form = (
        _traffic(problem, read, rows * row, scores)
        if tiling.splits == 1
        else _with_merge(problem, tiling, read, rows * row, scores)
    )
    l2 = scores * (FLOAT + problem.bytes_per_element) + rows * (2 * visits - tiling.splits) * problem.head_dim * FLOAT
    return form._replace(l2_read=l2, l2_written=l2)


def _traffic(problem: Problem, read: int, written: int, scores: int) -> Traffic:
    return Traffic(read, written, 0, 0, 4 * scores * problem.head_dim, scores)


def _with_merge(problem: Problem, tiling: Tiling, read: int, written: int, scores: int) -> Traffic:
    """Every part's O and log-sum-exp in float32, once there and once back, and one exponential to weigh each."""
    rows = problem.heads * problem.queries * tiling.splits
    parts = rows * (problem.head_dim + 1) * FLOAT
    form = _traffic(problem, read + parts, written + parts, scores)
    return form._replace(exponentials=form.exponentials + rows)


FORMS: dict[str, Callable[[Problem, Tiling], Traffic]] = {
    "standard": standard,
    "flash-attention-1": flash_attention_1,
    "flash-attention-2": flash_attention_2,
    "flash-attention-3": flash_attention_2,
    "flash-decoding": flash_decoding,
    "ascend-flash-attention-score": ascend_flash_attention_score,
    "ascend-incre-flash": ascend_incre_flash,
}
