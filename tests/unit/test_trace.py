"""A trace survives its file; what is no trace is refused in one sentence."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz import trace as records
from specviz.trace import TraceError, from_json, load, save, to_json

seconds = st.floats(0, 1e3)
chances = st.floats(0, 1)
tokens = st.integers(0, 2**24 - 1)
glyphs = st.integers(0, 99)
texts = st.text(max_size=8)
candidates = st.lists(st.builds(records.Candidate, tokens, texts, chances), max_size=3).map(tuple)
SPELLED: dict[str, records.Verdict] = {"a": "accepted", "r": "rejected", "u": "untested"}


@st.composite
def timings(draw: st.DrawFn, start_s: float, draft_steps: int) -> records.Timing:
    spans = draw(st.lists(seconds, min_size=draft_steps + 2, max_size=draft_steps + 2))
    return records.Timing(start_s, tuple(spans[2:]), spans[0], spans[1], draw(seconds))


@st.composite
def rounds(
    draw: st.DrawFn, settings: records.Settings, index: int, context_length: int, start_s: float
) -> records.Round:
    lossy = records.is_lossy(settings)
    draws = st.none() if lossy or settings.temperature == 0 else chances
    spelled = draw(st.sampled_from(["", "a", "aa", "r", "aru", "ruu"]))
    drafted = tuple(
        records.Position(
            draw(tokens), draw(texts), draw(glyphs), draw(chances), draw(chances), draw(draws),
            SPELLED[letter], draw(chances), draw(candidates), draw(candidates), draw(candidates),
        )
        for letter in spelled
    )  # fmt: skip
    replaced: records.Source = "target" if lossy else "residual"
    last: records.Source = replaced if "r" in spelled else "bonus" if spelled else "target"
    emitted = [
        records.Emitted(position.token_id, draw(texts), draw(glyphs), "draft")
        for position in drafted
        if position.verdict == "accepted"
    ]
    emitted.append(records.Emitted(draw(tokens), draw(texts), draw(glyphs), last))
    timing = draw(timings(start_s, len(drafted)))
    return records.Round(index, context_length, drafted, tuple(emitted), draw(candidates), timing)


@st.composite
def steps(draw: st.DrawFn, settings: records.Settings, index: int, context_length: int, start_s: float) -> records.Step:
    emitted = records.Emitted(draw(tokens), draw(texts), draw(glyphs), "target")
    return records.Step(index, context_length, emitted, draw(candidates), draw(timings(start_s, 0)))


@st.composite
def runs(draw: st.DrawFn, settings: records.Settings, prompt_tokens: int) -> records.Run:
    kind: records.RunKind = draw(st.sampled_from(["speculative", "standard"]))
    made: list[records.Round | records.Step] = []
    length, end_s = prompt_tokens, 0.0
    for index in range(draw(st.integers(0, 3))):
        made.append(draw((rounds if kind == "speculative" else steps)(settings, index, length, end_s)))
        length += len(made[-1].emitted) if isinstance(made[-1], records.Round) else 1
        end_s = made[-1].timing.end_s
    whole, none = tuple(made), ()
    sorted_out = (whole, none) if kind == "speculative" else (none, whole)
    return records.Run(
        kind, *sorted_out, draw(st.sampled_from(["max_tokens", "end_of_text"])), draw(seconds), draw(texts)
    )


@st.composite
def traces(draw: st.DrawFn) -> records.Trace:
    rules = st.sampled_from(["rejection-sampling", "greedy-match", *records.LOSSY_RULES])
    settings = draw(st.builds(
        records.Settings, st.just("draft-model"), st.integers(3, 15), st.floats(0, 5), st.integers(0, 50),
        st.floats(0.01, 1), st.integers(0, 2**63 - 1), st.integers(1, 500), rules,
        epsilon=chances, delta=chances, kl_threshold=st.floats(0, 100),
    ))  # fmt: skip
    candidate = st.builds(records.Candidate, tokens, texts, chances)
    prompt = draw(st.builds(records.Prompt, texts, st.lists(tokens, min_size=1, max_size=4).map(tuple)))
    taken = draw(st.integers(0, len(prompt.token_ids) - 1))
    return records.Trace(
        settings,
        records.Models(records.ModelInfo("t", "bfloat16", 1, 2, (2,)), None),
        records.Machine("cpu", "a machine", 1, 2, {"torch": "2.13.0"}),
        prompt,
        tuple(draw(st.lists(runs(settings, len(prompt.token_ids)), max_size=2))),
        "2026-01-01T00:00:00+00:00",
        draw(st.none() | st.builds(records.Divergence, st.integers(0, 9), candidate, candidate, seconds)),
        draw(st.none() | st.builds(records.Branch, st.just(taken), texts, st.integers(0, taken))),
    )


@given(traces())
def test_a_trace_survives_json_and_pickle(trace: records.Trace) -> None:
    assert from_json(to_json(trace)) == trace
    assert pickle.loads(pickle.dumps(trace)) == trace


@given(traces())
def test_a_trace_survives_its_file(tmp_path_factory: pytest.TempPathFactory, trace: records.Trace) -> None:
    path = tmp_path_factory.mktemp("traces") / "a.json"
    save(trace, path)
    assert load(path) == trace


GOOD = json.loads(to_json(records.Trace(
    records.Settings("prompt-lookup", 4, 0.0, 0, 1.0, 0, 10, "greedy-match"),
    records.Models(records.ModelInfo("t", "float32", 1, 2, (2,)), None),
    records.Machine("cpu", "a machine", 1, 2, {}),
    records.Prompt("hi", (1,)),
    (records.Run("standard", (), (records.Step(0, 1, records.Emitted(1, "a", 0, "target"), (),
                                               records.Timing(0.0, (), 0.1, 0.0, 0.0)),), "max_tokens", 0.1, "a"),),
    "2026-01-01",
)))  # fmt: skip


def changed(path: list[str | int], value: object) -> str:
    data = json.loads(json.dumps(GOOD))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "not json",
        "[]",
        "{}",
        "\x00\x01",
        changed(["version"], 2),
        changed(["settings", "gamma"], 0),
        changed(["settings", "temperature"], -1),
        changed(["settings", "temperature"], float("nan")),
        changed(["settings", "surprise"], 1),
        changed(["settings", "epsilon"], 1.5),
        changed(["settings", "delta"], -0.1),
        changed(["settings", "kl_threshold"], float("inf")),
        changed(["branch"], {"tokens": 1, "text": "a", "first_row": 0}),
        changed(["prompt", "token_ids"], [-1]),
        changed(["prompt", "text"], "x" * 2_000_000),
        changed(["runs", 0, "kind"], "other"),
        changed(["runs", 0, "steps", 0, "timing", "verify_s"], float("inf")),
        changed(["runs", 0, "steps", 0, "emitted", "token_id"], 2**40),
        changed(["runs"], [GOOD["runs"][0]] * 50),
        changed(["prompt", "token_ids"], []),
        changed(["machine", "versions"], "[" * 100_000),
        "[" * 100_000,
        '{"version": 1' + "0" * 10_000 + "}",
    ],
)
def test_what_is_no_trace_gets_one_sentence(content: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        load(file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_unreadable_and_oversized_files_get_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        load(tmp_path / "missing.json")
    monkeypatch.setattr(records.file, "MAX_TRACE_BYTES", 10)
    (tmp_path / "big.json").write_text(json.dumps(GOOD), encoding="utf-8")
    with pytest.raises(TraceError, match="larger than"):
        load(tmp_path / "big.json")
    with pytest.raises(TraceError, match="larger than"):
        from_json(json.dumps(GOOD))
