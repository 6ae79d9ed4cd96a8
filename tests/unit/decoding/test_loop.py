"""The round loop on real tiny models: same tokens as greedy decoding, clean caches, exact endings, honest time."""

from __future__ import annotations

import itertools
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from specviz.decoding.autoregressive import Autoregressive
from specviz.decoding.distribution import Sampling
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.drafters.prompt_lookup import PromptLookup
from specviz.decoding.ending import Ending
from specviz.decoding.recording import Recorder
from specviz.decoding.text import StopStrings
from specviz.errors import UserError
from specviz.models.llama import LlamaModel
from specviz.models.transformers_model import TransformersModel
from specviz.models.wrap import wrap
from specviz.trace import Round, Step
from tests.conftest import tiny_gpt2, tiny_llama
from tests.unit.decoding.rounds import emitted_ids, make_loop, run_rounds

VOCAB = 256
PROMPT = list(b"the cat sat on the cat")


def draft_model(sampling: Sampling, seed: int = 0) -> DraftModel:
    """Seed 0 drafts with the target's own weights (everything is accepted), others disagree most of the time."""
    return DraftModel(LlamaModel(tiny_llama(VOCAB, seed=seed)), sampling, VOCAB, VOCAB)


def standard_steps(
    target: LlamaModel | TransformersModel, tokenizer: PreTrainedTokenizerFast, count: int
) -> list[Step]:
    ending = Ending(frozenset(), StopStrings(()), count, 1000)
    texts = [str(token) for token in range(VOCAB)]
    return list(Autoregressive(target, Sampling(0), 0, ending, Recorder(tokenizer, texts, PROMPT)).steps(PROMPT))


@pytest.mark.parametrize("module", [tiny_llama(VOCAB), tiny_gpt2(VOCAB)], ids=["llama", "gpt2"])
@pytest.mark.parametrize("drafter_name", ["same", "other", "lookup"])
@pytest.mark.parametrize("gamma", [1, 4, 15])
def test_greedy_rounds_emit_the_greedy_text(
    module: torch.nn.Module, drafter_name: str, gamma: int, tokenizer: PreTrainedTokenizerFast
) -> None:
    target = wrap(module)
    drafter = {
        "same": lambda: DraftModel(wrap(module), Sampling(0), VOCAB, VOCAB),
        "other": lambda: draft_model(Sampling(0), seed=3),
        "lookup": lambda: PromptLookup(VOCAB, torch.device("cpu")),
    }[drafter_name]()
    rounds = run_rounds(target, drafter, Sampling(0), tokenizer, PROMPT, gamma=gamma, max_new_tokens=40)
    expected = module.generate(
        torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, len(PROMPT) :].tolist()
    assert emitted_ids(rounds) == expected
    assert [step.emitted.token_id for step in standard_steps(target, tokenizer, 40)] == expected


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**63 - 1),
    gamma=st.integers(1, 6),
    draft_seed=st.integers(0, 3),
    temperature=st.sampled_from([0.0, 0.3, 1.0, 3.0]),
)
def test_after_every_round_both_caches_equal_a_fresh_prefill(
    seed: int, gamma: int, draft_seed: int, temperature: float, tokenizer: PreTrainedTokenizerFast
) -> None:
    target, drafter = LlamaModel(tiny_llama(VOCAB)), draft_model(Sampling(temperature), draft_seed)
    loop = make_loop(target, drafter, drafter.sampling, tokenizer, PROMPT, gamma=gamma, max_new_tokens=25, seed=seed)
    context = list(PROMPT)
    rounds = []
    for round_ in loop.rounds(PROMPT):
        rounds.append(round_)
        assert_clean_caches(round_, context, target, drafter)
    assert emitted_ids(rounds) == context[len(PROMPT) :]
    accepted = [sum(position.verdict == "accepted" for position in round_.drafted) for round_ in rounds]
    if draft_seed == 0 and temperature == 0:
        assert all(count == len(round_.drafted) for count, round_ in zip(accepted, rounds, strict=True))


def assert_clean_caches(round_: Round, context: list[int], target: LlamaModel, drafter: DraftModel) -> None:
    context += [token.token_id for token in round_.emitted]
    if len(context) == len(PROMPT) + 25:
        return  # the run is over; nothing is rolled back for nobody
    assert target.length == len(context) - 1
    assert drafter.model.length >= len(context) - 2  # at most the last drafted token and the final one are missing
    for model in (target, drafter.model):
        fresh = LlamaModel(model.module)  # type: ignore[attr-defined]
        fresh.allocate(len(context))
        fresh.forward(torch.tensor(context[: model.length]), keep=0)
        for layer in range(2):
            torch.testing.assert_close(
                model.cache.keys[layer][:, :, : model.length],  # type: ignore[attr-defined]
                fresh.cache.keys[layer][:, :, : model.length],
                atol=1e-4,
                rtol=1e-4,
            )


def test_full_acceptance_leaves_no_gap_in_the_draft(tokenizer: PreTrainedTokenizerFast) -> None:
    """A draft that equals the target must go on being accepted round after round (peers lost the bonus token)."""
    target, drafter = LlamaModel(tiny_llama(VOCAB)), draft_model(Sampling(1.0), seed=0)
    rounds = run_rounds(target, drafter, Sampling(1.0), tokenizer, PROMPT, gamma=4, max_new_tokens=100)
    assert all(position.verdict == "accepted" for round_ in rounds for position in round_.drafted)
    assert all(position.overlap == pytest.approx(1, abs=1e-4) for round_ in rounds for position in round_.drafted)
    assert {round_.emitted[-1].source for round_ in rounds} == {"bonus"}


def test_an_end_of_text_inside_an_accepted_block_cuts_it_there(tokenizer: PreTrainedTokenizerFast) -> None:
    target = LlamaModel(tiny_llama(VOCAB))
    text = [step.emitted.token_id for step in standard_steps(target, tokenizer, 30)]
    cuts = 0
    for index in range(1, 12):
        eos = text[index]
        first = text.index(eos)
        loop = make_loop(target, draft_model(Sampling(0)), Sampling(0), tokenizer, PROMPT, gamma=5, max_new_tokens=30,
                         eos=frozenset({eos}))  # fmt: skip
        rounds = list(loop.rounds(PROMPT))
        assert loop.finish_reason == "end_of_text"
        assert emitted_ids(rounds) == text[: first + 1]
        last = rounds[-1]
        committed = len(last.emitted)
        verdicts = [position.verdict for position in last.drafted]
        cuts += committed <= len(last.drafted)
        assert verdicts[committed:] == ["untested"] * len(verdicts[committed:])
        assert "rejected" not in verdicts
    assert cuts >= 3  # some of these ends stood inside a block


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_max_tokens_is_exact(count: int, tokenizer: PreTrainedTokenizerFast) -> None:
    target = LlamaModel(tiny_llama(VOCAB))
    loop = make_loop(target, draft_model(Sampling(0)), Sampling(0), tokenizer, PROMPT, gamma=5, max_new_tokens=count)
    assert len(emitted_ids(list(loop.rounds(PROMPT)))) == count
    assert loop.finish_reason == "max_tokens"


def test_the_context_limit_is_exact(tokenizer: PreTrainedTokenizerFast) -> None:
    target = LlamaModel(tiny_llama(VOCAB))  # holds 256 tokens
    prompt = PROMPT * 11  # 242
    loop = make_loop(target, draft_model(Sampling(0)), Sampling(0), tokenizer, prompt, gamma=5, max_new_tokens=1000)
    assert len(emitted_ids(list(loop.rounds(prompt)))) == 256 - 242
    assert loop.finish_reason == "context_limit"


def test_a_stop_string_across_tokens_ends_the_run_at_its_last_token(tokenizer: PreTrainedTokenizerFast) -> None:
    target = LlamaModel(tiny_llama(VOCAB))
    steps = standard_steps(target, tokenizer, 40)
    whole = "".join(step.emitted.text for step in steps)
    start = next(i for i in range(5, 30) if whole[i : i + 3].isascii() and "\ufffd" not in whole[i : i + 3])
    stop = whole[start : start + 3]
    loop = make_loop(target, draft_model(Sampling(0)), Sampling(0), tokenizer, PROMPT, gamma=7, max_new_tokens=40,
                     stop=(stop, "never seen"))  # fmt: skip
    rounds = list(loop.rounds(PROMPT))
    assert loop.finish_reason == "stop_string"
    text = "".join(token.text for round_ in rounds for token in round_.emitted)
    assert text == whole[: whole.index(stop) + len(stop)]


def test_a_stop_between_two_draft_steps_leaves_the_round_at_once(tokenizer: PreTrainedTokenizerFast) -> None:
    target, drafter = LlamaModel(tiny_llama(VOCAB)), draft_model(Sampling(0))
    loop = make_loop(target, drafter, Sampling(0), tokenizer, PROMPT, gamma=15, max_new_tokens=200)
    polls = 0

    def poll() -> str | None:
        nonlocal polls
        polls += 1
        return "deadline" if polls == 20 else None

    loop.poll = poll  # type: ignore[assignment]
    list(loop.rounds(PROMPT))
    assert loop.finish_reason == "deadline"
    assert polls == 20


def test_spans_and_overhead_fill_the_run_and_a_slow_reader_costs_nothing(tokenizer: PreTrainedTokenizerFast) -> None:
    target, drafter = LlamaModel(tiny_llama(VOCAB)), draft_model(Sampling(1.0), seed=3)
    loop = make_loop(target, drafter, Sampling(1.0), tokenizer, PROMPT, gamma=4, max_new_tokens=60)
    began = time.perf_counter()
    rounds = list(loop.rounds(PROMPT))
    wall = time.perf_counter() - began - loop.prefill_s
    accounted = sum(round_.timing.duration_s + round_.timing.overhead_s for round_ in rounds)
    assert accounted == pytest.approx(wall, rel=0.25)
    for before, after in itertools.pairwise(rounds):
        assert after.timing.start_s == pytest.approx(before.timing.end_s)
        assert len(after.timing.draft_s) == len(after.drafted)

    loop = make_loop(target, drafter, Sampling(1.0), tokenizer, PROMPT, gamma=4, max_new_tokens=6)
    slept = 0
    for round_ in loop.rounds(PROMPT):
        time.sleep(0.2)
        slept += 1
        assert round_.timing.end_s < 0.2
    assert slept >= 2


def test_positions_carry_the_evidence_for_their_verdict(tokenizer: PreTrainedTokenizerFast) -> None:
    target, drafter = LlamaModel(tiny_llama(VOCAB)), draft_model(Sampling(1.5, top_k=20), seed=3)
    rounds = run_rounds(target, drafter, drafter.sampling, tokenizer, PROMPT, gamma=4, max_new_tokens=60)
    seen = set()
    for round_ in rounds:
        rejected = False
        for position in round_.drafted:
            seen.add(position.verdict)
            if rejected:
                assert position.verdict == "untested" and position.u is None
                continue
            assert position.u is not None
            assert (position.verdict == "accepted") == (position.u < min(1, position.p / position.q))
            rejected = position.verdict == "rejected"
            assert bool(position.residual) == rejected
        assert round_.emitted[-1].source == ("residual" if rejected else "bonus" if round_.drafted else "target")
    assert seen == {"accepted", "rejected", "untested"}
    draws = [position.u for round_ in rounds for position in round_.drafted if position.u is not None]
    assert len(set(draws)) > 0.95 * len(draws)


def test_each_position_shows_its_own_p_q_and_residual(tokenizer: PreTrainedTokenizerFast) -> None:
    """With top-k 5 the likeliest tokens are all there are, so that the rest follows from them."""
    target, drafter = LlamaModel(tiny_llama(VOCAB)), draft_model(Sampling(1.5, top_k=5), seed=3)
    rejected = 0
    for round_ in run_rounds(target, drafter, drafter.sampling, tokenizer, PROMPT, gamma=4, max_new_tokens=60):
        for position in round_.drafted:
            p, q, left = (
                {one.token_id: one.prob for one in likeliest}
                for likeliest in (position.top_p, position.top_q, position.residual)
            )
            assert sum(p.values()) == pytest.approx(1, abs=1e-5) and sum(q.values()) == pytest.approx(1, abs=1e-5)
            assert (p.get(position.token_id, 0.0), q[position.token_id]) == (position.p, position.q)
            assert position.overlap == pytest.approx(sum(min(p[token], q.get(token, 0.0)) for token in p), abs=1e-5)
            if position.verdict == "rejected":
                rejected += 1
                over = {token: p[token] - q.get(token, 0.0) for token in p if p[token] > q.get(token, 0.0)}
                assert left == pytest.approx(
                    {token: mass / sum(over.values()) for token, mass in over.items()}, abs=1e-4
                )
    assert rejected > 3


def test_numbers_that_are_not_finite_end_in_a_sentence(tokenizer: PreTrainedTokenizerFast) -> None:
    module = tiny_llama(VOCAB)
    with torch.no_grad():
        module.lm_head.weight.fill_(torch.nan)
    for sampling in (Sampling(0), Sampling(1)):
        loop = make_loop(LlamaModel(module), PromptLookup(VOCAB, torch.device("cpu")), sampling, tokenizer, PROMPT,
                         gamma=2, max_new_tokens=5)  # fmt: skip
        with pytest.raises(UserError, match="target model produced numbers that are not finite"):
            list(loop.rounds(PROMPT))


@pytest.mark.parametrize("sampling", [Sampling(1), Sampling(1, top_k=5, top_p=0.5)], ids=str)
def test_a_draft_whose_numbers_are_not_finite_ends_in_a_sentence(
    tokenizer: PreTrainedTokenizerFast, sampling: Sampling
) -> None:
    module = tiny_llama(VOCAB)
    with torch.no_grad():
        module.lm_head.weight[5] = torch.inf
    drafter = DraftModel(LlamaModel(module), sampling, VOCAB, VOCAB)
    loop = make_loop(LlamaModel(tiny_llama(VOCAB)), drafter, sampling, tokenizer, PROMPT, gamma=2, max_new_tokens=5)
    with pytest.raises(UserError, match="draft model produced numbers that are not finite"):
        list(loop.rounds(PROMPT))
