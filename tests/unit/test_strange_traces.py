"""Traces from strangers: what is let in must not break anything behind the door."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specviz import trace as records
from specviz.analysis.autopsy import autopsy
from specviz.analysis.metrics import summarize
from specviz.cli import transcript
from specviz.cli.show import report
from specviz.trace import Trace, TraceError, from_json, load, to_json
from specviz.ui.components.wire import recorded

RECORDED = Path(__file__).parents[2] / "assets" / "traces" / "default.json"
STRANGE = [
    None, True, 0, -1, 1, 2**31, 0.5, 1e-320, 1e7, 1.7976931348623157e308, "", "x", "\ud83d\ude00", [], {},
    "accepted", "rejected", "untested", "draft", "residual", "bonus", "target", "speculative", "standard",
]  # fmt: skip
MUTANTS = 400


@pytest.fixture(scope="module")
def short() -> dict[str, Any]:
    """The beginning of a real recorded race."""
    data: dict[str, Any] = json.loads(to_json(load(RECORDED)))
    for run in data["runs"]:
        run["rounds"], run["steps"] = run["rounds"][:6], run["steps"][:9]
    return data


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a JSON document."""
    entries = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from places(value, (*path, key))


def mutant(data: dict[str, Any], chance: random.Random) -> str:
    """One or two values deleted, replaced, repeated, or exchanged with others."""
    changed = copy.deepcopy(data)
    for _ in range(chance.choice([1, 1, 2])):
        # By depth first: otherwise nearly every change would meet one of the many candidates.
        depths: dict[int, list[tuple[Any, ...]]] = {}
        for path in places(changed):
            depths.setdefault(len(path), []).append(path)
        *way, last = chance.choice(depths[chance.choice(list(depths))])
        place = changed
        for key in way:
            place = place[key]
        deed = chance.choice(["delete", "replace", "replace", "repeat", "exchange"])
        if deed == "delete":
            del place[last]
        elif deed == "repeat" and isinstance(place, list):
            place.insert(last, copy.deepcopy(place[last]))
        elif deed == "exchange" and isinstance(place, list):
            other = chance.randrange(len(place))
            place[last], place[other] = place[other], place[last]
        else:
            place[last] = chance.choice(STRANGE)
    return json.dumps(changed)


def show_everything(trace: Trace) -> None:
    summary = summarize(trace.runs)
    autopsy(summary)
    json.loads(recorded(trace), parse_constant=pytest.fail)
    console = Console(quiet=True)
    for run in trace.runs:
        for round_ in run.rounds:
            console.print(transcript.round_line(round_))
    console.print(report(trace))


def test_a_changed_trace_is_refused_in_a_sentence_or_can_be_shown(short: dict[str, Any]) -> None:
    chance = random.Random(0)
    shown = 0
    for _ in range(MUTANTS):
        text = mutant(short, chance)
        try:
            trace = from_json(text)
        except TraceError as refusal:
            assert "\n" not in str(refusal) and str(refusal).endswith(".")
            continue
        show_everything(trace)
        shown += 1
    assert MUTANTS // 10 < shown < MUTANTS * 9 // 10  # both doors were tried


CONTRADICTIONS = {
    "a round out of order": ("numbers", lambda runs: runs[0]["rounds"].reverse()),
    "a round that stands twice": ("numbers", lambda runs: runs[0]["rounds"].insert(1, runs[0]["rounds"][0])),
    "a context that does not grow": ("numbers", lambda runs: runs[1]["steps"][2].update(context_length=3)),
    "steps in a speculative run": ("other kind", lambda runs: runs[0].update(steps=runs[1]["steps"])),
    "time that runs back": ("begins before", lambda runs: runs[0]["rounds"][2]["timing"].update(start_s=0.0)),
    "an emitted token nobody drafted": ("verdicts", lambda runs: runs[0]["rounds"][0]["emitted"][0].update(token_id=1)),
    "an accepted token that is missing": (
        "verdicts",
        lambda runs: runs[0]["rounds"][0].update(emitted=runs[0]["rounds"][0]["emitted"][-1:]),
    ),
    "acceptance behind a rejection": (
        "verdicts",
        lambda runs: [
            p.update(verdict=v) for p, v in zip(runs[0]["rounds"][0]["drafted"], ["rejected", "accepted"], strict=False)
        ],
    ),
    "a bonus after a rejection": (
        "verdicts",
        lambda runs: [r["emitted"][-1].update(source="bonus") for r in runs[0]["rounds"]],
    ),
    "a tested token without its draw": (
        "without the draw",
        lambda runs: runs[0]["rounds"][0]["drafted"][0].update(u=None),
    ),
    "more drafts than γ": (
        "more than its settings allow",
        lambda runs: runs[0]["rounds"][0]["drafted"].extend([runs[0]["rounds"][0]["drafted"][-1]] * 9),
    ),
    "a step with a bonus": ("target's own", lambda runs: runs[1]["steps"][0]["emitted"].update(source="bonus")),
}


@pytest.mark.parametrize(("said", "change"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_records_that_contradict_one_another_are_refused(short: dict[str, Any], said: str, change: Any) -> None:
    data = copy.deepcopy(short)
    assert from_json(json.dumps(data))
    change(data["runs"])
    with pytest.raises(TraceError, match=f"contradicts itself.*{said}"):
        from_json(json.dumps(data))


def test_a_branch_that_began_where_none_can_is_refused(short: dict[str, Any]) -> None:
    data = copy.deepcopy(short)
    branch = data["branch"] = {"tokens": 5, "text": "taken over", "first_row": 5}
    assert from_json(json.dumps(data))
    branch["first_row"] = 6  # each round commits a token at least
    with pytest.raises(TraceError, match=r"contradicts itself.*more rounds"):
        from_json(json.dumps(data))
    branch.update(tokens=len(data["prompt"]["token_ids"]), first_row=0)
    with pytest.raises(TraceError, match=r"contradicts itself.*more tokens"):
        from_json(json.dumps(data))


def test_what_replaces_a_rejected_token_must_fit_the_rule(short: dict[str, Any]) -> None:
    data = copy.deepcopy(short)
    rejecting = [
        round_["emitted"][-1] for round_ in data["runs"][0]["rounds"] if round_["emitted"][-1]["source"] == "residual"
    ]
    assert rejecting
    for rule, source, honest in [
        ("typical", "residual", False), ("typical", "target", True), ("kl-threshold", "target", True),
        ("kl-threshold", "residual", False), ("rejection-sampling", "target", False),
    ]:  # fmt: skip
        data["settings"]["rule"] = rule
        for token in rejecting:
            token["source"] = source
        if honest:
            show_everything(from_json(json.dumps(data)))
            continue
        with pytest.raises(TraceError, match=r"contradicts itself.*verdicts"):
            from_json(json.dumps(data))


def test_a_file_full_of_faults_is_left_at_the_first(short: dict[str, Any]) -> None:
    data = copy.deepcopy(short)
    data["prompt"]["token_ids"] = ["x"] * 1_000_000
    with pytest.raises(TraceError, match=r"token_ids\.0:"):
        from_json(json.dumps(data))


def test_a_file_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records.file, "MAX_TRACE_BYTES", 1000)
    with pytest.raises(TraceError, match="larger than"):
        load(Path("/dev/zero"))
