"""What a race yields while it runs: an engine makes these, the page and the command line read them.

Apart from ``race.py`` so that those who only read need not import PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.trace import Round, Run, RunKind, Step, Trace


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins, with its prefill."""

    kind: RunKind


@dataclass(frozen=True, slots=True)
class Progress:
    """One more round (speculative) or step (standard)."""

    kind: RunKind
    record: Round | Step


@dataclass(frozen=True, slots=True)
class Finished:
    """A run has ended, whatever its ``finish_reason``."""

    run: Run


@dataclass(frozen=True, slots=True)
class Done:
    """The last event: the whole record."""

    trace: Trace


Event = Started | Progress | Finished | Done
