"""A position drawn again many times: frequencies, exact laws, χ² and verdicts of honest and broken samplers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from scipy import stats

from specviz.analysis.losslessness import ChiSquare, expected_total_variation, total_variation
from specviz.decoding.distribution import as_law, uniforms
from specviz.decoding.redraw import sampler_of
from specviz.decoding.replay import sampling_of
from specviz.errors import UserError
from specviz.lab.finding import check_draws, demonstrated, fit, judge
from specviz.lab.redraw import output_law, position_at, redraw
from specviz.microscope.evidence import Evidence, gather
from specviz.models.load import Pair
from specviz.settings import LOSSY_RULES
from specviz.trace import Settings
from tests.unit.lab.conftest import decode

N = 40_000
EASY = {"kl_threshold": 50.0, "epsilon": 0.01, "delta": 0.05}  # accept nearly everything, so that the laws part


def test_the_honest_sampler_grows_onto_p(evidence: Evidence, settings: Settings) -> None:
    drawn = redraw(evidence, 0, settings, None, N, seed=4)
    (lane,) = drawn.lanes
    assert lane.finding.verdict == "lossless" and lane.lossless
    assert lane.finding.tv_exact < 1e-6 and (lane.finding.p_value or 0) > 1e-3
    assert lane.law == pytest.approx([token.p for token in drawn.tokens], abs=1e-6)
    assert drawn.rest_p == pytest.approx(lane.rest_law, abs=1e-6)
    sizes = [frame.n for frame in lane.frames]
    assert sizes == sorted(set(sizes)) and sizes[0] == 10 and sizes[-1] == N and len(sizes) <= 40
    for frame in lane.frames:
        assert sum(frame.counts) + frame.rest == frame.n
    last = lane.frames[-1]
    assert last.tv == lane.finding.tv_sampled
    assert 0.3 < last.tv / last.expected_tv < 3
    assert lane.frames[0].expected_tv > 10 * last.expected_tv
    p, q = evidence.p_and_q(sampling_of(settings))
    assert drawn.tv_pq == pytest.approx(total_variation(as_law(p[0]), as_law(q[0])))
    assert [token.p for token in drawn.tokens] == sorted((token.p for token in drawn.tokens), reverse=True)
    assert {token.id for token in drawn.tokens} >= set(p[0].topk(12).indices.tolist())


@pytest.mark.parametrize("n", [200, 5_000])
def test_honest_p_values_are_uniform(evidence: Evidence, settings: Settings, n: int) -> None:
    found = [redraw(evidence, 0, settings, None, n, seed).lanes[0].finding.p_value for seed in range(300)]
    assert stats.kstest(found, "uniform").pvalue > 1e-3


def test_what_is_drawn_can_be_repeated_and_is_plain(evidence: Evidence, settings: Settings) -> None:
    drawn = redraw(evidence, 1, settings, "without-replacement", 1_000, seed=4)
    assert drawn == redraw(evidence, 1, settings, "without-replacement", 1_000, seed=4)
    assert drawn != redraw(evidence, 1, settings, "without-replacement", 1_000, seed=5)
    assert json.loads(json.dumps(asdict(drawn), allow_nan=False))["lanes"][1]["exhibit"] == "without-replacement"


def test_a_position_is_the_rows_of_its_place(evidence: Evidence, settings: Settings) -> None:
    p, q = evidence.p_and_q(sampling_of(settings))
    assert evidence.draft_logits is not None
    for place in range(len(evidence.drafted)):
        position = position_at(evidence, place, settings)
        assert torch.equal(position.p, p[place]) and torch.equal(position.q, q[place])
        assert torch.equal(position.first_q, q[0]) and position.before == evidence.drafted[:place]
        assert position.draft_logits is not None
        assert torch.equal(position.draft_logits, evidence.draft_logits[place])


@pytest.mark.parametrize("rule", LOSSY_RULES)
def test_a_lossy_rule_follows_its_own_law_and_not_p(evidence: Evidence, settings: Settings, rule: str) -> None:
    settings = replace(settings, rule=rule, **EASY)
    (lane,) = redraw(evidence, 0, settings, None, N, seed=4).lanes
    assert lane.finding.verdict == "lossy" and not lane.lossless
    assert lane.finding.p_value is not None and lane.finding.p_value < 1e-6
    assert lane.finding.tv_sampled == pytest.approx(lane.finding.tv_exact, abs=0.02)
    position = position_at(evidence, 0, settings)
    sampler = sampler_of(settings, position.p, position.q)
    tokens = sampler.redraw(*uniforms(4, N, 3).unbind(-1)).tokens.numpy()
    assert fit(np.bincount(tokens, minlength=256), output_law(sampler)).p_value > 1e-3


def test_a_lossy_rule_that_rejects_everything_here_loses_nothing_here(evidence: Evidence, settings: Settings) -> None:
    settings = replace(settings, rule="kl-threshold", kl_threshold=0.0)
    (lane,) = redraw(evidence, 0, settings, None, N, seed=4).lanes
    assert lane.finding.verdict == "lossless" and not lane.lossless


@pytest.mark.parametrize("exhibit", ["u-stuck-at-zero", "unprocessed-q", "residual-is-p", "greedy-scored-as-sampled"])
def test_an_exhibit_is_exposed_beside_the_honest_sampler(evidence: Evidence, settings: Settings, exhibit: str) -> None:
    honest, broken = redraw(evidence, 0, settings, exhibit, N, seed=4).lanes
    assert (honest.exhibit, honest.finding.verdict) == (None, "lossless")
    assert (broken.exhibit, broken.finding.verdict) == (exhibit, "exposed")
    assert broken.rule == "rejection-sampling" and not broken.lossless


@pytest.mark.parametrize("rule", ["greedy-match", "rejection-sampling", *LOSSY_RULES])
def test_at_temperature_0_every_rule_is_right_every_time(evidence: Evidence, settings: Settings, rule: str) -> None:
    settings = replace(settings, rule=rule, temperature=1.0 if rule == "greedy-match" else 0.0)
    honest, broken = redraw(evidence, 0, settings, "u-stuck-at-zero", 1_000, seed=4).lanes
    found = honest.finding
    assert (found.chi2, found.p_value, found.tv_sampled, found.verdict) == (0.0, 1.0, 0.0, "lossless")
    assert honest.lossless and broken.finding.verdict == "not exposed"


@pytest.mark.parametrize(
    ("exhibit", "tv_exact", "p_value", "verdict"),
    [
        (None, 0.0, 0.5, "lossless"),
        (None, 0.0, 2e-6, "lossless"),
        (None, 0.0, 5e-7, "lossy"),  # the engine itself would be wrong
        (None, 0.1, 0.5, "lossy"),  # however few draws were made
        ("residual-is-p", 0.1, 2e-6, "not exposed"),
        ("residual-is-p", 0.1, 5e-7, "exposed"),
    ],
)
def test_the_verdict(exhibit: str | None, tv_exact: float, p_value: float, verdict: str) -> None:
    found = judge(
        "rejection-sampling", exhibit, 100, tv_sampled=0.0, tv_exact=tv_exact, against_p=ChiSquare(1.0, 1, p_value)
    )
    assert found.verdict == verdict


def test_an_impossible_token_decides() -> None:
    against_p = fit(np.array([99, 1]), np.array([1.0, 0.0]))
    finding = judge("rejection-sampling", "residual-is-p", 100, tv_sampled=0.01, tv_exact=0.0, against_p=against_p)
    assert (finding.chi2, finding.p_value, finding.verdict) == (None, 0.0, "exposed")


def test_where_another_statistic_decides_there_is_no_chi_square(evidence: Evidence, settings: Settings) -> None:
    honest = redraw(evidence, 0, settings, None, 1_000, seed=4).lanes[0].finding
    for exposed, verdict in ((True, "exposed"), (False, "not exposed")):
        finding = demonstrated(honest, "bonus-gap", exposed)
        assert (finding.exhibit, finding.chi2, finding.p_value, finding.verdict) == ("bonus-gap", None, None, verdict)


def test_copied_drafts_are_redrawn_too(pair: Pair, settings: Settings) -> None:
    lookup = replace(settings, drafter="prompt-lookup", temperature=3.0)  # flat enough to accept a copy
    trace = decode(pair, lookup)
    run = trace.run("speculative")
    assert run is not None
    index = next(round_.index for round_ in run.rounds if round_.drafted)
    copied = gather(trace, index, pair)
    honest, broken = redraw(copied, 0, lookup, "residual-is-p", N, seed=4).lanes
    assert (honest.finding.verdict, broken.finding.verdict) == ("lossless", "exposed")
    with pytest.raises(UserError, match="prompt lookup only copies"):
        redraw(copied, 0, lookup, "unprocessed-q", N, seed=4)


def test_refusals(evidence: Evidence, settings: Settings) -> None:
    for n in (99, 1_000_001):
        with pytest.raises(UserError, match="from 100 to 1,000,000"):
            check_draws(n)
    for place in (-1, 3):
        with pytest.raises(UserError, match="Nothing was drafted at position"):
            redraw(evidence, place, settings, None, 100, seed=0)
    with pytest.raises(UserError, match="its own statistic"):
        redraw(evidence, 0, settings, "bonus-gap", 100, seed=0)


def test_the_line_of_honest_samples_is_their_mean_distance_at_every_size() -> None:
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(2_000, 0.1))
    for n in (10, 200, 5_000):
        distances = [total_variation(rng.multinomial(n, law) / n, law) for _ in range(300)]
        assert np.mean(distances) == pytest.approx(expected_total_variation(law, n), rel=0.02)
