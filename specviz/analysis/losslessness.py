"""The law of what one drafted position emits, exactly, for every rule; and how samples are held against a law.

At a position the draft proposes x with probability d(x), x stands with probability a(x), and otherwise a token is
drawn from a replacement r. So the position emits d·a + (1 − Σ d·a)·r, and a rule is lossless where that is p.
Worked out here with numpy, apart from the engine: tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Law = NDArray[np.float64]

SMALLEST_EXPECTED = 5.0  # bins below it are pooled: χ² is an approximation that needs a few counts in each
BEYOND_CHANCE = 1e-6  # a p-value below it is no accident


@dataclass(frozen=True, slots=True)
class PositionRule:
    """``draft`` d, ``accept`` a and ``replacement`` r of the module's docstring, each [V]."""

    draft: Law
    accept: Law
    replacement: Law

    @property
    def acceptance(self) -> float:
        """The chance that a token drafted here stands, Σ d·a."""
        return float(self.draft @ self.accept)

    @property
    def output(self) -> Law:
        """What the position emits."""
        stands = self.draft * self.accept
        return stands + (1 - stands.sum()) * self.replacement


def rejection_sampling(p: Law, q: Law) -> PositionRule:
    """Accept with min(1, p/q), replace from norm(max(p − q, 0)) (Leviathan et al. 2023, §2.3). Emits p exactly."""
    return PositionRule(q, accept_probability(p, q), residual(p, q))


def greedy_match(p: Law, q: Law) -> PositionRule:
    """Temperature 0, p and q certain: accept the target's choice, replace by it. Emits p exactly."""
    return PositionRule(q, (p == p.max()).astype(float), p)


def typical(p: Law, q: Law, epsilon: float, delta: float) -> PositionRule:
    """Accept while p(x) > min(ε, δ·e^(−H(p))) (Cai et al. 2024, arXiv 2401.10774, §2.3.1), replace from p."""
    return PositionRule(q, (p > min(epsilon, delta * np.exp(-entropy(p)))).astype(float), p)


def kl_threshold(p: Law, q: Law, threshold: float) -> PositionRule:
    """All or nothing: q where KL(p‖q) < ``threshold``, p elsewhere."""
    return PositionRule(q, np.full_like(p, float(kl_divergence(p, q) < threshold)), p)


def accept_probability(p: Law, q: Law) -> Law:
    """min(1, p/q); 1 where q is 0, where nothing is ever drafted."""
    return np.minimum(1.0, np.divide(p, q, out=np.ones_like(p), where=q > 0))


def residual(p: Law, q: Law) -> Law:
    """norm(max(p − q, 0)); p itself where nothing is left over."""
    leftover = np.maximum(p - q, 0)
    total = leftover.sum()
    return leftover / total if total > 0 else p


def entropy(p: Law) -> float:
    """H(p) = −Σ p·ln p, in nats."""
    return float(stats.entropy(p))


def kl_divergence(p: Law, q: Law) -> float:
    """KL(p‖q) in nats; infinite where p has mass that q lacks."""
    return float(stats.entropy(p, q))


def finite(value: float) -> float | None:
    """A number as JSON can hold it: None for infinity."""
    return value if np.isfinite(value) else None


def total_variation(p: Law, q: Law) -> float:
    """½·Σ|p − q|: the largest difference in probability that any event can have."""
    return float(np.abs(p - q).sum() / 2)


def expected_total_variation(law: Law, n: int) -> float:
    """How far n honest samples lie from their own law on average: ½·Σ E|count/n − p|, exactly.

    Each count is binomial, whose mean deviation de Moivre gave: E|X − np| = 2m·C(n, m)·p^m·(1−p)^(n−m+1) with
    m = ⌊np⌋ + 1. For large n it is ½·Σ√(2p(1−p)/πn), the 1/√N line.
    """
    p = law[(law > 0) & (law < 1)]
    m = np.floor(n * p) + 1
    log_choose = special.gammaln(n + 1) - special.gammaln(m + 1) - special.gammaln(n - m + 1)
    log_deviation = np.log(2 * m) + log_choose + m * np.log(p) + (n - m + 1) * np.log1p(-p)
    return float(np.exp(log_deviation).sum() / n / 2)


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """Pearson's statistic, its degrees of freedom, and how often honest samples would reach it."""

    statistic: float
    freedom: int
    p_value: float


def chi_square(counts: NDArray[np.integer], law: Law) -> ChiSquare:
    """Counts [V] against the law they should follow. One sample where the law has no mass decides at once.

    Tokens expected less than ``SMALLEST_EXPECTED`` times are one bin. Where even that is expected less often, χ² cannot
    judge it and leaves it out, unless the exact binomial chance of so many of them is beyond chance: then it decides.
    Raises ValueError if fewer than two bins are left.
    """
    n = int(counts.sum())
    if counts[law <= 0].sum() > 0:
        return ChiSquare(float("inf"), int((law > 0).sum()), 0.0)
    law = law / law.sum()
    frequent = law * n >= SMALLEST_EXPECTED
    observed, expected = counts[frequent], law[frequent] * n
    rare_seen, rare_law = counts[~frequent].sum(), law[~frequent].sum()
    crowded = float(stats.binom.sf(rare_seen - 1, n, rare_law))
    if rare_law * n >= SMALLEST_EXPECTED or crowded < BEYOND_CHANCE:
        observed, expected = np.append(observed, rare_seen), np.append(expected, rare_law * n)
    if len(expected) < 2:
        raise ValueError("χ² needs at least two outcomes that are expected five times")
    result = stats.chisquare(observed, expected * observed.sum() / expected.sum())
    p_value = float(result.pvalue)
    return ChiSquare(
        float(result.statistic), len(expected) - 1, min(p_value, crowded) if crowded < BEYOND_CHANCE else p_value
    )
