"""The named cause is the one whose removal would have gained most."""

from __future__ import annotations

import string
from typing import get_args

import pytest

from specviz.analysis.autopsy import Autopsy, Cause, Outcome, autopsy
from specviz.analysis.metrics import summarize
from specviz.trace import Round
from specviz.ui.i18n import strings
from tests.unit.analysis.made_runs import a_round, speculative, standard


def judge(*rounds: Round, tokens: int = 40) -> Autopsy:
    return autopsy(summarize([speculative(*rounds), standard(tokens)]))


CASES = {
    "rejected drafts": ([a_round("ruuu")] * 20, "slower", "acceptance_low"),
    "a draft as slow as the target": ([a_round("aaaa", draft_s=(0.06,) * 4)] * 8, "slower", "draft_expensive"),
    "verification at four times a step": ([a_round("aaa", verify_s=0.20)] * 8, "slower", "verification_expensive"),
    "sampling on the host": ([a_round("aaa", sample_s=0.30)] * 8, "slower", "overhead"),
    "nothing found to copy": ([a_round("", draft_s=(0.001,))] * 20, "even", "drafts_rare"),
    "a copy now and then": (
        [a_round("", draft_s=(0.0001,))] * 19 + [a_round("aaaa", draft_s=(0.0001,))],
        "faster",
        "drafts_rare",
    ),
    "fast, with drafting the next thing to improve": ([a_round("aaaa")] * 8, "faster", "draft_expensive"),
    "a pause in one round": ([a_round("aaaa")] * 7 + [a_round("aaaa", verify_s=2.0)], "slower", "disturbed"),
    "verification below one step": ([a_round("aaaa", verify_s=0.03)] * 8, "faster", "disturbed"),
    "more gained than tokens emitted": (
        [a_round("aaaa", draft_s=(0.0005,) * 4, verify_s=0.042)] * 8,
        "faster",
        "disturbed",
    ),
    "three tokens": ([a_round("aa")], "faster", "short_run"),
}


@pytest.mark.parametrize(("rounds", "outcome", "cause"), CASES.values(), ids=CASES.keys())
def test_causes(rounds: list[Round], outcome: Outcome, cause: Cause) -> None:
    found = judge(*rounds)
    assert (found.outcome, found.cause) == (outcome, cause)


def test_counterfactuals_are_the_speedups_of_the_repaired_race() -> None:
    found = judge(*[a_round("aaru", verify_s=0.08, sample_s=0.01)] * 10)
    seconds, step = 0.04 + 0.08 + 0.01, 0.05
    assert found.counterfactuals["acceptance_low"] == pytest.approx(5 * step / seconds)
    assert found.counterfactuals["draft_expensive"] == pytest.approx(3 * step / 0.09)
    assert found.counterfactuals["verification_expensive"] == pytest.approx(3 * step / 0.10)
    assert found.counterfactuals["overhead"] == pytest.approx(3 * step / 0.12)


def test_no_verdict_without_both_runs() -> None:
    assert autopsy(summarize([standard(40)])).outcome == "unknown"
    assert autopsy(summarize([speculative(), standard(0)])).cause == "no_data"


def test_every_outcome_and_cause_has_a_sentence_that_its_figures_fill() -> None:
    sentences = strings("en")
    values = judge(*[a_round("aaru")] * 10).values
    keys = [f"autopsy.outcome.{outcome}" for outcome in get_args(Outcome)]
    keys += [f"autopsy.cause.{cause}" for cause in get_args(Cause)]
    for key in keys:
        fields = {field for _, field, _, _ in string.Formatter().parse(sentences[key]) if field}
        assert fields <= values.keys(), key
    for key in ("autopsy.outcome.unknown", "autopsy.cause.no_data"):
        assert "{" not in sentences[key]


def test_a_forward_that_is_dear_by_its_size_is_no_disturbance() -> None:
    """Prompt lookup drafts now and then: where verification is dear, a few forwards take many times the usual."""
    copied = a_round("a" * 15, draft_s=(0.0001,), verify_s=0.30)
    alone = a_round("", draft_s=(0.0001,))
    assert judge(*[alone] * 14, *[copied] * 6).cause == "verification_expensive"


@pytest.mark.parametrize("sample_s", [0.0, 0.02, 0.2])
def test_the_acceptance_said_to_break_even_does(sample_s: float) -> None:
    """All that a round costs is in it, sampling too: a race that is even has what it needs."""
    draft_s, tokens = 0.01, 5
    verify_s = 0.0499 * tokens - 4 * draft_s - sample_s  # a round of five tokens takes just less than five steps
    even = judge(*[a_round("aaaa", verify_s=verify_s, sample_s=sample_s)] * 8)
    assert even.outcome == "even"
    assert even.values["alpha_needed"] == "100%"
