"""The functions that the browser may call: the laboratory behind a door that checks what comes in.

Each takes one dict and returns one; {"error": a sentence} where it cannot answer, with "expired": true where looking
again would help.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

from specviz.errors import UserError
from specviz.laboratory import ExpiredError, Laboratory
from specviz.runner import APOLOGY, Ticket
from specviz.ui.components import lab_wire

log = logging.getLogger(__name__)

Json = dict[str, Any]
Answer = TypeVar("Answer")
POLL_S = 0.05


class LabServer:
    """What ``server.look(…)`` and its like do. One instance serves every visitor; a key tells their rounds apart."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        for name in ("look", "what_if", "redraw", "rounds", "exhibit"):
            setattr(self, name, guarded(getattr(self, f"_{name}"), name))

    def functions(self, *names: str) -> list[Callable[..., Any]]:
        """For a component's ``server_functions``."""
        return [getattr(self, name) for name in names]

    async def _look(self, asked: Mapping[str, Any]) -> Json:
        found = self._laboratory.look(text(asked, "run"), whole(asked, "round"), text(asked, "owner"))
        if isinstance(found, Ticket):
            found = await answered(found)
        judged = await asyncio.to_thread(self._laboratory.what_if, found.key, whole(asked, "place", 0), {}, {})
        return await asyncio.to_thread(lab_wire.looked, found, judged)

    async def _what_if(self, asked: Mapping[str, Any]) -> Json:
        ask = partial(
            self._laboratory.what_if,
            text(asked, "key"),
            whole(asked, "place", 0),
            mapping(asked, "changes"),
            draws(asked),
        )
        return lab_wire.outcome(await asyncio.to_thread(ask))

    async def _redraw(self, asked: Mapping[str, Any]) -> Json:
        exhibit = asked.get("exhibit")
        ask = partial(
            self._laboratory.redraw,
            text(asked, "key"),
            whole(asked, "place", 0),
            mapping(asked, "changes"),
            None if exhibit is None else text(asked, "exhibit"),
            whole(asked, "n"),
            whole(asked, "seed", 0),
        )
        return lab_wire.answer(await asyncio.to_thread(ask))

    async def _rounds(self, asked: Mapping[str, Any]) -> Json:
        ticket = self._laboratory.rounds(
            text(asked, "run"),
            whole(asked, "round"),
            mapping(asked, "changes"),
            whole(asked, "n"),
            whole(asked, "seed", 0),
            text(asked, "owner"),
        )
        return lab_wire.answer(await answered(ticket))

    async def _exhibit(self, asked: Mapping[str, Any]) -> Json:
        ticket = self._laboratory.exhibit(text(asked, "run"), text(asked, "name"), text(asked, "owner"))
        return lab_wire.answer(await answered(ticket))


def draws(asked: Mapping[str, Any]) -> dict[int, float]:
    """The draws u that replace recorded ones, {place: u}. Raises UserError."""
    try:
        return {int(place): float(value) for place, value in mapping(asked, "u").items()}
    except (TypeError, ValueError, OverflowError):
        raise UserError("The draws u must be numbers by position.") from None


def guarded(answer: Callable[[Mapping[str, Any]], Any], name: str) -> Callable[[Any], Any]:
    """A function that always returns a dict, under the name by which the browser calls it."""

    @wraps(answer)
    async def safely(asked: Any) -> Json:
        try:
            if isinstance(asked, list) and len(asked) == 1:  # Gradio packs several arguments into a list
                (asked,) = asked
            if not isinstance(asked, Mapping):
                raise UserError("The laboratory is asked with one object.")
            result: Json = await answer(asked)
            return result
        except ExpiredError as expired:
            return {"error": str(expired), "expired": True}
        except UserError as refusal:
            return {"error": str(refusal)}
        except Exception:
            log.exception("The laboratory failed")
            return {"error": APOLOGY}

    safely.__name__ = name
    return safely


async def answered(ticket: Ticket[Answer]) -> Answer:
    """The one event of a ticket, awaited without blocking anybody. Raises UserError."""
    try:
        while not ticket.ended:
            ticket.read()
            await asyncio.sleep(POLL_S)
    finally:
        ticket.cancel()
    found = ticket.read()
    if ticket.error is not None or not found:
        raise UserError(ticket.error or "This question was dropped for a newer one.")
    return found[0]


def mapping(asked: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object inside what was asked; {} if it is not there. Raises UserError."""
    value = asked.get(name) or {}
    if not isinstance(value, Mapping):
        raise UserError(f"{name} must be an object.")
    return value


def text(asked: Mapping[str, Any], name: str) -> str:
    """A short text of what was asked. Raises UserError."""
    value = asked.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise UserError(f"{name} must be a short text.")
    return value


def whole(asked: Mapping[str, Any], name: str, otherwise: int | None = None) -> int:
    """A whole number ≥ 0 of what was asked. Raises UserError."""
    value = asked.get(name, otherwise)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= value < 2**53 or value != int(value):
        raise UserError(f"{name} must be a whole number, 0 or more.")
    return int(value)
