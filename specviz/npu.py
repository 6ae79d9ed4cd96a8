"""What torch_npu knows of an Ascend NPU, and how a thread gets ready to compute on one.

Nothing here imports torch_npu: torch has loaded it, or ``ascend.prepare`` has said why not.
"""

from __future__ import annotations

import functools
import os
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

DRIVER_INFO = Path("/usr/local/Ascend/driver/version.info")

#: What steers CANN and torch_npu from outside, as ``doctor`` shows it.
ENVIRONMENT = (
    "ASCEND_HOME_PATH",
    "ASCEND_OPP_PATH",
    "ASCEND_RT_VISIBLE_DEVICES",
    "ASCEND_LAUNCH_BLOCKING",
    "ASCEND_GLOBAL_LOG_LEVEL",
    "PYTORCH_NPU_ALLOC_CONF",
    "TASK_QUEUE_ENABLE",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
    "LD_LIBRARY_PATH",
)


def use(device: torch.device) -> None:
    """Make ``device`` the calling thread's current one: streams and events belong to it, and a new thread has none."""
    _backend().set_device(device)
    _settle(chip(device))


def chip(device: torch.device) -> str:
    """Its name as CANN gives it, e.g. "Ascend910B2"."""
    return str(_backend().get_device_name(device))


def is_atlas_a2_or_a3(device: torch.device) -> bool:
    """Ascend910B1 and so on, and Ascend910_93…; Ascend910B without a number is an older chip."""
    return re.match(r"Ascend910(B\d|_93)", chip(device)) is not None


def free_bytes(device: torch.device) -> int:
    """HBM that nobody holds."""
    return int(_backend().mem_get_info(device)[0])


def versions() -> dict[str, str]:
    """Of torch_npu, CANN and the driver, as far as they are known."""
    found = {"torch-npu": _torch_npu_version(), "cann": _cann_version("CANN"), "driver": _driver_version()}
    return {name: number for name, number in found.items() if number}


def environment() -> dict[str, str]:
    """Those of ENVIRONMENT that are set."""
    return {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}


def _backend() -> Any:
    return torch.npu  # type: ignore[attr-defined]


@functools.cache
def _settle(name: str) -> None:
    """Once a process. Atlas inference cards (310P) compile operators for each new shape unless told not to."""
    if name.startswith("Ascend310P"):
        _backend().set_compile_mode(jit_compile=False)


def _torch_npu_version() -> str:
    with suppress(PackageNotFoundError):
        return version("torch-npu")
    return ""


def _cann_version(module: str) -> str:
    with suppress(AttributeError, RuntimeError):
        return str(_backend().utils.get_cann_version(module))
    return ""


def _driver_version() -> str:
    with suppress(OSError):
        match = re.search(r"^Version=(\S+)", DRIVER_INFO.read_text(errors="replace"), re.MULTILINE)
        if match:
            return match[1]
    return _cann_version("DRIVER")
