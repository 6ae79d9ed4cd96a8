"""The dtype a target runs in: the one asked for, or the one that proves quicker on this CPU."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import PreTrainedModel

from specviz import devices
from specviz.devices import DtypeChoice, DtypeTiming
from specviz.errors import UserError
from specviz.models.base import LanguageModel
from specviz.models.modules import load_module
from specviz.models.store import Progress, silent
from specviz.models.wrap import wrap
from specviz.settings import DEFAULT_GAMMA

CONTEXT = 64
WARM_UPS, REPEATS = 1, 7
BUDGET_S = 4.0  # a busy machine gets fewer repeats, not a longer start


def load_in_best_dtype(
    folder: Path, device: torch.device, dtype: str, progress: Progress = silent
) -> tuple[PreTrainedModel, DtypeChoice]:
    """The module in ``folder`` in ``dtype``, or for "auto" in the best for the device; and why.

    Raises UserError for a dtype that is unknown or that the device lacks.
    """
    if dtype != "auto":
        if dtype not in devices.DTYPES:
            raise UserError(f"The dtype must be auto or one of {', '.join(devices.DTYPES)}; you gave {dtype!r}.")
        if not devices.supports(device, dtype):
            raise UserError(f"{devices.name(device)} does not run models in {dtype}. Choose another dtype or auto.")
        return load_module(folder, devices.DTYPES[dtype], device), DtypeChoice(dtype, f"{dtype} was asked for.", {})
    if device.type != "cpu":
        chosen = "bfloat16" if devices.supports(device, "bfloat16") else "float16"
        reason = f"{chosen} reads half the bytes of float32, and {devices.name(device)} computes in it."
        return load_module(folder, devices.DTYPES[chosen], device), DtypeChoice(chosen, reason, {})
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    if weights > devices.memory_bytes(device) / 8:
        reason = "bfloat16 halves what each forward reads; the model is too large to try a second dtype beside it."
        return load_module(folder, torch.bfloat16, device), DtypeChoice("bfloat16", reason, {})
    modules = {name: load_module(folder, devices.DTYPES[name], device) for name in ("bfloat16", "float32")}
    progress("Measuring bfloat16 and float32", 0.0)
    choice = devices.choose_dtype(measure({name: wrap(module) for name, module in modules.items()}), DEFAULT_GAMMA)
    return modules[choice.dtype], choice


@torch.inference_mode()
def measure(models: Mapping[str, LanguageModel], gamma: int = DEFAULT_GAMMA) -> dict[str, DtypeTiming]:
    """Seconds of a forward over 1 and over γ+1 new positions behind a short context, at their quickest.

    The models take turns, so that a busy moment of the machine meets all of them; what else the machine
    does can only add time, so the least of the repeats is nearest to the model's own.
    """
    for model in models.values():
        model.allocate(CONTEXT + gamma + 1)
        model.forward(torch.arange(CONTEXT, device=model.device) % model.vocab_size, keep=1)
    samples: dict[tuple[str, int], list[float]] = {(name, k): [] for name in models for k in (1, gamma + 1)}
    started = time.perf_counter()
    for repeat in range(WARM_UPS + REPEATS):
        if repeat > WARM_UPS and time.perf_counter() - started > BUDGET_S:
            break
        for (name, k), seconds in samples.items():
            spent = _forward_s(models[name], k)
            if repeat >= WARM_UPS:
                seconds.append(spent)
    return {name: DtypeTiming(min(samples[name, 1]), min(samples[name, gamma + 1])) for name in models}


def _forward_s(model: LanguageModel, k: int) -> float:
    token_ids = torch.arange(k, device=model.device)
    devices.synchronize(model.device)
    start = time.perf_counter()
    model.forward(token_ids, keep=k)
    devices.synchronize(model.device)
    spent = time.perf_counter() - start
    model.rollback(CONTEXT)
    return spent
