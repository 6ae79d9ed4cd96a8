"""One worker thread for one device: visitors queue, their jobs run one after another, anyone can leave at any time.

A job is a function that yields events. It runs in the worker; whoever asked for it reads the events from a
Ticket. The runner keeps a ticket only while it waits or runs, so a finished run lives as long as its reader.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from specviz.errors import UserError

log = logging.getLogger(__name__)

Event = TypeVar("Event")
ShouldStop = Callable[[], bool]
Job = Callable[[ShouldStop, float], Iterator[Event]]  # (should_stop, deadline on time.monotonic()) → events
State = Literal["queued", "running", "finished", "cancelled", "failed", "expired"]

APOLOGY = "Something went wrong on our side and the run was ended. What you typed is still here; please try again."
OUT_OF_MEMORY = "The device ran out of memory. Ask for fewer new tokens or a shorter prompt."


@dataclass(frozen=True, slots=True)
class Limits:
    """The operator's bounds. Times are seconds; ``idle_s`` is how long a run outlives its last reader."""

    queue_length: int = 16
    run_s: float = 300.0
    idle_s: float = 15.0
    grace_s: float = 5.0
    events: int = 20_000


class Ticket(Generic[Event]):
    """A place in the queue and, once it is this job's turn, the events so far. Safe to use from any thread."""

    def __init__(self, runner: Runner, job: Job[Event], owner: str) -> None:
        self.owner = owner
        self.state: State = "queued"
        self.error: str | None = None
        self._runner = runner
        self._job: Job[Event] | None = job
        self._events: list[Event] = []
        self._stop_since: float | None = None
        self._started_at: float | None = None
        self._last_read = time.monotonic()

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")

    @property
    def stopping(self) -> bool:
        """Asked to stop, not there yet: the engine is inside a step."""
        return self._stop_since is not None and not self.ended

    @property
    def position(self) -> int:
        """How many jobs come before this one: 0 when it runs or is next on an idle device."""
        return self._runner._position(self)

    @property
    def estimated_wait_s(self) -> float | None:
        """Seconds until its turn, judged by recent runs; None before there were any."""
        return self._runner._estimated_wait_s(self)

    def read(self, since: int = 0, timeout: float = 0.0) -> tuple[Event, ...]:
        """The events from number ``since`` on; waits up to ``timeout`` seconds if there are none yet."""
        changed = self._runner._changed
        with changed:
            self._last_read = time.monotonic()
            changed.wait_for(lambda: len(self._events) > since or self.ended, timeout)
            self._last_read = time.monotonic()
            return tuple(self._events[since:])

    def cancel(self) -> None:
        """Leave the queue at once, or ask the running engine to stop at its next draft step. Never blocks for long."""
        self._runner._cancel(self)


class Runner:
    """First come, first served; one job a visitor, so that nobody can fill the queue.

    ``prepare`` runs first in the worker thread (choose the device, load the models); it handles its own errors.
    ``recover`` runs there after a job that ran out of memory.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        prepare: Callable[[], None] | None = None,
        recover: Callable[[], None] | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self._prepare = prepare
        self._recover = recover
        self._queue: deque[Ticket[Any]] = deque()
        self._running: Ticket[Any] | None = None
        self._recent_s: deque[float] = deque(maxlen=16)
        self._changed = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(target=self._work, name="specviz-runner", daemon=True)
        self._worker.start()

    def submit(self, job: Job[Event], owner: str) -> Ticket[Event]:
        """Queue a job. Raises UserError if the queue is full or this owner already has a job in it."""
        with self._changed:
            self._drop_abandoned()
            if self._closed:
                raise UserError("This server is shutting down. Please try again in a minute.")
            if self._active(owner) is not None:
                raise UserError("You already have a run here. Stop it first, or wait until it has finished.")
            if len(self._queue) >= self.limits.queue_length:
                raise UserError(f"{len(self._queue)} people are already waiting. Please try again in a few minutes.")
            ticket = Ticket(self, job, owner)
            self._queue.append(ticket)
            self._changed.notify_all()
            return ticket

    def cancel(self, owner: str) -> bool:
        """Cancel the job of this owner; False if there is none."""
        with self._changed:
            ticket = self._active(owner)
        if ticket is None:
            return False
        ticket.cancel()
        return True

    @property
    def busy(self) -> bool:
        """Whether a job runs or waits."""
        with self._changed:
            return self._running is not None or bool(self._queue)

    def close(self, timeout: float = 5.0) -> None:
        """End every job and the worker thread; waits no longer than ``timeout`` seconds for a step that takes long."""
        with self._changed:
            self._closed = True
            tickets = [*self._queue, *([self._running] if self._running else [])]
        for ticket in tickets:
            ticket.cancel()
        with self._changed:
            self._changed.notify_all()
        self._worker.join(timeout)

    # What the worker does

    def _work(self) -> None:
        if self._prepare is not None:
            self._prepare()
        while (ticket := self._next()) is not None:
            self._run(ticket)
            del ticket  # an idle worker must not keep the last run alive

    def _next(self) -> Ticket[Any] | None:
        """Wait for a job whose reader is still there; None once the runner is closed."""
        with self._changed:
            while not self._closed:
                self._drop_abandoned()
                if self._queue:
                    ticket = self._running = self._queue.popleft()
                    ticket.state = "running"
                    ticket._started_at = time.monotonic()
                    self._changed.notify_all()
                    return ticket
                self._changed.wait()
            return None

    def _run(self, ticket: Ticket[Any]) -> None:
        assert ticket._job is not None and ticket._started_at is not None
        deadline = ticket._started_at + self.limits.run_s
        state: State = "failed"
        error: str | None = None
        try:
            self._collect(ticket, ticket._job, deadline)
            state = self._verdict(ticket, deadline)
        except UserError as refusal:
            error = str(refusal)
        except Exception as failure:
            log.exception("A job failed")
            error = OUT_OF_MEMORY if is_out_of_memory(failure) else APOLOGY
        if error == OUT_OF_MEMORY:
            self._tidy()  # here, where nothing holds the frames of the job any more
        with self._changed:
            if state == "finished":
                self._recent_s.append(time.monotonic() - ticket._started_at)
            ticket.state, ticket.error, ticket._job = state, error, None
            self._running = None
            self._changed.notify_all()

    def _tidy(self) -> None:
        """Whatever a device in trouble answers, the worker lives on, and the next job shows whether it works again."""
        if self._recover is None:
            return
        try:
            self._recover()
        except Exception:
            log.exception("What a job left behind when it ran out of memory could not be given back")

    def _collect(self, ticket: Ticket[Any], job: Job[Any], deadline: float) -> None:
        """Append what the job yields. A job told to stop may still yield its last words, for ``grace_s``."""

        def should_stop() -> bool:
            now = time.monotonic()
            if ticket._stop_since is None and (now - ticket._last_read > self.limits.idle_s or now > deadline):
                ticket._stop_since = now
            return ticket._stop_since is not None

        def out_of_grace() -> bool:
            return ticket._stop_since is not None and time.monotonic() - ticket._stop_since > self.limits.grace_s

        events = job(should_stop, deadline)
        try:
            for event in events:
                with self._changed:
                    if len(ticket._events) >= self.limits.events:
                        raise UserError(
                            f"The run was ended after {self.limits.events:,} records. Ask for fewer tokens."
                        )
                    ticket._events.append(event)
                    self._changed.notify_all()
                if should_stop() and out_of_grace():
                    break
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()

    def _verdict(self, ticket: Ticket[Any], deadline: float) -> State:
        if time.monotonic() > deadline:
            return "expired"
        return "finished" if ticket._stop_since is None else "cancelled"

    # What tickets ask

    def _cancel(self, ticket: Ticket[Any]) -> None:
        with self._changed:
            if ticket.ended or ticket._stop_since is not None:
                return
            ticket._stop_since = time.monotonic()
            if ticket.state == "queued":
                self._leave_queue(ticket)

    def _position(self, ticket: Ticket[Any]) -> int:
        with self._changed:
            if ticket not in self._queue:
                return 0
            return self._queue.index(ticket) + (self._running is not None)

    def _estimated_wait_s(self, ticket: Ticket[Any]) -> float | None:
        with self._changed:
            if ticket not in self._queue:
                return 0.0
            if not self._recent_s:
                return None
            typical = statistics.median(self._recent_s)
            wait = typical * self._queue.index(ticket)
            if self._running is not None and self._running._started_at is not None:
                wait += max(0.0, typical - (time.monotonic() - self._running._started_at))
            return wait

    # Helpers; the caller holds the lock

    def _active(self, owner: str) -> Ticket[Any] | None:
        """The owner's job that waits or runs and was not told to stop."""
        tickets = [*self._queue, *([self._running] if self._running else [])]
        return next((t for t in tickets if t.owner == owner and t._stop_since is None), None)

    def _drop_abandoned(self) -> None:
        now = time.monotonic()
        for ticket in [t for t in self._queue if now - t._last_read > self.limits.idle_s]:
            self._leave_queue(ticket)

    def _leave_queue(self, ticket: Ticket[Any]) -> None:
        self._queue.remove(ticket)
        ticket.state, ticket._job = "cancelled", None
        self._changed.notify_all()


def is_out_of_memory(failure: Exception) -> bool:
    """Python's, an accelerator's, or a plain RuntimeError: torch's on the CPU and some of torch_npu's."""
    if isinstance(failure, RuntimeError):
        said = str(failure)
        return type(failure).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in said or "out of memory" in said
    return isinstance(failure, MemoryError)
