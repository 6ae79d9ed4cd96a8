"""A recorded round judged again is what the engine would have done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding.replay import context_of
from specviz.errors import UserError
from specviz.microscope.branch import branch_off
from specviz.microscope.evidence import Evidence, gather
from specviz.microscope.whatif import Outcome, judge_again
from specviz.models.load import Pair
from specviz.race import Origin
from specviz.settings import changed, make_settings
from specviz.trace import Round, Settings, Trace, from_json, to_json
from tests.unit.microscope.conftest import record

BASE = {"drafter": "draft-model", "gamma": 4, "max_new_tokens": 24, "temperature": 3.0, "seed": 5}
SETTINGS = [
    make_settings(**BASE),
    make_settings(**BASE | {"top_k": 40, "top_p": 0.9}),
    make_settings(**BASE | {"temperature": 0.0}),
    make_settings(**BASE | {"rule": "typical", "epsilon": 0.02}),
    make_settings(**BASE | {"rule": "kl-threshold", "kl_threshold": 0.3}),
    make_settings(**BASE | {"drafter": "prompt-lookup"}),
    make_settings(**BASE | {"drafter": "quantized-self", "quantization": "int8", "min_confidence": 0.02}),
]


def rounds_of(trace: Trace) -> tuple[Round, ...]:
    return trace.runs[0].rounds


def emitted_ids(round_: Round) -> list[int]:
    return [token.token_id for token in round_.emitted]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s.drafter}-{s.rule}-{s.temperature:g}-{s.top_k}")
def test_nothing_changed_is_the_record_live_or_imported(pair: Pair, settings: Settings) -> None:
    live = record(pair, settings, prompt="abcabcabc")
    imported = from_json(to_json(live))
    verdicts = []
    for index, round_ in enumerate(rounds_of(live)):
        outcomes = [judge_again(gather(trace, index, pair), settings) for trace in (live, imported)]
        assert outcomes[0] == outcomes[1]
        outcome = outcomes[0]
        assert outcome.same and outcome.departs is None
        assert [one.verdict for one in outcome.positions] == [one.verdict for one in round_.drafted]
        assert outcome.emitted[: len(round_.emitted)] == tuple((e.token_id, e.source) for e in round_.emitted)
        for again, recorded in zip(outcome.positions, round_.drafted, strict=True):
            assert again.token_id == recorded.token_id
            assert again.p == pytest.approx(recorded.p, abs=1e-4)
            assert again.q == pytest.approx(recorded.q, abs=1e-4)
            assert again.overlap == pytest.approx(recorded.overlap, abs=1e-4)
            if recorded.u is not None:
                assert again.u == recorded.u
        verdicts += [one.verdict for one in round_.drafted]
    assert len(set(verdicts) & {"accepted", "rejected"}) == (2 if settings.drafter == "draft-model" else 1)


CHANGES: list[dict[str, object]] = [
    {"temperature": 2.0},
    {"temperature": 3.2},
    {"temperature": 0.0},
    {"top_k": 12},
    {"top_p": 0.6},
    {"rule": "typical", "epsilon": 0.01, "delta": 0.2},
    {"rule": "kl-threshold", "kl_threshold": 1.0},
    {"rule": "greedy-match"},
]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
@pytest.mark.parametrize("base", [SETTINGS[0], SETTINGS[2], SETTINGS[5], SETTINGS[6]], ids=["T3", "T0", "copy", "sure"])
def test_a_change_does_what_the_engine_would_have_done(pair: Pair, base: Settings, changes: dict[str, object]) -> None:
    trace = record(pair, base, prompt="abcabcabc")
    settings = changed(base, changes)
    for index in range(len(rounds_of(trace))):
        evidence = gather(trace, index, pair)
        outcome = judge_again(evidence, settings)
        engine = engine_round(pair, evidence, settings)
        known = min(len(engine.drafted), len(outcome.positions))
        if outcome.departs is not None:
            known = outcome.departs + 1
        drafted = [one.token_id for one in engine.drafted]
        assert [one.token_id for one in outcome.positions[:known]] == drafted[:known]
        emitted = [token for token, _ in outcome.emitted]
        assert emitted == emitted_ids(engine)[: len(emitted)]
        if outcome.end != "unknown":
            assert emitted == emitted_ids(engine)
            verdicts = [one.verdict for one in engine.drafted]
            assert [one.verdict for one in outcome.positions[:known]] == verdicts[:known]


def engine_round(pair: Pair, evidence: Evidence, settings: Settings) -> Round:
    """The engine's own next round from the same text with the same uniform numbers."""
    origin = Origin(tuple(evidence.context), len(evidence.context) - 1, evidence.row)
    fresh = record(pair, replace(settings, max_new_tokens=evidence.left), origin)
    return rounds_of(fresh)[0]


def test_another_u_turns_the_verdict_at_its_limit(pair: Pair) -> None:
    trace = record(pair, SETTINGS[0])
    turned = 0
    for index, round_ in enumerate(rounds_of(trace)):
        evidence = gather(trace, index, pair)
        for place, position in enumerate(round_.drafted):
            limit = judge_again(evidence, SETTINGS[0]).positions[place].limit
            if position.verdict == "untested" or limit is None or limit >= 1:
                continue
            above = judge_again(evidence, SETTINGS[0], {place: min(limit + 1e-3, 0.9999)})
            below = judge_again(evidence, SETTINGS[0], {place: max(limit - 1e-3, 0.0)})
            assert above.positions[place].verdict == "rejected"
            assert below.positions[place].verdict == "accepted"
            assert [one.verdict for one in above.positions[place + 1 :]] == ["untested"] * (
                len(round_.drafted) - place - 1
            )
            turned += 1
    assert turned > 5


def test_a_branch_with_nothing_changed_repeats_the_run_it_left(pair: Pair) -> None:
    for settings in SETTINGS[:3]:
        trace = record(pair, settings)
        rounds = rounds_of(trace)
        for index in (0, len(rounds) // 2):
            evidence = gather(trace, index, pair)
            branch_settings, origin = branch_off(evidence, judge_again(evidence, settings))
            again = record(pair, branch_settings, origin)
            assert [emitted_ids(r) for r in rounds_of(again)] == [emitted_ids(r) for r in rounds[index + 1 :]]
            assert again.branch is not None and again.branch.tokens == len(context_of(trace, index + 1)) - len("hello")
            assert from_json(to_json(again)) == again
            # And a branch of the branch, looked at again, still reads its own row of the table.
            inner = gather(again, 0, pair)
            assert judge_again(inner, branch_settings).same


def test_a_stop_string_may_begin_in_front_of_a_branch_but_not_end_there(pair: Pair) -> None:
    free = record(pair, SETTINGS[0])
    index, round_ = next((i, r) for i, r in enumerate(rounds_of(free)[:-1]) if r.emitted[-1].text)
    string = round_.emitted[-1].text + rounds_of(free)[index + 1].emitted[0].text
    settings = replace(SETTINGS[0], stop=(string,))
    trace = record(pair, settings)
    assert trace.runs[0].finish_reason == "stop_string"
    *rounds, ending = rounds_of(trace)
    evidence = gather(trace, len(rounds) - 1, pair)
    again = record(pair, *branch_off(evidence, judge_again(evidence, settings)))
    assert again.runs[0].finish_reason == "stop_string"
    assert [emitted_ids(r) for r in rounds_of(again)] == [emitted_ids(ending)]
    evidence = gather(trace, ending.index, pair)
    with pytest.raises(UserError, match="stop string"):
        record(pair, *branch_off(evidence, judge_again(evidence, settings)))


def test_a_branch_keeps_what_was_certain_and_goes_on_under_the_new_settings(pair: Pair) -> None:
    trace = record(pair, SETTINGS[0])
    settings = changed(SETTINGS[0], {"temperature": 1.0})
    evidence, outcome = next(
        (evidence, outcome)
        for evidence, outcome in ((e, judge_again(e, settings)) for e in (gather(trace, i, pair) for i in range(4)))
        if outcome.departs is not None
    )
    branch_settings, origin = branch_off(evidence, outcome)
    again = record(pair, branch_settings, origin)
    assert list(again.prompt.token_ids) == evidence.context + [token for token, _ in outcome.emitted]
    assert again.settings.temperature == 1.0
    assert again.branch is not None and again.branch.text.endswith(again.branch.text[-1])
    assert again.settings.max_new_tokens + len(outcome.emitted) == evidence.left


def test_at_temperature_0_filters_change_no_draft_even_where_another_machine_rounds_differently(pair: Pair) -> None:
    settings = SETTINGS[2]
    trace = record(pair, settings)
    for index in range(len(rounds_of(trace))):
        evidence = gather(trace, index, pair)
        if evidence.draft_logits is None:
            continue
        elsewhere = replace(evidence, draft_logits=evidence.draft_logits.flip(-1))
        outcome = judge_again(elsewhere, changed(settings, {"top_k": 7, "top_p": 0.5}))
        assert outcome.departs is None and outcome.same


def test_a_text_that_ends_leaves_nothing_to_branch(pair: Pair) -> None:
    trace = record(pair, SETTINGS[0])
    last = gather(trace, len(rounds_of(trace)) - 1, pair)
    with pytest.raises(UserError, match="nothing left"):
        branch_off(last, judge_again(last, SETTINGS[0]))


def test_an_end_of_text_ends_the_round_there(pair: Pair) -> None:
    trace = record(pair, SETTINGS[0])
    index, round_ = next((i, r) for i, r in enumerate(rounds_of(trace)) if len(r.emitted) > 2)
    end = emitted_ids(round_)[1]
    evidence = replace(gather(trace, index, pair), eos=frozenset({end}))
    outcome: Outcome = judge_again(evidence, SETTINGS[0])
    place = emitted_ids(round_).index(end)
    assert outcome.end == "end_of_text"
    assert [token for token, _ in outcome.emitted] == emitted_ids(round_)[: place + 1]
    assert "rejected" not in [one.verdict for one in outcome.positions]


def test_a_round_cut_by_a_stop_string_is_still_the_record(pair: Pair) -> None:
    settings = make_settings(**BASE | {"seed": 8, "temperature": 2.0})
    block = next(
        texts
        for round_ in rounds_of(record(pair, settings))
        if len(texts := [token.text for token in round_.emitted]) > 2 and texts[1].isprintable() and texts[1]
    )
    trace = record(pair, replace(settings, stop=(block[1],)))
    last = gather(trace, len(rounds_of(trace)) - 1, pair)
    outcome = judge_again(last, trace.settings)
    assert len(outcome.emitted) > len(last.round.emitted) and outcome.same


def test_a_trace_of_other_models_gets_a_sentence(pair: Pair) -> None:
    trace = record(pair, SETTINGS[0])
    models = replace(trace.models, target=replace(trace.models.target, fingerprint="another"))
    with pytest.raises(UserError, match="needs the same models"):
        gather(replace(trace, models=models), 0, pair)
