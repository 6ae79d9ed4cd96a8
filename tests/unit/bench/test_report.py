"""Medians over repeats, geometric means over prompts, best γ, and nothing invented where nothing was measured."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from specviz.bench.measurement import Measurement, from_run
from specviz.bench.report import HF_ASSISTED, HF_GENERATE, SPECULATIVE, STANDARD, Sample, Variant, report
from tests.unit.analysis import made_runs


def sample(engine: str, prompt: str, tok_s: float, gamma: int | None = None, overhead_s: float | None = None) -> Sample:
    return Sample(Variant(engine, gamma), prompt, Measurement(100, 100 / tok_s, 0.1, overhead_s=overhead_s))


def test_ratios_are_geometric_means_over_prompts_of_ratios_of_medians() -> None:
    samples = [sample(STANDARD, prompt, rate) for prompt in "ab" for rate in (9, 10, 1000)]
    samples += [sample(SPECULATIVE, "a", 40, 4), sample(SPECULATIVE, "b", 10, 4)]
    result = report(samples)
    assert result.ratios["speculative_over_standard"] == pytest.approx(2)
    assert result.spread["speculative_over_standard"] == pytest.approx({"q1": 1.75, "q3": 3.25})
    assert result.ratios["standard_over_hf_generate"] is None


def test_each_engine_is_judged_at_its_own_best_gamma() -> None:
    samples = [sample(STANDARD, "a", 10), sample(HF_GENERATE, "a", 8)]
    samples += [sample(SPECULATIVE, "a", rate, gamma) for gamma, rate in ((2, 15), (4, 30), (6, 20))]
    samples += [sample(HF_ASSISTED, "a", rate, gamma) for gamma, rate in ((2, 20), (4, 5), (6, 5))]
    result = report(samples)
    assert result.best == {STANDARD: None, HF_GENERATE: None, SPECULATIVE: 4, HF_ASSISTED: 2}
    assert result.ratios["speculative_over_hf_assisted"] == pytest.approx(30 / 20)
    assert result.ratios["standard_over_hf_generate"] == pytest.approx(10 / 8)
    assert {(line["engine"], line["gamma"]) for line in result.engines} >= {(SPECULATIVE, 2), (HF_ASSISTED, 6)}


def test_prompts_that_one_engine_could_not_time_are_left_out_of_the_comparison() -> None:
    instant = Sample(Variant(HF_GENERATE, None), "short", Measurement(0, 0.0, 0.1))
    result = report([sample(STANDARD, "short", 10), instant, sample(STANDARD, "a", 10), sample(HF_GENERATE, "a", 5)])
    assert result.ratios["standard_over_hf_generate"] == pytest.approx(2)
    assert (
        next(row for row in result.rows if row["prompt_id"] == "short" and row["engine"] == HF_GENERATE)["tok_s"]
        is None
    )


def test_recording_overhead_is_taken_over_all_recorded_runs() -> None:
    samples = [sample(STANDARD, "a", 100, overhead_s=0.02), sample(SPECULATIVE, "a", 100, 4, overhead_s=0.06)]
    assert report([*samples, sample(HF_GENERATE, "a", 1)]).ratios["recording_overhead"] == pytest.approx(0.08 / 2.08)


def test_the_figures_of_a_recorded_run() -> None:
    run = made_runs.speculative(made_runs.a_round("aaru", sample_s=0.01, overhead_s=0.5))
    figures = from_run(run)
    assert (figures.tokens, figures.tau, figures.alpha) == (3, 3, pytest.approx(2 / 3))
    assert figures.tok_s == pytest.approx(3 / 0.1)
    assert (figures.draft_s, figures.verify_s, figures.sample_s, figures.overhead_s) == (0.04, 0.05, 0.01, 0.5)


def test_a_lossy_rule_marks_our_speculative_lines_alone() -> None:
    samples = [sample(STANDARD, "a", 10), sample(SPECULATIVE, "a", 12, 4), sample(HF_ASSISTED, "a", 11, 4)]
    for lines in (report(samples, lossy=True).rows, report(samples, lossy=True).engines):
        assert [line["engine"] for line in lines if line["lossy"]] == [SPECULATIVE]
    assert not any(line["lossy"] for line in report(samples).rows)


def test_the_report_is_plain_json() -> None:
    json.dumps(asdict(report([sample(STANDARD, "a", 10), sample(SPECULATIVE, "a", 12, 4)])), allow_nan=False)
    assert report([]).ratios["recording_overhead"] is None
