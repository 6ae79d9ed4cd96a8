"""Recomputed p and q agree with the numbers the engine recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from specviz import trace as records
from specviz.decoding.distribution import Sampling, overlap
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.drafters.prompt_lookup import PromptLookup
from specviz.decoding.replay import p_and_q_at
from specviz.errors import UserError
from specviz.models.llama import LlamaModel
from tests.conftest import tiny_llama
from tests.unit.decoding.rounds import run_rounds

VOCAB = 256
PROMPT = list(b"one two one two one")


def record(rounds: list[records.Round], sampling: Sampling) -> records.Trace:
    info = records.ModelInfo("tiny", "float32", 1, VOCAB, ())
    settings = records.Settings(
        "draft-model", 4, sampling.temperature, sampling.top_k, sampling.top_p, 0, 30, "rejection-sampling"
    )
    run = records.Run("speculative", tuple(rounds), (), "max_tokens", 0.0, "")
    machine = records.Machine("cpu", "test", 1, 1, {})
    return records.Trace(settings, records.Models(info, info), machine, records.Prompt("", tuple(PROMPT)), (run,), "")


@pytest.mark.parametrize("sampling", [Sampling(1.2, top_k=30, top_p=0.95), Sampling(0)], ids=str)
@pytest.mark.parametrize("kind", ["draft-model", "prompt-lookup"])
def test_an_imported_trace_gives_the_engines_numbers(
    sampling: Sampling, kind: str, tokenizer: PreTrainedTokenizerFast
) -> None:
    target = LlamaModel(tiny_llama(VOCAB))
    drafter: Drafter = (
        DraftModel(LlamaModel(tiny_llama(VOCAB, seed=1)), sampling, VOCAB, VOCAB)
        if kind == "draft-model"
        else PromptLookup(VOCAB, torch.device("cpu"))
    )
    rounds = run_rounds(target, drafter, sampling, tokenizer, PROMPT, gamma=4, max_new_tokens=30)
    trace = records.from_json(records.to_json(record(rounds, sampling)))
    for round_ in rounds:
        p, q = p_and_q_at(trace, round_.index, target, drafter)
        k = len(round_.drafted)
        assert p.shape == (k + 1, VOCAB) and q.shape == (k, VOCAB)
        for i, position in enumerate(round_.drafted):
            assert float(p[i, position.token_id]) == pytest.approx(position.p, abs=1e-4)
            assert float(q[i, position.token_id]) == pytest.approx(position.q, abs=1e-4)
            assert float(overlap(p[i], q[i])) == pytest.approx(position.overlap, abs=1e-4)
            for candidate in position.top_p:
                assert float(p[i, candidate.token_id]) == pytest.approx(candidate.prob, abs=1e-4)


def test_a_round_that_does_not_exist_and_a_foreign_trace_get_a_sentence(tokenizer: PreTrainedTokenizerFast) -> None:
    target, lookup = LlamaModel(tiny_llama(VOCAB)), PromptLookup(VOCAB, torch.device("cpu"))
    trace = record(run_rounds(target, lookup, Sampling(0), tokenizer, PROMPT, gamma=2, max_new_tokens=4), Sampling(0))
    for index in (-1, 99):
        with pytest.raises(UserError, match="no speculative round"):
            p_and_q_at(trace, index, target, lookup)
    short = LlamaModel(tiny_llama(VOCAB))
    short.context_limit = len(PROMPT)
    for other in (LlamaModel(tiny_llama(32)), short):
        with pytest.raises(UserError, match="another model"):
            p_and_q_at(trace, 0, other, lookup)


def test_an_unknown_token_drafted_in_any_round_gets_a_sentence(tokenizer: PreTrainedTokenizerFast) -> None:
    """Rejected ones are fed as well, and where a device is asked for a row that it has not, it stops for good."""
    target = LlamaModel(tiny_llama(VOCAB))
    drafter = DraftModel(LlamaModel(tiny_llama(VOCAB, seed=1)), Sampling(0), VOCAB, VOCAB)
    rounds = run_rounds(target, drafter, Sampling(0), tokenizer, PROMPT, gamma=4, max_new_tokens=12)
    rejecting = next(round_ for round_ in rounds if round_.drafted[-1].verdict != "accepted")
    *kept, last = rejecting.drafted
    rounds[rejecting.index] = replace(rejecting, drafted=(*kept, replace(last, token_id=VOCAB)))
    for index in range(len(rounds)):
        with pytest.raises(UserError, match="token ids that the loaded one does not have"):
            p_and_q_at(record(rounds, Sampling(0)), index, target, drafter)
