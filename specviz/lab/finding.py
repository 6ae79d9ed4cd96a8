"""What the laboratory found, and when it says so. Needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from specviz.analysis.losslessness import BEYOND_CHANCE, ChiSquare, Law, chi_square, finite
from specviz.errors import UserError

FEWEST_DRAWS, MOST_DRAWS = 100, 1_000_000
SAME_LAW = 1e-6  # total variation between p and an output law that float32 cannot tell from it


@dataclass(frozen=True, slots=True)
class Finding:
    """One sampler held against p, the target's distribution, over ``n`` draws.

    ``tv_sampled`` is the total variation between p and the drawn frequencies, ``tv_exact`` between p and the exact
    output law. ``chi2`` is None where it is infinite (a token was drawn that p rules out: ``p_value`` 0) and, like
    ``p_value``, where another statistic than the distribution decides. ``verdict``: "lossless" or "lossy" for a rule,
    "exposed" or "not exposed" for an exhibit.
    """

    rule: str
    exhibit: str | None
    n: int
    tv_sampled: float
    tv_exact: float
    chi2: float | None
    p_value: float | None
    verdict: str


def check_draws(n: int) -> int:
    """``n`` if the laboratory draws so often. Raises UserError."""
    if not FEWEST_DRAWS <= n <= MOST_DRAWS:
        raise UserError(
            f"The number of redraws must be a whole number from {FEWEST_DRAWS:,} to {MOST_DRAWS:,}; you gave {n:,}."
        )
    return n


def fit(counts: NDArray[np.integer], law: Law) -> ChiSquare:
    """χ² of counts [V] against a law; where the law leaves nothing to chance, 0 for samples that are all right."""
    try:
        return chi_square(counts, law)
    except ValueError:
        return ChiSquare(0.0, 0, 1.0)


def judge(
    rule: str, exhibit: str | None, n: int, *, tv_sampled: float, tv_exact: float, against_p: ChiSquare
) -> Finding:
    """The finding on a sampler whose draws gave this χ² against p."""
    p_value = against_p.p_value
    if exhibit is not None:
        verdict = "exposed" if p_value < BEYOND_CHANCE else "not exposed"
    else:
        verdict = "lossless" if tv_exact <= SAME_LAW and p_value >= BEYOND_CHANCE else "lossy"
    chi2 = finite(against_p.statistic)
    return Finding(rule, exhibit, n, tv_sampled, tv_exact, chi2, p_value, verdict)


def demonstrated(sampler: Finding, exhibit: str, exposed: bool) -> Finding:
    """The finding on an exhibit that leaves the sampler alone: its own statistic decides, and no χ² does.

    ``sampler`` is the honest one's finding, which is the exhibit's too.
    """
    verdict = "exposed" if exposed else "not exposed"
    return replace(sampler, exhibit=exhibit, chi2=None, p_value=None, verdict=verdict)
