"""Each exhibit breaks its one part and nothing else, at one position as in the loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from specviz.analysis import losslessness
from specviz.decoding import redraw
from specviz.decoding.distribution import Sampling, draw, one_hot, probabilities, uniforms
from specviz.decoding.rules import Judge
from specviz.decoding.text import StopStrings
from specviz.errors import UserError
from specviz.lab.redraw import output_law
from specviz.models.llama import LlamaModel
from specviz.museum import catalogue, demonstrate, judges, samplers
from specviz.museum.drafters import BonusGap, GreedyScoredAsSampled, UnprocessedQ, WithoutReplacement
from specviz.museum.endings import EosIgnored
from specviz.museum.models import OffByOneRollback
from specviz.museum.samplers import Position, broken_sampler
from tests.conftest import tiny_llama

VOCAB = 40
SAMPLING = Sampling(0.8, top_k=12)


def position(sampling: Sampling = SAMPLING, before: list[int] | None = None) -> Position:
    generator = torch.Generator().manual_seed(5)
    target, noise, first = torch.randn(3, VOCAB, generator=generator).mul(2).unbind()
    draft = target + 0.7 * noise
    p, q, first_q = (
        one_hot(row.argmax(), VOCAB) if sampling.greedy else probabilities(row, sampling)
        for row in (target, draft, first)
    )
    return Position(p, q, draft, sampling, first_q, [] if before is None else before)


def test_the_catalogue_and_the_parts_name_the_same_exhibits() -> None:
    bending = {exhibit.name for exhibit in catalogue.EXHIBITS if exhibit.bends}
    assert bending == samplers.BENDING.keys()
    assert set(catalogue.NAMES) - bending == demonstrate.DEMONSTRATIONS.keys()
    assert len(catalogue.NAMES) == len(set(catalogue.NAMES)) == 9
    for exhibit in catalogue.EXHIBITS:
        assert exhibit.sources and exhibit.bends == (exhibit.statistic == "chi2")
    with pytest.raises(UserError, match="one of u-stuck-at-zero, "):
        catalogue.find("bonus")


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        ("u-stuck-at-zero", judges.u_stuck_at_zero),
        ("residual-is-p", judges.residual_is_p),
        ("kl-acceptance", judges.kl_acceptance),
    ],
)
def test_a_position_redrawn_is_the_broken_judgement_each_time(name: str, judge: Judge) -> None:
    here = position(Sampling(2.5))
    u = uniforms(3, 400, 3)
    redrawn = broken_sampler(name, here).redraw(*u.unbind(-1))
    for row, token, accepted in zip(u, redrawn.tokens.tolist(), redrawn.accepted.tolist(), strict=True):
        drafted = draw(here.q[None], row[:1])
        judged = judge(torch.stack((here.p, here.p)), here.q[None], drafted, row[1:2], row[2])
        assert bool(judged.n_accepted) == accepted
        assert token == int(drafted[0] if accepted else judged.final_token)


@pytest.mark.parametrize("name", samplers.BENDING)
def test_its_law_is_not_p_and_at_temperature_0_it_is(name: str) -> None:
    bent = position(Sampling(2.5), before=[3])
    law = output_law(broken_sampler(name, bent))
    assert law.sum() == pytest.approx(1)
    assert losslessness.total_variation(law, bent.p.double().numpy()) > 0.01
    certain = position(Sampling(0), before=[3])
    np.testing.assert_array_equal(output_law(broken_sampler(name, certain)), certain.p.numpy())


def test_without_replacement_draws_what_is_left_of_the_first_q() -> None:
    here = position(Sampling(1.0), before=[3, 7])
    left = here.first_q.clone()
    left[[3, 7]] = 0
    sampler = broken_sampler("without-replacement", here)
    torch.testing.assert_close(sampler.draft, left)
    honest = redraw.rejection_sampling(here.p, here.q)
    assert torch.equal(sampler.accept, honest.accept) and torch.equal(sampler.replacement, honest.replacement)


def test_where_an_exhibit_cannot_be_it_says_so() -> None:
    with pytest.raises(UserError, match="its own statistic"):
        broken_sampler("bonus-gap", position())
    with pytest.raises(UserError, match="second drafted position"):
        broken_sampler("without-replacement", position())
    here = position()
    copied = Position(here.p, here.q, None, here.sampling, here.q, [])
    with pytest.raises(UserError, match="prompt lookup only copies"):
        broken_sampler("unprocessed-q", copied)


def drafts(make: Callable[..., UnprocessedQ | WithoutReplacement], sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
    """(tokens [3], reported q [3, V], raw logits [3, V]) of one draft by a broken drafter."""
    drafter = make(LlamaModel(tiny_llama(VOCAB, seed=2)), sampling, VOCAB, VOCAB)
    drafter.start([1, 2, 3], 20)
    draft = drafter.propose(3, torch.tensor([0.2, 0.7, 0.5]), lambda: None)
    model = LlamaModel(tiny_llama(VOCAB, seed=2))
    model.allocate(20)
    logits = model.forward(torch.tensor([1, 2, 3, *draft.token_ids[:-1].tolist()]), keep=3)
    assert draft.q is not None
    return draft.token_ids, draft.q, logits


def test_unprocessed_q_reports_the_plain_softmax_of_what_it_drew_filtered() -> None:
    tokens, reported, logits = drafts(UnprocessedQ, Sampling(0.5))
    torch.testing.assert_close(reported, logits.softmax(-1))
    drawn = probabilities(logits, Sampling(0.5, top_k=8))
    assert tokens.tolist() == draw(drawn, torch.tensor([0.2, 0.7, 0.5])).tolist()


def test_greedy_drafts_are_reported_as_sampled() -> None:
    tokens, reported, logits = drafts(GreedyScoredAsSampled, SAMPLING)
    assert tokens.tolist() == logits.argmax(-1).tolist()
    torch.testing.assert_close(reported, probabilities(logits, SAMPLING))


def test_without_replacement_all_tokens_come_from_the_first_q() -> None:
    tokens, reported, logits = drafts(WithoutReplacement, Sampling(1.0))
    assert len(set(tokens.tolist())) == 3
    torch.testing.assert_close(reported, logits.softmax(-1))
    first = logits[0].softmax(-1)
    second = first.clone()
    second[tokens[0]] = 0
    assert int(tokens[1]) == int(draw(second, torch.tensor(0.7)))
    certain, _, _ = drafts(WithoutReplacement, Sampling(1.0, top_k=1))
    assert len(set(certain.tolist())) == 1  # nothing else is left to draw


def test_a_bonus_gap_leaves_out_the_last_drafted_token_for_good() -> None:
    drafter = BonusGap(LlamaModel(tiny_llama(VOCAB)), Sampling(1.0), VOCAB, VOCAB)
    drafter.start([1, 2, 3], 30)
    drafted = drafter.propose(2, torch.tensor([0.1, 0.6]), lambda: None).token_ids.tolist()
    drafter.commit([*drafted, 9])
    assert drafter._context == [1, 2, 3, drafted[0], 9]
    drafter.propose(2, torch.tensor([0.1, 0.6]), lambda: None)
    assert drafter.model.length == 6


@pytest.mark.parametrize("by", [1, -1, 0])
def test_a_rollback_misses_by_one(by: int) -> None:
    model = OffByOneRollback(LlamaModel(tiny_llama(VOCAB)), by)
    model.allocate(8)
    model.forward(torch.tensor([1, 2, 3, 4, 5]), keep=1)
    model.rollback(3)
    assert model.length == 3 + by
    model.rollback(model.length)
    assert model.length == {1: 4, -1: 1, 0: 3}[by]


def test_an_end_inside_a_block_is_missed_and_at_its_end_seen() -> None:
    ending = EosIgnored(frozenset({7}), StopStrings(()), 100, 100)
    assert ending.cut([1, 7, 2], None) == ([1, 7, 2], None)
    assert ending.cut([1, 7], None) == ([1, 7], "end_of_text")
