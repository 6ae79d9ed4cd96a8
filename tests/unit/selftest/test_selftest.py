"""Every check passes on sound code, and fails once what it looks at is broken."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from specviz import trace
from specviz.decoding import acceptance, distribution
from specviz.decoding.acceptance import Judgement, rejection_sampling
from specviz.models import attention as kernels
from specviz.models.attention import Heads, Kernel
from specviz.models.llama import LlamaModel
from specviz.museum.judges import u_stuck_at_zero
from specviz.selftest import attention, losslessness, not_finite, running, tokens, uniforms
from specviz.selftest.report import (
    Check,
    NotApplicableError,
    Outcome,
    Report,
    perform,
    without_folders,
    without_paths,
)
from specviz.selftest.run import examinations, selftest
from specviz.selftest.subject import Subject
from tests.conftest import byte_tokenizer, tiny_gpt2

CPU = torch.device("cpu")
Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def report(subject: Subject) -> Report:
    return selftest(subject)


def test_all_that_the_cpu_can_be_asked_passes(report: Report) -> None:
    assert {check.name: check.detail for check in report.checks if check.passed is False} == {}
    assert {check.name for check in report.checks if check.passed is None} == {"waits for the device", "memory"}
    assert report.passed
    assert all(check.measured and check.limit for check in report.checks if check.passed)


def test_the_report_is_plain_and_says_what_it_was_made_with(report: Report, subject: Subject) -> None:
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    assert document["passed"] is True
    assert (document["device"], document["dtype"], document["attention"]) == ("cpu", "float32", "fused")
    assert set(document["versions"]) >= {"python", "torch", "transformers", "specviz"}
    assert len(document["checks"]) == len(examinations(subject))
    assert document["target"]["fingerprint"] == subject.pair.target_info.fingerprint


# ---- negative controls: a device that computes something else ----


def failing(examine: Callable[[], Outcome]) -> Outcome:
    outcome = examine()
    assert not outcome.passed, outcome
    return outcome


def shifted_draw(weights: Tensor, uniform: Tensor) -> Tensor:
    return (distribution.draw(weights, uniform) - 1).clamp(min=0)


def test_a_model_that_computes_something_else_is_found(subject: Subject, monkeypatch: Patch) -> None:
    forward = LlamaModel.forward

    def off(self: LlamaModel, token_ids: Tensor, keep: int) -> Tensor:
        logits = forward(self, token_ids, keep)
        return logits + 0.5 * logits.roll(1, -1)

    monkeypatch.setattr(LlamaModel, "forward", off)
    failing(lambda: tokens.logits(subject))
    failing(lambda: tokens.logits(subject, "draft-model"))
    found = failing(lambda: tokens.tokens(subject, "speculative", drafter="draft-model"))
    assert "other at token" in found.measured


def test_a_scale_of_attention_that_is_wrong_shows_in_tokens_and_logits(subject: Subject, monkeypatch: Patch) -> None:
    def unscaled(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        return kernels.fused(q * math.sqrt(q.shape[-1]), keys, values, mask)

    monkeypatch.setattr(subject.pair.target, "kernel", Kernel(kernels.bottom_right_causal, unscaled))
    failing(lambda: tokens.logits(subject))
    failing(lambda: tokens.tokens(subject, "standard", drafter="prompt-lookup"))


def test_a_near_tie_is_no_failure_and_a_clear_difference_is() -> None:
    here = torch.tensor([[0.0, 4.0, 3.99, -4.0]])
    there = torch.tensor([[0.0, 3.99, 4.0, -4.0]])
    assert tokens.compare(there, here, torch.bfloat16).passed
    assert not tokens.compare(there, here, torch.float32).passed
    assert not tokens.compare(here.roll(1, -1), here, torch.bfloat16).passed
    assert not tokens.compare(torch.full_like(here, math.nan), here, torch.bfloat16).passed


def test_a_copy_that_drafts_with_other_weights_is_found(subject: Subject, monkeypatch: Patch) -> None:
    draft = subject.pair.draft("quantized-self", "int8")
    other = subject.pair.draft("draft-model")
    monkeypatch.setattr(tokens, "_draft", lambda *_: (replace(draft, model=other.model), draft))
    failing(lambda: tokens.logits(subject, "quantized-self", "int8"))


def test_a_table_that_changes_on_its_way_is_found(monkeypatch: Patch) -> None:
    there = uniforms.uniforms
    for change in (lambda table: table.half().float(), lambda table: table * table, lambda table: table + 1e-3):

        class Table:
            def __init__(self, table: Tensor, change: Callable[[Tensor], Tensor]) -> None:
                self.table, self.change = table, change

            def to(self, _: torch.device) -> Tensor:
                return self.change(self.table)

            def view(self, dtype: torch.dtype) -> Tensor:
                return self.table.view(dtype)

        monkeypatch.setattr(uniforms, "uniforms", lambda *_, change=change: Table(there(5, 2**14, 8), change))
        failing(lambda: uniforms.numbers(CPU))


def test_numbers_that_are_not_uniform_are_found(monkeypatch: Patch) -> None:
    there = uniforms.uniforms
    monkeypatch.setattr(uniforms, "uniforms", lambda *shape: there(*shape) ** 1.05)
    assert "bit-equal" in failing(lambda: uniforms.numbers(CPU)).measured


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_draw_that_is_one_off_is_found(monkeypatch: Patch, shift: int) -> None:
    calls = []

    def draw(weights: Tensor, uniform: Tensor) -> Tensor:
        calls.append(1)
        return distribution.draw(weights, uniform) + (
            shift if len(calls) <= uniforms.ROWS * uniforms.COLUMNS // uniforms.BATCH else 0
        )

    monkeypatch.setattr(uniforms, "draw", draw)
    failing(lambda: uniforms.draws(CPU))


def test_a_draw_from_another_law_is_found_though_both_sides_agree(monkeypatch: Patch) -> None:
    monkeypatch.setattr(uniforms, "draw", lambda weights, u: distribution.draw(weights.sqrt(), u))
    found = failing(lambda: uniforms.draws(CPU))
    assert found.measured.startswith("0 tokens other")


def test_swallowed_nans_are_found(monkeypatch: Patch) -> None:
    def cut_off(logits: Tensor, sampling: distribution.Sampling) -> Tensor:
        return distribution.probabilities(logits.nan_to_num(), sampling)  # where overflow is cut off, as on old chips

    monkeypatch.setattr(not_finite, "probabilities", cut_off)
    assert " 0 unnoticed" not in failing(lambda: not_finite.judging(CPU)).measured


def test_an_argmax_that_passes_over_nan_is_found(monkeypatch: Patch) -> None:
    def passing_over(logits: Tensor, drafted: Tensor) -> Judgement:
        return acceptance.greedy_match(logits.nan_to_num(nan=-math.inf), drafted)

    monkeypatch.setattr(not_finite, "greedy_match", passing_over)
    failing(lambda: not_finite.judging(CPU))


def test_a_loop_that_goes_on_after_nan_is_found(subject: Subject, monkeypatch: Patch) -> None:
    monkeypatch.setattr(
        not_finite._Poisoned, "forward", lambda self, ids, keep: self.model.forward(ids, keep).nan_to_num()
    )
    assert failing(lambda: not_finite.loops(subject)).measured == "0 of 4 runs refused to go on"


def wrong_scale(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    return kernels.fused(q * 1.1, keys, values, mask)


def one_too_few(k: int, n: int, heads: Heads) -> Tensor | None:
    mask = kernels.bottom_right_causal(k, n, heads)
    return mask if mask is None else mask & mask.roll(-1, -1)


def one_too_many(k: int, n: int, heads: Heads) -> Tensor | None:
    mask = kernels.bottom_right_causal(k, n, heads)
    return mask if mask is None else mask | mask.roll(1, -1)


def inverted(k: int, n: int, heads: Heads) -> Tensor | None:
    mask = kernels.bottom_right_causal(k, n, heads)
    return mask if mask is None else ~mask


def top_left(k: int, n: int, heads: Heads) -> Tensor | None:
    return None if k == 1 else torch.ones(k, n, dtype=torch.bool).tril().repeat(heads.query // heads.key, 1)


def whole_buffer(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    kv_heads, room, dim = keys.shape[1], keys.shape[2] + attention.SPARE, keys.shape[3]
    all_keys, all_values = (x.as_strided((1, kv_heads, room, dim), (0, room * dim, dim, 1)) for x in (keys, values))
    mask = mask if mask is None else torch.nn.functional.pad(mask, (0, attention.SPARE))
    return kernels.fused(q, all_keys, all_values, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("mask", "attend"),
    [
        (kernels.bottom_right_causal, wrong_scale),
        (kernels.bottom_right_causal, whole_buffer),
        (inverted, kernels.fused),
        (one_too_many, kernels.fused),
        (one_too_few, kernels.fused),
        (top_left, kernels.fused),
    ],
)
def test_attention_that_is_not_the_models_is_found(
    subject: Subject, monkeypatch: Patch, dtype: torch.dtype, mask: object, attend: object
) -> None:
    monkeypatch.setattr(subject.pair.target, "dtype", dtype)
    assert attention.against_float64(subject, "fused").passed
    monkeypatch.setitem(kernels.KERNELS, "fused", Kernel(mask, attend))  # type: ignore[arg-type]
    failing(lambda: attention.against_float64(subject, "fused"))


def lossy_draw(*arguments: Tensor) -> Judgement:
    judged = rejection_sampling(*arguments)
    return judged._replace(final_token=(judged.final_token + 1) % arguments[0].shape[-1])


@pytest.mark.parametrize("rule", [u_stuck_at_zero, losslessness.residual_is_p, lossy_draw])
def test_a_rule_that_is_lossy_on_the_device_is_found(subject: Subject, monkeypatch: Patch, rule: object) -> None:
    monkeypatch.setattr(losslessness, "rejection_sampling", rule)
    failing(lambda: losslessness.rounds(subject))


def test_drafts_that_are_not_drawn_from_q_are_found(subject: Subject, monkeypatch: Patch) -> None:
    monkeypatch.setattr(losslessness, "draw", shifted_draw)
    failing(lambda: losslessness.rounds(subject))


def test_a_check_of_losslessness_that_catches_no_broken_rule_is_no_check(subject: Subject, monkeypatch: Patch) -> None:
    monkeypatch.setattr(losslessness, "residual_is_p", rejection_sampling)
    failing(lambda: losslessness.rounds(subject))


def test_losslessness_needs_no_draft_model(subject: Subject) -> None:
    alone = Subject(replace(subject.pair, draft_source=None), subject.reference)
    assert losslessness.rounds(alone).passed
    with pytest.raises(NotApplicableError, match="No draft model was named"):
        tokens.tokens(alone, "speculative", drafter="draft-model")
    assert alone.drafting == {"drafter": "quantized-self", "quantization": "int4-g32-head4"}


def test_a_clock_that_loses_time_or_runs_backwards_is_found(subject: Subject, monkeypatch: Patch) -> None:
    from specviz.decoding.clock import Clock

    spans = Clock.spans
    for change in (lambda seconds: seconds / 10, lambda seconds: seconds * 2, lambda seconds: -seconds):
        monkeypatch.setattr(Clock, "spans", lambda self, change=change: [change(span) for span in spans(self)])
        failing(lambda: running.clock(subject))


def test_another_text_in_a_second_thread_is_found(subject: Subject, monkeypatch: Patch) -> None:
    there = running.decode
    seeds = iter([1, 2])
    monkeypatch.setattr(running, "decode", lambda pair, settings: there(pair, replace(settings, seed=next(seeds))))
    failing(lambda: running.thread(subject))


def test_a_second_thread_that_dies_is_a_failure(subject: Subject, monkeypatch: Patch) -> None:
    there, calls = running.decode, iter([False, True])

    def dies(pair: object, settings: trace.Settings) -> trace.Run:
        if next(calls):
            raise RuntimeError("no context in this thread")
        return there(pair, settings)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "decode", dies)
    check = perform("a second thread", partial(running.thread, subject))
    assert (check.passed, check.detail) == (False, "RuntimeError: no context in this thread")


# ---- the report ----


def test_a_check_that_crashes_fails_and_stops_no_other(subject: Subject, monkeypatch: Patch) -> None:
    def crash(*_: object) -> Outcome:
        raise RuntimeError("the device\nis gone")

    monkeypatch.setattr(uniforms, "numbers", crash)
    monkeypatch.setattr("specviz.selftest.run.examinations", lambda subject: dict(list(real(subject).items())[13:16]))
    real = examinations
    report = selftest(subject)
    assert [check.passed for check in report.checks] == [False, True, True]
    assert report.checks[0].detail == "RuntimeError: the device"
    assert not report.passed


def test_nothing_asked_is_nothing_passed() -> None:
    assert not Report({}, ()).passed
    assert not Report({}, (Check("memory", None, "", "", "not here", 0.0),)).passed


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/alice/Ascend/latest", "…/latest"),
        ("/usr/local/Ascend/lib64:/data/alice/lib:/opt/cann", "/usr/local/Ascend/lib64:…/lib:/opt/cann"),
        ("OSError: no file '/home/alice/m/x.bin'.", "OSError: no file '…/x.bin'."),
        ("/root/x", "…"),
        ("C:\\Users\\alice\\cann\\lib", "…/lib"),
        ("4 of 4; 1/2 of the spread; p/q", "4 of 4; 1/2 of the spread; p/q"),
    ],
)
def test_paths_that_could_name_a_person_are_cut(text: str, kept: str) -> None:
    assert without_paths({"a": [text]}) == {"a": [kept]}


def test_a_model_that_only_transformers_knows_is_tested_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    from specviz.models.load import load_pair

    folder = tmp_path_factory.mktemp("gpt2")
    tiny_gpt2(vocab_size=256).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    pair = load_pair(str(folder), device="cpu", dtype="float32", threads=1)
    subject = Subject(pair, pair)
    assert tokens.tokens(subject, "standard", drafter="prompt-lookup").passed
    assert tokens.logits(subject).passed
    assert attention.against_float64(subject, "fused").passed


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("expandable_segments:True", "expandable_segments:True"),
        ("0,1", "0,1"),
        ("/usr/local/Ascend/ascend-toolkit/latest/lib64", "/usr/local/Ascend/ascend-toolkit/latest/lib64"),
        ("/home/jane doe/lib:/usr/local/Ascend/driver/lib64", "…:/usr/local/Ascend/driver/lib64"),
        ("/usr/local/Ascend/../../../home/jane", "…"),
        ("~jane/x", "…"),
        ("-I/home/jane/x", "…"),
        ("/opt/jane/cann", "…"),
        (r"\\srv\jane", "…"),
    ],
)
def test_of_a_variable_only_the_folders_of_cann_are_told(value: str, kept: str) -> None:
    assert without_folders(value) == kept
