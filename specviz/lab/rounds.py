"""Whole rounds drawn again, N times: every token they emit must follow p given the tokens before it.

Each row of the table of uniform numbers is one round, laid out as the engine lays it out, so that a round here emits
what the engine would have emitted with that row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import stats

from specviz.analysis.losslessness import ChiSquare, finite
from specviz.decoding.distribution import uniforms
from specviz.errors import UserError
from specviz.lab.finding import Finding, check_draws, judge
from specviz.lab.redraw import at_zero
from specviz.lab.tree import Tree, Visit
from specviz.models.load import Pair
from specviz.trace import Settings

MOST_POSITIONS = 64  # each asks both models once


@dataclass(frozen=True, slots=True)
class Depth:
    """All positions followed behind ``depth`` accepted tokens, pooled over the ``n`` rounds that came there.

    ``tv`` is the mean distance of such a position's frequencies from its p, weighted by visits.
    """

    depth: int
    n: int
    tv: float
    chi2: float | None
    freedom: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Rounds:
    """``n`` rounds: how many ``positions`` were followed, and the share of rounds ``followed`` to their end.

    ``tokens_per_round`` is the mean; rounds that were left on the way count as going on like those that were not.
    """

    n: int
    positions: int
    followed: float
    tokens_per_round: float
    depths: list[Depth]
    finding: Finding


def rounds(
    pair: Pair,
    settings: Settings,
    context: Sequence[int],
    n: int,
    seed: int,
    *,
    most_positions: int = MOST_POSITIONS,
    should_stop: Callable[[], bool] = lambda: False,
) -> Rounds:
    """Draw the round behind ``context`` (token ids) ``n`` times under ``settings``, with both models' caches.

    The prefixes that most rounds share are followed first, ``most_positions`` of them at most; ``should_stop`` ends
    that early. Raises UserError, also if it was stopped before the first position.
    """
    check_draws(n)
    settings = at_zero(settings)
    tree = Tree(pair, settings, list(context))
    table = uniforms(seed, n, 2 * settings.gamma + 1)
    visits = list(tree.walk(table, most_positions, should_stop))
    if not visits:
        raise UserError("The redrawing was stopped before it began.")
    by_depth = [[visit for visit in visits if visit.depth == depth] for depth in range(tree.gamma + 1)]
    seen = sum(visit.n for visit in visits)
    return Rounds(
        n=n,
        positions=len(visits),
        followed=sum(visit.n - visit.continued for visit in visits) / n,
        tokens_per_round=_tokens_per_round(by_depth),
        depths=[_depth(there) for there in by_depth if there],
        finding=judge(
            settings.rule,
            None,
            n,
            tv_sampled=sum(visit.n * visit.tv_sampled for visit in visits) / seen,
            tv_exact=sum(visit.n * visit.tv_exact for visit in visits) / seen,
            against_p=_pooled(visits),
        ),
    )


def _depth(visits: list[Visit]) -> Depth:
    n, pooled = sum(visit.n for visit in visits), _pooled(visits)
    tv = sum(visit.n * visit.tv_sampled for visit in visits) / n
    return Depth(visits[0].depth, n, tv, finite(pooled.statistic), pooled.freedom, pooled.p_value)


def _pooled(visits: list[Visit]) -> ChiSquare:
    """Independent χ² add up, and so do their degrees of freedom."""
    statistic = sum(visit.against_p.statistic for visit in visits)
    freedom = sum(visit.against_p.freedom for visit in visits)
    return ChiSquare(statistic, freedom, float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0)


def _tokens_per_round(by_depth: list[list[Visit]]) -> float:
    """A round emits one token at every position it comes to: the chance to come to each depth, summed."""
    tokens, reached = 0.0, 1.0
    for visits in by_depth:
        if not visits:
            break
        tokens += reached
        reached *= sum(visit.continued for visit in visits) / sum(visit.n for visit in visits)
    return tokens
