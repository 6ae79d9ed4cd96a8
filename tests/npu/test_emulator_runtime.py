"""torch_npu's own code on the emulated runtime: devices, memory, streams, events, threads, versions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torch_npu.npu.utils import get_cann_version

from tests.npu import emulator

RunEmulated = Callable[..., CompletedProcess[str]]


def output(done: CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_machine_is_what_the_environment_says(run_emulated: RunEmulated) -> None:
    code = """
import torch
torch.npu.set_device(0)  # a thread without a device cannot ask
p = torch.npu.get_device_properties(0)
print(torch.npu.device_count(), p.name, p.total_memory >> 20, torch.npu.is_bf16_supported())
"""
    assert output(run_emulated(code, devices=3, hbm_mb=96)) == ["3 Ascend910B2 96 True"]
    assert output(run_emulated(code, soc="Ascend310P3")) == ["1 Ascend310P3 4096 False"]


@pytest.mark.parametrize(
    ("lacking", "sentence"),
    [({"PATH": ""}, "gcc is not installed"), ({"PYTHONPATH": ""}, "torch_npu is not on the Python path")],
)
def test_the_builder_says_what_is_missing(lacking: dict[str, str], sentence: str, tmp_path: Path) -> None:
    command = [sys.executable, Path(emulator.__file__).with_name("build.py"), tmp_path]
    done = subprocess.run(command, env={**os.environ, **lacking}, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith(sentence) and done.stderr.count("\n") == 1


def test_versions_are_answered_and_plainly_fake() -> None:
    for module in ("CANN", "DRIVER"):
        assert get_cann_version(module).endswith(".alpha999")


def test_memory_is_counted_by_torch_npus_allocator() -> None:
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    x = torch.empty(1_000_000, dtype=torch.uint8, device="npu")
    block = 1_000_448  # 32 bytes of padding, in blocks of 512
    assert torch.npu.memory_allocated() - before == block
    free, total = torch.npu.mem_get_info()
    assert total == 4096 << 20 and total - free >= block
    torch.npu.reset_peak_memory_stats()
    y = torch.empty_like(x)
    del x, y
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() == before + 2 * block


def test_out_of_memory_says_so_and_leaves_the_device_usable(run_emulated: RunEmulated) -> None:
    code = """
import torch
kept = torch.ones(30 << 20, dtype=torch.uint8, device="npu")
try:
    torch.empty(80 << 20, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    print(error)
del kept
torch.npu.empty_cache()
print(torch.ones(80 << 20, dtype=torch.uint8, device="npu")[-1].item(), torch.npu.mem_get_info()[0] >> 20)
"""
    first, second = output(run_emulated(code, hbm_mb=96))
    assert first.startswith("NPU out of memory. Tried to allocate 82.00 MiB (NPU 0; 96.00 MiB total capacity")
    assert second.startswith("1 ") and int(second.split()[1]) <= 16


def test_events_measure_and_must_have_been_recorded() -> None:
    start, end, never = (torch.npu.Event(enable_timing=True) for _ in range(3))
    start.record()
    torch.ones(200, 200, device="npu").mm(torch.ones(200, 200, device="npu"))
    end.record()
    torch.npu.synchronize()
    assert start.query() and 0 < start.elapsed_time(end) < 10_000
    with pytest.raises(RuntimeError, match="must be recorded"):
        start.elapsed_time(never)


def test_work_on_another_stream_is_there_after_waiting_for_it() -> None:
    stream, event = torch.npu.Stream(), torch.npu.Event()
    with torch.npu.stream(stream):
        x = torch.ones(3, device="npu") * 2
        event.record()
    event.wait()
    torch.npu.current_stream().wait_stream(stream)
    x.record_stream(torch.npu.current_stream())
    assert x.sum().item() == 6


def test_devices_have_memory_and_a_current_one_of_their_own(run_emulated: RunEmulated) -> None:
    code = """
import torch
x = torch.ones(1000, dtype=torch.uint8, device="npu:1")
print(*(torch.npu.memory_allocated(i) for i in (0, 1)), torch.npu.current_device())
with emulator.counted() as counts:
    y = x + 1
print(y.device, dict(counts.wrong_device))
with torch.npu.device(1), emulator.counted() as counts:
    y = x + 1
print(y.device, dict(counts.wrong_device))
try:
    x + torch.ones(1, dtype=torch.uint8, device="npu:0")
except RuntimeError as error:
    print(error)
print(x[:2].to("npu:0").tolist())
torch.npu.set_device(1)
event = torch.npu.Event()
event.record()
torch.npu.set_device(0)
try:
    event.record()
except RuntimeError as error:
    print("does not match recording stream's device" in str(error))
try:
    torch.npu.set_device(2)
except RuntimeError as error:
    print("no such device" in str(error))
"""
    assert output(run_emulated(code, devices=2)) == [
        "0 1536 0",
        "npu:1 {'add.Tensor': 1}",
        "npu:1 {}",
        "add.Tensor: expected all tensors on one device, found ['npu:0', 'npu:1']",
        "[1, 1]",
        "True",
        "True",
    ]


def test_the_runtime_itself_refuses_a_stream_of_another_device(run_emulated: RunEmulated) -> None:
    """Below torch_npu, whose own checks come first: what real CANN answers to a record past them."""
    code = """
import ctypes
acl = ctypes.CDLL("libascendcl.so")
acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
stream, event = ctypes.c_void_p(), ctypes.c_void_p()
acl.aclrtSetDevice(1)
acl.aclrtCreateStream(ctypes.byref(stream))
acl.aclrtSetDevice(0)
acl.aclrtCreateEventWithFlag(ctypes.byref(event), 0)
print(acl.aclrtRecordEvent(event, stream), acl.aclGetRecentErrMsg().decode())
print(acl.aclopCompileAndExecute())
"""
    assert output(run_emulated(code, devices=2)) == [
        "107003 fakecann: aclrtRecordEvent: the stream is another device's",
        "207000",  # feature not supported: what every call answers that is not emulated
    ]


def test_a_new_thread_begins_on_device_0(run_emulated: RunEmulated) -> None:
    code = """
import threading, torch
torch.npu.set_device(1)
seen = []
def work():
    seen.append(torch.npu.current_device())
    torch.npu.set_device(1)
    seen.append((torch.ones(3, device="npu") * 2).device.index)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(seen, torch.npu.current_device())
"""
    assert output(run_emulated(code, devices=2)) == ["[0, 1] 1"]


def test_two_threads_compute_at_once_and_each_call_is_counted() -> None:
    x = torch.randn(16, 16)
    sums: list[float] = []

    def work() -> None:
        y = x.npu()
        for _ in range(50):
            y = (y @ x.npu()).softmax(-1)
        sums.append(y.sum().item())

    threads = [threading.Thread(target=work) for _ in range(2)]
    with emulator.counted() as counts:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts.calls["mm"] == 100 and counts.copies["cpu>npu"] == 102
    assert sums[0] == sums[1] and abs(sums[0] - 16) < 1e-4


def test_without_a_device_there_is_none(run_emulated: RunEmulated) -> None:
    code = """
import torch
print(torch.npu.is_available(), torch.npu.device_count())
try:
    torch.ones(1, device="npu")
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
    assert output(run_emulated(code, devices=0)) == ["False 0", "No NPUs are available"]


def test_a_310p_has_no_bfloat16_and_no_fused_attention(run_emulated: RunEmulated) -> None:
    code = """
import torch, torch_npu
import torch.nn.functional as F
torch.npu.set_compile_mode(jit_compile=False)
print(torch.npu.is_jit_compile_false())
x = torch.ones(1, 1, 4, 16, dtype=torch.float16, device="npu")
with emulator.counted() as counts:
    F.scaled_dot_product_attention(x, x, x)
print([name for name in counts.calls if name.startswith("npu_")])
for call in (
    lambda: x.bfloat16(),
    lambda: torch.ones(2, dtype=torch.bfloat16).npu() + 1,
    lambda: torch_npu.npu_fused_infer_attention_score(x, x, x, input_layout="BNSD"),
    lambda: torch_npu.npu_fusion_attention(x, x, x, 1, "BNSD"),
):
    try:
        call()
    except RuntimeError as error:
        print(error)
"""
    assert output(run_emulated(code, soc="Ascend310P3")) == [
        "True",
        "[]",
        "copy_: bfloat16 is not supported on Ascend310P3",
        "add.Tensor: bfloat16 is not supported on Ascend310P3",
        "npu_fused_infer_attention_score: only Atlas A2 and A3 have this operator, not Ascend310P3",
        "npu_fusion_attention is not supported on Ascend310P3",
    ]
