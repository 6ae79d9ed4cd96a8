"""Exact output laws: against the definition, against the engine, and against samples."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.analysis import losslessness
from specviz.analysis.losslessness import Law, chi_square, expected_total_variation, total_variation
from specviz.decoding import acceptance, lossy
from specviz.decoding.acceptance import Judgement

RULES = {
    "rejection": (losslessness.rejection_sampling, acceptance.rejection_sampling),
    "typical": (
        functools.partial(losslessness.typical, epsilon=0.2, delta=0.5),
        functools.partial(lossy.typical, epsilon=0.2, delta=0.5),
    ),
    "kl": (
        functools.partial(losslessness.kl_threshold, threshold=0.8),
        functools.partial(lossy.kl_threshold, threshold=0.8),
    ),
}


@st.composite
def laws(draw: st.DrawFn, size: int = 5) -> Law:
    weights = np.array(draw(st.lists(st.integers(0, 100), min_size=size, max_size=size).filter(any)), dtype=float)
    return weights / weights.sum()


@given(laws(), laws())
def test_rejection_sampling_emits_p_and_accepts_with_the_overlap(p: Law, q: Law) -> None:
    rule = losslessness.rejection_sampling(p, q)
    np.testing.assert_allclose(rule.output, p, atol=1e-12)
    assert rule.acceptance == pytest.approx(np.minimum(p, q).sum())


@given(st.integers(0, 4), st.integers(0, 4))
def test_greedy_match_emits_the_targets_choice(choice: int, drafted: int) -> None:
    p, q = np.eye(5)[choice], np.eye(5)[drafted]
    rule = losslessness.greedy_match(p, q)
    np.testing.assert_array_equal(rule.output, p)
    assert rule.acceptance == float(choice == drafted)


@given(laws(), laws())
def test_the_kl_threshold_emits_q_or_p_and_nothing_between(p: Law, q: Law) -> None:
    output = losslessness.kl_threshold(p, q, 0.8).output
    accepted = losslessness.kl_divergence(p, q) < 0.8
    np.testing.assert_allclose(output, q if accepted else p, atol=1e-12)
    assert total_variation(output, p) == pytest.approx(total_variation(p, q) if accepted else 0, abs=1e-12)


@pytest.mark.parametrize("name", RULES)
@given(p=laws(), q=laws())
def test_the_engine_emits_the_exact_law(name: str, p: Law, q: Law) -> None:
    """The engine's verdict on every drafted token, over a fine grid of its uniform numbers."""
    exact, judge = RULES[name]
    rows = torch.tensor(np.stack([p, p]), dtype=torch.float32)
    drafts = torch.tensor(q[None], dtype=torch.float32)
    grid = (torch.arange(24) + 0.5) / 24
    output = np.zeros(5)
    for token in np.flatnonzero(q):
        drafted = torch.tensor([token])
        for u in grid:
            for u_final in grid if judge(rows, drafts, drafted, u[None], grid[0]).n_accepted == 0 else grid[:1]:
                judged = judge(rows, drafts, drafted, u[None], u_final)
                emitted = token if judged.n_accepted else int(judged.final_token)
                share = 1 if judged.n_accepted else len(grid)
                output[emitted] += q[token] / len(grid) / share
    # A grid of 24 misses each threshold by half a step at most.
    np.testing.assert_allclose(output, exact(p, q).output, atol=3 / 24)


def test_a_copied_draft_is_certain_to_the_kl_rule_too() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    certain = torch.tensor([[0.0, 1.0, 0.0]])
    zero = torch.zeros(1)
    for q in (None, torch.tensor([[0.0, 1.0, 0.0]])):
        assert lossy.kl_threshold(p, q, torch.tensor([1]), zero, zero[0], threshold=50).n_accepted == 0
        assert (
            lossy.kl_threshold(certain.repeat(2, 1), q, torch.tensor([1]), zero, zero[0], threshold=0.1).n_accepted == 1
        )


LOSSY = [functools.partial(lossy.typical, epsilon=0.5, delta=0.5), functools.partial(lossy.kl_threshold, threshold=0.8)]


@pytest.mark.parametrize("judge", LOSSY, ids=["typical", "kl"])
@pytest.mark.parametrize("n", range(4))
def test_the_final_token_comes_from_the_row_behind_the_last_that_stands(
    judge: Callable[..., Judgement], n: int
) -> None:
    choices = torch.tensor([4, 2, 3, 1])  # what the target is certain of, position by position
    drafted = choices[:3].clone()
    drafted[n:] = 0
    p, q = torch.eye(5)[choices], torch.eye(5)[drafted]
    judged = judge(p, q, drafted, torch.zeros(3), torch.tensor(0.7))
    assert (int(judged.n_accepted), int(judged.final_token)) == (n, int(choices[n]))


def test_what_equals_a_threshold_does_not_pass_it() -> None:
    p, drafted, zero = torch.eye(3)[[1, 1]], torch.tensor([1]), torch.zeros(1)
    assert lossy.typical(p, p[:1], drafted, zero, zero[0], epsilon=1, delta=1).n_accepted == 0
    assert lossy.kl_threshold(p, p[:1], drafted, zero, zero[0], threshold=0).n_accepted == 0


@given(laws(), laws())
def test_divergences_agree_with_the_engines(p: Law, q: Law) -> None:
    ours = losslessness.kl_divergence(p, q)
    theirs = float(lossy.kl_divergence(torch.tensor(p), torch.tensor(q)))
    assert ours == pytest.approx(theirs, abs=1e-9)
    threshold = float(lossy.typical_threshold(torch.tensor(p), 0.09, 0.3))
    assert threshold == pytest.approx(min(0.09, 0.3 * np.exp(-losslessness.entropy(p))), abs=1e-9)


def test_honest_samples_pass_and_a_bent_law_does_not() -> None:
    rng = np.random.default_rng(0)
    law = np.array([0.5, 0.3, 0.15, 0.05 - 1e-6, 1e-6])
    bent = np.array([0.48, 0.32, 0.15, 0.05 - 1e-6, 1e-6])
    n = 100_000
    assert chi_square(rng.multinomial(n, law), law).p_value > 1e-3
    assert chi_square(rng.multinomial(n, bent), law).p_value < 1e-6
    values = [chi_square(rng.multinomial(5_000, law), law).p_value for _ in range(400)]
    assert np.mean(np.array(values) < 0.1) == pytest.approx(0.1, abs=0.06)


def test_a_token_that_cannot_happen_decides() -> None:
    assert chi_square(np.array([99_999, 0, 1]), np.array([0.9, 0.1, 0.0])).p_value == 0
    with pytest.raises(ValueError, match="two outcomes"):
        chi_square(np.array([10, 0]), np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("counts", "law"),
    [
        ([700, 300], [1 - 1e-6, 1e-6]),  # next to certain: nothing but the rare token is left to judge by
        ([5_000, 4_800, 200], [0.5, 0.5 - 1e-6, 1e-6]),
        ([2_500] * 3 + [2_479, 21], [0.25] * 3 + [0.25 - 4.9e-4, 4.9e-4]),
    ],
)
def test_rare_tokens_that_come_too_often_decide(counts: list[int], law: list[float]) -> None:
    found = chi_square(np.array(counts), np.array(law))
    assert found.p_value < 1e-6 and found.freedom == len(law) - 1


def test_a_few_rare_tokens_are_chance() -> None:
    with pytest.raises(ValueError, match="two outcomes"):
        chi_square(np.array([99_999, 1]), np.array([1 - 1e-6, 1e-6]))
    found = chi_square(np.array([49_999, 50_000, 1]), np.array([0.5, 0.5 - 1e-6, 1e-6]))
    assert found.freedom == 1 and found.p_value > 0.9


def test_rare_tokens_are_pooled_into_one_bin() -> None:
    law = np.array([0.5, 0.4] + [0.1 / 1_000] * 1_000)
    counts = np.zeros(1_002, dtype=int)
    counts[:2], counts[2:502] = (5_100, 3_900), 2  # each of the rest is expected once, all of them 1,000 times
    found = chi_square(counts, law)
    assert found.freedom == 2
    assert found.statistic == pytest.approx(100**2 / 5_000 + 100**2 / 4_000)
    assert found.p_value == pytest.approx(np.exp(-found.statistic / 2))  # χ² with two degrees of freedom


def test_the_distance_of_honest_samples_falls_along_its_line() -> None:
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.full(50, 0.5))
    for n in (1_000, 100_000):
        distances = [total_variation(rng.multinomial(n, law) / n, law) for _ in range(50)]
        assert np.mean(distances) == pytest.approx(expected_total_variation(law, n), rel=0.1)
