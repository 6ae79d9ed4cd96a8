"""``doctor --selftest`` on the emulated runtime: all of it passes, and what is broken on the device is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from transformers import LlamaConfig, LlamaForCausalLM
from typer.testing import CliRunner, Result

from specviz.cli.app import app
from specviz.models import npu_attention
from specviz.selftest import run
from specviz.selftest.report import Report
from specviz.selftest.run import examinations, selftest
from specviz.selftest.subject import Subject, load_subject
from tests.conftest import byte_tokenizer
from tests.npu.conftest import Run as RunEmulated

FUSED_INFER = "attention: npu-fused-infer against float64"
STATISTICS = "attention: m and ℓ of npu_fusion_attention"
WAITS = "waits for the device"


def make_folder(folder: Path, noise: float) -> str:
    """A random model whose heads are of a size that the fused kernels take, behind a tokenizer of bytes."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    for weights in model.parameters():
        weights.data += noise * torch.randn_like(weights)
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [make_folder(tmp_path_factory.mktemp("model"), noise) for noise in (0.0, 0.05)]


def load(folders: list[str], attention: str) -> Subject:
    return load_subject(*folders, device="npu", dtype="auto", threads=1, attention=attention)


def results(report: Report) -> dict[bool | None, set[str]]:
    return {kind: {check.name for check in report.checks if check.passed is kind} for kind in (True, False, None)}


def test_all_passes_on_the_emulated_chip(folders: list[str]) -> None:
    report = selftest(load(folders, "fused"))
    assert {check.name: check for check in report.checks if check.passed is False} == {}
    assert results(report)[None] == {WAITS}
    assert {FUSED_INFER, STATISTICS, "memory"} <= results(report)[True]
    facts = report.facts
    assert (facts["device"], facts["chip"], facts["dtype"]) == ("npu", "Ascend910B2", "bfloat16")
    assert (facts["attention"], facts["reference"]) == ("fused", {"device": "cpu", "dtype": "bfloat16"})
    assert {"torch-npu", "cann", "driver"} <= set(facts["versions"])  # type: ignore[call-overload]


Fault = Callable[[pytest.MonkeyPatch], None]


def whole_cache(patch: pytest.MonkeyPatch) -> None:
    """The kernel reads what lies behind the valid part of the cache."""
    kernel = torch_npu.npu_fused_infer_attention_score
    patch.setattr(
        torch_npu,
        "npu_fused_infer_attention_score",
        lambda *tensors, **rest: kernel(*tensors, **{**rest, "actual_seq_lengths_kv": None}),
    )


def default_scale(patch: pytest.MonkeyPatch) -> None:
    kernel = torch_npu.npu_fused_infer_attention_score
    patch.setattr(
        torch_npu,
        "npu_fused_infer_attention_score",
        lambda *tensors, **rest: kernel(*tensors, **{**rest, "scale": 1.0}),
    )


def aligned_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(npu_attention, "BOTTOM_RIGHT_CAUSAL", 2)


@pytest.mark.parametrize("fault", [whole_cache, default_scale, aligned_left])
def test_a_kernel_with_other_conventions_is_found(
    folders: list[str], monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    examine = examinations(load(folders, "npu-fused-infer"))[FUSED_INFER]
    assert examine().passed
    fault(monkeypatch)
    assert not examine().passed


def on_npu(monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any]) -> None:
    """One of torch's functions answers otherwise where its argument lies on the NPU."""
    method = getattr(torch.Tensor, name)

    def changed(self: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        result = method(self, *arguments, **options)
        return change(result) if self.device.type == "npu" else result

    monkeypatch.setattr(torch.Tensor, name, changed)


@pytest.mark.parametrize(
    ("name", "change", "check"),
    [
        ("cumsum", torch.square, "u: draws from a law"),
        ("clamp", lambda x: x.nan_to_num(nan=1.0), "NaN and inf: verdicts"),
        ("isnan", torch.zeros_like, "NaN and inf: verdicts"),
        ("cumsum", torch.square, "losslessness: whole rounds"),
        ("clamp", lambda x: torch.ones_like(x), "losslessness: whole rounds"),
    ],
)
def test_an_operator_that_computes_otherwise_on_the_device_is_found(
    folders: list[str], monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[Any], Any], check: str
) -> None:
    examine = examinations(load(folders, "fused"))[check]
    on_npu(monkeypatch, name, change)
    assert not examine().passed


def test_memory_that_stays_is_found(folders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    subject = load(folders, "fused")
    examine = examinations(subject)["memory"]
    assert examine().passed
    kept: list[torch.Tensor] = []
    monkeypatch.setattr(type(subject.pair), "free", lambda _: kept.append(torch.ones(512, 512, device="npu")))
    assert not examine().passed


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, folders: list[str]) -> Callable[..., Result]:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    models = ["--target", folders[0], "--draft", folders[1], "--device", "npu", "--threads", "1"]
    return lambda *more: CliRunner().invoke(app, ["doctor", "--selftest", *models, *map(str, more)])


def test_the_command_passes_with_npu_fused_infer_and_writes_a_report_without_a_persons_paths(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", "/home/alice/Ascend/latest")
    file = tmp_path / "report.json"
    result = command("--attention", "npu-fused-infer", "--json", file)
    assert result.exit_code == 0, result.output
    assert "✗" not in result.stdout and result.stdout.count("✓") > 20
    text = file.read_text(encoding="utf-8")
    assert json.loads(text)["passed"] is True
    assert json.loads(text)["environment"]["ASCEND_HOME_PATH"] == "…"
    assert "alice" not in text and str(tmp_path) not in text


def test_the_command_exits_1_where_a_check_fails(
    command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    aligned_left(monkeypatch)
    monkeypatch.setattr(run, "examinations", lambda subject: {FUSED_INFER: examinations(subject)[FUSED_INFER]})
    result = command("--attention", "fused")
    assert result.exit_code == 1, result.output
    assert result.stdout.count("✗") == 1
    assert "--json FILE" in result.stdout


def test_a_310p_is_asked_what_it_can_do(folders: list[str], run_emulated: RunEmulated) -> None:
    code = f"""
import json
from specviz.selftest.run import selftest
from specviz.selftest.subject import load_subject
subject = load_subject(*{folders!r}, device="npu", dtype="auto", threads=1, attention="fused")
print(json.dumps(selftest(subject).document()))
"""
    done = run_emulated(code, soc="Ascend310P3")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert [check for check in report["checks"] if check["passed"] is False] == []
    assert (report["chip"], report["dtype"], report["reference"]["dtype"]) == ("Ascend310P3", "float16", "float32")
    left_out = {check["name"]: check["detail"] for check in report["checks"] if check["passed"] is None}
    schemes = ("int4-g32", "int4-g32-head4", "int4-g64")
    packed = {f"{what}: quantized-self, {scheme}" for what in ("tokens", "logits") for scheme in schemes}
    assert set(left_out) == {WAITS, FUSED_INFER, STATISTICS} | packed
    assert left_out[STATISTICS] == "Ascend310P3 has no npu_fusion_attention."
