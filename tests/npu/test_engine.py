"""The whole engine on an NPU: what the CPU gives, by calls of the kind and number that were meant."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.decoding.replay import sampling_of
from specviz.events import Done, Progress
from specviz.microscope.evidence import gather
from specviz.models.load import Pair, load_pair
from specviz.race import race
from specviz.settings import make_settings
from specviz.trace import Run, Settings, Trace
from tests.conftest import byte_tokenizer
from tests.npu import emulator
from tests.npu.conftest import Run as RunEmulated

DRAFTERS = ("quantized-self", "draft-model", "prompt-lookup")
FUSED = "npu_fusion_attention_v3"


def decode(pair: Pair, settings: Settings, prompt: str = "abcabcabcab") -> Trace:
    *_, done = race(pair, prompt, settings)
    assert isinstance(done, Done)
    return done.trace


def facts(run: Run) -> list[object]:
    """What a round decided; its numbers follow from other kernels and may differ in the last bits."""
    return [
        (
            [(position.token_id, position.verdict) for position in record.drafted],
            [(token.token_id, token.source) for token in record.emitted],
        )
        for record in run.rounds
    ]


@pytest.fixture(scope="module")
def pairs(folder: Path) -> dict[str, Pair]:
    return {device: load_pair(str(folder), str(folder), device=device, dtype="float32") for device in ("cpu", "npu")}


@pytest.fixture(scope="module")
def default_pairs() -> dict[str, Pair]:
    return {device: load_pair(device=device, dtype="float32") for device in ("cpu", "npu")}


@pytest.mark.weights
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_real_model_gives_the_same_tokens_at_temperature_0(default_pairs: dict[str, Pair], drafter: str) -> None:
    settings = make_settings(drafter=drafter, temperature=0, gamma=4, max_new_tokens=24)
    prompt = "Count from one to ten in words, then count from one to ten in words."
    here = decode(default_pairs["cpu"], settings, prompt)
    with emulator.counted() as counts:
        there = decode(default_pairs["npu"], settings, prompt)
    assert there.machine.device == "npu"
    for kind in ("speculative", "standard"):
        assert there.run(kind).token_ids == here.run(kind).token_ids  # type: ignore[union-attr, arg-type]
    assert there.runs[0].token_ids == there.runs[1].token_ids
    if drafter != "quantized-self":  # its kernel rounds to another number format, so its drafts may differ
        assert facts(there.runs[0]) == facts(here.runs[0])
    assert not counts.wrong_device
    assert not [name for name in counts.calls if name.startswith("multinomial")]


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(
    "rule",
    [
        {"rule": "rejection-sampling", "temperature": 1.0},
        {"rule": "rejection-sampling", "temperature": 0.8, "top_k": 20, "top_p": 0.9},
        {"rule": "greedy-match", "temperature": 0},
        {"rule": "typical", "temperature": 1.0},
        {"rule": "kl-threshold", "temperature": 1.0, "kl_threshold": 3.0},
    ],
)
def test_every_drafter_and_rule_decides_as_on_the_cpu(
    pairs: dict[str, Pair], drafter: str, rule: dict[str, object]
) -> None:
    settings = make_settings(drafter=drafter, gamma=3, max_new_tokens=24, **rule)  # type: ignore[arg-type]
    here, there = (decode(pairs[device], settings) for device in ("cpu", "npu"))
    assert there.run("standard").token_ids == here.run("standard").token_ids  # type: ignore[union-attr]
    if drafter != "quantized-self":
        assert facts(there.runs[0]) == facts(here.runs[0])
    elif settings.temperature == 0:
        assert there.runs[0].token_ids == here.runs[0].token_ids


@pytest.mark.parametrize("rule", ["rejection-sampling", "typical", "kl-threshold"])
def test_a_trace_from_the_npu_is_gone_through_again_bit_for_bit(pairs: dict[str, Pair], rule: str) -> None:
    trace = decode(pairs["npu"], make_settings(drafter="draft-model", rule=rule, gamma=3, max_new_tokens=12))
    evidence = gather(trace, 1, pairs["npu"])
    p, _ = evidence.p_and_q(sampling_of(trace.settings))
    drafted = trace.runs[0].rounds[1].drafted
    assert len(drafted) == 3
    assert [float(row[one.token_id]) for row, one in zip(p, drafted, strict=False)] == [one.p for one in drafted]


def test_a_run_can_be_left_and_the_next_one_is_whole(pairs: dict[str, Pair]) -> None:
    settings = make_settings(drafter="draft-model", temperature=0, gamma=3, max_new_tokens=24)
    events = []
    for event in race(pairs["npu"], "abcabc", settings, should_stop=lambda: len(events) > 2):
        events.append(event)
    done = events[-1]
    assert any(isinstance(event, Progress) for event in events)
    assert isinstance(done, Done)
    assert (done.trace.runs[0].finish_reason, len(done.trace.runs)) == ("cancelled", 1)
    again, whole = (decode(pairs[device], settings) for device in ("npu", "cpu"))
    assert again.runs[0].token_ids == whole.runs[0].token_ids


def test_the_trace_names_chip_memory_and_the_stack(pairs: dict[str, Pair]) -> None:
    trace = decode(pairs["npu"], make_settings(drafter="prompt-lookup", max_new_tokens=4))
    assert trace.machine.name == "Ascend910B2"
    assert trace.machine.memory_bytes == 4096 * 2**20
    assert {"torch-npu", "cann", "driver"} <= trace.machine.versions.keys()
    weights = sum(parameter.nbytes for parameter in pairs["npu"].target_module.parameters())
    assert all((run.peak_memory_bytes or 0) > weights for run in trace.runs)
    assert trace.models.target.attention == "fused"


def test_spans_are_measured_by_events(pairs: dict[str, Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    event = torch.npu.Event

    def counting(*args: object, **kwargs: object) -> object:
        made.append(kwargs)
        return event(*args, **kwargs)

    monkeypatch.setattr(torch.npu, "Event", counting)
    trace = decode(pairs["npu"], make_settings(drafter="draft-model", gamma=3, max_new_tokens=8))
    assert made and all(kwargs == {"enable_timing": True} for kwargs in made)
    for record in trace.runs[0].rounds:
        assert record.timing.verify_s > 0 and all(step > 0 for step in record.timing.draft_s)


def test_the_chosen_attention_is_that_of_every_model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    pair = load_pair(str(tmp_path), str(tmp_path), device="npu", attention="npu-fused-infer")
    for drafter in ("draft-model", "quantized-self"):
        with emulator.counted() as counts:
            trace = decode(pair, make_settings(drafter=drafter, temperature=0, gamma=3, max_new_tokens=8))
        assert counts.calls["npu_fused_infer_attention_score"] and not counts.calls[FUSED]
        assert trace.models.draft is not None
        assert trace.models.target.attention == trace.models.draft.attention == "npu-fused-infer"


TWO_THREADS = """
import sys, threading, torch
from specviz.models.load import load_pair
from specviz.microscope.evidence import gather
from specviz.race import race
from specviz.settings import make_settings
from specviz.decoding.replay import sampling_of
from specviz.events import Done

settings = make_settings(drafter="draft-model", temperature=0, gamma=3, max_new_tokens=16)
tokens, counted = {}, None

def work(device):
    pair = load_pair(sys.argv[1], sys.argv[1], device=device, dtype="float32")
    for turn in range(2):
        *_, done = race(pair, "abcabcab", settings)
        tokens.setdefault(done.trace.runs[0].token_ids, []).append(device)

with emulator.counted() as counts:
    loaded_here = load_pair(sys.argv[1], sys.argv[1], device="npu:1", dtype="float32")
    assert torch.npu.current_device() == 1
    torch.npu.set_device(0)
    elsewhere = threading.Thread(target=lambda: tokens.setdefault(
        [*race(loaded_here, "abcabcab", settings)][-1].trace.runs[0].token_ids, []).append("moved"))
    threads = [elsewhere, *(threading.Thread(target=work, args=(device,)) for device in ("npu:0", "npu:1"))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert torch.npu.current_device() == 0
print(len(tokens), sorted(device for devices in tokens.values() for device in devices), dict(counts.wrong_device))
"""


def test_threads_each_have_their_own_device(run_emulated: RunEmulated, folder: Path) -> None:
    code = f"import sys; sys.argv = ['', {str(folder)!r}]\n" + TWO_THREADS
    done = run_emulated(code, devices=2)
    assert done.stdout.strip() == "1 ['moved', 'npu:0', 'npu:0', 'npu:1', 'npu:1'] {}", done.stderr


def test_a_card_that_is_not_there_is_refused(run_emulated: RunEmulated, folder: Path) -> None:
    done = run_emulated(
        "from specviz.cli.app import app\n"
        f"app(['run', '--prompt', 'a', '--target', {str(folder)!r}, '--device', 'npu:2'], prog_name='specviz')",
        devices=2,
    )
    assert done.returncode == 2 and "There is no npu:2" in done.stderr and "Traceback" not in done.stderr


def test_doctor_names_the_chip_its_memory_and_the_stack_without_a_model(run_emulated: RunEmulated) -> None:
    done = run_emulated(
        "from specviz.cli.app import app\napp(['doctor', '--device', 'npu', '--no-model'], prog_name='specviz')",
        hbm_mb=1024,
        env={"ASCEND_RT_VISIBLE_DEVICES": "0"},
    )
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for fact in (
        "device npu, of npu, cpu",
        "name Ascend910B2",
        "memory 1.07 GB, 1.07 GB free",
        "ASCEND_RT_VISIBLE_DEVICES 0",
        "cann 8.5.0.alpha999",
        "driver 25.5.0.alpha999",
    ):
        assert fact in said


def test_with_cann_and_no_device_the_cpu_computes(run_emulated: RunEmulated) -> None:
    done = run_emulated(
        "from specviz import devices\nfrom specviz.errors import UserError\n"
        "print(devices.available(), devices.pick())\n"
        "try: devices.pick('npu')\nexcept UserError as refusal: print(refusal)",
        devices=0,
    )
    assert done.stdout.splitlines() == [
        "('cpu',) cpu",
        "There is no npu device here; this machine has cpu. torch_npu is loaded and counts no NPU: see npu-smi info, "
        "the permissions of /dev/davinci*, and ASCEND_RT_VISIBLE_DEVICES.",
    ], done.stderr


ATLAS_INFERENCE = """
import sys, torch
from specviz import devices
from specviz.errors import UserError
from specviz.decoding.replay import sampling_of
from specviz.events import Done
from specviz.models.load import load_pair
from specviz.microscope.evidence import gather
from specviz.race import race
from specviz.settings import make_settings

folder, modes, set_mode = sys.argv[1], [], torch.npu.set_compile_mode
torch.npu.set_compile_mode = lambda **options: (modes.append(options), set_mode(**options))
print(devices.supports(devices.pick("npu"), "bfloat16"))
pair = load_pair(folder, folder, device="npu")
print(pair.machine.name, pair.target_info.dtype, modes, torch.npu.is_jit_compile_false())
same = load_pair(folder, folder, device="cpu", dtype="float32")
exact = load_pair(folder, folder, device="npu", dtype="float32")
for drafter, quantization in (("draft-model", None), ("quantized-self", "int8"), ("prompt-lookup", None)):
    settings = make_settings(drafter=drafter, quantization=quantization, temperature=0, gamma=3, max_new_tokens=12)
    here, there = ([*race(one, "abcabcab", settings)][-1].trace.runs[0].token_ids for one in (same, exact))
    with emulator.counted() as counts:
        half = [*race(pair, "abcabcab", settings)][-1].trace.runs[0].token_ids
    print(drafter, here == there, len(half), [name for name in counts.calls if "attention" in name])
for ask in (lambda: load_pair(folder, folder, device="npu", attention="npu-fused-infer"),
            lambda: load_pair(folder, folder, device="npu", dtype="bfloat16")):
    try: ask()
    except UserError as refusal: print(refusal)
"""


def test_a_310p_computes_in_float16_unfused_and_without_jit(run_emulated: RunEmulated, folder: Path) -> None:
    code = f"import sys; sys.argv = ['', {str(folder)!r}]\n" + ATLAS_INFERENCE
    done = run_emulated(code, soc="Ascend310P3")
    assert done.stdout.splitlines() == [
        "False",
        "Ascend310P3 float16 [{'jit_compile': False}] True",
        "draft-model True 12 []",
        "quantized-self True 12 []",
        "prompt-lookup True 12 []",
        "The attention npu-fused-infer is made for Atlas A2 and A3, not for Ascend310P3. Choose fused.",
        "Ascend310P3 does not run models in bfloat16. Choose another dtype or auto.",
    ], done.stderr
