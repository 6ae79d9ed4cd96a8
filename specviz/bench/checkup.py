"""What a machine has and what bounds decoding on it, as plain values."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from specviz import devices, npu
from specviz.bench.probe import forward_seconds, read_bandwidth
from specviz.models import store
from specviz.models.load import Pair

PACKAGES = ("torch", "torch-npu", "transformers", "numpy", "gradio", "plotly", "gguf")


def machine_report(device: str, threads: int | None) -> dict[str, Any]:
    """All that is known without a model. Raises UserError for a device that is not there."""
    if threads:
        torch.set_num_threads(threads)
    chosen = devices.pick(device)
    machine = asdict(devices.machine(chosen))
    versions = machine.pop("versions") | {package: _version(package) for package in PACKAGES}
    folder = store.root()
    return {
        "machine": machine,
        "devices": list(devices.available()),
        "npu": devices.npu_problem() or "torch_npu is loaded",
        "free_bytes": devices.free_bytes(chosen),
        "environment": npu.environment(),
        "versions": versions,
        "cache": {"folder": str(folder), "bytes": _sizes(folder)},
        "bandwidth_bytes_per_s": read_bandwidth(chosen),
    }


def target_report(pair: Pair, gamma: int) -> dict[str, Any]:
    """T(k) of the target as it was loaded, and what led to that dtype."""
    weights = {parameter.data_ptr(): parameter.nbytes for parameter in pair.target_module.parameters()}
    return {
        "model": asdict(pair.target_info),
        "weight_bytes": sum(weights.values()),
        "gamma": gamma,
        "dtype": asdict(pair.dtype_choice),
        "forward_seconds": forward_seconds(pair.target, sorted({1, 2, 4, 8, 16, gamma + 1})),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _sizes(folder: Path) -> dict[str, int]:
    """Bytes of each thing that the cache holds, e.g. "models/NAME"; empty if there is no cache yet."""
    entries = [entry for entry in sorted(folder.glob("*/*")) if not entry.name.startswith(".")]
    return {str(entry.relative_to(folder)): _size(entry) for entry in entries}


def _size(entry: Path) -> int:
    return sum(file.stat().st_size for file in (entry, *entry.rglob("*")) if file.is_file())
