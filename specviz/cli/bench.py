"""``bench``: every engine on the same prompts, weights, dtype and threads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from specviz import settings as limits
from specviz.bench.prompts import BUNDLED, read_prompts
from specviz.bench.report import HF_ASSISTED, HF_GENERATE, Report, Sample, report
from specviz.cli import files, options
from specviz.cli.transcript import lossy_note
from specviz.errors import UserError
from specviz.trace import Settings, is_lossy

if TYPE_CHECKING:
    from specviz.models.load import Pair

PEERS = (HF_GENERATE, HF_ASSISTED)


def bench(
    prompts: Annotated[
        Path, typer.Option(help='JSON lines with "id" and "prompt".', show_default="the bundled ones")
    ] = BUNDLED,
    target: options.Target = None,
    draft: options.Draft = None,
    drafter: options.Drafter = limits.DEFAULT_DRAFTER,
    quantization: options.Quantization = None,
    rule: options.Rule = limits.DEFAULT_RULE,
    epsilon: options.Epsilon = limits.DEFAULT_EPSILON,
    delta: options.Delta = limits.DEFAULT_DELTA,
    kl_threshold: options.KlThreshold = limits.DEFAULT_KL_THRESHOLD,
    gamma: Annotated[str, typer.Option(help="One γ, or several to find the best: 2,4,6.")] = str(limits.DEFAULT_GAMMA),
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    seed: options.Seed = 0,
    max_new_tokens: options.MaxNewTokens = 64,
    repeat: Annotated[int, typer.Option(help="Measurements of each engine on each prompt.")] = 3,
    peers: Annotated[str, typer.Option(help="Also measure transformers: hf-generate,hf-assisted.")] = "",
    dtype: options.Dtype = "auto",
    threads: options.Threads = None,
    device: options.Device = "auto",
    attention: options.Attention = "fused",
    json_file: options.JsonFile = None,
) -> None:
    """Measure tokens per second of every engine, interleaved in one process."""
    gammas = _gammas(gamma)
    per_gamma = [
        limits.make_settings(
            drafter=drafter, gamma=one, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
            max_new_tokens=max_new_tokens, quantization=quantization, rule=rule,
            epsilon=epsilon, delta=delta, kl_threshold=kl_threshold,
        )
        for one in gammas
    ]  # fmt: skip
    if repeat < 1:
        raise UserError(f"The number of repeats must be at least 1; you gave {repeat}.")
    chosen_peers = _peers(peers)
    questions = read_prompts(prompts)
    files.check_writable(json_file)

    from specviz.bench.plan import measure, variants
    from specviz.cli.loading import load

    pair = load(target, draft, device, dtype, threads, attention)
    chosen = variants(gammas, chosen_peers)
    total = len(chosen) * len(questions) * repeat
    samples: list[Sample] = []
    with suppress(KeyboardInterrupt):  # what was measured until then is still worth a report
        samples.extend(_tracked(measure(pair, questions, per_gamma[0], chosen, repeat), total))
    complete, result = len(samples) == total, report(samples, lossy=is_lossy(per_gamma[0]))

    console = Console(highlight=False)
    if samples:
        console.print(_engines(result), _ratios(result))
    if note := lossy_note(per_gamma[0]):
        console.print(note)
    if not complete:
        console.print(f"Interrupted after {len(samples)} of {total} measurements.")
    if json_file:
        document = _document(pair, per_gamma[0], repeat, result) | {"complete": complete}
        files.write(json_file, json.dumps(document, indent=1, allow_nan=False))
    if not complete:
        raise typer.Exit(130)


def _gammas(text: str) -> list[int]:
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise UserError(f"γ (gamma) must be a whole number, or several like 2,4,6; you gave {text!r}.") from None


def _peers(text: str) -> list[str]:
    names = [name for part in text.split(",") if (name := part.strip())]
    for name in names:
        if name not in PEERS:
            raise UserError(f"The peers must be among {', '.join(PEERS)}; you gave {name!r}.")
    return names


def _tracked(samples: Iterable[Sample], total: int) -> Iterator[Sample]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(samples, total=total, description="Measuring")


def _document(pair: Pair, settings: Settings, repeat: int, result: Report) -> dict[str, object]:
    machine = asdict(pair.machine)
    return {
        "machine": machine,
        "versions": machine.pop("versions"),
        "target": asdict(pair.target_info),
        "settings": asdict(settings) | {"repeat": repeat, "gamma": result.best},
        **asdict(result),
    }


def _engines(result: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="Geometric means over the prompts of medians over the repeats")
    for column in ("engine", "γ", "tok/s", "over standard"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    for line in result.engines:
        engine = f"{line['engine']} (lossy)" if line["lossy"] else str(line["engine"])
        best = line["gamma"] is not None and result.best[str(line["engine"])] == line["gamma"]
        table.add_row(
            engine, _shown(line["gamma"], "d"), _shown(line["tok_s"], ".1f"),
            _shown(line["over_standard"], ".2f"), style="bold" if best else None,
        )  # fmt: skip
    return table


def _ratios(result: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("ratio", "", "quartiles over prompts"):
        table.add_column(column, justify="left" if column == "ratio" else "right")
    for name, value in result.ratios.items():
        spread = result.spread.get(name)
        quartiles = f"{spread['q1']:.2f} – {spread['q3']:.2f}" if spread else ""
        table.add_row(name, _shown(value, ".1%" if name == "recording_overhead" else ".2f"), quartiles)
    return table


def _shown(value: object, form: str) -> str:
    return "–" if value is None else format(value, form)
