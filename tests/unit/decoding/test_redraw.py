"""Many draws at once are the engine's own draws, number for number, under every rule."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from specviz.analysis import losslessness
from specviz.decoding import redraw
from specviz.decoding.acceptance import Judgement, greedy_match
from specviz.decoding.distribution import draw, one_hot, uniforms
from specviz.decoding.redraw import draw_many, sampler_of
from specviz.decoding.rules import rule_of
from specviz.settings import RULES, make_settings
from specviz.trace import Settings

ALMOST_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
weights = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=30).filter(any)
numbers = st.lists(
    st.one_of(st.floats(0, ALMOST_ONE, width=32), st.sampled_from([0.0, ALMOST_ONE])), min_size=1, max_size=20
)


@given(weights, numbers)
def test_many_draws_are_single_draws(values: list[float], numbers: list[float]) -> None:
    row, u = torch.tensor(values), torch.tensor(numbers)
    single = torch.stack([draw(row, one) for one in u])
    assert torch.equal(draw_many(row, u), single)
    assert (row[single] > 0).all()


def test_many_draws_are_single_draws_over_a_whole_vocabulary() -> None:
    row = torch.randn(49_152, generator=torch.Generator().manual_seed(0)).mul(3).softmax(-1)
    u = uniforms(1, 300, 1)[:, 0]
    assert torch.equal(draw_many(row, u), torch.stack([draw(row[None], one[None])[0] for one in u]))


def settings_for(rule: str) -> Settings:
    settings = make_settings(temperature=1.0)
    return replace(settings, rule=rule, temperature=0.0 if rule == "greedy-match" else 1.0)


def two_laws(seed: int, size: int = 40) -> tuple[Tensor, Tensor]:
    """p and q that overlap in part, each with tokens the other lacks."""
    generator = torch.Generator().manual_seed(seed)
    p, q = (torch.randn(size, generator=generator).mul(2).softmax(-1) for _ in range(2))
    p[:4], q[2:6] = 0, 0
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", RULES)
def test_a_position_redrawn_is_the_engines_judgement_each_time(rule: str, seed: int) -> None:
    settings = settings_for(rule)
    p, q = two_laws(seed)
    if settings.temperature == 0:
        p = one_hot(p.argmax(), len(p))
        q = (p + q) / 2  # drafts that hit the target's choice at times
    u = uniforms(seed, 400, 3)
    redrawn = sampler_of(settings, p, q).redraw(*u.unbind(-1))

    def judge(drafted: Tensor, test_u: Tensor, final_u: Tensor) -> Judgement:
        rows = torch.stack((p, p))
        if settings.temperature == 0:
            return greedy_match(rows, drafted)
        return rule_of(settings).judge(rows, q[None], drafted, test_u, final_u)

    for row, token, accepted in zip(u, redrawn.tokens.tolist(), redrawn.accepted.tolist(), strict=True):
        drafted = draw(q[None], row[:1])
        judged = judge(drafted, row[1:2], row[2])
        assert bool(judged.n_accepted) == accepted
        assert token == int(drafted[0] if accepted else judged.final_token)
    if rule in ("rejection-sampling", "greedy-match"):
        assert 0 < redrawn.accepted.float().mean() < 1


@pytest.mark.parametrize(
    ("engine", "exact"),
    [
        (redraw.rejection_sampling, losslessness.rejection_sampling),
        (partial(redraw.typical, epsilon=0.09, delta=0.3), partial(losslessness.typical, epsilon=0.09, delta=0.3)),
        (partial(redraw.kl_threshold, threshold=0.8), partial(losslessness.kl_threshold, threshold=0.8)),
        (partial(redraw.kl_threshold, threshold=9.0), partial(losslessness.kl_threshold, threshold=9.0)),
    ],
)
def test_the_three_vectors_emit_the_exact_law(engine: redraw.Sampler, exact: losslessness.PositionRule) -> None:
    p = torch.tensor([0.5, 0.2, 0.2, 0.1, 0.0])
    q = torch.tensor([0.2, 0.5, 0.1, 0.1, 0.1])
    sampler = engine(p, q)  # type: ignore[operator]
    output = losslessness.PositionRule(
        sampler.draft.double().numpy(), sampler.accept.double().numpy(), sampler.replacement.double().numpy()
    ).output
    expected = exact(p.double().numpy(), q.double().numpy()).output  # type: ignore[operator]
    np.testing.assert_allclose(output, expected, atol=1e-6)
