"""The queue is fair, a slot is freed at once whatever happens, and nothing is kept."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch

from specviz.errors import UserError
from specviz.runner import (
    APOLOGY,
    OUT_OF_MEMORY,
    Job,
    Limits,
    Runner,
    ShouldStop,
    Ticket,
    is_out_of_memory,
)

MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner() -> Iterator[MakeRunner]:
    runners: list[Runner] = []

    def make(
        prepare: Callable[[], None] | None = None, recover: Callable[[], None] | None = None, **limits: float
    ) -> Runner:
        runners.append(Runner(Limits(**limits), prepare, recover))  # type: ignore[arg-type]
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()
        assert not runner._worker.is_alive()


def count_to(n: int) -> Job[int]:
    return lambda should_stop, deadline: iter(range(n))


def until_stopped(last_word: int = -1) -> Job[int]:
    """Ticks like an engine that polls the stop at every draft step."""

    def job(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        tick = 0
        while not should_stop():
            yield (tick := tick + 1)
            time.sleep(0.005)
        yield last_word

    return job


def wait_for(condition: Callable[[], bool], seconds: float = 3.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def all_events(ticket: Ticket[int]) -> list[int]:
    events: list[int] = []
    while True:
        ended = ticket.ended
        events += ticket.read(len(events), timeout=0.2)
        if ended:
            return events


def test_events_arrive_in_order_and_once(make_runner: MakeRunner) -> None:
    ticket = make_runner().submit(count_to(500), "ada")
    assert all_events(ticket) == list(range(500))
    assert (ticket.state, ticket.error, ticket.position) == ("finished", None, 0)


def test_reading_waits_without_spinning(make_runner: MakeRunner) -> None:
    gate = threading.Event()

    def job(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        gate.wait(3)
        yield 7

    ticket = make_runner().submit(job, "ada")
    started = time.monotonic()
    assert ticket.read(0, timeout=0.1) == ()
    assert 0.09 < time.monotonic() - started < 1
    threading.Timer(0.05, gate.set).start()
    assert ticket.read(0, timeout=3) == (7,)


def test_first_come_first_served(make_runner: MakeRunner) -> None:
    runner = make_runner()
    order: list[str] = []

    def job_of(owner: str) -> Job[int]:
        def job(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
            order.append(owner)
            yield 0

        return job

    blocker = runner.submit(until_stopped(), "first")
    blocker.read(0, timeout=3)
    tickets = [runner.submit(job_of(owner), owner) for owner in "abc"]
    assert [ticket.position for ticket in tickets] == [1, 2, 3]
    blocker.cancel()
    for ticket in tickets:
        all_events(ticket)
    assert order == ["a", "b", "c"]


def test_one_job_a_visitor_and_a_bounded_queue(make_runner: MakeRunner) -> None:
    runner = make_runner(queue_length=1)
    running = runner.submit(until_stopped(), "ada")
    running.read(0, timeout=3)
    with pytest.raises(UserError, match="already have a run"):
        runner.submit(count_to(1), "ada")
    runner.submit(count_to(1), "bob")
    with pytest.raises(UserError, match="already waiting"):
        runner.submit(count_to(1), "eve")


def test_stop_frees_the_slot_and_keeps_the_last_words(make_runner: MakeRunner) -> None:
    runner = make_runner()
    ticket = runner.submit(until_stopped(last_word=99), "ada")
    ticket.read(0, timeout=3)
    assert runner.cancel("ada")
    again = runner.submit(count_to(3), "ada")  # at once: a job told to stop no longer counts
    assert all_events(again) == [0, 1, 2]
    assert ticket.state == "cancelled"
    assert ticket.read()[-1] == 99
    assert not runner.cancel("ada")


def test_leaving_the_queue_is_immediate(make_runner: MakeRunner) -> None:
    runner = make_runner()
    blocker = runner.submit(until_stopped(), "ada")
    waiting = runner.submit(count_to(1), "bob")
    waiting.cancel()
    assert waiting.state == "cancelled"
    assert waiting.read() == ()
    blocker.cancel()
    wait_for(lambda: not runner.busy)


def test_a_reader_that_vanished_is_cancelled_running_or_waiting(make_runner: MakeRunner) -> None:
    runner = make_runner(idle_s=0.15)
    running = runner.submit(until_stopped(), "ada")
    waiting = runner.submit(count_to(1), "bob")
    wait_for(lambda: not runner.busy)
    assert (running.state, waiting.state) == ("cancelled", "cancelled")


def test_a_reader_that_stays_is_kept(make_runner: MakeRunner) -> None:
    ticket = make_runner(idle_s=0.15).submit(until_stopped(), "ada")
    for _ in range(8):
        time.sleep(0.05)
        ticket.read(0)
    assert ticket.state == "running"


def test_deadline(make_runner: MakeRunner) -> None:
    ticket = make_runner(run_s=0.1).submit(until_stopped(last_word=5), "ada")
    wait_for(lambda: ticket.ended)
    assert ticket.state == "expired"
    assert ticket.read()[-1] == 5


def test_a_job_that_ignores_the_stop_loses_its_slot_after_the_grace(make_runner: MakeRunner) -> None:
    closed = threading.Event()

    def deaf(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        try:
            while True:
                time.sleep(0.005)
                yield 0
        finally:
            closed.set()

    runner = make_runner(grace_s=0.05)
    ticket = runner.submit(deaf, "ada")
    ticket.read(0, timeout=3)
    ticket.cancel()
    wait_for(lambda: not runner.busy)
    assert closed.is_set()


def test_a_refusal_is_shown_a_bug_is_logged(make_runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    def failing(error: Exception) -> Job[int]:
        def job(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
            yield 1
            raise error

        return job

    runner = make_runner()
    refused = runner.submit(failing(UserError("Too long. Shorten it.")), "ada")
    assert all_events(refused) == [1]
    assert (refused.state, refused.error) == ("failed", "Too long. Shorten it.")
    assert not caplog.records

    broken = runner.submit(failing(ZeroDivisionError("secret detail")), "ada")
    all_events(broken)
    assert (broken.state, broken.error) == ("failed", APOLOGY)
    assert "secret detail" in caplog.text

    full = runner.submit(failing(MemoryError()), "ada")
    all_events(full)
    assert full.error == OUT_OF_MEMORY
    assert all_events(runner.submit(count_to(2), "ada")) == [0, 1]


@pytest.mark.parametrize(
    ("failure", "memory"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("Tried to allocate 82.00 MiB"), True),
        (RuntimeError("NPU out of memory. NPUWorkspaceAllocator tried to allocate 2.00 GiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_out_of_memory_is_known_by_all_its_names(failure: Exception, memory: bool) -> None:
    assert is_out_of_memory(failure) == memory


def test_a_device_that_cannot_even_recover_does_not_stop_the_queue(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    def full(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        yield 0
        raise MemoryError

    recovered: list[int] = []

    def recover() -> None:
        recovered.append(threading.get_ident())
        raise RuntimeError("the device is lost")

    runner = make_runner(recover=recover)
    ticket = runner.submit(full, "ada")
    assert all_events(ticket) == [0]
    assert (ticket.state, ticket.error) == ("failed", OUT_OF_MEMORY)
    assert recovered == [runner._worker.ident] and "the device is lost" in caplog.text
    assert all_events(runner.submit(count_to(2), "ada")) == [0, 1]


def test_a_job_that_fails_before_its_first_event_fails_alone(make_runner: MakeRunner) -> None:
    def job(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        raise UserError("No such model.")

    runner = make_runner()
    ticket = runner.submit(job, "ada")
    assert all_events(ticket) == []
    assert ticket.error == "No such model."
    assert all_events(runner.submit(count_to(1), "ada")) == [0]


def test_the_record_list_is_bounded(make_runner: MakeRunner) -> None:
    ticket = make_runner(events=10).submit(count_to(11), "ada")
    assert len(all_events(ticket)) == 10
    assert ticket.state == "failed"
    assert "10 records" in str(ticket.error)


def test_everything_runs_in_one_thread_after_the_preparation(make_runner: MakeRunner) -> None:
    threads: list[int] = []

    def job(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        threads.append(threading.get_ident())
        yield 0

    runner = make_runner(prepare=lambda: threads.append(threading.get_ident()))
    for owner in "ab":
        all_events(runner.submit(job, owner))
    assert len(threads) == 3
    assert len(set(threads)) == 1
    assert threading.get_ident() not in threads


def test_waiting_time_is_judged_by_recent_runs(make_runner: MakeRunner) -> None:
    runner = make_runner()

    def nap(should_stop: ShouldStop, deadline: float) -> Iterator[int]:
        time.sleep(0.1)
        yield 0

    blocker = runner.submit(until_stopped(), "first")
    waiting = runner.submit(nap, "ada")
    assert waiting.estimated_wait_s is None
    blocker.cancel()
    all_events(waiting)

    blocker = runner.submit(until_stopped(), "first")
    blocker.read(0, timeout=3)
    tickets = [runner.submit(nap, owner) for owner in "ab"]
    first, second = (ticket.estimated_wait_s for ticket in tickets)
    assert first is not None and second is not None
    assert 0 <= first <= 0.2
    assert 0.05 < second - first < 0.3
    blocker.cancel()


def test_a_finished_run_is_not_kept(make_runner: MakeRunner) -> None:
    runner = make_runner()
    ticket = runner.submit(count_to(5), "ada")
    all_events(ticket)
    wait_for(lambda: not runner.busy)
    gone = weakref.ref(ticket)
    del ticket
    wait_for(lambda: gc.collect() >= 0 and gone() is None)


def test_closing_ends_everything(make_runner: MakeRunner) -> None:
    runner = make_runner()
    tickets = [runner.submit(until_stopped(), owner) for owner in "ab"]
    runner.close()
    assert [ticket.state for ticket in tickets] == ["cancelled", "cancelled"]
    with pytest.raises(UserError, match="shutting down"):
        runner.submit(count_to(1), "ada")
