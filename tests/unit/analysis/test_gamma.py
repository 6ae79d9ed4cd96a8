"""What another γ would have given: the published formula, and at the race's own γ the prediction made elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.analysis.gamma import gamma_curve
from specviz.analysis.metrics import Summary, summarize
from specviz.analysis.speedup import expected_speedup
from specviz.trace import Emitted, Position, Round, Run, Step, Timing

GAMMA = 3


def verification_s(positions: int) -> float:
    """On a straight line, as the curve takes it: 10 ms for one position, 1 ms for each more."""
    return 0.009 + 0.001 * positions


def round_(index: int, drafted: int) -> Round:
    """The first draft token accepted, the second rejected."""
    verdicts = ("accepted", "rejected", "untested")[:drafted]
    positions = tuple(Position(1, "a", 0, 0.5, 0.5, 0.5, verdict, 0.5, (), ()) for verdict in verdicts)
    emitted = tuple(Emitted(1, "a", 0, "draft") for _ in range(min(drafted, 2))) or (Emitted(1, "a", 0, "target"),)
    return Round(
        index, 1, positions, emitted, (), Timing(0.0, (0.004,) * drafted, verification_s(drafted + 1), 0.001, 0.0)
    )


def summary(lengths: list[int], step_s: float = verification_s(1)) -> Summary:
    rounds = tuple(round_(i, drafted) for i, drafted in enumerate(lengths))
    steps = tuple(Step(i, 1, Emitted(1, "a", 0, "target"), (), Timing(0.0, (), step_s, 0.001, 0.0)) for i in range(10))
    return summarize(
        [Run("speculative", rounds, (), "max_tokens", 0.0, ""), Run("standard", (), steps, "max_tokens", 0.0, "")]
    )


def test_full_drafts_follow_the_formula() -> None:
    curve = gamma_curve(summary([GAMMA] * 8))
    assert curve is not None
    assert (curve.alpha, curve.positions, curve.draft_length, curve.drafting_share) == (0.5, 4, 3, 1)
    assert curve.cost == pytest.approx(0.4)

    def overhead(gamma: int) -> float:
        return verification_s(gamma + 1) / verification_s(1)

    expected = [expected_speedup(0.5, gamma, 0.4, overhead(gamma)) for gamma in range(1, 16)]
    assert curve.speedups == pytest.approx(expected)
    gamma, speedup = curve.best
    assert expected[gamma - 1] == pytest.approx(speedup) == pytest.approx(max(expected))


def test_the_best_is_the_best_where_speculation_pays() -> None:
    cheap = replace(summary([GAMMA] * 8), cost=0.01)
    curve = gamma_curve(cheap)
    assert curve is not None
    costs = {gamma: verification_s(gamma + 1) / verification_s(1) for gamma in range(1, 16)}
    expected = max((expected_speedup(0.5, gamma, 0.01, cost), gamma) for gamma, cost in costs.items())
    assert curve.best == pytest.approx(expected[::-1])


@pytest.mark.parametrize("lengths", [[3] * 8, [3, 0, 3, 0, 0, 3]])
def test_at_its_own_gamma_the_curve_is_the_prediction_of_the_summary(lengths: list[int]) -> None:
    raced = summary(lengths)
    curve = gamma_curve(raced)
    assert curve is not None
    assert curve.speedups[GAMMA - 1] == pytest.approx(raced.predicted_speedup)


def test_a_verification_is_never_taken_for_cheaper_than_a_step() -> None:
    curve = gamma_curve(summary([GAMMA] * 8, step_s=0.020))
    assert curve is not None
    assert curve.overhead < 1
    assert curve.speedups[6] == pytest.approx(expected_speedup(curve.alpha, 7, curve.cost, 1.0))


def test_nothing_is_predicted_from_nothing() -> None:
    assert gamma_curve(summary([0, 0, 0])) is None
    raced = summary([GAMMA] * 8)
    assert gamma_curve(replace(raced, speculative=None, speculation=None)) is None
    assert gamma_curve(replace(raced, standard=None, cost=None, verification_overhead=None)) is None
