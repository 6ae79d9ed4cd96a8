"""The functions of the Attention tiles tab that the browser may call; shaped like those of ``lab_server``."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from specviz.attention_lab import AttentionLab
from specviz.errors import UserError
from specviz.runner import Ticket
from specviz.shelf import Shelf
from specviz.ui.components import attention_wire
from specviz.ui.components.lab_server import POLL_S, Json, answered, guarded, text, whole

if TYPE_CHECKING:
    from specviz.bench.ablation import Cell
    from specviz.tiles.view import Phase

PHASES = ("verification", "prefill")
LISTEN_S = 4.0  # a page asks again after that; one that was left does not, and its measurement ends
MEASUREMENTS = 64  # more than can wait in the queue


class AttentionServer:
    """What ``server.attention(…)``, ``attention_step``, ``ablate``, ``ablation`` and ``stop_ablation`` do."""

    def __init__(self, lab: AttentionLab) -> None:
        self._lab = lab
        self._measuring: Shelf[Ticket[Sequence[Cell]]] = Shelf(MEASUREMENTS)
        self.functions: list[Callable[..., Any]] = [
            guarded(self._attention, "attention"),
            guarded(self._step, "attention_step"),
            guarded(self._ablate, "ablate"),
            guarded(self._ablation, "ablation"),
            guarded(self._stop_ablation, "stop_ablation"),
        ]

    async def _attention(self, asked: Mapping[str, Any]) -> Json:
        phase = asked.get("phase")
        if phase not in PHASES:
            raise UserError(f"The phase must be one of {', '.join(PHASES)}.")
        found = self._lab.view(
            text(asked, "run"),
            whole(asked, "round"),
            cast("Phase", phase),
            whole(asked, "layer"),
            text(asked, "owner"),
        )
        viewed = await answered(found) if isinstance(found, Ticket) else found
        names, hardware, head = _names(asked), text(asked, "hardware"), whole(asked, "head")
        tile = _tile(asked)

        def execute() -> Json:
            executions = [self._lab.execution(viewed, head, name, hardware, tile) for name in names]
            return attention_wire.attention(viewed.view, head, tile, self._lab.hardware(hardware), executions)

        return await asyncio.to_thread(execute)

    async def _step(self, asked: Mapping[str, Any]) -> Json:
        execution, step = self._lab.step(text(asked, "key")), whole(asked, "step")
        if step >= len(execution.visits):
            raise UserError(f"This schedule takes {len(execution.visits):,} steps; there is no step {step + 1:,}.")
        return attention_wire.visit(execution.visits[step])

    async def _ablate(self, asked: Mapping[str, Any]) -> Json:
        owner = text(asked, "owner")
        self._measuring.put(owner, self._lab.ablate(whole(asked, "context"), owner), 1)
        return await self._ablation(asked)

    async def _ablation(self, asked: Mapping[str, Any]) -> Json:
        """The rows of a measurement, or {"busy": true} after a while: then it is asked for again."""
        ticket = self._measurement(asked)
        until = time.monotonic() + LISTEN_S
        while not ticket.ended and time.monotonic() < until:
            ticket.read()
            await asyncio.sleep(POLL_S)
        if not ticket.ended:
            return {"busy": True}
        return await asyncio.to_thread(attention_wire.ablation, await answered(ticket))

    async def _stop_ablation(self, asked: Mapping[str, Any]) -> Json:
        self._measurement(asked).cancel()
        return {}

    def _measurement(self, asked: Mapping[str, Any]) -> Ticket[Sequence[Cell]]:
        ticket = self._measuring.get(text(asked, "owner"))
        if ticket is None:
            raise UserError("No measurement is going on.")
        return ticket


def _names(asked: Mapping[str, Any]) -> list[str]:
    names = asked.get("schedules")
    if not isinstance(names, list) or not 1 <= len(names) <= 2 or not all(isinstance(name, str) for name in names):
        raise UserError("One or two schedules are shown at a time.")
    return names


def _tile(asked: Mapping[str, Any]) -> tuple[int, int] | None:
    tile = asked.get("tile")
    if tile is None:
        return None
    if not isinstance(tile, list) or len(tile) != 2 or not all(_is_size(size) for size in tile):
        raise UserError("A tile is given as two whole numbers, rows and keys.")
    return int(tile[0]), int(tile[1])


def _is_size(size: object) -> bool:
    return isinstance(size, (int, float)) and not isinstance(size, bool) and math.isfinite(size) and size == int(size)
