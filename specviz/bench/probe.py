"""What bounds speculation on a machine: how fast it reads memory, and how long a forward over k positions takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from specviz import devices
from specviz.models.base import LanguageModel

BYTES = 256 * 2**20  # far beyond any cache
CONTEXT = 64
REPEATS = 9


def read_bandwidth(device: torch.device) -> float:
    """Bytes per second of summing a large tensor, at best.

    At batch 1 a forward reads all weights once, so weights ÷ bandwidth is the least time it can take.
    """
    numbers = torch.ones(BYTES // 4, dtype=torch.float32, device=device)
    return BYTES / min(_seconds(numbers.sum, device) for _ in range(REPEATS))


@torch.inference_mode()
def forward_seconds(model: LanguageModel, positions: Sequence[int]) -> dict[int, float]:
    """T(k): seconds of a forward over k new positions behind a short cached context, for each k.

    The least of several, in turns: whatever else the machine does can only add.
    """
    token_ids = torch.zeros(max(*positions, CONTEXT), dtype=torch.int64, device=model.device)
    model.allocate(CONTEXT + max(positions))
    model.forward(token_ids[:CONTEXT], keep=1)

    def forward(k: int) -> None:
        model.rollback(CONTEXT)
        model.forward(token_ids[:k], keep=k)

    for k in positions:
        forward(k)  # kernels and memory pools warm up per shape
    rounds = [{k: _seconds(partial(forward, k), model.device) for k in positions} for _ in range(REPEATS)]
    return {k: min(times[k] for times in rounds) for k in positions}


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    devices.synchronize(device)
    started = time.perf_counter()
    work()
    devices.synchronize(device)
    return time.perf_counter() - started
