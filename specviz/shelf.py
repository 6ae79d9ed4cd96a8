"""What the server keeps for a while by name: the newest things asked for, up to a total weight."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

Thing = TypeVar("Thing")


class Shelf(Generic[Thing]):
    """Least recently used things fall off first. Names must be hard to guess: whoever knows one may have the thing."""

    def __init__(self, capacity: int) -> None:
        """``capacity`` bounds the sum of the weights; what is kept for good does not count."""
        self._capacity = capacity
        self._things: OrderedDict[str, tuple[Thing, int]] = OrderedDict()
        self._kept: dict[str, Thing] = {}
        self._weight = 0
        self._lock = threading.Lock()

    def put(self, name: str, thing: Thing, weight: int) -> None:
        """Keep a thing; one heavier than the whole shelf is not kept."""
        with self._lock:
            if name in self._things:
                self._weight -= self._things.pop(name)[1]
            if weight > self._capacity:
                return
            self._things[name] = (thing, weight)
            self._weight += weight
            while self._weight > self._capacity:
                _, (_, dropped) = self._things.popitem(last=False)
                self._weight -= dropped

    def keep(self, name: str, thing: Thing) -> None:
        """Keep a thing for good."""
        self._kept[name] = thing

    def get(self, name: str) -> Thing | None:
        """The thing, if it is still there; it is then the last to go."""
        with self._lock:
            if name in self._kept:
                return self._kept[name]
            if name not in self._things:
                return None
            self._things.move_to_end(name)
            return self._things[name][0]
