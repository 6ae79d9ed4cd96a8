"""Out of memory: a sentence, everything given back, and the next run works."""

from __future__ import annotations

from pathlib import Path

from tests.npu.conftest import Run as RunEmulated

SERVICE = """
import sys, torch, logging
logging.disable(logging.CRITICAL)
from specviz.models.load import load_pair
from specviz.service import Options, Service
from specviz.settings import make_settings

folder = sys.argv[1]
service = Service(Options(device="npu", dtype="float32", target=folder, draft=folder))

def run(prompt, tokens):
    settings = make_settings(drafter="draft-model", temperature=0, gamma=3, max_new_tokens=tokens)
    ticket = service.race(prompt, settings, "somebody")
    while not ticket.ended: ticket.read(10**6, 0.05)
    return ticket.state, ticket.error

print(*run("ab", 8))
service._free()
held = torch.npu.memory_allocated()
print(*run("ab" * 500, 2048))
print(torch.npu.memory_allocated() - held, torch.npu.memory_reserved() < 8 * 2**20)
print(*run("ab", 8))
service.close()
"""

LOADING = """
import sys, torch
from specviz import devices
from specviz.errors import UserError
from specviz.models.load import load_pair

devices.use(devices.pick("npu"))
before = devices.free_bytes(devices.pick("npu"))
try: load_pair(sys.argv[1], device="npu", dtype="float32")
except UserError as refusal:
    print(torch.npu.memory_allocated(), torch.npu.memory_reserved(), f"{before / 1e9:.2f} GB are free" in str(refusal))
"""

COMMAND = """
import sys
from specviz.cli.app import app
app(["run", "--prompt", "ab" * 500, "--target", sys.argv[1], "--draft", sys.argv[1], "--device", "npu", "--dtype",
     "float32", "--drafter", "draft-model", "--max-new-tokens", "2048"], prog_name="specviz")
"""


def long_model(tmp_path: Path) -> str:
    """Few weights, a long context, a cache of 4 KB a token and layer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from tests.conftest import byte_tokenizer

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=16,
        num_key_value_heads=16,
        head_dim=64,
        max_position_embeddings=16384,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    return str(tmp_path)


def test_a_run_that_does_not_fit_says_so_and_gives_everything_back(run_emulated: RunEmulated, tmp_path: Path) -> None:
    code = f"import sys; sys.argv = ['', {long_model(tmp_path)!r}]\n" + SERVICE
    done = run_emulated(code, hbm_mb=64)
    assert done.stdout.splitlines() == [
        "finished None",
        "failed The device ran out of memory. Ask for fewer new tokens or a shorter prompt.",
        "0 True",
        "finished None",
    ], done.stderr


def test_the_command_line_says_the_same_and_ends_with_2(run_emulated: RunEmulated, tmp_path: Path) -> None:
    done = run_emulated(f"import sys; sys.argv = ['', {long_model(tmp_path)!r}]\n" + COMMAND, hbm_mb=64)
    assert done.returncode == 2
    assert "ran out of memory" in done.stderr and "Traceback" not in done.stderr
    assert "A smaller model or another device" in " ".join(done.stderr.split())


def test_a_model_that_does_not_fit_is_refused_by_name_and_size(run_emulated: RunEmulated, tmp_path: Path) -> None:
    code = f"import sys; sys.argv = ['', {long_model(tmp_path)!r}]\n" + COMMAND
    done = run_emulated(code, hbm_mb=1)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "does not fit into the memory of Ascend910B2" in done.stderr and "Choose a smaller model" in done.stderr


def test_what_had_got_to_the_device_of_a_model_that_does_not_fit_leaves_it(
    run_emulated: RunEmulated, tmp_path: Path
) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=256, hidden_size=512, intermediate_size=2048, num_hidden_layers=6)  # 100 MB
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    done = run_emulated(f"import sys; sys.argv = ['', {str(tmp_path)!r}]\n" + LOADING, hbm_mb=64)
    assert done.stdout.split() == ["0", "0", "True"], done.stderr
