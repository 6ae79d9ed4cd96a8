"""What the browser is sent: compact, safe inside HTML, and whole again after a lost message."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specviz.race import Done, Finished, Progress, Started
from specviz.trace import (
    Branch,
    Candidate,
    Divergence,
    Emitted,
    Machine,
    ModelInfo,
    Models,
    Position,
    Prompt,
    Round,
    Run,
    Settings,
    Step,
    Timing,
    Trace,
)
from specviz.ui.components.wire import MAX_CANDIDATES, OVERLAP, Stream, describe, message, recorded
from specviz.ui.i18n import strings

GOLDEN = Path(__file__).parents[2] / "js" / "race.json"
HOSTILE = "<img src=x onerror=alert(1)> ${7*7} {{value}} \u2028 </script>"


def candidates(*texts: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(id_of(text), text, 0.5 ** (i + 1)) for i, text in enumerate(texts))


def id_of(text: str) -> int:
    return 10 + sum(text.encode())


def position(text: str, glyph: int, p: float, q: float, u: float | None, verdict: Any) -> Position:
    residual = candidates(" sea", " air") if verdict == "rejected" else ()
    return Position(
        id_of(text), text, glyph, p, q, u, verdict, 0.75, candidates(text, " a"), candidates(" a", text), residual
    )


def rounds() -> tuple[Round, ...]:
    """One round of each kind: a rejection in the middle, all accepted, an end of text inside the draft."""
    first = Round(
        0,
        5,
        (
            position("The", 0, 0.6, 0.8, 0.2, "accepted"),
            position(" sky", 1, 0.1, 0.4, 0.5, "rejected"),
            position(" is", 2, 0.9, 0.9, None, "untested"),
        ),
        (Emitted(id_of("The"), "The", 0, "draft"), Emitted(id_of(" sea"), " sea", 1, "residual")),
        candidates(" sea", " sky"),
        Timing(0.0, (0.01, 0.01, 0.01), 0.05, 0.02, 0.001),
    )
    second = Round(
        1,
        7,
        (position("", 2, 0.5, 0.5, 0.9, "accepted"), position("\U0001f30a", 2, 0.7, 0.5, 0.9, "accepted")),
        (
            Emitted(id_of(""), "", 2, "draft"),
            Emitted(id_of("\U0001f30a"), "\U0001f30a", 2, "draft"),
            Emitted(id_of("!"), "!", 3, "bonus"),
        ),
        candidates("!", "?"),
        Timing(0.1, (0.01, 0.01), 0.06, 0.02, 0.001),
    )
    third = Round(
        2,
        10,
        (
            position(HOSTILE, 4, 0.3, 0.3, 0.1, "accepted"),
            Position(2, "</s>", 5, 0.9, 0.8, 0.3, "accepted", 0.75, candidates("</s>"), candidates("</s>")),
            position(" never", 6, 0.2, 0.2, None, "untested"),
        ),
        (Emitted(id_of(HOSTILE), HOSTILE, 4, "draft"), Emitted(2, "</s>", 5, "draft")),
        (),
        Timing(0.2, (0.01, 0.01, 0.01), 0.05, 0.02, 0.001),
    )
    return first, second, third


def steps() -> tuple[Step, ...]:
    texts = ("The", " sea", "", "\U0001f30a", "!", HOSTILE)
    glyphs = (0, 1, 2, 2, 3, 4)
    return tuple(
        Step(
            i,
            5 + i,
            Emitted(id_of(text), text, glyph, "target"),
            candidates(text),
            Timing(i * 0.06, (), 0.05, 0.01, 0.001),
        )
        for i, (text, glyph) in enumerate(zip(texts, glyphs, strict=True))
    )


def trace(temperature: float = 0.7, divergence: Divergence | None = None) -> Trace:
    target = ModelInfo("Small target", "float32", 1000, 300, (2,))
    return Trace(
        Settings("draft-model", 3, temperature, 0, 1.0, 7, 64, "rejection"),
        Models(target, ModelInfo("Smaller draft", "float32", 100, 300, (2,))),
        Machine("cpu", "A machine", 1, 2, {}),
        Prompt(HOSTILE, (1, 2, 3, 4, 5)),
        (
            Run("speculative", rounds(), (), "end_of_text", 0.1, "The sea"),
            Run("standard", (), steps(), "max_tokens", 0.1, "The sea"),
        ),
        "2026-01-02T03:04:05Z",
        divergence,
    )


def merged(messages: list[str]) -> dict[str, list[Any]]:
    """What a page knows after these messages: records by index, as ``core.mjs`` keeps them."""
    known: dict[str, dict[int, Any]] = {}
    for text in messages:
        for kind, window in json.loads(text).get("records", {}).items():
            for offset, item in enumerate(window["items"]):
                known.setdefault(kind, {})[window["from"] + offset] = item
    assert all(sorted(items) == list(range(len(items))) for items in known.values()), "a gap"
    return {kind: [items[i] for i in sorted(items)] for kind, items in known.items()}


def streamed(whole: Trace, *, every: int = 1) -> list[str]:
    """The messages of a race, one after each ``every`` events."""
    stream = Stream("run-1", meta=describe(whole.settings, whole.models, whole.machine, whole.prompt.text))
    events: list[Any] = []
    for run in whole.runs:
        events.append(Started(run.kind))
        events += [Progress(run.kind, record) for record in run.rounds or run.steps]
        events.append(Finished(run))
    messages = []
    for i, event in enumerate(events):
        stream.add(event)
        if i % every == 0:
            messages.append(stream.message("running"))
    stream.add(Done(whole))
    return [*messages, stream.message("finished")]


def test_the_browser_reads_what_is_written_here() -> None:
    """``tests/js`` decodes this file. After a wanted change of the format, write ``recorded(trace())`` into it."""
    written, read = json.loads(recorded(trace())), json.loads(GOLDEN.read_text(encoding="utf-8"))
    for own in ("run", "stats"):  # a digest, and figures that have their own tests
        assert written.pop(own)
        assert read.pop(own)
    assert written == read


def test_a_message_is_one_string_that_cannot_leave_its_place_in_a_page() -> None:
    text = recorded(trace())
    assert "<" not in text and len(text.splitlines()) == 1
    assert json.loads(text)["meta"]["prompt"] == HOSTILE


def test_a_stream_adds_up_to_the_recorded_trace() -> None:
    whole = trace()
    expected = merged([recorded(whole)])
    assert merged(streamed(whole)[:-1]) == expected, "the windows alone"
    assert merged(streamed(whole)[-1:]) == expected, "the last message alone"


@pytest.mark.parametrize("lost", range(1, 9))
def test_a_lost_message_heals_with_the_next_one(lost: int) -> None:
    whole = trace()
    messages = streamed(whole)[:-1]
    arrived = merged(messages[:lost] + messages[lost + 1 :])
    assert arrived["speculative"] == merged([recorded(whole)])["speculative"]


def test_a_window_reaches_back_a_few_records_and_no_further() -> None:
    standard = [json.loads(text).get("records", {}).get("standard") for text in streamed(trace())[:-1]]
    windows = [window for window in standard if window]
    assert [window["from"] for window in windows] == [0, 0, 0, 0, 1, 2, 3]
    assert all(len(window["items"]) <= OVERLAP + 1 for window in windows)


def test_nothing_new_is_sent_once_more_and_then_no_longer() -> None:
    stream = Stream("run-1")
    stream.add(Progress("speculative", rounds()[0]))
    assert json.loads(stream.message("running"))["records"] == json.loads(stream.message("running"))["records"]
    assert "records" not in json.loads(stream.message("running"))


def test_messages_are_numbered_and_name_their_run() -> None:
    messages = [json.loads(text) for text in streamed(trace(), every=3)]
    assert [one["seq"] for one in messages] == list(range(len(messages)))
    assert {one["run"] for one in messages} == {"run-1"}
    assert [one["state"] for one in messages[-2:]] == ["running", "finished"]
    assert "meta" in messages[0]
    assert "meta" not in messages[1]


def test_a_branch_says_what_it_took_over() -> None:
    branch = Branch(2, HOSTILE, 7)
    assert json.loads(recorded(replace(trace(), branch=branch)))["meta"]["branch"] == {
        "tokens": 2,
        "text": HOSTILE,
        "first_row": 7,
    }
    about = trace()
    meta = describe(about.settings, about.models, about.machine, "", branch=branch)
    assert meta["branch"]["text"] == HOSTILE
    assert json.loads(recorded(about))["meta"]["branch"] is None


def test_another_trace_is_another_run() -> None:
    first, same, other = (json.loads(recorded(one))["run"] for one in (trace(), trace(), trace(temperature=0.5)))
    assert first == same != other


def test_figures_come_with_the_first_message_and_with_the_last() -> None:
    messages = [json.loads(text) for text in streamed(trace())]
    stats = messages[-1]["stats"]
    assert messages[0]["stats"]["speedup"] is None
    assert stats["speedup"] == pytest.approx((7 / 0.3) / (6 / 0.36))
    assert stats["speculation"]["alpha"] == pytest.approx(5 / 6)
    assert stats["speculation"]["tau"] == pytest.approx(7 / 3)
    assert stats["speculation"]["forwards_saved"] == 4


def test_the_autopsy_is_a_sentence_of_the_dictionary() -> None:
    autopsy = json.loads(recorded(trace()))["stats"]["autopsy"]
    for part in ("outcome", "cause"):
        strings("en")[f"autopsy.{part}.{autopsy[part]}"].format(**autopsy["values"])


def test_candidates_are_cut_and_rounded() -> None:
    many = tuple(Candidate(i, "x", 1 / 3) for i in range(20))
    stream = Stream("run-1")
    stream.add(Progress("speculative", Round(0, 1, (), (), many, Timing(0, (), 0.1, 0.1, 0))))
    final = json.loads(stream.message("running"))["records"]["speculative"]["items"][0]["f"]
    assert len(final) == MAX_CANDIDATES
    assert final[0] == [0, "x", 0.3333]


def test_u_stays_on_its_side_of_the_threshold() -> None:
    u, p = 0.5000001, 0.5
    close = Position(1, "x", 0, p, 1.0, u, "rejected", 0.5, (), ())
    stream = Stream("run-1")
    stream.add(Progress("speculative", Round(0, 1, (close,), (), (), Timing(0, (), 0.1, 0.1, 0))))
    sent = json.loads(stream.message("running"))["records"]["speculative"]["items"][0]["d"][0]
    assert sent[5] > sent[3] / sent[4]


def test_the_texts_are_compared_at_temperature_0_only() -> None:
    parted = Divergence(5, Candidate(1, "a", 0.5), Candidate(2, "b", 0.4), 0.02)
    assert json.loads(recorded(trace(0.0, parted)))["divergence"] == {
        "same": False,
        "index": 5,
        "margin": 0.02,
        "speculative": "a",
        "standard": "b",
    }
    assert "divergence" not in json.loads(recorded(trace(0.7)))


def test_equal_texts_are_said_to_be_equal() -> None:
    whole = trace(0.0)
    speculative, standard = whole.runs
    agreeing = Trace(
        whole.settings,
        whole.models,
        whole.machine,
        whole.prompt,
        (
            Run("speculative", speculative.rounds[:2], (), "max_tokens", 0, ""),
            Run("standard", (), standard.steps[:5], "max_tokens", 0, ""),
        ),
        whole.recorded,
    )
    assert json.loads(recorded(agreeing))["divergence"] == {"same": True}
    assert "divergence" not in json.loads(recorded(whole)), "one of them went on: nothing is claimed"


def test_what_json_cannot_say_is_unknown() -> None:
    sent = json.loads(message("r", 0, "running", stats={"a": math.inf, "b": [math.nan, 1.5]}))
    assert sent["stats"] == {"a": None, "b": [None, 1.5]}
