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

seconds = st.floats(0, 1e6)
chances = st.floats(0, 1)
tokens = st.integers(0, 2**24 - 1)
texts = st.text(max_size=8)
candidates = st.lists(st.builds(records.Candidate, tokens, texts, chances), max_size=3).map(tuple)
timings = st.builds(records.Timing, seconds, st.lists(seconds, max_size=3).map(tuple), seconds, seconds, seconds)
emitted = st.builds(records.Emitted, tokens, texts, st.integers(0, 99), st.sampled_from(["draft", "residual", "bonus"]))
positions = st.builds(
    records.Position, tokens, texts, st.integers(0, 99), chances, chances, st.none() | chances,
    st.sampled_from(["accepted", "rejected", "untested"]), chances, candidates, candidates, candidates,
)  # fmt: skip
rounds = st.builds(
    records.Round, st.integers(0, 99), st.integers(1, 99), st.lists(positions, max_size=2).map(tuple),
    st.lists(emitted, max_size=3).map(tuple), candidates, timings,
)  # fmt: skip
steps = st.builds(records.Step, st.integers(0, 99), st.integers(1, 99), emitted, candidates, timings)
runs = st.builds(
    records.Run, st.sampled_from(["speculative", "standard"]), st.lists(rounds, max_size=2).map(tuple),
    st.lists(steps, max_size=2).map(tuple), st.sampled_from(["max_tokens", "end_of_text"]), seconds, texts,
)  # fmt: skip
traces = st.builds(
    records.Trace,
    st.builds(records.Settings, st.just("draft-model"), st.integers(1, 15), st.floats(0, 5), st.integers(0, 50),
              st.floats(0.01, 1), st.integers(0, 2**63 - 1), st.integers(1, 500), st.just("rejection-sampling")),
    st.just(records.Models(records.ModelInfo("t", "bfloat16", 1, 2, (2,)), None)),
    st.just(records.Machine("cpu", "a machine", 1, 2, {"torch": "2.13.0"})),
    st.builds(records.Prompt, texts, st.lists(tokens, max_size=4).map(tuple)),
    st.lists(runs, max_size=2).map(tuple),
    st.just("2026-01-01T00:00:00+00:00"),
    st.none() | st.builds(records.Divergence, st.integers(0, 9), st.builds(records.Candidate, tokens, texts, chances),
                          st.builds(records.Candidate, tokens, texts, chances), seconds),
)  # fmt: skip


@given(traces)
def test_a_trace_survives_json_and_pickle(trace: records.Trace) -> None:
    assert from_json(to_json(trace)) == trace
    assert pickle.loads(pickle.dumps(trace)) == trace


@given(traces)
def test_saving_is_whole_or_not_at_all(tmp_path_factory: pytest.TempPathFactory, trace: records.Trace) -> None:
    folder = tmp_path_factory.mktemp("traces")
    save(trace, folder / "a.json")
    assert load(folder / "a.json") == trace
    assert [path.name for path in folder.iterdir()] == ["a.json"]


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
        changed(["prompt", "token_ids"], [-1]),
        changed(["prompt", "text"], "x" * 200_000),
        changed(["runs", 0, "kind"], "other"),
        changed(["runs", 0, "steps", 0, "timing", "verify_s"], float("inf")),
        changed(["runs", 0, "steps", 0, "emitted", "token_id"], 2**40),
        changed(["runs"], [GOOD["runs"][0]] * 50),
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
    monkeypatch.setattr(records, "MAX_TRACE_BYTES", 10)
    (tmp_path / "big.json").write_text(json.dumps(GOOD), encoding="utf-8")
    with pytest.raises(TraceError, match="larger than"):
        load(tmp_path / "big.json")
    with pytest.raises(TraceError, match="larger than"):
        from_json(json.dumps(GOOD))
