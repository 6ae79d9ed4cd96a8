"""One position in full: what the picture shows follows from the distributions the engine compared."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from specviz.decoding.distribution import overlap, residual
from specviz.decoding.replay import sampling_of
from specviz.microscope.detail import TOP, detail
from specviz.microscope.evidence import Evidence, gather_all
from specviz.microscope.whatif import judge_again
from specviz.models.load import Pair
from specviz.settings import changed, make_settings
from specviz.trace import Trace
from tests.unit.microscope.conftest import record

SETTINGS = make_settings(drafter="draft-model", gamma=4, max_new_tokens=24, temperature=3.0, seed=5)


@pytest.fixture(scope="module")
def trace(pair: Pair) -> Trace:
    return record(pair, SETTINGS)


@pytest.fixture(scope="module")
def evidence(pair: Pair, trace: Trace) -> list[Evidence]:
    return list(gather_all(trace, range(len(trace.runs[0].rounds)), pair))


def test_the_numbers_of_the_run_come_back_exactly(evidence: list[Evidence]) -> None:
    assert [one.difference for one in evidence] == [0.0] * len(evidence)


def test_every_position_is_shown_as_it_was_decided(evidence: list[Evidence]) -> None:
    rejected = 0
    for one in evidence:
        outcome = judge_again(one, SETTINGS)
        p, q = one.p_and_q(sampling_of(SETTINGS))
        for place, position in enumerate(one.round.drafted):
            shown = detail(one, outcome, place)
            rows = {row.token_id: row for row in shown.rows}
            assert shown.drafted == position.token_id and shown.drafted in rows
            assert set(torch.topk(p[place], TOP).indices.tolist()) <= set(rows)
            assert set(torch.topk(q[place], TOP).indices.tolist()) <= set(rows)
            for token, row in rows.items():
                assert row.p == pytest.approx(float(p[place, token]), abs=1e-6)
                assert row.q == pytest.approx(float(q[place, token]), abs=1e-6)
                assert row.out == pytest.approx(row.p, abs=1e-6)  # rejection sampling emits p
            assert shown.rest is not None and shown.rest.n == p.shape[-1] - len(rows)
            assert shown.rest.p + sum(row.p for row in rows.values()) == pytest.approx(1, abs=1e-6)
            assert shown.overlap == pytest.approx(float(overlap(p[place], q[place])), abs=1e-5)
            assert shown.acceptance == pytest.approx(shown.overlap, abs=1e-6)
            assert shown.overlap is not None and shown.tv == pytest.approx(1 - shown.overlap, abs=1e-6)
            assert shown.output_tv == pytest.approx(0, abs=1e-6)
            assert shown.entropy_p == pytest.approx(stats.entropy(p[place].double().numpy()), abs=1e-6)
            assert shown.entropy_q == pytest.approx(stats.entropy(q[place].double().numpy()), abs=1e-6)
            assert shown.kl == pytest.approx(stats.entropy(p[place].double(), q[place].double()), abs=1e-5)
            assert shown.rank == 1 + int((p[place] > p[place, position.token_id]).sum())
            if position.verdict == "rejected":
                rejected += 1
                left = residual(p[place], q[place])
                assert dict(shown.residual) == {
                    token: pytest.approx(float(left[token]), abs=1e-6) for token, _ in shown.residual
                }
                assert shown.residual_rest is not None and len(shown.residual) >= TOP
                assert shown.residual_rest + sum(prob for _, prob in shown.residual) == pytest.approx(1, abs=1e-6)
                assert shown.picked == one.round.emitted[-1].token_id and shown.picked in dict(shown.residual)
            else:
                assert shown.residual == () and shown.picked is None
    assert rejected > 3


def test_the_rank_is_the_targets_own_even_where_p_is_certain(evidence: list[Evidence]) -> None:
    ranks = []
    for one in evidence:
        outcome = judge_again(one, changed(SETTINGS, {"temperature": 0.0}))
        ranks += [detail(one, outcome, place).rank for place in range(len(outcome.positions[:1]))]
        logits, drafted = one.target_logits[0], outcome.positions[0].token_id if outcome.positions else 0
        assert not outcome.positions or ranks[-1] == 1 + int((logits > logits[drafted]).sum())
    assert any(rank is not None and rank > 2 for rank in ranks)


def test_the_final_tokens_position_has_p_alone(evidence: list[Evidence]) -> None:
    one = next(e for e in evidence if e.round.emitted[-1].source == "bonus")
    k = len(one.drafted)
    shown = detail(one, judge_again(one, SETTINGS), k)
    assert shown.known and shown.picked == one.round.emitted[-1].token_id
    assert all(row.q is None for row in shown.rows) and shown.kl is None and shown.drafted is None
    with pytest.raises(IndexError):
        detail(one, judge_again(one, SETTINGS), k + 1)


@pytest.mark.parametrize("rule", ["typical", "kl-threshold"])
def test_a_lossy_rule_shows_its_exact_law(evidence: list[Evidence], rule: str) -> None:
    settings = changed(SETTINGS, {"rule": rule, "epsilon": 0.01, "kl_threshold": 0.5})
    lossy = 0
    for one in (one for one in evidence if one.drafted):
        outcome = judge_again(one, settings)
        shown = detail(one, outcome, 0)
        assert shown.output_tv is not None and shown.tv is not None and shown.acceptance is not None
        assert np.isclose(sum(row.out for row in shown.rows) + (shown.rest.out if shown.rest else 0), 1)
        lossy += shown.output_tv > 0.01
        if rule == "kl-threshold":
            accepted = outcome.positions[0].verdict == "accepted"
            assert accepted == (shown.kl is not None and shown.kl < 0.5)
            assert shown.output_tv == pytest.approx(shown.tv if accepted else 0, abs=1e-9)
    assert lossy


def test_behind_another_draft_nothing_is_known(evidence: list[Evidence]) -> None:
    settings = changed(SETTINGS, {"temperature": 0.5})
    one, outcome = next(
        (e, o) for e, o in ((e, judge_again(e, settings)) for e in evidence) if o.departs is not None and o.departs < 3
    )
    assert outcome.departs is not None
    assert detail(one, outcome, outcome.departs).known
    assert not detail(one, outcome, outcome.departs + 1).known
