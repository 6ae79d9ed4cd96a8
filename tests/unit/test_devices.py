"""Devices: what is found, what is refused, and the guard against torch_npu without CANN."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from specviz import devices
from specviz.devices import DtypeTiming
from specviz.errors import UserError

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


def test_cpu_is_the_last_resort_and_auto_takes_the_first() -> None:
    assert devices.available()[-1] == "cpu"
    assert devices.pick("auto").type == devices.available()[0]
    assert devices.pick("cpu") == CPU


def test_best_kind_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_is_available", lambda kind: kind in ("npu", "cuda"))
    assert devices.available() == ("npu", "cuda", "cpu")


@pytest.mark.parametrize("requested", ["gpu", "cuda:x", "", "CPU", "cpu:1", "cuda:" + "9" * 5000])
def test_a_device_that_makes_no_sense_is_refused(requested: str) -> None:
    with pytest.raises(UserError, match=r"device|cpu:1"):
        devices.pick(requested)


def test_an_absent_device_is_named_with_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_is_available", lambda kind: False)
    with pytest.raises(UserError, match="no cuda device here; this machine has cpu"):
        devices.pick("cuda")


def test_a_device_that_does_not_answer_is_a_sentence_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(device: torch.device) -> None:
        raise RuntimeError("SetDevice: error code is 507033\n[ERROR] more of it")

    monkeypatch.setattr(torch.cuda, "set_device", busy)
    with pytest.raises(UserError, match=r"cuda:0 cannot be used: SetDevice: error code is 507033\. See"):
        devices.use(torch.device("cuda", 0))


def test_the_machine_says_where_a_trace_was_recorded() -> None:
    machine = devices.machine(CPU)
    assert machine.name and machine.device == "cpu"
    assert machine.memory_bytes > 2**28
    assert machine.threads == torch.get_num_threads()
    assert machine.versions["torch"] == torch.__version__
    assert {"python", "transformers", "specviz"} <= machine.versions.keys()


# In a process of its own: a large one may serve the block from memory that it has held for long.
PEAK_MEMORY = """
import torch
from specviz import devices

cpu = torch.device("cpu")
devices.reset_peak_memory(cpu)
before = devices.peak_memory_bytes(cpu)
block = torch.ones(64 * 2**20, dtype=torch.uint8)
peak = devices.peak_memory_bytes(cpu)
del block
devices.reset_peak_memory(cpu)
print(before, peak, devices.peak_memory_bytes(cpu))
"""


def test_peak_memory_sees_an_allocation_and_forgets_it_after_a_reset() -> None:
    said = subprocess.run([sys.executable, "-c", PEAK_MEMORY], capture_output=True, text=True, check=True).stdout
    before, peak, after = map(int, said.split())
    assert peak - before > 48 * 2**20
    assert after < peak - 48 * 2**20


def test_the_quicker_sum_of_step_and_verification_wins_and_is_explained() -> None:
    timings = {"float32": DtypeTiming(0.040, 0.060), "bfloat16": DtypeTiming(0.045, 0.050)}
    choice = devices.choose_dtype(timings, gamma=4)
    assert choice.dtype == "bfloat16"
    assert choice.reason == (
        "bfloat16 is quickest here, 1 and 5 positions together: bfloat16 45 ms and 50 ms; float32 40 ms and 60 ms."
    )
    assert choice.timings == timings


@pytest.mark.parametrize(("native", "dtype"), [(True, "bfloat16"), (False, "float32")])
def test_times_that_cannot_be_leave_the_choice_to_the_cpu(
    native: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": native})
    busy = {"float32": DtypeTiming(0.109, 1.090), "bfloat16": DtypeTiming(1.665, 0.577)}
    choice = devices.choose_dtype(busy, gamma=4)
    assert choice.dtype == dtype
    assert "too busy to measure" in choice.reason


def test_seeding_repeats_draws() -> None:
    devices.seed(7)
    first = torch.rand(3)
    devices.seed(7)
    assert torch.equal(first, torch.rand(3))


def _python(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def broken_torch_npu(tmp_path: Path) -> Path:
    """An installed torch_npu that, as the real one without CANN, fails while torch is imported."""
    (tmp_path / "torch_npu.py").write_text("import ctypes\nctypes.CDLL('libascendcl.so')\ndef _autoload(): pass\n")
    info = tmp_path / "torch_npu-2.13.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return tmp_path


def test_without_the_guard_torch_npu_without_cann_breaks_torch(broken_torch_npu: Path) -> None:
    result = _python("import torch", broken_torch_npu)
    assert result.returncode != 0
    assert "torch_npu" in result.stderr


def test_the_guard_keeps_torch_usable_and_tells_why_there_is_no_npu(broken_torch_npu: Path) -> None:
    result = _python(
        """
        import specviz
        import sys
        assert "torch" not in sys.modules
        from specviz import devices
        import torch
        assert "npu" not in devices.available()
        try:
            devices.pick("npu")
        except specviz.errors.UserError as error:
            print(error)
        """,
        broken_torch_npu,
    )
    assert result.returncode == 0, result.stderr
    assert "torch_npu is installed, but CANN is not" in result.stdout
