"""The law of the real loop on a real tiny model, sampled: χ² over 20,000 runs, and the museum's ways to fail it."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from scipy import stats
from transformers import PreTrainedTokenizerFast

from specviz.decoding.distribution import Sampling, probabilities, uniforms
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.rules import LOSSLESS, Rule
from specviz.models.llama import LlamaModel
from specviz.museum import judges
from specviz.museum.drafters import BonusGap, GreedyScoredAsSampled, UnprocessedQ, WithoutReplacement
from tests.conftest import tiny_llama
from tests.unit.decoding.rounds import Remembering, Silent, make_loop

VOCAB, GAMMA, LENGTH, RUNS = 6, 2, 3, 20_000
PROMPT = [1, 4, 2]


@pytest.fixture(scope="module")
def target() -> Remembering:
    return Remembering(LlamaModel(tiny_llama(VOCAB, seed=1)))


@pytest.fixture(scope="module")
def draft() -> Remembering:
    return Remembering(LlamaModel(tiny_llama(VOCAB, seed=2, layers=1)))


def p_value(
    target: Remembering,
    drafter: DraftModel,
    sampling: Sampling,
    tokenizer: PreTrainedTokenizerFast,
    rule: Rule = LOSSLESS,
) -> float:
    """χ² of the emitted sequences of LENGTH tokens against the target's joint law."""
    loop = make_loop(target, drafter, sampling, tokenizer, PROMPT, gamma=GAMMA, max_new_tokens=LENGTH)
    loop.rule = rule
    loop.recorder = Silent(tokenizer, [], PROMPT)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(RUNS):
        loop.seed = seed
        loop.ending.max_new_tokens, loop.ending.room = LENGTH, 100
        counts[tuple(itertools.chain.from_iterable(loop.rounds(PROMPT)))] += 1  # type: ignore[arg-type]
    assert sum(counts.values()) == RUNS

    expected = {}
    for sequence in itertools.product(range(VOCAB), repeat=LENGTH):
        chance = 1.0
        for i, token in enumerate(sequence):
            target.allocate(0)
            logits = target.forward(torch.tensor([*PROMPT, *sequence[:i]]), keep=1)[0]
            chance *= float(probabilities(logits, sampling)[token])
        expected[sequence] = chance * RUNS
    if any(expected[sequence] == 0 for sequence in counts):
        return 0.0
    frequent = [sequence for sequence in expected if expected[sequence] >= 5]
    rare = [sequence for sequence in expected if 0 < expected[sequence] < 5]
    observed_bins = [counts[sequence] for sequence in frequent]
    expected_bins = [expected[sequence] for sequence in frequent]
    if sum(expected[sequence] for sequence in rare) >= 5:
        observed_bins.append(sum(counts[sequence] for sequence in rare))
        expected_bins.append(sum(expected[sequence] for sequence in rare))
    assert len(expected_bins) >= 10
    scale = sum(observed_bins) / sum(expected_bins)
    return float(stats.chisquare(observed_bins, [e * scale for e in expected_bins]).pvalue)


@pytest.mark.parametrize("sampling", [Sampling(1.0), Sampling(0.8, top_k=3)], ids=str)
def test_the_loop_samples_from_the_target(
    target: Remembering, draft: Remembering, tokenizer: PreTrainedTokenizerFast, sampling: Sampling
) -> None:
    assert p_value(target, DraftModel(draft, sampling, VOCAB, VOCAB), sampling, tokenizer) > 1e-3


def test_u_stuck_at_zero_is_noticed(
    target: Remembering, draft: Remembering, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampling, rule = Sampling(1.0), Rule(judges.u_stuck_at_zero, lossy=False)
    assert p_value(target, DraftModel(draft, sampling, VOCAB, VOCAB), sampling, tokenizer, rule) < 1e-6


def test_a_residual_replaced_by_p_is_noticed(
    target: Remembering, draft: Remembering, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampling, rule = Sampling(1.0), Rule(judges.residual_is_p, lossy=False)
    assert p_value(target, DraftModel(draft, sampling, VOCAB, VOCAB), sampling, tokenizer, rule) < 1e-6


@pytest.mark.parametrize("drafter", [UnprocessedQ, GreedyScoredAsSampled, WithoutReplacement])
def test_a_q_that_was_not_drawn_from_is_noticed(
    target: Remembering, tokenizer: PreTrainedTokenizerFast, drafter: type[DraftModel]
) -> None:
    sampling = Sampling(0.8, top_k=3)
    draft = Remembering(LlamaModel(tiny_llama(VOCAB, seed=2, layers=1)))
    assert p_value(target, drafter(draft, sampling, VOCAB, VOCAB), sampling, tokenizer) < 1e-6


def test_a_gap_in_the_drafts_cache_leaves_the_law_alone(
    target: Remembering, tokenizer: PreTrainedTokenizerFast
) -> None:
    sampling = Sampling(1.0)
    draft = Remembering(LlamaModel(tiny_llama(VOCAB, seed=2, layers=1)))
    assert p_value(target, BonusGap(draft, sampling, VOCAB, VOCAB), sampling, tokenizer) > 1e-3


def test_drawn_uniforms_are_uniform_over_seeds() -> None:
    firsts = torch.stack([uniforms(seed, 1, 1)[0, 0] for seed in range(5_000)]).numpy()
    assert stats.kstest(firsts, "uniform").pvalue > 1e-3
