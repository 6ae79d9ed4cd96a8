"""The two lossy rules in the real loop: their exact output law, what their record says, and temperature 0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from specviz import trace as records
from specviz.analysis import losslessness
from specviz.analysis.losslessness import Law, PositionRule, chi_square
from specviz.decoding import lossy
from specviz.decoding.distribution import Sampling, probabilities
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.drafters.prompt_lookup import PromptLookup
from specviz.decoding.replay import sampling_of
from specviz.decoding.rules import rule_of
from specviz.models.llama import LlamaModel
from specviz.settings import LOSSY_RULES, RULES, make_settings
from specviz.trace import Round, Settings, Trace, TraceError, from_json, to_json
from tests.conftest import tiny_llama
from tests.unit.decoding.rounds import Remembering, Silent, emitted_ids, make_loop

VOCAB, RUNS = 6, 1_500
PROMPT = [1, 4, 2]
LARGE_VOCAB = 256
LONG_PROMPT = list(b"the cat sat on the cat")

# On this pair and prompt KL(p‖q) is 1.25: of the two KL thresholds one passes every draft and the other none.
LAWS: dict[str, tuple[Settings, Callable[[Law, Law], PositionRule]]] = {
    "typical": (
        make_settings(rule="typical", temperature=1.0, gamma=1),
        lambda p, q: losslessness.typical(p, q, 0.09, 0.3),
    ),
    "kl above": (
        make_settings(rule="kl-threshold", temperature=1.0, gamma=1, kl_threshold=2.0),
        lambda p, q: losslessness.kl_threshold(p, q, 2.0),
    ),
    "kl below": (
        make_settings(rule="kl-threshold", temperature=1.0, gamma=1, kl_threshold=0.8),
        lambda p, q: losslessness.kl_threshold(p, q, 0.8),
    ),
}


@pytest.mark.parametrize("flushed", [False, True])
def test_probabilities_that_a_device_may_take_for_0_weigh_nothing(flushed: bool) -> None:
    p = torch.tensor([0.5, 0.5 - 2**-20, 2**-20, 0.0])
    dust = torch.tensor([0.5, 0.5 - 2**-20, 2**-20, 1e-40])
    q = torch.tensor([0.25, 0.5, 0.25, 0.0])
    assert torch.set_flush_denormal(flushed)
    try:
        assert lossy.typical_threshold(dust, 0.5, 0.3) == lossy.typical_threshold(p, 0.5, 0.3)
        assert lossy.kl_divergence(dust, q) == lossy.kl_divergence(p, q)
    finally:
        torch.set_flush_denormal(False)
    assert lossy.kl_divergence(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])) == torch.inf


@pytest.mark.parametrize("name", LAWS)
def test_the_first_position_has_the_rules_exact_law(name: str, tokenizer: PreTrainedTokenizerFast) -> None:
    settings, exact = LAWS[name]
    target = Remembering(LlamaModel(tiny_llama(VOCAB, seed=1)))
    draft = Remembering(LlamaModel(tiny_llama(VOCAB, seed=2, layers=1)))
    p, q = (first_law(model, sampling_of(settings)) for model in (target, draft))
    counts = first_tokens(target, DraftModel(draft, sampling_of(settings), VOCAB, VOCAB), settings, tokenizer)
    law = exact(p, q).output
    assert chi_square(counts, law).p_value > 1e-3
    if name == "kl below":
        np.testing.assert_allclose(law, p)
    else:
        assert chi_square(counts, p).p_value < 1e-6


def first_law(model: Remembering, sampling: Sampling) -> Law:
    model.allocate(0)
    return probabilities(model.forward(torch.tensor(PROMPT), keep=1)[0], sampling).double().numpy()


def first_tokens(
    target: Remembering, drafter: Drafter, settings: Settings, tokenizer: PreTrainedTokenizerFast
) -> np.ndarray:
    """How often each token came first, over many seeds of the real loop."""
    loop = make_loop(target, drafter, sampling_of(settings), tokenizer, PROMPT, gamma=1, max_new_tokens=2)
    loop.rule = rule_of(settings)
    loop.recorder = Silent(tokenizer, [], PROMPT)
    counts = np.zeros(VOCAB, dtype=np.int64)
    for seed in range(RUNS):
        loop.seed = seed
        loop.ending.max_new_tokens, loop.ending.room = 2, 100
        counts[next(loop.rounds(PROMPT))[0]] += 1  # type: ignore[index]
    return counts


def decoded(
    settings: Settings, tokenizer: PreTrainedTokenizerFast, drafter: Drafter | None = None, draft_seed: int = 3
) -> list[Round]:
    """Rounds of 40 tokens; unless given, the drafter is a model that disagrees with the target now and then."""
    sampling = sampling_of(settings)
    drafter = drafter or DraftModel(
        LlamaModel(tiny_llama(LARGE_VOCAB, seed=draft_seed)), sampling, LARGE_VOCAB, LARGE_VOCAB
    )
    target = LlamaModel(tiny_llama(LARGE_VOCAB))
    loop = make_loop(target, drafter, sampling, tokenizer, LONG_PROMPT, gamma=settings.gamma, max_new_tokens=40)
    loop.rule = rule_of(settings)
    return list(loop.rounds(LONG_PROMPT))


@pytest.mark.parametrize("rule", RULES)
def test_at_temperature_0_every_rule_is_greedy_match(rule: str, tokenizer: PreTrainedTokenizerFast) -> None:
    settings = make_settings(rule=rule, temperature=0, epsilon=0, delta=0, kl_threshold=100)
    rounds = decoded(settings, tokenizer)
    greedy = decoded(replace(settings, rule="greedy-match"), tokenizer)
    assert emitted_ids(rounds) == emitted_ids(greedy)
    assert not records.is_lossy(settings)
    assert {token.source for round_ in rounds for token in round_.emitted} <= {"draft", "residual", "bonus", "target"}
    assert all(
        round_.emitted[-1].source == "residual"
        for round_ in rounds
        if any(position.verdict == "rejected" for position in round_.drafted)
    )


@pytest.mark.parametrize("rule", LOSSY_RULES)
@pytest.mark.parametrize("drafter", ["draft-model", "prompt-lookup"])
def test_a_record_names_no_draw_and_no_residual(rule: str, drafter: str, tokenizer: PreTrainedTokenizerFast) -> None:
    settings = make_settings(rule=rule, temperature=1.5, top_k=20, epsilon=0.05, delta=1.0, kl_threshold=100)
    lookup = PromptLookup(LARGE_VOCAB, torch.device("cpu")) if drafter == "prompt-lookup" else None
    rounds = decoded(settings, tokenizer, lookup)
    rejections = 0
    for round_ in rounds:
        assert all(position.u is None and position.residual == () for position in round_.drafted)
        rejected = any(position.verdict == "rejected" for position in round_.drafted)
        rejections += rejected
        accepted = [position for position in round_.drafted if position.verdict == "accepted"]
        sources = ["target" if rejected or not round_.drafted else "bonus"]
        assert [token.source for token in round_.emitted] == ["draft"] * len(accepted) + sources
    assert rejections > 0
    whole = trace_of(rounds, settings)
    assert from_json(to_json(whole)) == whole
    with pytest.raises(TraceError, match="verdicts"):
        from_json(to_json(replace(whole, settings=replace(settings, rule="rejection-sampling"))).replace(
            '"u":null', '"u":0.5'
        ))  # fmt: skip
    with pytest.raises(TraceError, match="verdicts"):
        from_json(to_json(whole).replace('"source":"target"', '"source":"residual"'))


def trace_of(rounds: list[Round], settings: Settings) -> Trace:
    info = records.ModelInfo("tiny", "float32", 1, LARGE_VOCAB, ())
    run = records.Run("speculative", tuple(rounds), (), "max_tokens", 0.0, "")
    machine = records.Machine("cpu", "test", 1, 1, {})
    prompt = records.Prompt("", tuple(LONG_PROMPT))
    return Trace(settings, records.Models(info, info), machine, prompt, (run,), "")
