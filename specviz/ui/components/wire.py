"""Trace records as compact JSON for the browser: what the race view's ``core.mjs`` decodes.

A message is a JSON *string* (Gradio neither diffs nor coalesces it) and carries a small overlapping window
of records, so that a lost message heals with the next one; the last message of a race carries everything.

    {"run", "seq", "state", "note": {"key", "args"} | null, "lang", "meta"?, "stats"?, "divergence"?,
     "records": {kind: {"from": i, "items": [...]}}, "runs": {kind: {...}}}

Records are arrays: a candidate is [id, text, prob]; an emitted token [id, text, glyph, source];
a drafted position [id, text, glyph, p, q, u, verdict, overlap, top_p, top_q, residual];
a round {"n", "d": positions, "e": emitted, "f": final_top_p, "t": [start, draft[], verify, sample]}; a step
the same without "d" and "f".
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from specviz.analysis.autopsy import autopsy
from specviz.analysis.metrics import as_dict, summarize
from specviz.events import Done, Event, Finished, Progress
from specviz.service import STACK
from specviz.trace import (
    Branch,
    Candidates,
    Emitted,
    Machine,
    ModelInfo,
    Models,
    Position,
    Round,
    Run,
    RunKind,
    Settings,
    Step,
    Timing,
    Trace,
    to_json,
)

State = Literal["idle", "recorded", "loading", "queued", "running", "finished", "stopped", "failed"]
Json = dict[str, Any]

OVERLAP = 3
MAX_CANDIDATES = 8
FIGURES_EVERY = 5
"""Messages between two computations of the figures: twice a second at ten messages a second."""
ESCAPED = {ord(char): f"\\u{ord(char):04x}" for char in "<\x85\u2028\u2029"}
"""What could open a tag, and what some readers of an event stream take for the end of a line."""


def message(
    run: str,
    seq: int,
    state: State,
    *,
    lang: str = "en",
    note: Mapping[str, object] | None = None,
    meta: Mapping[str, object] | None = None,
    records: Mapping[str, object] | None = None,
    runs: Mapping[str, object] | None = None,
    stats: Mapping[str, object] | None = None,
    divergence: Mapping[str, object] | None = None,
) -> str:
    """One message as a string that is safe inside HTML and on one line. ``note`` is {"key": i18n key, "args": {...}}.

    ``meta``, ``stats`` and ``divergence`` left out keep what the page already has for this ``run``.
    """
    body: Json = {"run": run, "seq": seq, "state": state, "lang": lang, "note": note}
    optional = {"meta": meta, "records": records, "runs": runs, "stats": finite(stats), "divergence": divergence}
    body |= {name: value for name, value in optional.items() if value}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(ESCAPED)


def recorded(trace: Trace, lang: str = "en") -> str:
    """A whole trace in one message, under ``name_of`` it."""
    return _whole(trace, name_of(trace), 0, "recorded", lang, None, None)


def name_of(trace: Trace) -> str:
    """The ``run`` of a recorded trace: always the same for the same trace, and only to be had from its content."""
    return hashlib.sha256(to_json(trace).encode()).hexdigest()[:16]


def describe(
    settings: Settings,
    models: Models,
    machine: Machine,
    prompt: str,
    *,
    recorded: str = "",
    order: Sequence[RunKind] = ("speculative", "standard"),
    branch: Branch | None = None,
) -> Json:
    """The ``meta`` of a message: what is run on what. ``order`` is the order in which the runs are made, ``branch``
    what they take over from another run.
    """
    return {
        "settings": asdict(settings),
        "target": _model(models.target),
        "draft": _model(models.draft) if models.draft else None,
        "eos": list(models.target.eos_token_ids),
        "device": machine.device,
        "machine": machine.name,
        "threads": machine.threads,
        "memory_bytes": machine.memory_bytes,
        "stack": {name: machine.versions[name] for name in STACK if name in machine.versions},
        "prompt": prompt,
        "recorded": recorded,
        "order": list(order),
        "branch": asdict(branch) if branch else None,
    }


def figures(runs: Iterable[Run]) -> Json:
    """The ``stats`` of a message: every figure of ``analysis.metrics``, and why the race came out as it did."""
    summary = summarize(runs)
    verdict = autopsy(summary)
    return as_dict(summary) | {
        "autopsy": {"outcome": verdict.outcome, "cause": verdict.cause, "values": dict(verdict.values)}
    }


class Stream:
    """Collects the events of one race and makes the messages that show them, one per call of ``message``."""

    def __init__(self, run: str, *, meta: Mapping[str, object] | None = None, lang: str = "en") -> None:
        self._run, self._meta, self._lang = run, meta, lang
        self._seq = 0
        self._records: dict[RunKind, list[Round | Step]] = {"speculative": [], "standard": []}
        self._sent: dict[RunKind, int] = {"speculative": 0, "standard": 0}
        self._repeat: dict[RunKind, bool] = {"speculative": False, "standard": False}
        self._finished: list[Run] = []
        self._trace: Trace | None = None

    def add(self, event: Event) -> None:
        """Take one event; nothing is sent yet."""
        match event:
            case Progress(kind=kind, record=record):
                self._records[kind].append(record)
            case Finished(run=run):
                self._finished.append(run)
            case Done(trace=trace):
                self._trace = trace

    def message(
        self, state: State, *, note: Mapping[str, object] | None = None, stats: Mapping[str, object] | None = None
    ) -> str:
        """What is new since the last message and a few records before it; after ``Done``, the whole trace.

        Figures are computed here, now and then, unless ``stats`` gives them.
        """
        seq, self._seq = self._seq, self._seq + 1
        if self._trace:
            return _whole(self._trace, self._run, seq, state, self._lang, note, stats)
        return message(
            self._run,
            seq,
            state,
            lang=self._lang,
            note=note,
            meta=self._meta if seq == 0 else None,
            records=self._window(),
            runs={run.kind: _run(run) for run in self._finished},
            stats=stats or (self._figures() if seq % FIGURES_EVERY == 0 else None),
        )

    def _figures(self) -> Json:
        rounds = tuple(record for record in self._records["speculative"] if isinstance(record, Round))
        steps = tuple(record for record in self._records["standard"] if isinstance(record, Step))
        begun = [Run("speculative", rounds, (), "cancelled", 0.0, ""), Run("standard", (), steps, "cancelled", 0.0, "")]
        return figures(run for run in begun if run.emitted)

    def _window(self) -> Json:
        window: Json = {}
        for kind, records in self._records.items():
            new = len(records) > self._sent[kind]
            if new or self._repeat[kind]:  # the last records of a run are sent twice
                first = max(0, self._sent[kind] - OVERLAP)
                window[kind] = {"from": first, "items": [_record(record) for record in records[first:]]}
                self._sent[kind] = len(records)
            self._repeat[kind] = new
        return window


def _whole(
    trace: Trace,
    run: str,
    seq: int,
    state: State,
    lang: str,
    note: Mapping[str, object] | None,
    stats: Mapping[str, object] | None,
) -> str:
    order = [one.kind for one in trace.runs]
    return message(
        run,
        seq,
        state,
        lang=lang,
        note=note,
        meta=describe(
            trace.settings,
            trace.models,
            trace.machine,
            trace.prompt.text,
            recorded=trace.recorded,
            order=order,
            branch=trace.branch,
        ),
        records={
            one.kind: {"from": 0, "items": [_record(record) for record in one.rounds or one.steps]}
            for one in trace.runs
        },
        runs={one.kind: _run(one) for one in trace.runs},
        stats=stats or figures(trace.runs),
        divergence=_divergence(trace),
    )


def _divergence(trace: Trace) -> Json | None:
    """At temperature 0, whether the two texts agree: {"same": true} or where they part."""
    speculative, standard = trace.run("speculative"), trace.run("standard")
    if trace.settings.temperature > 0 or not speculative or not standard:
        return None
    part = trace.divergence
    if part is None:
        return {"same": True} if speculative.token_ids == standard.token_ids else None
    return {
        "same": False,
        "index": part.index,
        "margin": _short(part.margin),
        "speculative": part.speculative.text,
        "standard": part.standard.text,
    }


def _model(info: ModelInfo) -> Json:
    return {
        "name": info.name,
        "dtype": info.dtype,
        "quantization": info.quantization,
        "attention": info.attention,
        "parameters": info.parameters,
    }


def _run(run: Run) -> Json:
    return {
        "prefill_s": _short(run.prefill_s),
        "finish_reason": run.finish_reason,
        "text": run.text,
        "peak_memory": run.peak_memory_bytes,
    }


def _record(record: Round | Step) -> Json:
    common: Json = {"n": record.context_length, "t": _timing(record.timing)}
    if isinstance(record, Step):
        return common | {"e": [_emitted(record.emitted)]}
    return common | {
        "d": [_position(position) for position in record.drafted],
        "e": [_emitted(token) for token in record.emitted],
        "f": _candidates(record.final_top_p),
    }


def _position(position: Position) -> list[object]:
    return [
        position.token_id,
        position.text,
        position.glyph,
        _precise(position.p),
        _precise(position.q),
        None if position.u is None else _precise(position.u),
        position.verdict,
        _short(position.overlap),
        _candidates(position.top_p),
        _candidates(position.top_q),
        _candidates(position.residual),
    ]


def _emitted(token: Emitted) -> list[object]:
    return [token.token_id, token.text, token.glyph, token.source]


def _candidates(candidates: Candidates) -> list[list[object]]:
    return [[one.token_id, one.text, _short(one.prob)] for one in candidates[:MAX_CANDIDATES]]


def _timing(timing: Timing) -> list[object]:
    return [
        round(timing.start_s, 6),
        [round(step, 6) for step in timing.draft_s],
        round(timing.verify_s, 6),
        round(timing.sample_s, 6),
    ]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _precise(value: float) -> float:
    """Enough digits that u and min(1, p/q) stay on their sides of each other on the page."""
    return float(f"{value:.7g}")


def finite(value: Any) -> Any:
    """JSON has no infinity: such a figure is not known. (The records cannot hold one.)"""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
