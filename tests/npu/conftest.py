"""Runs inside the emulated Ascend runtime only: ``make test-npu`` (emulator/README.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.npu import emulator

emulator.install()  # before a test module puts a tensor on an NPU

ROOT = Path(__file__).parents[2]
# torch_npu prints that CANN's own variables are missing; what is left on stdout is the test's.
START = """
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()):
    from tests.npu import emulator
emulator.install()
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_emulated() -> Run:
    """``run_emulated(code, *, soc=…, devices=1, hbm_mb=4096, timeout=120, env=None)``: Python in a process of its own,
    the emulator installed, for what needs another chip, count of devices or memory than this process has."""

    def run(
        code: str,
        *,
        soc: str = "Ascend910B2",
        devices: int = 1,
        hbm_mb: int = 4096,
        timeout: float = 120,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        machine = {"FAKECANN_SOC": soc, "FAKECANN_DEVICES": str(devices), "FAKECANN_HBM_MB": str(hbm_mb)}
        return subprocess.run(
            [sys.executable, "-c", START + code],
            cwd=ROOT,
            env={**os.environ, **machine, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
