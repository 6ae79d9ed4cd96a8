"""``tiles``: FlashAttention schedules executed on random tensors, with the memory traffic that they cause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specviz.cli import files, options

if TYPE_CHECKING:
    from torch import Tensor

    from specviz.attention.hardware import Hardware
    from specviz.attention.problem import Problem
    from specviz.attention.reference import Expected
    from specviz.attention.steps import Plan

ALL = "all"

_SHAPE = "Shape"


def tiles(
    schedule: Annotated[
        str,
        typer.Option(
            help="standard, flash-attention-1, -2 or -3, flash-decoding, ascend-flash-attention-score, "
            "ascend-incre-flash, or all."
        ),
    ] = ALL,
    queries: Annotated[int, typer.Option(help="New positions: γ+1 in a verification.", rich_help_panel=_SHAPE)] = 5,
    keys: Annotated[int, typer.Option(help="Cached and new positions.", rich_help_panel=_SHAPE)] = 512,
    heads: Annotated[int, typer.Option(help="Query heads.", rich_help_panel=_SHAPE)] = 9,
    kv_heads: Annotated[int, typer.Option(help="Key/value heads.", rich_help_panel=_SHAPE)] = 3,
    head_dim: Annotated[int, typer.Option(help="At most 256.", rich_help_panel=_SHAPE)] = 64,
    causal: Annotated[bool, typer.Option(help="Mask aligned to the bottom right.", rich_help_panel=_SHAPE)] = True,
    hardware: Annotated[str, typer.Option(help="a100, h100, ascend-910b or this-machine.")] = "a100",
    seed: options.Seed = 0,
    json_file: options.JsonFile = None,
) -> None:
    """Execute published attention schedules on random tensors and count what they move."""
    files.check_writable(json_file)

    from specviz.attention import hardware as machines
    from specviz.attention.problem import Problem
    from specviz.attention.reference import expected

    problem = Problem(queries, keys, heads, kv_heads, head_dim, causal)
    device = machines.find(hardware)
    plans, left_out = _plans(schedule, problem, device)
    console = Console(highlight=False)
    with console.status("Executing"), _one_thread():
        tensors = _random(problem, seed)
        wanted = expected(problem, *tensors)
        reports = [_report(plan, tensors, wanted) for plan in plans]
    console.print(_heading(problem, device.title), _walked(reports), _moved(reports))
    console.print(_agreement(reports), *map(Text, left_out), sep="\n")
    console.print("Published schedules, executed on random tensors; not a hardware trace.", style="dim")
    if json_file:
        document: Any = reports if schedule == ALL else reports[0]
        files.write(json_file, json.dumps(document, indent=1, allow_nan=False))


def _plans(name: str, problem: Problem, device: Hardware) -> tuple[list[Plan], list[str]]:
    """What to execute, and of all schedules a sentence for each that does not take this shape."""
    from specviz.attention.bounds import check_affordable
    from specviz.attention.schedules import NAMES, SCHEDULES, plan

    if name != ALL:
        plans, left_out = [plan(name, problem, device)], []
    else:
        refusals = {one: SCHEDULES[one].refuses(problem) for one in NAMES}
        plans = [plan(one, problem, device) for one, refusal in refusals.items() if not refusal]
        left_out = [f"Left out: {refusal}" for refusal in refusals.values() if refusal]
    for one in plans:
        check_affordable(one)
    return plans, left_out


@contextmanager
def _one_thread() -> Iterator[None]:
    """Tiles are small: several threads would spend their time waiting for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _random(problem: Problem, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """q [heads, queries, d], k and v [kv_heads, keys, d], standard normal."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(problem.heads, problem.queries, problem.head_dim, generator=generator)
    k, v = torch.randn(2, problem.kv_heads, problem.keys, problem.head_dim, generator=generator)
    return q, k, v


def _report(plan: Plan, tensors: tuple[Tensor, Tensor, Tensor], wanted: Expected) -> dict[str, Any]:
    """One schedule, executed once: every figure of it."""
    from specviz.attention import closed_forms
    from specviz.attention.memory import peak_bytes
    from specviz.attention.online_softmax import OnlineSoftmax
    from specviz.attention.reference import differences
    from specviz.attention.traffic import tally, time_of

    problem, tiling = plan.problem, plan.tiling
    execution = OnlineSoftmax(plan, *tensors)
    counted = tally(visit.step for visit in execution.run())
    difference = differences(execution, wanted)
    time = time_of(plan)
    return {
        "schedule": plan.name,
        "source": plan.schedule.source,
        "hardware": plan.hardware.name,
        "queries": problem.queries,
        "keys": problem.keys,
        "heads": problem.heads,
        "kv_heads": problem.kv_heads,
        "head_dim": problem.head_dim,
        "causal": problem.causal,
        "bytes_per_element": problem.bytes_per_element,
        "tile": {"rows": tiling.rows, "keys": tiling.keys},
        "heads_per_tile": tiling.group,
        "splits": tiling.splits,
        "workers": closed_forms.workers(plan),
        "steps": counted.steps,
        "tiles": counted.tiles,
        "counted": counted.traffic._asdict(),
        "closed_form": closed_forms.traffic(plan)._asdict(),
        "on_chip_peak_bytes": counted.on_chip_peak,
        "peak_memory_bytes": peak_bytes(plan),
        "roofline_seconds": time.roofline,
        "modelled_seconds": time.seconds,
        "largest_difference": difference.output,
        "largest_difference_from_sdpa": difference.sdpa,
        "largest_difference_of_log_sum_exp": difference.lse,
    }


def _heading(problem: Problem, title: str) -> Text:
    mask = "causal" if problem.causal else "no mask"
    return Text(
        f"{problem.queries} queries × {problem.keys} keys, {problem.heads} heads on {problem.kv_heads}, "
        f"head dimension {problem.head_dim}, {8 * problem.bytes_per_element} bits, {mask}. Tiles for {title}."
    )


def _walked(reports: list[dict[str, Any]]) -> Table:
    table = _by_schedule("tile", "splits", "steps", "full", "masked", "skipped")
    for one in reports:
        kinds = one["tiles"]
        table.add_row(
            one["schedule"], f"{one['tile']['rows']}×{one['tile']['keys']}", str(one["splits"]), f"{one['steps']:,}",
            f"{kinds['full']:,}", f"{kinds['masked']:,}", f"{kinds['skipped']:,}",
        )  # fmt: skip
    return table


def _moved(reports: list[dict[str, Any]]) -> Table:
    table = _by_schedule("HBM read, KiB", "written, KiB", "MFLOP", "on chip, KiB", "largest error")
    for one in reports:
        counted = one["counted"]
        table.add_row(
            one["schedule"], _kib(counted["hbm_read"]), _kib(counted["hbm_written"]),
            f"{counted['flops'] / 1e6:,.1f}", _kib(one["on_chip_peak_bytes"]), f"{one['largest_difference']:.1e}",
        )  # fmt: skip
    return table


def _by_schedule(*columns: str) -> Table:
    """One row a schedule: two tables fit into 80 characters where one of all figures does not."""
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    table.add_column("schedule", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _agreement(reports: list[dict[str, Any]]) -> Text:
    apart = [one["schedule"] for one in reports if one["counted"] != one["closed_form"]]
    if apart:
        return Text(f"Counted differs from the closed form: {', '.join(apart)}.", style="red")
    return Text("What was counted equals the closed forms. Largest error: of the output, against float64 attention.")


def _kib(count: int) -> str:
    return f"{count / 1024:,.1f}"
