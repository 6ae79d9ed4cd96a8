"""All checks, one after the other, and the facts that a reader of the report needs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import specviz
from specviz import devices, npu
from specviz.models.quantization import SCHEMES
from specviz.selftest import attention, losslessness, not_finite, running, tokens, uniforms
from specviz.selftest.report import Check, Outcome, Report, perform, without_folders
from specviz.selftest.subject import Subject

Examine = Callable[[], Outcome]


def selftest(subject: Subject, progress: Callable[[str], None] = lambda name: None) -> Report:
    """Make every check. ``progress`` gets the name of each as it begins."""
    devices.use(subject.device)
    checks: list[Check] = []
    for name, examine in examinations(subject).items():
        progress(name)
        checks.append(perform(name, examine))
    return Report(facts(subject), tuple(checks))


def examinations(subject: Subject) -> dict[str, Examine]:
    """What is examined, by name, in its order."""
    of = functools.partial
    packed = {scheme: {"drafter": "quantized-self", "quantization": scheme} for scheme in SCHEMES}
    found: dict[str, Examine] = {
        "tokens: standard decoding": of(tokens.tokens, subject, "standard", drafter="prompt-lookup"),
        "tokens: prompt-lookup": of(tokens.tokens, subject, "speculative", drafter="prompt-lookup"),
        "tokens: draft-model": of(tokens.tokens, subject, "speculative", drafter="draft-model"),
    }
    for scheme, drafting in packed.items():
        found[f"tokens: quantized-self, {scheme}"] = of(tokens.tokens, subject, "speculative", **drafting)
    found["logits: target"] = of(tokens.logits, subject)
    found["logits: draft-model"] = of(tokens.logits, subject, "draft-model")
    for scheme in packed:
        found[f"logits: quantized-self, {scheme}"] = of(tokens.logits, subject, "quantized-self", scheme)
    found["u: the table"] = of(uniforms.numbers, subject.device)
    found["u: draws from a law"] = of(uniforms.draws, subject.device)
    found["NaN and inf: verdicts"] = of(not_finite.judging, subject.device)
    found["NaN: both loops"] = of(not_finite.loops, subject)
    for kind in attention.kinds(subject):
        found[f"attention: {kind} against float64"] = of(attention.against_float64, subject, kind)
    if subject.device.type == "npu":
        found["attention: m and ℓ of npu_fusion_attention"] = of(attention.statistics, subject)
    found["losslessness: whole rounds"] = of(losslessness.rounds, subject)
    found["waits for the device"] = of(running.waits, subject)
    found["clock"] = of(running.clock, subject)
    found["memory"] = of(running.memory, subject)
    found["a second thread"] = of(running.thread, subject)
    return found


def facts(subject: Subject) -> dict[str, object]:
    """The machine, its versions and the models, as plain values."""
    pair, machine = subject.pair, subject.pair.machine
    draft = pair.draft("draft-model").info if pair.draft_source is not None else None
    return {
        "device": machine.device,
        "chip": machine.name,
        "memory_bytes": machine.memory_bytes,
        "free_bytes": devices.free_bytes(subject.device),
        "threads": machine.threads,
        "versions": dict(machine.versions),
        "npu_problem": specviz.NPU_PROBLEM,
        "source": _source(),
        "environment": {name: without_folders(value) for name, value in npu.environment().items()},
        "attention": pair.attention,
        "dtype": pair.dtype_choice.dtype,
        "reference": {"device": "cpu", "dtype": subject.reference.dtype_choice.dtype},
        "target": asdict(pair.target_info),
        "draft": asdict(draft) if draft else None,
    }


def _source() -> str:
    """Names the code that made the report: a digest of the package's Python files."""
    package = Path(specviz.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
