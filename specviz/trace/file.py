"""Traces as JSON, in and out. What comes in may be a stranger's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from specviz.trace.records import SCHEMA_VERSION, Trace
from specviz.trace.story import contradiction

MAX_TRACE_BYTES = 64 * 1024 * 1024


class TraceError(ValueError):
    """A trace file that cannot be used; the message says why in one sentence."""


_ADAPTER: TypeAdapter[Trace] = TypeAdapter(Trace)


def to_json(record: object) -> str:
    """Any record as compact JSON."""
    if isinstance(record, Trace):
        return _ADAPTER.dump_json(record).decode()
    assert dataclasses.is_dataclass(record)
    return TypeAdapter(type(record)).dump_json(record).decode()


def from_json(data: str | bytes) -> Trace:
    """Read a trace. Raises TraceError, whose message is one sentence for the person who chose the file."""
    if len(data) > MAX_TRACE_BYTES:
        raise TraceError(f"This trace is larger than {MAX_TRACE_BYTES // 2**20} MB, the most that is read.")
    try:
        trace = _ADAPTER.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = ": ".join(part for part in (".".join(map(str, first["loc"])), first["msg"]) if part)
        raise TraceError(f"This is not a SpecViz trace of version {SCHEMA_VERSION}: {reason}.") from None
    if flaw := contradiction(trace):
        raise TraceError(f"This trace contradicts itself: {flaw}.")
    return trace


def save(trace: Trace, path: Path) -> None:
    """Write a trace into a folder of one's own; what people name is written by ``cli.files``. Raises OSError."""
    path.write_text(to_json(trace), encoding="utf-8")


def load(path: Path) -> Trace:
    """Read a trace file. Raises TraceError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}.") from None
    return from_json(data)
