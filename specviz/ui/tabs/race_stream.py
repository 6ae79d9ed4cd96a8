"""A ticket's events as what the page shows, ten times a second: the wait, the race as it happens, how it ended."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from specviz.events import Done, Progress
from specviz.runner import Ticket
from specviz.service import Prepared, Service
from specviz.trace import Trace
from specviz.ui.components.notice import CLEAR, Value, notice
from specviz.ui.components.wire import State, Stream, describe

if TYPE_CHECKING:
    from specviz.service import RaceEvent

FRAME_S = 0.1  # smooth to read, cheap enough for many visitors
ENDED: Mapping[str, State] = {"finished": "finished", "cancelled": "stopped", "expired": "stopped", "failed": "failed"}


class Frame(NamedTuple):
    """What changes on the page (None: nothing): a message for the view, a notice, and at the end the whole trace.

    ``run`` is the name by which the page knows this race, once it is shown.
    """

    view: str | None
    notice: Value | None
    trace: Trace | None
    run: str


async def frames(
    ticket: Ticket[RaceEvent], service: Service, words: Mapping[str, str], lang: str
) -> AsyncGenerator[Frame, None]:
    """Frames until the ticket has ended. Cheap and never blocking: it runs on the server's event loop."""
    screen = _Screen(lang)
    said: Value | None = None
    while True:
        ended = ticket.ended  # asked before reading, so that the last words are not missed
        screen.add(ticket.read(screen.seen))
        if screen.trace is None or ended:
            now = _ending(ticket, service, words) if ended else _waiting(ticket, service, words, screen)
            # A long trace takes a while to write down; the other visitors' pages must not wait for it.
            view = await asyncio.to_thread(screen.message, ENDED.get(ticket.state, "running"))
            yield Frame(view, now if now != said else None, screen.trace, screen.run)
            said = now
        if ended:
            return
        await asyncio.sleep(FRAME_S)


class _Screen:
    """The view's side of one race. Until its first round or step, the view keeps what it shows."""

    def __init__(self, lang: str) -> None:
        self.seen = 0
        self.run = secrets.token_hex(8)
        self.racing = False
        self.trace: Trace | None = None
        self._lang = lang
        self._stream: Stream | None = None
        self._told: tuple[int, State] | None = None

    @property
    def prepared(self) -> bool:
        return self._stream is not None

    def add(self, events: Iterable[RaceEvent]) -> None:
        for event in events:
            self.seen += 1
            if isinstance(event, Prepared):
                about = describe(
                    event.settings,
                    event.models,
                    event.machine,
                    event.prompt,
                    order=event.order,
                    branch=event.branch,
                )
                self._stream = Stream(self.run, meta=about, lang=self._lang)
                continue
            assert self._stream is not None, "a race begins with Prepared"
            self._stream.add(event)
            self.racing = self.racing or isinstance(event, Progress)
            if isinstance(event, Done):
                self.trace = event.trace

    def message(self, state: State) -> str | None:
        """What is new, or None."""
        if self._stream is None or not self.racing or self._told == (self.seen, state):
            return None
        self._told = (self.seen, state)
        return self._stream.message(state)


def _waiting(ticket: Ticket[RaceEvent], service: Service, words: Mapping[str, str], screen: _Screen) -> Value:
    if ticket.stopping:
        return notice(words["page.stopping"], "info")
    if screen.racing:
        return CLEAR
    if position := ticket.position:
        wait = ticket.estimated_wait_s
        about = words["page.queued.wait"].format(seconds=max(1, math.ceil(wait))) if wait is not None else ""
        return notice(f"{words['page.queued'].format(position=position)} {about}".strip(), "info")
    if service.state.phase == "loading":
        return notice(words["page.loading"], "info")
    return notice(words["page.reading" if screen.prepared else "page.preparing"], "info")


def _ending(ticket: Ticket[RaceEvent], service: Service, words: Mapping[str, str]) -> Value:
    if ticket.error is not None:
        return notice(ticket.error)
    if ticket.state == "expired":
        return notice(words["page.expired"].format(seconds=round(service.options.limits.run_s)), "info")
    return CLEAR
