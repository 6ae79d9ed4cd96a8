"""The devices torch can compute on: npu → cuda → mps → cpu, and what differs between them."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import torch

import specviz
from specviz import npu
from specviz.errors import UserError
from specviz.trace import Machine

KINDS = ("npu", "cuda", "mps", "cpu")
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
VERSIONED = ("torch", "transformers", "numpy")

IMPOSSIBLE_VERIFICATION = 0.8  # of the time of one position


@dataclass(frozen=True, slots=True)
class DtypeTiming:
    """Seconds of a target forward over 1 and over γ+1 new positions, cache warm."""

    step_s: float
    verify_s: float


@dataclass(frozen=True, slots=True)
class DtypeChoice:
    """The dtype a target runs in and, in a sentence, why. ``timings`` is empty where nothing was measured."""

    dtype: str
    reason: str
    timings: Mapping[str, DtypeTiming]


def available() -> tuple[str, ...]:
    """The kinds this process can compute on, best first. The last is always the CPU."""
    return tuple(kind for kind in KINDS if kind == "cpu" or _is_available(kind))


def pick(requested: str = "auto") -> torch.device:
    """The device for "auto", a kind, or a kind with an index ("cuda:1").

    Raises UserError for one that is unknown or not there.
    """
    kinds = available()
    if requested == "auto":
        return _indexed(kinds[0], 0)
    match = re.fullmatch(r"(npu|cuda|mps|cpu)(?::(\d{1,9}))?", requested)
    if match is None:
        raise UserError(f"The device must be auto or one of {', '.join(KINDS)}; you gave {requested!r}.")
    kind, index = match[1], int(match[2] or 0)
    if kind not in kinds:
        problem = f" {npu_problem()}." if kind == "npu" else ""
        raise UserError(f"There is no {kind} device here; this machine has {', '.join(kinds)}.{problem}")
    if index >= _count(kind):
        raise UserError(f"There is no {requested}; this machine counts {_count(kind)} {kind} device(s), from 0.")
    return _indexed(kind, index)


def use(device: torch.device) -> None:
    """Make ``device`` the calling thread's current one. To be called where a thread begins to compute.

    Raises UserError for one that is listed but does not answer: held by others, forbidden, out of order.
    """
    try:
        if device.type == "npu":
            npu.use(device)
        elif device.type == "cuda":
            torch.cuda.set_device(device)
    except RuntimeError as failure:
        said = next(iter(str(failure).splitlines()), type(failure).__name__)[:200].rstrip(".")
        tool = "npu-smi info" if device.type == "npu" else "nvidia-smi"
        raise UserError(
            f"The device {device} cannot be used: {said}. See what {tool} says of it, or choose another device."
        ) from failure


def npu_problem() -> str | None:
    """Why this process has no NPU, without a full stop; None if it has one."""
    if "npu" in available():
        return None
    if not hasattr(torch, "npu"):
        return specviz.NPU_PROBLEM or "torch_npu is not installed"
    return (
        "torch_npu is loaded and counts no NPU: see npu-smi info, the permissions of /dev/davinci*, "
        "and ASCEND_RT_VISIBLE_DEVICES"
    )


def name(device: torch.device) -> str:
    """What a person would call it, e.g. the processor's product name."""
    if device.type in ("npu", "cuda"):
        return str(_backend(device).get_device_name(device))
    return _processor_name()


def memory_bytes(device: torch.device) -> int:
    """All memory of the device; of the machine for cpu and mps, which share it."""
    if device.type in ("npu", "cuda"):
        return int(_backend(device).get_device_properties(device).total_memory)
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0


def free_bytes(device: torch.device) -> int | None:
    """Memory of an accelerator that nobody holds; None where the system decides that."""
    if device.type == "npu":
        return npu.free_bytes(device)
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else None


def release(device: torch.device) -> None:
    """Give memory that torch keeps for later, and no tensor uses, back to the device."""
    if device.type != "cpu":
        _backend(device).empty_cache()


def supports(device: torch.device, dtype: str) -> bool:
    """Whether models can run in this dtype there. Old accelerators (Ascend 310P, Volta) lack bfloat16."""
    if dtype == "bfloat16" and device.type in ("npu", "cuda"):
        return bool(_backend(device).is_bf16_supported())
    return dtype != "float16" or device.type != "cpu"


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all it was given, so that a clock reads true."""
    if device.type != "cpu":
        _backend(device).synchronize()


def seed(number: int) -> None:
    """Seed torch on every device."""
    torch.manual_seed(number)


def reset_peak_memory(device: torch.device) -> None:
    """Start to look for a new peak where the system lets us."""
    if device.type in ("npu", "cuda"):
        _backend(device).reset_peak_memory_stats(device)
    elif device.type == "cpu":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory_bytes(device: torch.device) -> int | None:
    """Most memory held since the reset: torch's on npu and cuda, the whole process's on the CPU of Linux."""
    if device.type in ("npu", "cuda"):
        return int(_backend(device).max_memory_allocated(device))
    if device.type == "cpu":
        with contextlib.suppress(OSError):
            match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
            return int(match[1]) * 1024 if match else None
    return None


def machine(device: torch.device) -> Machine:
    """The machine for a trace. Makes ``device`` the thread's current one."""
    use(device)
    versions = {"python": platform.python_version(), "specviz": specviz.__version__}
    versions |= {package: version(package) for package in VERSIONED}
    if device.type == "npu":
        versions |= npu.versions()
    return Machine(
        device=device.type,
        name=name(device),
        memory_bytes=memory_bytes(device),
        threads=torch.get_num_threads(),
        versions=versions,
    )


def choose_dtype(timings: Mapping[str, DtypeTiming], gamma: int) -> DtypeChoice:
    """The dtype whose standard step and verification together are quickest.

    A round waits for one verification, the standard run it is compared with for one step a token; a dtype
    that helps only one of them would flatter or punish speculation. Times that cannot be (more positions
    computed clearly faster than one) come from a busy machine; then the CPU's own instructions decide.
    """
    if any(timing.verify_s < IMPOSSIBLE_VERIFICATION * timing.step_s for timing in timings.values()):
        native = any(torch.cpu.get_capabilities().get(feature) for feature in ("avx512_bf16", "amx_bf16"))
        dtype, has = ("bfloat16", "has") if native else ("float32", "lacks")
        reason = f"The machine was too busy to measure; this CPU {has} bfloat16 instructions, so {dtype} it is."
        return DtypeChoice(dtype, reason, dict(timings))
    total = {dtype: timing.step_s + timing.verify_s for dtype, timing in timings.items()}
    best, *others = sorted(total, key=total.__getitem__)
    told = "; ".join(
        f"{dtype} {timings[dtype].step_s * 1e3:.0f} ms and {timings[dtype].verify_s * 1e3:.0f} ms"
        for dtype in (best, *others)
    )
    return DtypeChoice(best, f"{best} is quickest here, 1 and {gamma + 1} positions together: {told}.", dict(timings))


def _is_available(kind: str) -> bool:
    backend = getattr(torch, kind, None)  # torch.npu is there only once torch_npu is
    # An NPU may be there and yet hidden by ASCEND_RT_VISIBLE_DEVICES: then it is available and not counted.
    return backend is not None and bool(backend.is_available()) and _count(kind) > 0


def _indexed(kind: str, index: int) -> torch.device:
    return torch.device(kind, index) if kind in ("npu", "cuda") else torch.device(kind)


def _backend(device: torch.device) -> ModuleType:
    backend: ModuleType = getattr(torch, device.type)
    return backend


def _count(kind: str) -> int:
    return int(getattr(torch, kind).device_count()) if kind in ("npu", "cuda") else 1


def _processor_name() -> str:
    with contextlib.suppress(OSError):
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()
