"""The law of the real loop on a real tiny model, sampled: χ² over 20,000 runs, and the museum's ways to fail it."""

from __future__ import annotations

import pytest
import torch
from scipy import stats
from transformers import PreTrainedTokenizerFast

from specviz.decoding.distribution import Sampling, uniforms
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.rules import Rule
from specviz.models.llama import LlamaModel
from specviz.museum import judges
from specviz.museum.drafters import BonusGap, GreedyScoredAsSampled, UnprocessedQ, WithoutReplacement
from tests.conftest import tiny_llama
from tests.unit.decoding.rounds import Remembering
from tests.unit.decoding.sequences import VOCAB, p_value


@pytest.fixture(scope="module")
def target() -> Remembering:
    return Remembering(LlamaModel(tiny_llama(VOCAB, seed=1)))


@pytest.fixture(scope="module")
def draft() -> Remembering:
    return Remembering(LlamaModel(tiny_llama(VOCAB, seed=2, layers=1)))


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
