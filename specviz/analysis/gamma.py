"""What another γ would have given, from one race's own α, c and verification overhead.

The model is that of ``speedup.py``. One race measures the overhead at its own draft length only, so T(k)/T(1) is
taken on a straight line: 1 at k = 1, the measured overhead at this race's mean k, and on beyond it. Rounds in
which nothing was drafted (prompt lookup often finds nothing) stay ordinary steps, whatever γ is.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.analysis.metrics import Summary
from specviz.analysis.speedup import expected_tokens
from specviz.settings import MAX_GAMMA


@dataclass(frozen=True, slots=True)
class GammaCurve:
    """``speedups[i]`` is the speedup to expect at γ = i + 1.

    ``positions`` is the mean k of a verification in this race, ``draft_length`` the mean number of tokens drafted where
    any were, ``drafting_share`` the share of such rounds. ``overhead`` is T(k)/T(1) as measured at ``positions``.
    """

    speedups: tuple[float, ...]
    alpha: float
    cost: float
    overhead: float
    positions: float
    draft_length: float
    drafting_share: float

    @property
    def best(self) -> tuple[int, float]:
        """The γ with the largest expected speedup, and that speedup."""
        speedup = max(self.speedups)
        return self.speedups.index(speedup) + 1, speedup


def gamma_curve(summary: Summary, limit: int = MAX_GAMMA) -> GammaCurve | None:
    """The expected speedup at γ = 1 … ``limit``; None without both runs, or when no draft was ever tested."""
    speculative, speculation = summary.speculative, summary.speculation
    if not (speculative and speculation and speculation.alpha is not None):
        return None
    if summary.cost is None or summary.verification_overhead is None:
        return None
    alpha, cost, rounds = speculation.alpha, summary.cost, speculative.target_forwards
    share = speculation.drafting_rounds / rounds
    # T(k) never falls with k: a measured overhead below 1 is the clock's noise.
    slope = max(0.0, summary.verification_overhead - 1) * rounds / speculation.drafted

    def speedup(gamma: int) -> float:
        tokens, time = expected_tokens(alpha, gamma), gamma * cost + 1 + slope * gamma
        return (share * tokens + 1 - share) / (share * time + 1 - share)

    return GammaCurve(
        speedups=tuple(speedup(gamma) for gamma in range(1, limit + 1)),
        alpha=alpha,
        cost=cost,
        overhead=summary.verification_overhead,
        positions=1 + speculation.drafted / rounds,
        draft_length=speculation.drafted / speculation.drafting_rounds,
        drafting_share=share,
    )
