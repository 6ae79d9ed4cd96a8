"""What the page asks of a run's attention: captured Q, K, V under published schedules, and attention × decoding."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specviz.errors import UserError
from specviz.laboratory import ExpiredError, Laboratory
from specviz.runner import ShouldStop, Ticket
from specviz.settings import make_settings
from specviz.shelf import Shelf

if TYPE_CHECKING:
    from specviz.attention.hardware import Hardware
    from specviz.bench.ablation import Cell
    from specviz.models.load import Pair
    from specviz.tiles.execution import Execution
    from specviz.tiles.view import Phase, View
    from specviz.trace import Settings

VIEW_BYTES = 128 * 2**20
EXECUTION_BYTES = 256 * 2**20
GONE = "This picture is no longer on the server."
LONGEST_ABLATION = 8192
WARM_UP = 16  # tokens before and in an answer that is not counted: what runs first is slow
# By name, for a page that is there before PyTorch is; a test holds them against the room they come from.
SCHEDULES = (
    "standard",
    "flash-attention-1",
    "flash-attention-2",
    "flash-attention-3",
    "flash-decoding",
    "ascend-flash-attention-score",
    "ascend-incre-flash",
)
DEVICES = (
    ("a100", "NVIDIA A100"),
    ("h100", "NVIDIA H100 SXM5"),
    ("ascend-910b", "Ascend 910B"),
    ("this-machine", "This machine's CPU"),
)


@dataclass(frozen=True, slots=True)
class Viewed:
    """A captured view, by the name under which its executions are known."""

    key: str
    view: View


class AttentionLab:
    """Serves every visitor, as ``Laboratory`` does; views and executions lie on shelves for a while."""

    def __init__(self, laboratory: Laboratory) -> None:
        self._laboratory = laboratory
        self._views: Shelf[Viewed] = Shelf(VIEW_BYTES)
        self._executions: Shelf[Execution] = Shelf(EXECUTION_BYTES)
        self._machine: Hardware | None = None

    def view(self, run: str, round_index: int, phase: Phase, layer: int, owner: str) -> Viewed | Ticket[Viewed]:
        """A view that is still there, or the ticket of its capture. Raises UserError."""
        trace = self._laboratory.trace(run)
        name = f"{run} {0 if phase == 'prefill' else round_index} {phase} {layer}"
        if known := self._views.get(name):
            return known

        def work(pair: Pair, _: ShouldStop) -> Viewed:
            from specviz.tiles.view import look

            found = Viewed(secrets.token_urlsafe(12), look(trace, round_index, pair, phase, layer))
            self._views.put(name, found, found.view.bytes)
            return found

        return self._laboratory.ask(work, f"attention {owner}")

    def execution(
        self, viewed: Viewed, head: int, schedule: str, hardware: str, tile: tuple[int, int] | None
    ) -> tuple[str, Execution]:
        """A schedule over a head of a view, and the name under which its steps may be asked about. Raises UserError."""
        from specviz.tiles.execution import execute

        name = f"{viewed.key} {head} {schedule} {hardware} {tile}"
        found = self._executions.get(name)
        if found is None:
            found = execute(viewed.view, head, schedule, self.hardware(hardware), tile)
            self._executions.put(name, found, found.bytes)
        return name, found

    def step(self, name: str) -> Execution:
        """An execution by its name. Raises ExpiredError."""
        found = self._executions.get(name)
        if found is None:
            raise ExpiredError(GONE)
        return found

    def hardware(self, name: str) -> Hardware:
        """A device by name; this machine is measured once. Raises UserError."""
        from specviz.attention import hardware

        if name.lower() != hardware.THIS_MACHINE:
            return hardware.find(name)
        self._machine = self._machine or hardware.find(name)
        return self._machine

    def ablate(self, context: int, owner: str) -> Ticket[Sequence[Cell]]:
        """Measure attention × decoding behind one context on the loaded pair, with the default drafter."""
        if not 2 <= context <= LONGEST_ABLATION:
            raise UserError(f"A context has 2 to {LONGEST_ABLATION:,} tokens; you gave {context:,}.")
        settings = make_settings(temperature=0.0, max_new_tokens=48)

        def work(pair: Pair, should_stop: ShouldStop) -> Sequence[Cell]:
            from specviz.bench.ablation import ablate, fitting

            def measure(settings: Settings, length: int) -> Sequence[Cell]:
                return tuple(ablate(pair, settings, length, poll=lambda: "cancelled" if should_stop() else None))

            (length,) = fitting(pair, settings, [context])
            measure(replace(settings, max_new_tokens=WARM_UP), min(length, WARM_UP))
            cells = measure(settings, length)
            if len(cells) < 4:
                raise UserError(
                    "The measurement was stopped: all four decodings have as much time as a run may take here. "
                    "Choose a shorter context, or measure with the command ablate-attention."
                )
            return cells

        return self._laboratory.ask(work, f"ablation {owner}")
