"""The default pair at a position where p and q differ: no lossless rule is rejected, every exhibit is exposed."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from specviz.analysis.losslessness import PositionRule, kl_threshold, total_variation, typical
from specviz.decoding.distribution import as_law
from specviz.decoding.redraw import sampler_of
from specviz.events import Done
from specviz.lab.choice import choose
from specviz.lab.finding import demonstrated
from specviz.lab.redraw import output_law, position_at, redraw
from specviz.lab.rounds import rounds
from specviz.microscope.evidence import Evidence, gather
from specviz.models.load import Pair, load_pair
from specviz.museum.catalogue import EXHIBITS
from specviz.museum.demonstrate import demonstrate
from specviz.race import race
from specviz.settings import make_settings
from specviz.trace import Settings, Trace

pytestmark = [pytest.mark.weights, pytest.mark.slow]

N = 100_000
SEEDS = (0, 1, 2)
PROMPT = "Write one sentence about the sea."


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(dtype="float32", threads=2)


@pytest.fixture(scope="module")
def settings() -> Settings:
    return make_settings(temperature=0.7, seed=2, max_new_tokens=48)


@pytest.fixture(scope="module")
def trace(pair: Pair, settings: Settings) -> Trace:
    (done,) = [event for event in race(pair, PROMPT, settings, baseline=False) if isinstance(event, Done)]
    return done.trace


@pytest.fixture(scope="module")
def evidence(pair: Pair, trace: Trace) -> Evidence:
    _, evidence = choose(trace, lambda index: gather(trace, index, pair))
    return evidence


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", ["rejection-sampling", "greedy-match"])
def test_a_lossless_rule_is_not_rejected(evidence: Evidence, settings: Settings, rule: str, seed: int) -> None:
    for place in (0, 1):
        drawn = redraw(evidence, place, replace(settings, rule=rule), None, N, seed)
        finding = drawn.lanes[0].finding
        assert rule == "greedy-match" or drawn.tv_pq >= 0.1
        assert finding.p_value is not None and finding.p_value > 1e-3
        assert finding.tv_exact < 1e-6 and finding.verdict == "lossless"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("exhibit", [exhibit for exhibit in EXHIBITS if exhibit.bends], ids=lambda one: one.name)
def test_an_exhibit_that_bends_the_distribution_is_exposed(
    evidence: Evidence, settings: Settings, exhibit: object, seed: int
) -> None:
    drawn = redraw(evidence, exhibit.place, settings, exhibit.name, N, seed)  # type: ignore[attr-defined]
    assert drawn.tv_pq >= 0.1
    finding = drawn.lanes[1].finding
    assert finding.p_value is not None and finding.p_value < 1e-6
    assert finding.verdict == "exposed" and finding.tv_exact > 0.01


@pytest.mark.parametrize("exhibit", [exhibit for exhibit in EXHIBITS if not exhibit.bends], ids=lambda one: one.name)
def test_the_other_exhibits_are_exposed_by_their_own_statistic(
    pair: Pair, trace: Trace, evidence: Evidence, settings: Settings, exhibit: object
) -> None:
    name = exhibit.name  # type: ignore[attr-defined]
    shown = demonstrate(name, pair, trace.prompt.token_ids, settings)
    assert shown.exposed, shown.values
    honest = redraw(evidence, 0, settings, None, N, seed=0).lanes[0].finding
    finding = demonstrated(honest, name, shown.exposed)
    assert (finding.p_value, finding.verdict) == (None, "exposed")
    assert finding.tv_exact < 1e-6


def test_the_lossy_rules_follow_their_exact_laws(evidence: Evidence, settings: Settings) -> None:
    for rule in ("typical", "kl-threshold"):
        asked = replace(settings, rule=rule)
        position = position_at(evidence, 0, asked)
        p, q = as_law(position.p), as_law(position.q)
        exact: PositionRule = (
            typical(p, q, asked.epsilon, asked.delta) if rule == "typical" else kl_threshold(p, q, asked.kl_threshold)
        )
        assert total_variation(output_law(sampler_of(asked, position.p, position.q)), exact.output) < 1e-6
        finding = redraw(evidence, 0, asked, None, N, seed=0).lanes[0].finding
        assert finding.verdict == "lossy" and finding.tv_exact > 0.1


def test_whole_rounds_keep_the_law(pair: Pair, evidence: Evidence, settings: Settings) -> None:
    drawn = rounds(pair, settings, evidence.context, N, seed=0, most_positions=24)
    assert drawn.finding.verdict == "lossless" and drawn.finding.p_value is not None
    assert drawn.finding.p_value > 1e-3
    assert drawn.followed > 0.5 and len(drawn.depths) == settings.gamma + 1
    assert 1 < drawn.tokens_per_round < settings.gamma + 1


def test_a_million_redraws_take_less_than_two_seconds(evidence: Evidence, settings: Settings) -> None:
    assert evidence.target_logits.shape[-1] == 49_152

    def once() -> float:
        begun = time.perf_counter()
        redraw(evidence, 0, settings, "u-stuck-at-zero", 1_000_000, seed=0)
        return time.perf_counter() - begun

    assert min(once() for _ in range(3)) < 2  # the least of three: what else this machine does is not asked
