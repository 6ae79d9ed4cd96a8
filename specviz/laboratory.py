"""What the page asks about a run that is over: its rounds under the microscope, redraws, exhibits, branches.

Asking the models waits for the device in the runner's queue, like a race; everything else answers at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from specviz.errors import UserError
from specviz.runner import ShouldStop, Ticket
from specviz.service import Service
from specviz.settings import changed
from specviz.shelf import Shelf
from specviz.trace import Settings, Trace, to_json

if TYPE_CHECKING:
    from specviz.lab.redraw import Redraw
    from specviz.lab.rounds import Rounds
    from specviz.microscope.detail import Detail
    from specviz.microscope.evidence import Evidence
    from specviz.microscope.whatif import Outcome
    from specviz.models.load import Pair
    from specviz.museum.demonstrate import Demonstration
    from specviz.race import Origin

RUNS_BYTES = 64 * 2**20  # of traces as JSON
EVIDENCE_BYTES = 256 * 2**20
NEIGHBOURS = 8  # rounds on either side: whoever looks at one goes on to the next
GONE = "This run is no longer on the server. Run it again, or open an exported trace."
UNKNOWN = "This round's distributions are no longer on the server."

Answer = TypeVar("Answer")


class ExpiredError(UserError):
    """The evidence has left the shelf: look again."""


@dataclass(frozen=True, slots=True)
class Looked:
    """A round's evidence, and the ``key`` under which it may be asked about for a while."""

    key: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Judged:
    """A round judged again and one of its positions in full; ``changed``: something was asked to differ."""

    evidence: Evidence
    outcome: Outcome
    detail: Detail
    changed: bool


@dataclass(frozen=True, slots=True)
class Branching:
    """A race that goes on from inside another."""

    prompt: str
    settings: Settings
    origin: Origin


class Laboratory:
    """Serves every visitor: what somebody may ask about is known by names that cannot be guessed."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._traces: Shelf[Trace] = Shelf(RUNS_BYTES)
        self._evidence: Shelf[Evidence] = Shelf(EVIDENCE_BYTES)
        self._keys: Shelf[str] = Shelf(10_000)  # of (run, round), to the evidence's key

    def add(self, run: str, trace: Trace, *, for_good: bool = False) -> None:
        """Let the rounds of this run be asked about, by the name that the page knows it by."""
        if for_good:
            self._traces.keep(run, trace)
        else:
            self._traces.put(run, trace, len(to_json(trace)))

    def trace(self, run: str) -> Trace:
        """Raises UserError if it has left the shelf."""
        trace = self._traces.get(run)
        if trace is None:
            raise UserError(GONE)
        return trace

    def evidence(self, key: str) -> Evidence:
        """Raises ExpiredError."""
        found = self._evidence.get(key)
        if found is None:
            raise ExpiredError(UNKNOWN)
        return found

    # What needs the models

    def look(self, run: str, round_index: int, owner: str) -> Looked | Ticket[Looked]:
        """A round that is still known, or the ticket (one event) of asking the models about it and its neighbours.

        Raises UserError.
        """
        trace = self.trace(run)
        if known := self._looked(run, round_index):
            return known
        recorded = trace.run("speculative")
        rounds = len(recorded.rounds) if recorded else 0
        wanted = range(max(0, round_index - NEIGHBOURS), min(rounds, round_index + NEIGHBOURS + 1))

        def work(pair: Pair, should_stop: ShouldStop) -> Looked:
            from specviz.decoding.replay import round_at
            from specviz.microscope.evidence import gather_all

            round_at(trace, round_index)
            found = self._looked(run, round_index)
            if found is None:
                for evidence in gather_all(trace, wanted, pair, should_stop):
                    self._put(run, evidence)
                found = self._looked(run, round_index)
            if found is None:
                raise UserError(UNKNOWN)
            return found

        return self.ask(work, f"look {owner}")

    def _put(self, run: str, evidence: Evidence) -> None:
        key = secrets.token_urlsafe(12)
        self._evidence.put(key, evidence, evidence.bytes)
        self._keys.put(_name(run, evidence.round.index), key, 1)

    def _looked(self, run: str, round_index: int) -> Looked | None:
        key = self._keys.get(_name(run, round_index))
        evidence = None if key is None else self._evidence.get(key)
        return None if key is None or evidence is None else Looked(key, evidence)

    def rounds(
        self, run: str, round_index: int, changes: Mapping[str, object], n: int, seed: int, owner: str
    ) -> Ticket[Rounds]:
        """Redraw a whole round many times. Raises UserError."""
        trace = self.trace(run)
        settings = changed(trace.settings, changes)

        def work(pair: Pair, should_stop: ShouldStop) -> Rounds:
            from specviz.decoding.replay import context_of, round_at
            from specviz.lab.rounds import rounds
            from specviz.microscope.evidence import check_models

            round_at(trace, round_index)
            check_models(trace, pair)
            return rounds(pair, settings, context_of(trace, round_index), n, seed, should_stop=should_stop)

        return self.ask(work, f"lab {owner}")

    def exhibit(self, run: str, name: str, owner: str) -> Ticket[Demonstration]:
        """Run an exhibit that leaves the distribution alone, on the run's prompt. Raises UserError."""
        trace = self.trace(run)

        def work(pair: Pair, should_stop: ShouldStop) -> Demonstration:
            from specviz.microscope.evidence import check_models
            from specviz.museum.demonstrate import demonstrate

            check_models(trace, pair)
            return demonstrate(name, pair, trace.prompt.token_ids, trace.settings, should_stop)

        return self.ask(work, f"lab {owner}")

    def ask(self, work: Callable[[Pair, ShouldStop], Answer], owner: str) -> Ticket[Answer]:
        """Queue one question; the owner's former one of the same sort is dropped: nobody waits for its answer."""

        def job(should_stop: ShouldStop, deadline: float) -> Iterator[Answer]:
            yield work(self.service.pair(), should_stop)

        self.service.runner.cancel(owner)
        return self.service.runner.submit(job, owner)

    # What does not

    def what_if(self, key: str, place: int, changes: Mapping[str, object], u: Mapping[int, float]) -> Judged:
        """The round under changed settings and draws, one position in full. Raises UserError, ExpiredError."""
        from specviz.microscope.detail import detail
        from specviz.microscope.whatif import judge_again

        evidence = self.evidence(key)
        k = len(evidence.drafted)
        if not 0 <= place <= k:
            raise UserError(f"This round has {k + 1} positions; there is no position {place + 1}.")
        if any(not 0 <= at < k or not 0 <= value < 1 for at, value in u.items()):
            raise UserError("A draw u belongs to a drafted position and is at least 0 and below 1.")
        outcome = judge_again(evidence, changed(evidence.settings, changes), u)
        return Judged(evidence, outcome, detail(evidence, outcome, place), bool(changes or u))

    def redraw(
        self, key: str, place: int, changes: Mapping[str, object], exhibit: str | None, n: int, seed: int
    ) -> Redraw:
        """Draw one position again, many times. Raises UserError, ExpiredError."""
        from specviz.lab.redraw import redraw

        evidence = self.evidence(key)
        return redraw(evidence, place, changed(evidence.settings, changes), exhibit, n, seed)

    def branch(self, run: str, round_index: int, changes: Mapping[str, object], u: Mapping[int, float]) -> Branching:
        """How to go on from a round that was looked at, as it would have been. Raises UserError, ExpiredError."""
        from specviz.microscope.branch import branch_off

        judged = self.what_if(self._keys.get(_name(run, round_index)) or "", 0, changes, u)
        settings, origin = branch_off(judged.evidence, judged.outcome)
        # A trace from elsewhere may have been allowed more.
        most = min(settings.max_new_tokens, self.service.options.token_limit)
        return Branching(self.trace(run).prompt.text, replace(settings, max_new_tokens=most), origin)


def _name(run: str, round_index: int) -> str:
    return f"{run} {round_index}"
