"""Machines, number by number, each with its source."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from specviz import devices
from specviz.errors import UserError

Status = Literal["published", "unofficial", "derived", "measured", "chosen"]

KIB, MIB, GB = 2**10, 2**20, 10**9
TERA = 10**12

FA1, FA2, FA3 = (
    "FlashAttention, arXiv 2205.14135",
    "FlashAttention-2, arXiv 2307.08691",
    "FlashAttention-3, arXiv 2407.08608",
)
CATLASS, CANN = "catlass, architecture header", "CANN, platform configuration"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, its unit, where it comes from, and how far to trust it."""

    value: float
    unit: str
    source: str
    status: Status = "published"


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device. ``on_chip`` is the fast memory of one core, which a tile must fit; ``flops`` and ``exponentials``
    are peaks of the whole device a second. None where no number is known."""

    name: str
    title: str
    cores: Figure
    on_chip: Figure
    memory: Figure
    bandwidth: Figure
    flops: Figure
    exponentials: Figure | None = None
    l2: Figure | None = None
    on_chip_bandwidth: Figure | None = None
    vector_cores: Figure | None = None
    buffers: tuple[tuple[str, Figure], ...] = ()

    @property
    def vectors(self) -> int:
        """Vector cores: those it has, or two a core as on Ascend."""
        return int(self.vector_cores.value if self.vector_cores else 2 * self.cores.value)


A100 = Hardware(
    "a100",
    "NVIDIA A100",
    cores=Figure(108, "SM", FA1),
    on_chip=Figure(192 * KIB, "B per SM", FA1),
    memory=Figure(80 * GB, "B", f"{FA1} (40 to 80 GB)"),
    bandwidth=Figure(2.0 * TERA, "B/s", f"{FA1} (1.5 to 2.0 TB/s)"),
    flops=Figure(312 * TERA, "FLOP/s", f"{FA2}, 16-bit"),
    exponentials=Figure(108 * 16 * 1.41 * GB, "exp/s", "SMs × 16 a cycle × 1.41 GHz", "derived"),
    on_chip_bandwidth=Figure(19 * TERA, "B/s", f"{FA1}, about"),
)
H100 = Hardware(
    "h100",
    "NVIDIA H100 SXM5",
    cores=Figure(132, "SM", FA3),
    on_chip=Figure(228 * KIB, "B per SM", FA3),
    memory=Figure(80 * GB, "B", FA3),
    bandwidth=Figure(3.35 * TERA, "B/s", FA3),
    flops=Figure(989 * TERA, "FLOP/s", f"{FA3}, 16-bit"),
    exponentials=Figure(3.9 * TERA, "exp/s", FA3),
    l2=Figure(50 * MIB, "B", FA3),
    on_chip_bandwidth=Figure(31 * TERA, "B/s", FA3),
)
# 16³ multiply-adds a cube core and cycle; the clock is what makes that the peak that is quoted.
ASCEND_910B = Hardware(
    "ascend-910b",
    "Ascend 910B",
    cores=Figure(24, "cube cores", f"{CANN} (B1, B2; B3 has 20)"),
    vector_cores=Figure(48, "vector cores", f"{CANN} (B1, B2; B3 has 40)"),
    on_chip=Figure(512 * KIB, "B of L1 per core", CATLASS),
    memory=Figure(64 * GB, "B", CANN),
    bandwidth=Figure(1.6 * TERA, "B/s", "conflicting reports of 1.2 to 1.6 TB/s", "unofficial"),
    flops=Figure(364 * TERA, "FLOP/s", "24 cores × 16³ × 2 × 1.85 GHz, 16-bit", "derived"),
    exponentials=Figure(48 * 64 * 1.85 * GB, "exp/s", "vector cores × 64 lanes × 1.85 GHz, at best", "derived"),
    l2=Figure(192 * MIB, "B", CANN),
    buffers=(
        ("L0A", Figure(64 * KIB, "B", CATLASS)),
        ("L0B", Figure(64 * KIB, "B", CATLASS)),
        ("L0C", Figure(128 * KIB, "B", CATLASS)),
        ("UB", Figure(192 * KIB, "B per vector core", CATLASS)),
    ),
)
KNOWN = {hardware.name: hardware for hardware in (A100, H100, ASCEND_910B)}
THIS_MACHINE = "this-machine"
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
NAMES = (*KNOWN, THIS_MACHINE)


def find(name: str) -> Hardware:
    """The device of that name; this machine is measured, which takes about a second. Raises UserError."""
    wanted = name.lower()
    if wanted == THIS_MACHINE:
        return this_machine()
    if wanted not in KNOWN:
        raise UserError(f"The hardware must be one of {', '.join(NAMES)}; you gave {name[:40]!r}.")
    return KNOWN[wanted]


def custom(cores: int, on_chip_bytes: int, bandwidth: float, flops: float, memory_bytes: float = 80 * GB) -> Hardware:
    """A device of one's own. Raises UserError for numbers that no device has."""
    if min(cores, on_chip_bytes, bandwidth, flops, memory_bytes) <= 0:
        raise UserError("A device needs at least one core, and memory, bandwidth and FLOP/s above 0.")

    def chosen(value: float, unit: str) -> Figure:
        return Figure(value, unit, "chosen", "chosen")

    return Hardware(
        "custom",
        "Custom",
        cores=chosen(cores, "cores"),
        on_chip=chosen(on_chip_bytes, "B per core"),
        memory=chosen(memory_bytes, "B"),
        bandwidth=chosen(bandwidth, "B/s"),
        flops=chosen(flops, "FLOP/s"),
    )


def this_machine() -> Hardware:
    """This machine's CPU: caches as the system states them, speeds measured now. Raises UserError if it states none."""
    system, (private, shared) = _caches()
    return Hardware(
        THIS_MACHINE,
        "This machine's CPU",
        cores=Figure(torch.get_num_threads(), "threads", "PyTorch", "measured"),
        on_chip=Figure(private, "B of L2 per core", system, "measured"),
        memory=Figure(devices.memory_bytes(torch.device("cpu")), "B", "the system", "measured"),
        bandwidth=Figure(_measured_bandwidth(), "B/s", "reading 256 MiB, best of five", "measured"),
        flops=Figure(_measured_flops(), "FLOP/s", "a float32 matrix product of 1024³, best of five", "measured"),
        exponentials=Figure(_measured_exponentials(), "exp/s", "2²⁰ of them, best of five", "measured"),
        l2=Figure(shared, "B of L3, shared", system, "measured") if shared else None,
    )


def _caches() -> tuple[str, tuple[int, int]]:
    """Bytes of a core's own L2, and of the cache that all cores share (0 if none)."""
    sizes = _linux_caches()
    if sizes.get(2):
        return "Linux, /sys/devices/system/cpu", (sizes[2], sizes.get(3, 0))
    try:
        stated = int(subprocess.run(["sysctl", "-n", "hw.l2cachesize"], capture_output=True, check=True).stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        stated = 0
    if stated <= 0:
        raise UserError(f"This system does not state its cache sizes. Choose other hardware: {', '.join(KNOWN)}.")
    return "macOS, sysctl", (stated, 0)


def _linux_caches() -> dict[int, int]:
    """Bytes by level, as far as they are stated: virtual machines may list a cache without its size."""
    sizes = {}
    for folder in sorted(CACHES.glob("index*")):
        with suppress(OSError):
            level, size = ((folder / name).read_text().strip() for name in ("level", "size"))
            match = re.fullmatch(r"(\d+)([KM]?)", size)
            if match:
                sizes[int(level)] = int(match[1]) * {"": 1, "K": KIB, "M": MIB}[match[2]]
    return sizes


def _measured_bandwidth() -> float:
    numbers = torch.ones(64 * MIB, dtype=torch.float32)
    return numbers.nbytes / _best_seconds(numbers.sum)


def _measured_flops() -> float:
    matrix = torch.ones(1024, 1024, dtype=torch.float32)
    return 2 * 1024**3 / _best_seconds(lambda: matrix @ matrix)


def _measured_exponentials() -> float:
    numbers = torch.zeros(MIB, dtype=torch.float32)
    return numbers.numel() / _best_seconds(numbers.exp)


def _best_seconds(work: Callable[[], object]) -> float:
    """The least of five: whatever else the machine does can only add."""

    def once() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return min(once() for _ in range(5))
