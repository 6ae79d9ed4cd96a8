"""The plain records of a schedule: which tile is visited when, what it moves and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from specviz.attention.hardware import Hardware
from specviz.attention.problem import Problem

FLOAT = 4  # bytes of float32: scores, accumulators and row statistics are kept in it

Phase = Literal["initialise", "scores", "softmax", "values", "attend", "merge"]
Kind = Literal["full", "masked", "skipped"]
Level = Literal["hbm", "l2"]

TILE_PHASES = ("scores", "attend")  # the phases that compute scores


class Move(NamedTuple):
    """Bytes of one array that pass between a memory level and the chip's own memory."""

    what: str
    level: Level
    bytes: int


class Buffer(NamedTuple):
    """Bytes that lie on chip while a step runs."""

    what: str
    bytes: int


class Rows(NamedTuple):
    """Rows of scores: row r is query r // ``group`` of head ``head`` + r % ``group``.

    ``group`` is above 1 where the query heads of one key/value head are packed into the rows of one tile.
    """

    head: int
    group: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def first_query(self) -> int:
        return self.start // self.group

    @property
    def last_query(self) -> int:
        return (self.stop - 1) // self.group

    def holds(self, head: int) -> bool:
        return self.head <= head < self.head + self.group


class Keys(NamedTuple):
    """A run of key positions."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class TileStep:
    """One visit of a worker (thread block or core) in loop order.

    Workers run side by side, each its own steps in order; phases of one head follow each other. ``kind`` is None
    where no scores are computed. A skipped tile is listed so that it can be shown, and costs nothing. ``finishes``
    marks the last visit to its rows (in its split). ``flops`` are those of the matrix products over the rows and
    keys there are; softmax is counted apart, in ``exponentials``.
    """

    worker: int
    phase: Phase
    kind: Kind | None
    rows: Rows
    keys: Keys
    split: int = 0
    finishes: bool = False
    loads: tuple[Move, ...] = ()
    stores: tuple[Move, ...] = ()
    held: tuple[Buffer, ...] = ()
    flops: int = 0
    exponentials: int = 0

    @property
    def hbm_read(self) -> int:
        return _bytes(self.loads, "hbm")

    @property
    def hbm_written(self) -> int:
        return _bytes(self.stores, "hbm")

    @property
    def l2_read(self) -> int:
        return _bytes(self.loads, "l2")

    @property
    def l2_written(self) -> int:
        return _bytes(self.stores, "l2")

    @property
    def on_chip(self) -> int:
        """Bytes held by this worker while the step runs."""
        return sum(buffer.bytes for buffer in self.held)


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tile size, how many query heads share the rows of a tile, and into how many parts the keys are split."""

    rows: int
    keys: int
    group: int = 1
    splits: int = 1
    keys_per_split: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """One published algorithm: its tile rule and its loop order.

    ``skips``: fully masked tiles are not computed. ``divides_each_step``: O is normalised at every visit instead of
    once at the end. ``on_vector_cores``: a worker is a vector core. ``refuses`` says in a sentence why a shape is not
    for it, or nothing.
    """

    name: str
    source: str
    tile: Callable[[Problem, Hardware], Tiling]
    walk: Callable[[Problem, Tiling], Iterator[TileStep]]
    skips: bool = True
    divides_each_step: bool = False
    on_vector_cores: bool = False
    refuses: Callable[[Problem], str | None] = lambda problem: None


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule for one problem on one machine."""

    schedule: Schedule
    problem: Problem
    hardware: Hardware
    tiling: Tiling

    @property
    def name(self) -> str:
        return self.schedule.name

    @property
    def slots(self) -> int:
        """How many workers the machine runs side by side."""
        return self.hardware.vectors if self.schedule.on_vector_cores else int(self.hardware.cores.value)

    def steps(self, head: int | None = None) -> Iterator[TileStep]:
        """Every step in loop order, or those whose rows hold one query head (with the heads packed beside it)."""
        steps = self.schedule.walk(self.problem, self.tiling)
        return steps if head is None else (step for step in steps if step.rows.holds(head))


def _bytes(moves: tuple[Move, ...], level: Level) -> int:
    return sum(move.bytes for move in moves if move.level == level)
