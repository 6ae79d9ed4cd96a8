"""What ran on the emulated device: operators, copies between host and device, operators launched from elsewhere."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

TO_DEVICE, TO_HOST, ON_DEVICE = "cpu>npu", "npu>cpu", "npu>npu"
_KINDS = {1: TO_DEVICE, 2: TO_HOST, 3: ON_DEVICE}  # aclrtMemcpyKind, as fakecann.c counts them

_lock = threading.Lock()
_calls: Counter[str] = Counter()
_copies: Counter[str] = Counter()
_bytes: Counter[str] = Counter()
_wrong_device: Counter[str] = Counter()


def call(operator: str) -> None:
    with _lock:
        _calls[operator] += 1


def copy(source: str, target: str, size: int) -> None:
    """A copy of ``size`` bytes between device types ``cpu`` and ``npu``."""
    with _lock:
        _copies[f"{source}>{target}"] += 1
        _bytes[f"{source}>{target}"] += size


def launched_on(operator: str, device: torch.device) -> None:
    """Note an operator whose tensors lie on another device than the thread's current one."""
    if device.index != torch.npu.current_device():
        with _lock:
            _wrong_device[operator] += 1


def _runtime_copies() -> Counter[str]:
    """The copies that torch_npu's own code asked the runtime for, past the operators."""
    runtime = ctypes.CDLL("libascendcl.so")
    runtime.fakecann_copies.restype = ctypes.c_size_t
    return Counter({name: runtime.fakecann_copies(kind) for kind, name in _KINDS.items()})


@dataclass
class Counted:
    """Counts since a ``counted()`` block began; they stand still when it has ended.

    ``calls`` by operator (``add.Tensor``, ``npu_fusion_attention_v3``, …), ``copies`` and ``bytes`` by direction
    (``npu>cpu``, ``cpu>npu``, ``npu>npu``; an ``.item()`` is a copy to the host), ``wrong_device`` by operator.
    """

    _start: list[Counter[str]] = field(default_factory=lambda: _totals())
    _end: list[Counter[str]] | None = None

    def _since(self, index: int) -> Counter[str]:
        return (self._end or _totals())[index] - self._start[index]

    @property
    def calls(self) -> Counter[str]:
        return self._since(0)

    @property
    def copies(self) -> Counter[str]:
        return self._since(1)

    @property
    def bytes(self) -> Counter[str]:
        return self._since(2)

    @property
    def wrong_device(self) -> Counter[str]:
        return self._since(3)


def _totals() -> list[Counter[str]]:
    with _lock:
        return [Counter(_calls), _copies + _runtime_copies(), Counter(_bytes), Counter(_wrong_device)]


@contextlib.contextmanager
def counted() -> Iterator[Counted]:
    """Count what runs inside the block, in every thread."""
    counts = Counted()
    try:
        yield counts
    finally:
        counts._end = _totals()
