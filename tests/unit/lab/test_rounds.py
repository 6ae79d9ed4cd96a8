"""Whole rounds drawn again: the engine's own first rounds, row by row of the table, and their law."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from specviz.analysis.losslessness import ChiSquare
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.ending import Ending
from specviz.decoding.recording import Recorder
from specviz.decoding.replay import context_of, sampling_of
from specviz.decoding.rules import rule_of
from specviz.decoding.speculative import Speculative
from specviz.decoding.text import StopStrings
from specviz.errors import UserError
from specviz.lab.rounds import _pooled, rounds
from specviz.lab.tree import Tree, Visit
from specviz.models.load import Pair
from specviz.race import make_drafter
from specviz.settings import RULES
from specviz.trace import Settings, Trace

N = 120


def engine_rounds(pair: Pair, settings: Settings, context: list[int], seed: int) -> list[int]:
    """How many tokens the engine's own round emits behind ``context``, with each row of the seed's table."""
    drafter, _ = make_drafter(pair, settings)
    lengths = []
    for row in range(N):
        ending = Ending(frozenset(pair.eos_token_ids), StopStrings(()), 30, 30)
        recorder = Recorder(pair.tokenizer, pair.texts, context)
        loop = Speculative(
            pair.target, drafter, sampling_of(settings), settings.gamma, seed, ending, recorder,
            rule=rule_of(settings), first_row=row,
        )  # fmt: skip
        lengths.append(len(next(loop.rounds(context)).emitted))
    return lengths


@pytest.mark.parametrize("change", [{}, {"rule": "typical"}, {"temperature": 0.0}, {"min_confidence": 0.2}], ids=str)
def test_they_are_the_engines_rounds(pair: Pair, trace: Trace, settings: Settings, change: dict[str, object]) -> None:
    settings = replace(settings, **change)  # type: ignore[arg-type]
    context = context_of(trace, 2)
    drawn = rounds(pair, settings, context, N, seed=9, most_positions=10_000)
    lengths = engine_rounds(pair, settings, context, seed=9)
    assert drawn.followed == 1
    assert drawn.tokens_per_round == pytest.approx(sum(lengths) / N)
    for depth in drawn.depths:
        assert depth.n == sum(length > depth.depth for length in lengths)


@pytest.mark.parametrize("rule", RULES)
def test_every_token_follows_p_behind_the_tokens_before_it(
    pair: Pair, trace: Trace, settings: Settings, rule: str
) -> None:
    settings = replace(settings, rule=rule, kl_threshold=50.0, epsilon=0.01, delta=0.05)
    drawn = rounds(pair, settings, context_of(trace, 2), 30_000, seed=1)
    assert drawn.positions <= 64 and 0 < drawn.followed <= 1
    assert 1 <= drawn.tokens_per_round <= settings.gamma + 1
    assert drawn.depths[0].n == 30_000 and [depth.depth for depth in drawn.depths] == list(range(len(drawn.depths)))
    if rule in ("rejection-sampling", "greedy-match"):
        assert drawn.finding.verdict == "lossless"
        assert all(depth.p_value > 1e-4 for depth in drawn.depths)
    else:
        assert drawn.finding.verdict == "lossy" and drawn.finding.p_value == pytest.approx(0, abs=1e-6)


def test_positions_are_pooled_by_adding_statistics_and_degrees() -> None:
    visits = [Visit(0, 10, 5, 0.1, 0.0, ChiSquare(*one, p_value=0.5)) for one in ((3.0, 2), (0.0, 0), (5.0, 4))]
    assert _pooled(visits) == ChiSquare(8.0, 6, pytest.approx(np.exp(-4) * (1 + 4 + 8)))  # Q(3, 4), by hand
    assert _pooled(visits[1:2]).p_value == 1


def test_copied_drafts_and_rounds_without_a_draft(pair: Pair, settings: Settings) -> None:
    lookup = replace(settings, drafter="prompt-lookup", temperature=3.0)  # flat enough to accept a copy
    copied = rounds(pair, lookup, list(b"one two one"), 20_000, seed=1)
    assert copied.finding.verdict == "lossless" and len(copied.depths) > 1
    nothing = rounds(pair, lookup, list(b"abc"), 20_000, seed=1)
    assert (nothing.tokens_per_round, nothing.positions, nothing.finding.verdict) == (1, 1, "lossless")


def test_it_can_be_stopped_and_says_what_was_followed(pair: Pair, settings: Settings) -> None:
    first = rounds(pair, settings, [1, 2, 3], 5_000, seed=1, most_positions=1)
    assert first.positions == 1 and 0 < first.followed < 1
    with pytest.raises(UserError, match="stopped before it began"):
        rounds(pair, settings, [1, 2, 3], 5_000, seed=1, should_stop=lambda: True)


def test_a_full_context_is_refused(pair: Pair, settings: Settings) -> None:
    with pytest.raises(UserError, match="fills the models' context"):
        Tree(pair, settings, [1] * 256)


def test_a_prefix_asks_both_models_for_what_the_engine_would(pair: Pair, settings: Settings) -> None:
    tree = Tree(pair, settings, [1, 2, 3, 4])
    drafter, _ = make_drafter(pair, settings)
    assert isinstance(drafter, DraftModel)
    drafter.start([1, 2, 3, 4], 20)
    expected = drafter.retrace([9, 8, 7])
    tree = Tree(pair, settings, [1, 2, 3, 4])
    assert tree._draft is not None
    for depth, prefix in enumerate([(), (9,), (9, 8)]):
        torch.testing.assert_close(tree._draft(prefix), expected[depth], atol=1e-4, rtol=1e-4)
