"""Probabilities, draws and residuals."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from specviz.decoding.distribution import Sampling, draw, one_hot, overlap, probabilities, residual, uniforms
from specviz.decoding.redraw import draw_many

BIGGEST_UNIFORM = 1 - 2**-24


@st.composite
def distributions(draw_: st.DrawFn, size: int = 6) -> Tensor:
    weights = draw_(st.lists(st.integers(0, 1000), min_size=size, max_size=size).filter(any))
    probs = torch.tensor(weights, dtype=torch.float32)
    return probs / probs.sum()


@pytest.mark.parametrize("top_k", [0, 3, 40, 1000])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.3, 1e-6])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_probabilities_equal_those_of_transformers(temperature: float, top_k: int, top_p: float) -> None:
    logits = torch.randn(5, 100, generator=torch.Generator().manual_seed(0)) * 4
    expected = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k:
        expected = TopKLogitsWarper(top_k)(None, expected)
    if top_p < 1:
        expected = TopPLogitsWarper(top_p)(None, expected)
    actual = probabilities(logits, Sampling(temperature, top_k, top_p))
    torch.testing.assert_close(actual, expected.softmax(-1))


@pytest.mark.parametrize("temperature", [1e-6, 1e-38, 1e-300, 5e-324])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (3, 1.0), (0, 0.5), (3, 1e-9)])
def test_the_smallest_temperatures_leave_the_likeliest_token_alone(
    temperature: float, top_k: int, top_p: float
) -> None:
    logits = torch.tensor([[-30.0, 25.0, 24.0, -torch.inf], [3.0, -40.0, -60.0, 0.0]])
    probs = probabilities(logits, Sampling(temperature, top_k, top_p))
    assert probs.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


def test_probabilities_of_bfloat16_logits_are_float32() -> None:
    assert probabilities(torch.randn(2, 9).bfloat16(), Sampling()).dtype == torch.float32


@given(distributions(), st.floats(0, BIGGEST_UNIFORM, width=32))
def test_a_token_without_weight_is_never_drawn(probs: Tensor, uniform: float) -> None:
    assert probs[draw(probs, torch.tensor(uniform))] > 0


@given(distributions())
def test_each_token_owns_a_share_of_the_uniforms_equal_to_its_weight(probs: Tensor) -> None:
    n = 4096
    uniform = (torch.arange(n) + 0.5) / n
    drawn = draw(probs.expand(n, -1), uniform)
    shares = torch.bincount(drawn, minlength=len(probs)) / n
    assert (shares - probs).abs().max() <= 1.5 / n


@pytest.mark.parametrize("scale", [1e-30, 1.0, 3.0])
def test_draws_survive_the_ends_of_the_unit_interval(scale: float) -> None:
    weights = torch.tensor([0.0, 0.25, 0.5, 0.25, 0.0]) * scale
    assert draw(weights, torch.tensor(0.0)) == 1
    assert draw(weights, torch.tensor(BIGGEST_UNIFORM)) == 3


def test_a_draw_that_rounds_up_to_the_whole_mass_takes_the_last_token_that_has_some() -> None:
    weights, u = torch.tensor([0.0, 0.0, 1e-45, 0.0]), torch.tensor([0.0, 0.9, BIGGEST_UNIFORM])
    assert draw(weights.expand(3, -1), u).tolist() == [2, 2, 2]
    assert draw_many(weights, u).tolist() == [2, 2, 2]


@given(distributions(), distributions())
def test_residual_is_a_distribution_outside_q(p: Tensor, q: Tensor) -> None:
    left = residual(p, q)
    assert left.sum() == pytest.approx(1, abs=1e-5)
    assert (left >= 0).all()
    if (p > q).any():
        assert (left[p <= q] == 0).all()
    else:  # equal but for rounding
        assert torch.equal(left, p)


def test_residual_of_equal_distributions_is_p_and_no_nan() -> None:
    p = torch.tensor([0.2, 0.8])
    assert torch.equal(residual(p, p), p)


@given(distributions(), distributions())
def test_p_is_rebuilt_from_its_overlap_and_its_residual(p: Tensor, q: Tensor) -> None:
    rejected = 1 - overlap(p, q)
    rebuilt = torch.minimum(p, q) + rejected * residual(p, q)
    torch.testing.assert_close(rebuilt, p, atol=1e-6, rtol=0)


def test_uniforms_depend_on_seed_and_stream_alone_and_never_repeat() -> None:
    table = uniforms(7, 500, 9)
    assert torch.equal(table, uniforms(7, 500, 9))
    assert not torch.equal(table, uniforms(8, 500, 9))
    assert not torch.equal(uniforms(7, 500, 9, stream=1), table)
    assert table.min() >= 0 and table.max() < 1
    assert len(table.unique()) > 0.99 * table.numel()
    assert table.mean() == pytest.approx(0.5, abs=0.02)
    uniforms(2**63 - 1, 1, 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_model_that_is_loaded_meanwhile_changes_no_number_format(dtype: torch.dtype) -> None:
    """transformers sets the default of the whole process while it loads, and others may draw in another thread."""
    expected = uniforms(3, 50, 4)
    torch.set_default_dtype(dtype)
    try:
        table, certain = uniforms(3, 50, 4), one_hot(torch.tensor([2, 0]), 4)
    finally:
        torch.set_default_dtype(torch.float32)
    assert table.dtype == certain.dtype == torch.float32
    assert torch.equal(table, expected)
