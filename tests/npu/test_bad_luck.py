"""An NPU that is hidden, held, half installed or too small: a sentence, or the CPU, and never a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import byte_tokenizer
from tests.npu.conftest import Run as RunEmulated
from tests.npu.emulator.build import CANN_LIBRARIES
from tests.npu.test_without_cann import one_line, python

RUN = ("run", "--prompt", "ab", "--drafter", "prompt-lookup", "--max-new-tokens", "4", "--no-baseline", "--target")


def command(*arguments: str) -> str:
    return f"from specviz.cli.app import app\napp({list(arguments)!r}, prog_name='specviz')"


@pytest.mark.parametrize("hidden", ["nonsense", ""])
def test_an_npu_that_is_hidden_is_none(hidden: str, run_emulated: RunEmulated, folder: Path) -> None:
    variables = {"ASCEND_RT_VISIBLE_DEVICES": hidden}
    done = run_emulated(command(*RUN, str(folder)), env=variables)
    assert done.returncode == 0, done.stderr
    done = run_emulated(command(*RUN, str(folder), "--device", "npu"), env=variables)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "torch_npu is loaded and counts no NPU" in one_line(done.stderr)


def test_an_npu_that_does_not_answer_is_named_with_what_cann_said(run_emulated: RunEmulated, folder: Path) -> None:
    held = "import torch\ndef held(device): raise RuntimeError('error code is 507033')\ntorch.npu.set_device = held\n"
    done = run_emulated(held + command(*RUN, str(folder)))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "The device npu:0 cannot be used: error code is 507033. See what npu-smi info" in one_line(done.stderr)


@pytest.fixture
def other_cann(tmp_path: Path) -> dict[str, str]:
    """The environment with a CANN whose libraries load and lack what torch_npu needs of them."""
    for name in CANN_LIBRARIES:
        library = tmp_path / f"lib{name}.so"
        subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    return {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}


def test_a_cann_of_another_version_is_a_sentence(other_cann: dict[str, str], folder: Path) -> None:
    done = python(other_cann, "-m", "specviz", *RUN, str(folder))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "torch_npu is installed and cannot be loaded" in one_line(done.stderr)
    assert "undefined symbol" in one_line(done.stderr)


def test_the_page_says_so_too(other_cann: dict[str, str]) -> None:
    code = """
from specviz.service import Options, Service
service = Service(Options())
while service.state.phase == "loading": service.runner._worker.join(0.1)
print(service.state.message)
service.close()
"""
    done = python(other_cann, "-c", code)
    assert "torch_npu is installed and cannot be loaded" in done.stdout, done.stderr


def test_whoever_keeps_torch_npu_away_computes_on_the_cpu(other_cann: dict[str, str], folder: Path) -> None:
    away = other_cann | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = python(away, "-m", "specviz", *RUN, str(folder))
    assert done.returncode == 0, done.stderr
    done = python(away, "-m", "specviz", *RUN, str(folder), "--device", "npu")
    assert done.returncode == 2
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD keeps it away" in one_line(done.stderr)


NO_ROOM = """
import logging, sys, torch
logging.disable(logging.CRITICAL)
from specviz.service import Options, Service
from specviz.settings import make_settings

service = Service(Options(device="npu", dtype="bfloat16", target=sys.argv[1]))
while service.state.phase == "loading": service.runner._worker.join(0.1)
print(service.state.phase)
held = []
for drafter in ("quantized-self", "prompt-lookup", "quantized-self"):
    ticket = service.race("ab", make_settings(drafter=drafter, temperature=0, gamma=2, max_new_tokens=4), "somebody")
    while not ticket.ended: ticket.read(10**6, 0.05)
    print(ticket.state, ticket.error)
    held.append(torch.npu.memory_allocated())
print(held[2] == held[0])
service.close()
"""


def test_no_room_for_a_quantized_copy_leaves_the_other_drafters(run_emulated: RunEmulated, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=256, hidden_size=512, intermediate_size=2048, num_hidden_layers=6)
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    done = run_emulated(f"import sys; sys.argv = ['', {str(tmp_path)!r}]\n" + NO_ROOM, hbm_mb=72)
    refused = f"failed Ascend910B2 has no room for a quantized copy of {tmp_path.name} beside it."
    refused += " Choose the drafter prompt-lookup, or a smaller target."
    assert done.stdout.splitlines() == ["ready", refused, "finished None", refused, "True"], done.stderr
