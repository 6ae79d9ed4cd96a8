"""``ablate-attention``: what fused attention and speculation give, each alone and together, at growing contexts."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from specviz import settings as limits
from specviz.cli import files, options
from specviz.errors import UserError

if TYPE_CHECKING:
    from specviz.bench.ablation import Cell


def ablate_attention(
    target: options.Target = None,
    draft: options.Draft = None,
    drafter: options.Drafter = limits.DEFAULT_DRAFTER,
    quantization: options.Quantization = None,
    gamma: options.Gamma = limits.DEFAULT_GAMMA,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 0,
    max_new_tokens: options.MaxNewTokens = 48,
    contexts: Annotated[
        str, typer.Option(help="Tokens before the answer, several with commas.")
    ] = "128,1024,4096,8192",
    repeat: Annotated[int, typer.Option(help="Measurements of each combination.")] = 1,
    dtype: options.Dtype = "auto",
    threads: options.Threads = None,
    device: options.Device = "auto",
    json_file: options.JsonFile = None,
) -> None:
    """Measure {materialised, fused} attention × {standard, speculative} decoding, interleaved in one process."""
    settings = limits.make_settings(
        drafter=drafter, quantization=quantization, gamma=gamma, temperature=temperature, seed=seed,
        max_new_tokens=max_new_tokens,
    )  # fmt: skip
    lengths = _lengths(contexts)
    if repeat < 1:
        raise UserError(f"The number of repeats must be at least 1; you gave {repeat}.")
    files.check_writable(json_file)

    from specviz.bench.ablation import ablate, fitting, summary
    from specviz.cli.loading import load

    pair = load(target, draft, device, dtype, threads)
    lengths = fitting(pair, settings, lengths)
    console = Console(highlight=False)
    cells: list[Cell] = []
    complete = False
    with suppress(KeyboardInterrupt), console.status("Measuring") as status:
        for cell in ablate(pair, settings, min(lengths)):  # a warm-up that is not counted
            status.update(f"Warming up: {cell.attention}, {cell.decoding}")
        for turn in range(repeat):
            for length in lengths:
                for cell in ablate(pair, settings, length, turn):
                    cells.append(cell)
                    status.update(f"{length:,} tokens of context: {cell.attention}, {cell.decoding} measured")
        complete = True
    rows = summary(cells)
    if rows:
        console.print(_table(rows))
    if json_file:
        machine = asdict(pair.machine)
        document = {
            "machine": machine,
            "versions": machine.pop("versions"),
            "target": asdict(pair.target_info),
            "settings": asdict(settings) | {"repeat": repeat},
            "rows": rows,
            "complete": complete,
        }
        files.write(json_file, json.dumps(document, indent=1, allow_nan=False))
    if not complete:
        raise typer.Exit(130)


def _lengths(text: str) -> list[int]:
    try:
        lengths = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UserError(f"The contexts must be whole numbers like 128,1024; you gave {text[:40]!r}.") from None
    if not lengths[0] >= 2 or lengths[-1] > 1_000_000:
        raise UserError(f"A context has 2 to 1,000,000 tokens; you gave {text[:40]!r}.")
    return lengths


def _table(rows: list[dict[str, object]]) -> Table:
    title = "Medians over the repeats; gains over materialised, standard"
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False, title=title)
    for column in ("context", "attention", "decoding", "tok/s", "gain", "forward", "prefill", "α"):
        named = column in ("attention", "decoding")
        table.add_column(column, justify="left" if named else "right", no_wrap=named)
    for row in rows:
        alpha = row["alpha"]
        table.add_row(
            f"{row['context']:,}", str(row["attention"]), str(row["decoding"]), f"{row['tok_s']:.1f}",
            f"{row['gain']:.2f}" if row["gain"] is not None else "–", f"{1000 * float(str(row['forward_s'])):.1f} ms",
            f"{row['prefill_s']:.2f} s", "–" if alpha is None else f"{alpha:.2f}",
        )  # fmt: skip
    return table
