"""The emulator itself: what it runs equals the CPU, what it counts is what ran."""

from __future__ import annotations

import torch

from tests.npu import emulator


def test_a_result_is_the_cpus() -> None:
    x = torch.randn(3, 4)
    assert torch.equal((x.npu() @ x.npu().T).softmax(-1).cpu(), (x @ x.T).softmax(-1))
    with emulator.counted() as counts:
        assert x.npu().sum().item() == x.sum().item()
    assert counts.copies == {"cpu>npu": 1, "npu>cpu": 1}
