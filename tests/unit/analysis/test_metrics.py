"""Counting rules: what is a token, what was tested, what is decode time."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.analysis.metrics import as_dict, speculate, summarize
from tests.unit.analysis.made_runs import a_round, speculative, standard


def test_tokens_are_committed_tokens_not_chunks() -> None:
    summary = summarize([speculative(a_round("aaaa"), a_round("ruuu"), a_round("aaru")), standard(9)])
    assert summary.speculative
    assert summary.speculation
    assert summary.standard
    assert summary.speculative.tokens == 5 + 1 + 3
    assert summary.speculative.target_forwards == 3
    assert summary.speculation.tau == 3
    assert summary.speculation.forwards_saved == 6
    assert summary.standard.tokens == summary.standard.target_forwards == 9


def test_the_longest_trace_that_is_read_is_summed_up_at_once() -> None:
    longest = standard(100_000)
    started = time.perf_counter()
    assert summarize([longest]).standard.tokens == 100_000  # type: ignore[union-attr]
    assert time.perf_counter() - started < 10


def test_untested_drafts_count_neither_way() -> None:
    figures = speculate([a_round("aaru"), a_round("ruuu")])
    assert (figures.drafted, figures.tested, figures.accepted) == (8, 4, 2)
    assert figures.alpha == 0.5
    assert figures.mean_overlap == pytest.approx(0.6)


def test_figures_do_not_ask_what_a_rejected_token_was_replaced_from() -> None:
    spelled = ("aaru", "ruuu", "aaaa")
    lossless, lossy = ([a_round(one, lossy=lossy) for one in spelled] for lossy in (False, True))
    assert speculate(lossy) == speculate(lossless)
    assert summarize([speculative(*lossy), standard(9)]) == summarize([speculative(*lossless), standard(9)])


def test_tokens_behind_an_end_of_text_are_not_counted() -> None:
    cut = speculative(a_round("aaaa", emitted=2))
    assert summarize([cut]).speculative.tokens == 2  # type: ignore[union-attr]


def test_per_position_rates_are_conditional_and_survival_is_their_product() -> None:
    figures = speculate([a_round("aaa"), a_round("aar"), a_round("aru"), a_round("ruu")])
    assert figures.conditional == pytest.approx((3 / 4, 2 / 3, 1 / 2))
    assert figures.survival == pytest.approx((3 / 4, 2 / 4, 1 / 4))


def test_a_draft_that_stopped_early_is_not_a_rejected_one() -> None:
    figures = speculate([a_round("a"), a_round("aa"), a_round("")])
    assert figures.survival == (1.0, 1.0)
    assert figures.drafting_rounds == 2


def test_survival_past_the_last_acceptance_is_zero_and_past_the_unknown_unknown() -> None:
    assert speculate([a_round("ru")]).survival == (0.0, 0.0)
    assert speculate([a_round("a"), a_round("ru")]).survival == (0.5, None)


def test_recording_prefill_and_waiting_stay_out_of_tok_s() -> None:
    slow_to_record = speculative(a_round("aaaa", overhead_s=5.0))
    summary = summarize([slow_to_record])
    assert summary.speculative
    assert summary.speculative.tok_s == pytest.approx(5 / (4 * 0.01 + 0.05))
    assert summary.speculative.overhead_share == pytest.approx(5 / 5.09)


def test_comparison_figures() -> None:
    rounds = [a_round("aaaa", verify_s=0.06, sample_s=0.01) for _ in range(4)]
    summary = summarize([speculative(*rounds), standard(20)])
    assert summary.speedup == pytest.approx((5 / 0.11) / (1 / 0.05))
    assert summary.cost == pytest.approx(0.2)
    assert summary.verification_overhead == pytest.approx(1.2)
    assert summary.predicted_speedup == pytest.approx(5 / (4 * 0.2 + 1.2))
    assert summary.speculative
    assert summary.speculative.phase_shares == pytest.approx({"draft": 4 / 11, "verify": 6 / 11, "sample": 1 / 11})


def test_either_run_alone_has_figures_but_no_comparison() -> None:
    only_standard, only_speculative, nothing = summarize([standard(4)]), summarize([speculative()]), summarize([])
    assert only_standard.standard
    assert only_standard.standard.tok_s == pytest.approx(20)
    assert only_standard.speculation is None
    assert only_standard.speedup is None
    assert only_speculative.speculation
    assert only_speculative.speculation.alpha is None
    assert only_speculative.predicted_speedup is None
    assert only_speculative.speedup is None
    assert nothing.standard is None
    assert nothing.overhead_share is None


def test_rounds_without_a_draft_have_no_alpha_and_no_cost() -> None:
    summary = summarize([speculative(a_round("", draft_s=(0.001,))), standard(3)])
    assert summary.speculation
    assert (summary.speculation.alpha, summary.speculation.tau, summary.cost) == (None, 1, None)


def test_several_runs_of_a_kind_are_pooled() -> None:
    pooled = summarize([speculative(a_round("aaaa")), speculative(a_round("ruuu"))])
    assert pooled.speculative
    assert pooled.speculative.target_forwards == 2
    assert pooled.speculation == speculate([a_round("aaaa"), a_round("ruuu")])


def test_the_wire_form_is_plain_json() -> None:
    wire = json.loads(json.dumps(as_dict(summarize([speculative(a_round("aru")), standard(2)])), allow_nan=False))
    assert wire["speculative"]["tok_s"] == pytest.approx(2 / 0.08)
    assert wire["speculative"]["phase_shares"]["draft"] == pytest.approx(0.03 / 0.08)
    assert wire["speculation"]["conditional"] == [1.0, 0.0, None]


DRAFTS = st.integers(0, 5).flatmap(
    lambda k: st.one_of(st.just("a" * k), st.integers(0, max(k - 1, 0)).map(lambda i: ("a" * i + "r" + "u" * k)[:k]))
)


@given(st.lists(DRAFTS, min_size=1, max_size=20))
def test_the_figures_agree_with_one_another(drafts: list[str]) -> None:
    figures = speculate([a_round(draft) for draft in drafts])
    assert figures.tau == pytest.approx(1 + figures.accepted / len(drafts))
    assert figures.forwards_saved == figures.accepted
    known = [rate for rate in figures.survival if rate is not None]
    assert known == sorted(known, reverse=True)
    assert figures.alpha is None or 0 <= figures.alpha <= 1
