"""The functions of the Attention tiles tab that the browser may call; shaped like those of ``lab_server``."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from specviz.attention_lab import AttentionLab
from specviz.errors import UserError
from specviz.runner import Ticket
from specviz.ui.components import attention_wire
from specviz.ui.components.lab_server import Json, answered, guarded, text, whole

if TYPE_CHECKING:
    from specviz.tiles.view import Phase

PHASES = ("verification", "prefill")


class AttentionServer:
    """What ``server.attention(…)``, ``attention_step`` and ``ablate`` do."""

    def __init__(self, lab: AttentionLab) -> None:
        self._lab = lab
        self.functions: list[Callable[..., Any]] = [
            guarded(self._attention, "attention"),
            guarded(self._step, "attention_step"),
            guarded(self._ablate, "ablate"),
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
        cells = await answered(self._lab.ablate(whole(asked, "context"), text(asked, "owner")))
        return await asyncio.to_thread(attention_wire.ablation, cells)


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
