"""A schedule really executed: every visit computed on Q, K, V in the schedule's order, with online softmax.

Each row carries m, the largest score so far, ℓ, the sum of e^(score − m), and O, the values weighted likewise. A new
tile raises m, so what was gathered is rescaled by e^(m before − m after) (Milakov and Gimelshein, arXiv 1805.02867;
FlashAttention, arXiv 2205.14135, §3.1). Accumulators are float32, or float64 for float64 input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.attention.problem import Problem
from specviz.attention.steps import Plan, Rows, TileStep

NOTHING = -math.inf


@dataclass(frozen=True, slots=True)
class Visit:
    """What one step did to its rows. All tensors are [rows].

    ``largest`` is the tile's largest unmasked score of each row, −∞ where a row sees nothing of it. ``rescale`` is what
    ℓ and O were multiplied by before the tile was added. ``tile_sum`` is the tile's own Σ e^(score − m_after); in
    standard attention it is known in the phases softmax (all tiles of the rows together) and values.
    """

    step: TileStep
    largest: Tensor
    m_before: Tensor
    m_after: Tensor
    l_before: Tensor
    l_after: Tensor
    rescale: Tensor
    tile_sum: Tensor

    def mass(self, lse: Tensor) -> Tensor:
        """The attention of each row [rows] that falls into the tile, given the rows' final log-sum-exp [rows]."""
        return self.tile_sum * (self.m_after - lse).exp()


class OnlineSoftmax:
    """One execution of a plan over q [heads, queries, d], k and v [kv_heads, keys, d].

    ``scale`` multiplies the scores, 1/√d unless given. K and V are never repeated for grouped heads. After ``run`` is
    exhausted ``output`` [heads, queries, d] and ``lse`` [heads, queries] hold the result; with ``head`` given only that
    head's part of them (and of the heads packed with it). Raises ValueError for tensors of another shape.
    """

    def __init__(self, plan: Plan, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> None:
        problem = plan.problem
        check_shapes(problem, q, k, v)
        self.plan, self.problem = plan, problem
        self.scale = problem.head_dim**-0.5 if scale is None else scale
        self.dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
        self.k, self.v = k, v
        self.group = plan.tiling.group
        self.q = self._pack(q)
        *sizes, head_dim = self.q.shape
        splits = plan.tiling.splits
        # Of each split: what its rows have gathered. [splits, packed heads, rows(, d)]
        self.m = torch.full((splits, *sizes), NOTHING, dtype=self.dtype)
        self.l = torch.zeros(splits, *sizes, dtype=self.dtype)
        self.o = torch.zeros(splits, *sizes, head_dim, dtype=self.dtype)
        self._output = torch.zeros(*sizes, head_dim, dtype=self.dtype)
        self._lse = torch.full(tuple(sizes), NOTHING, dtype=self.dtype)
        self._scores: dict[int, Tensor] = {}

    @property
    def output(self) -> Tensor:
        return self._unpack(self._output)

    @property
    def lse(self) -> Tensor:
        return self._unpack(self._lse[..., None])[..., 0]

    def lse_of(self, rows: Rows) -> Tensor:
        """The finished log-sum-exp [rows] of a step's rows."""
        return self._lse[self._at(rows)]

    def so_far(self, step: TileStep) -> Tensor:
        """O [rows, d] of a step's rows as it stands: the accumulators themselves, so copy what is to be kept.

        It lacks the division by ℓ until the step that ``finishes``, unless the schedule divides at each step.
        """
        return self.o[step.split][self._at(step.rows)]

    def run(self, head: int | None = None) -> Iterator[Visit]:
        """Execute step by step. Skipped tiles and steps that compute no scores change nothing of m and ℓ."""
        for step in self.plan.steps(head):
            if step.kind == "skipped" or step.phase == "initialise":
                yield self._idle(step)
            elif step.phase == "attend":
                yield self._attend(step)
            elif step.phase == "merge":
                self._merge(step.rows)
                yield self._idle(step)
            else:
                yield self._standard(step)

    def _attend(self, step: TileStep) -> Visit:
        at = self._at(step.rows)
        m, ell, o = (state[step.split][at] for state in (self.m, self.l, self.o))
        m_before, l_before = m.clone(), ell.clone()
        scores = self._tile_scores(step)
        largest = scores.amax(-1)
        m_after = torch.maximum(m_before, largest)
        base = m_after.masked_fill(m_after == NOTHING, 0)  # a row that has seen nothing yet
        rescale = (m_before - base).exp()
        p = (scores - base[:, None]).exp()
        tile_sum = p.sum(-1)
        l_after = rescale * l_before + tile_sum
        product = p @ self._values(step)
        if self.plan.schedule.divides_each_step:
            o.copy_(((rescale * l_before)[:, None] * o + product) / l_after[:, None])
        else:
            o.mul_(rescale[:, None]).add_(product)
        m.copy_(m_after)
        ell.copy_(l_after)
        if step.finishes:
            self._finish(step, at)
        return Visit(step, largest, m_before, m_after, l_before, l_after, rescale, tile_sum)

    def _finish(self, step: TileStep, at: tuple[int, slice]) -> None:
        """The one division, unless it was done at each step; with one split, that is the result."""
        m, ell, o = (state[step.split][at] for state in (self.m, self.l, self.o))
        if not self.plan.schedule.divides_each_step:
            o.div_(ell.masked_fill(ell == 0, 1)[:, None])  # a row may see nothing of its split
        if self.plan.tiling.splits == 1:
            self._output[at] = o
            self._lse[at] = m + ell.log()

    def _merge(self, rows: Rows) -> None:
        """O = Σ e^(LSEᵢ − LSE)·Oᵢ over the splits."""
        at = self._at(rows)
        parts, outputs = self.m[:, *at] + self.l[:, *at].log(), self.o[:, *at]
        lse = parts.logsumexp(0)
        self._output[at] = ((parts - lse).exp()[..., None] * outputs).sum(0)
        self._lse[at] = lse

    def _standard(self, step: TileStep) -> Visit:
        """Three kernels over a matrix of all scores, which is kept for one head at a time."""
        rows, keys, at = step.rows, step.keys, self._at(step.rows)
        if rows.head not in self._scores:
            self._scores = {rows.head: torch.empty(self.problem.queries, self.problem.keys, dtype=self.dtype)}
        matrix = self._scores[rows.head][rows.start : rows.stop, keys.start : keys.stop]
        visit = self._idle(step)
        if step.phase == "scores":
            matrix.copy_(self._tile_scores(step))
            return replace(visit, largest=matrix.amax(-1))
        if step.phase == "values":
            self._output[at] += matrix @ self._values(step)
            return replace(visit, tile_sum=matrix.sum(-1) * visit.l_after)
        largest = matrix.amax(-1)
        total = matrix.sub_(largest[:, None]).exp_().sum(-1)
        matrix.div_(total[:, None])
        self.m[0][at], self.l[0][at], self._lse[at] = largest, total, largest + total.log()
        return replace(visit, largest=largest, m_after=largest, l_after=total, tile_sum=total)

    def _idle(self, step: TileStep) -> Visit:
        m, ell = (state[step.split][self._at(step.rows)].clone() for state in (self.m, self.l))
        nothing = torch.full_like(m, NOTHING)
        return Visit(step, nothing, m, m, ell, ell, torch.ones_like(m), torch.zeros_like(m))

    def _tile_scores(self, step: TileStep) -> Tensor:
        """Scaled scores [rows, keys], −∞ where the causal mask lies."""
        rows, keys = step.rows, step.keys
        k = self.k[self._kv_head(rows), keys.start : keys.stop].to(self.dtype)
        scores = self.q[self._at(rows)].to(self.dtype) @ k.T * self.scale
        if step.kind == "masked":
            query = torch.arange(rows.start, rows.stop) // rows.group
            visible = query + self.problem.visible(0)
            hidden = torch.arange(keys.start, keys.stop) >= visible[:, None]
            scores.masked_fill_(hidden, NOTHING)
        return scores

    def _values(self, step: TileStep) -> Tensor:
        return self.v[self._kv_head(step.rows), step.keys.start : step.keys.stop].to(self.dtype)

    def _kv_head(self, rows: Rows) -> int:
        return rows.head // self.problem.group

    def _at(self, rows: Rows) -> tuple[int, slice]:
        return rows.head // self.group, slice(rows.start, rows.stop)

    def _pack(self, x: Tensor) -> Tensor:
        """[heads, queries, d] → [heads / group, queries · group, d], the heads of a query beside each other."""
        heads, queries, d = x.shape
        return x.view(heads // self.group, self.group, queries, d).transpose(1, 2).reshape(-1, queries * self.group, d)

    def _unpack(self, x: Tensor) -> Tensor:
        heads, rows, d = x.shape
        return x.view(heads, rows // self.group, self.group, d).transpose(1, 2).reshape(heads * self.group, -1, d)


def check_shapes(problem: Problem, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raises ValueError unless q, k, v are those of the problem."""
    cached = (problem.kv_heads, problem.keys, problem.head_dim)
    expected = ((problem.heads, problem.queries, problem.head_dim), cached, cached)
    given = tuple(tuple(x.shape) for x in (q, k, v))
    if given != expected:
        raise ValueError(f"q, k, v have the shapes {given}; this problem has {expected}")
