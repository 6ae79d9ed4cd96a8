"""``doctor``: what this machine has, how fast it is, and what would be chosen on it; or, with it, a self-test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from specviz import settings as limits
from specviz.analysis.autopsy import IMPOSSIBLE_OVERHEAD
from specviz.cli import files, options
from specviz.cli import selftest as checks
from specviz.cli.loading import load_subject
from specviz.errors import UserError


def doctor(
    target: options.Target = None,
    dtype: options.Dtype = "auto",
    threads: options.Threads = None,
    device: options.Device = "auto",
    attention: options.Attention = "fused",
    gamma: options.Gamma = limits.DEFAULT_GAMMA,
    model: Annotated[bool, typer.Option(help="Load the target and time its forwards.")] = True,
    selftest: Annotated[
        bool, typer.Option("--selftest", help="Check instead that what the project claims holds on this device.")
    ] = False,
    draft: Annotated[str | None, typer.Option(help="Small model for the self-test.", rich_help_panel="Models")] = None,
    json_file: options.JsonFile = None,
) -> None:
    """Report device, versions, caches, bandwidth, T(1) and T(γ+1), and what would be chosen here.

    With --selftest: exit code 1 if a check failed.
    """
    gamma = limits.make_settings(gamma=gamma).gamma
    files.check_writable(json_file)
    if selftest:
        if not model:
            raise UserError("The self-test needs the models. Leave --no-model out.")
        checks.selftest(load_subject(target, draft, device, dtype, threads, attention), json_file)
        return
    if draft is not None:
        raise UserError("Only the self-test needs a draft model. Add --selftest, or leave --draft out.")

    from specviz.bench.checkup import machine_report, target_report
    from specviz.cli.loading import load

    report, problem = machine_report(device, threads), None
    if model:
        try:
            report["target"] = target_report(load(target, None, device, dtype, threads, attention), gamma)
        except UserError as refusal:  # what is known is still shown
            problem = refusal
    Console(highlight=False).print(*_tables(report))
    if json_file:
        files.write(json_file, json.dumps(report | {"problem": str(problem) if problem else None}, indent=1))
    if problem:
        raise problem


def _tables(report: dict[str, Any]) -> Iterator[Table]:
    machine, cache = report["machine"], report["cache"]
    yield _table(
        "Machine",
        [
            ("device", f"{machine['device']}, of {', '.join(report['devices'])}"),
            ("name", machine["name"]),
            ("memory", _memory(machine["memory_bytes"], report["free_bytes"])),
            ("threads", str(machine["threads"])),
            ("read bandwidth", f"{_gigabytes(report['bandwidth_bytes_per_s'])}/s"),
            ("Ascend", report["npu"]),
        ],
    )
    if report["environment"]:
        yield _table("Environment of CANN and torch_npu", report["environment"].items())
    yield _table("Versions", [(name, number or "not installed") for name, number in report["versions"].items()])
    yield _table(
        "Cache",
        [("folder", cache["folder"]), *((name, _gigabytes(size)) for name, size in cache["bytes"].items())],
    )
    if target := report.get("target"):
        yield _table(f"Target: {target['model']['name']}", list(forward_rows(target, report["bandwidth_bytes_per_s"])))


def forward_rows(target: dict[str, Any], bandwidth: float) -> Iterator[tuple[str, str]]:
    """What a target report says, as (name, value); ``bandwidth`` in bytes per second."""
    dtype, seconds, gamma = target["dtype"], target["forward_seconds"], target["gamma"]
    floor = target["weight_bytes"] / bandwidth
    yield "weights", f"{_gigabytes(target['weight_bytes'])}; one read takes {_milliseconds(floor)}"
    yield "dtype", dtype["reason"]
    for positions, time in seconds.items():
        yield f"T({positions})", f"{_milliseconds(time)}, {time / seconds[1]:.2f} of T(1)"
    most = (gamma + 1) * seconds[1] / seconds[gamma + 1]
    if min(seconds.values()) < IMPOSSIBLE_OVERHEAD * seconds[1]:
        most_said = "unknown: more positions took less time, so something else kept this machine busy. Measure again."
    else:
        most_said = f"{most:.2f}×, if drafts cost nothing and all were accepted"
    yield f"most that γ = {gamma} can gain", most_said
    yield "drafter unless named", f"{limits.DEFAULT_DRAFTER}, {limits.DEFAULT_QUANTIZATION}"


def _table(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=box.SIMPLE, show_header=False, title=title, title_justify="left", title_style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def _memory(total: float, free: float | None) -> str:
    return _gigabytes(total) if free is None else f"{_gigabytes(total)}, {_gigabytes(free)} free"


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
