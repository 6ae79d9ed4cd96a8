"""The i.i.d. model against simulation, its limits, and the number the articles give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.analysis.speedup import (
    article_speedup,
    break_even_alpha,
    expected_speedup,
    expected_tokens,
)

ALPHA = st.floats(0, 1)
GAMMA = st.integers(1, 15)


@settings(max_examples=30, deadline=None)
@given(ALPHA, GAMMA, st.integers(0, 2**32 - 1))
def test_expected_tokens_agree_with_simulated_rounds(alpha: float, gamma: int, seed: int) -> None:
    rounds = 20_000
    accepted = np.random.default_rng(seed).random((rounds, gamma)) < alpha
    tokens = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    tolerance = 6 * tokens.std() / rounds**0.5 + 1e-3
    assert expected_tokens(alpha, gamma) == pytest.approx(tokens.mean(), abs=tolerance)


@given(ALPHA, GAMMA)
def test_expected_tokens_are_the_geometric_sum(alpha: float, gamma: int) -> None:
    assert expected_tokens(alpha, gamma) == pytest.approx(sum(alpha**i for i in range(gamma + 1)))


def test_the_article_and_the_exact_number_differ() -> None:
    assert article_speedup(0.8, 4, 0.010, 0.050) == pytest.approx(2.67, abs=0.005)
    assert expected_tokens(0.8, 4) == pytest.approx(3.3616)
    assert expected_speedup(0.8, 4, 10 / 50) == pytest.approx(1.87, abs=0.005)


def test_dearer_verification_lowers_the_speedup() -> None:
    assert expected_speedup(0.8, 4, 0.2, overhead=2.0) == pytest.approx(3.3616 / 2.8)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_speculation_helps_exactly_when_acceptance_exceeds_the_cost(alpha: float, cost: float) -> None:
    """Corollary 3.9 of the paper: some γ helps iff α > c, and then γ = 1 already does."""
    if abs(alpha - cost) > 1e-9:
        assert (expected_speedup(alpha, 1, cost) > 1) == (alpha > cost)
        assert any(expected_speedup(alpha, gamma, cost) > 1 for gamma in range(1, 16)) == (alpha > cost)


@given(GAMMA, st.floats(0, 1), st.floats(1, 3))
def test_break_even_is_where_the_speedup_is_one(gamma: int, cost: float, overhead: float) -> None:
    alpha = break_even_alpha(gamma, cost, overhead)
    if alpha is None:
        assert expected_speedup(1.0, gamma, cost, overhead) < 1
    elif gamma * cost + overhead > 1:
        assert expected_speedup(alpha, gamma, cost, overhead) == pytest.approx(1)


def test_nonsense_is_refused() -> None:
    for alpha, gamma in [(-0.1, 4), (1.1, 4), (0.5, -1), (float("nan"), 4)]:
        with pytest.raises(ValueError):
            expected_tokens(alpha, gamma)
