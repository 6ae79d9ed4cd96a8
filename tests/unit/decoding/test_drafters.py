"""Drafters report exactly what they drew from."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specviz.decoding.distribution import Sampling, probabilities
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.drafters.prompt_lookup import MAX_NGRAM, PromptLookup
from specviz.models.llama import LlamaModel
from tests.conftest import tiny_llama


def nothing() -> None:
    """A clock that nobody reads."""


def test_reported_q_is_the_distribution_of_the_drawn_tokens() -> None:
    """χ² of drawn first tokens against the reported row, with top-k on."""
    sampling = Sampling(0.7, top_k=5)
    drafter = DraftModel(LlamaModel(tiny_llama(16)), sampling, 16, 16)
    drafter.start([1, 2, 3], 64)
    n = 4000
    grid = (torch.arange(n) + 0.5) / n
    counts = torch.zeros(16)
    for uniform in grid:
        draft = drafter.propose(1, uniform[None], nothing)
        assert draft.q is not None
        counts[draft.token_ids[0]] += 1
        drafter.commit([])
    support = draft.q[0] > 0
    assert int(support.sum()) == 5
    assert counts[~support].sum() == 0
    expected = (draft.q[0][support] * n).double()
    scaled = expected / expected.sum() * counts[support].sum()
    assert stats.chisquare(counts[support].double().numpy(), scaled.numpy()).pvalue > 0.5


def test_each_token_is_conditioned_on_the_last() -> None:
    """Not γ draws from one distribution (seed article 000): row i is what the model says after token i−1."""
    model = LlamaModel(tiny_llama(16))
    drafter = DraftModel(model, Sampling(1.0), 16, 16)
    drafter.start([1, 2, 3], 64)
    draft = drafter.propose(4, torch.rand(4, generator=torch.Generator().manual_seed(0)), nothing)
    assert draft.q is not None
    drafter.start([1, 2, 3], 64)
    again = probabilities(drafter.retrace(draft.token_ids.tolist()), drafter.sampling)
    assert torch.equal(again, draft.q)


def test_padding_of_either_vocabulary_is_never_drafted_and_rows_fit_the_target() -> None:
    for shared, target_vocab in ((10, 16), (10, 40)):
        drafter = DraftModel(LlamaModel(tiny_llama(16)), Sampling(5.0), target_vocab, shared)
        drafter.start([1, 2], 128)
        for seed in range(20):
            uniforms = torch.rand(3, generator=torch.Generator().manual_seed(seed))
            draft = drafter.propose(3, uniforms, nothing)
            assert draft.q is not None and draft.q.shape == (3, target_vocab)
            assert draft.token_ids.max() < shared
            assert draft.q[:, shared:].sum() == 0
            drafter.commit([])


def test_a_padding_id_of_the_target_alone_does_not_stop_the_draft() -> None:
    drafter = DraftModel(LlamaModel(tiny_llama(16)), Sampling(1.0), 40, 16)
    drafter.start([1, 2, 39], 64)
    drafter.commit([38, 3, 37])
    assert len(drafter.propose(2, torch.tensor([0.1, 0.9]), nothing).token_ids) == 2
    drafter.start([1, 39], 64)
    logits = drafter.retrace([2, 3])
    assert logits.shape == (2, 40) and (logits[:, 16:] == -torch.inf).all()


def test_an_unsure_draft_may_stop_early() -> None:
    model = LlamaModel(tiny_llama(16))
    uniforms = torch.tensor([0.99] * 8)
    always = DraftModel(model, Sampling(1.0), 16, 16)
    always.start([1, 2, 3], 64)
    assert len(always.propose(8, uniforms, nothing).token_ids) == 8
    unsure = DraftModel(model, Sampling(1.0), 16, 16, min_confidence=0.9)
    unsure.start([1, 2, 3], 64)
    draft = unsure.propose(8, uniforms, nothing)
    assert draft.q is not None
    assert 1 <= len(draft.token_ids) < 8
    assert draft.q[-1, draft.token_ids[-1]] < 0.9


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 6))
def test_prompt_lookup_finds_what_a_search_finds(text: list[int], gamma: int) -> None:
    drafter = PromptLookup(4, torch.device("cpu"))
    half = max(1, len(text) // 2)
    drafter.start(text[:half], 0)
    for token in text[half:]:
        drafter.commit([token])
    expected: list[int] = []
    for n in range(min(MAX_NGRAM, len(text)), 0, -1):
        ends = [end for end in range(n, len(text)) if text[end - n : end] == text[-n:]]
        if ends:
            expected = text[ends[-1] : ends[-1] + gamma]
            break
    draft = drafter.propose(gamma, torch.empty(gamma), nothing)
    assert draft.q is None
    assert draft.token_ids.tolist() == expected


def test_whatever_the_cache_lacks_is_fed_though_the_device_holds_less_of_it() -> None:
    drafter = DraftModel(LlamaModel(tiny_llama(32)), Sampling(0), 32, 32)
    drafter.start([3, 1, 4, 1, 5], 32)
    drafter.commit([9, 2], torch.tensor([9, 2]))
    assert drafter._uncached().tolist() == [5, 9, 2]
    drafter.propose(2, torch.zeros(2), nothing)
    drafter.commit([6], torch.tensor([6]))
    assert drafter._uncached().tolist() == [6]


def test_an_id_that_only_the_target_has_is_read_as_the_drafts_last_also_on_the_device() -> None:
    drafter = DraftModel(LlamaModel(tiny_llama(16)), Sampling(0), 20, 16)
    drafter.start([1, 2], 32)
    drafter.propose(1, torch.zeros(1), nothing)
    drafter.commit([18], torch.tensor([18]))
    assert drafter._uncached().tolist() == [15]
