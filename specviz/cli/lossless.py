"""``lossless``: a position of a run drawn again many times, under each rule and with each exhibit of the museum."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specviz import settings as limits
from specviz.cli import files, options, transcript
from specviz.errors import UserError
from specviz.museum import catalogue
from specviz.trace import is_lossy

if TYPE_CHECKING:
    from specviz.lab.finding import Finding
    from specviz.models.load import Pair
    from specviz.trace import Settings, Trace

ALL = "all"
DEFAULT_DRAWS = 100_000


def lossless(
    prompt: Annotated[str, typer.Option(help="What to ask the model.")],
    rule: Annotated[str, typer.Option(help=f"{', '.join(limits.RULES)}, or all.")] = limits.DEFAULT_RULE,
    exhibit: Annotated[
        str | None, typer.Option(help="A broken variant of rejection sampling from the bug museum, or all.")
    ] = None,
    draws: Annotated[int, typer.Option("--rounds", help="Redraws of the position, 100 to 1,000,000.")] = DEFAULT_DRAWS,
    target: options.Target = None,
    draft: options.Draft = None,
    drafter: options.Drafter = limits.DEFAULT_DRAFTER,
    quantization: options.Quantization = None,
    gamma: options.Gamma = limits.DEFAULT_GAMMA,
    temperature: options.Temperature = limits.DEFAULT_TEMPERATURE,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    seed: options.Seed = limits.DEFAULT_SEED,
    max_new_tokens: options.MaxNewTokens = limits.DEFAULT_MAX_NEW_TOKENS,
    dtype: options.Dtype = "auto",
    threads: options.Threads = None,
    device: options.Device = "auto",
    attention: options.Attention = "fused",
    json_file: options.JsonFile = None,
) -> None:
    """Measure whether a rule keeps the target's distribution, and whether χ² notices a broken one."""
    rules, exhibits = _asked(rule, exhibit)
    settings = limits.make_settings(
        drafter=drafter, gamma=gamma, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
        max_new_tokens=max_new_tokens, quantization=quantization,
    )  # fmt: skip
    if exhibits and settings.drafter == "prompt-lookup":
        raise UserError("The exhibits need a drafter that draws; prompt lookup only copies. Choose quantized-self.")
    limits.check_prompt(prompt)

    from specviz.lab.finding import check_draws

    check_draws(draws)
    files.check_writable(json_file)

    from specviz.cli.loading import load

    pair = load(target, draft, device, dtype, threads, attention)
    console = Console(highlight=False)
    with console.status("Decoding"):
        laboratory = _Laboratory(pair, _decode(pair, prompt, settings), draws)
        for name in rules:
            laboratory.measure_rule(name)
        for name in exhibits:
            laboratory.measure_exhibit(name)
    console.print(laboratory.where(), laboratory.table(), *laboratory.notes, sep="\n")
    if json_file:
        document = [asdict(finding) for _, finding in laboratory.findings]
        several = ALL in (rule, exhibit)
        files.write(json_file, json.dumps(document if several else document[0], indent=1, allow_nan=False))


def _asked(rule: str, exhibit: str | None) -> tuple[list[str], list[str]]:
    """(rules, exhibits) to measure. Exhibits are measured in place of the rule they break, or behind all rules."""
    if rule not in (*limits.RULES, ALL):
        raise UserError(f"The rule must be one of {', '.join(limits.RULES)} or all; you gave {rule[:40]!r}.")
    if exhibit is None:
        return list(limits.RULES) if rule == ALL else [rule], []
    exhibits = list(catalogue.NAMES) if exhibit == ALL else [catalogue.find(exhibit).name]
    if rule == ALL:
        return list(limits.RULES), exhibits
    if rule != limits.DEFAULT_RULE:
        raise UserError(
            f"The exhibits are broken variants of {limits.DEFAULT_RULE}; you asked for {rule}. "
            f"Choose that rule or all, or leave the exhibit out."
        )
    return [], exhibits


def _decode(pair: Pair, prompt: str, settings: Settings) -> Trace:
    from specviz.events import Done
    from specviz.race import race

    for event in race(pair, prompt, settings, baseline=False):
        if isinstance(event, Done):
            return event.trace
    raise AssertionError("a race ends with its trace")


class _Laboratory:
    """One round of a run and what was found out about it; ``notes`` say what the table cannot."""

    def __init__(self, pair: Pair, trace: Trace, draws: int) -> None:
        from specviz.lab.choice import choose
        from specviz.microscope.evidence import gather

        self.pair, self.trace, self.draws = pair, trace, draws
        self.index, self.evidence = choose(trace, lambda index: gather(trace, index, pair))
        self.findings: list[tuple[int, Finding]] = []
        self.distances: dict[int, float] = {}
        self.notes: list[str] = []

    def measure_rule(self, rule: str) -> None:
        """One honest rule at the round's first position."""
        finding = self._redraw(0, rule, None)
        self.findings.append((0, finding))
        if finding.verdict == "lossless" and is_lossy(replace(self.trace.settings, rule=rule)):
            self.notes.append(f"{rule} is lossy, but loses nothing at this position: here it comes to drawing from p.")
        if rule == "greedy-match" and self.trace.settings.temperature > 0:
            self.notes.append("greedy-match was measured at temperature 0, where alone it decides.")

    def measure_exhibit(self, name: str) -> None:
        """One exhibit: by redraws of its position, or by its own statistic on the prompt."""
        from specviz.lab.finding import demonstrated
        from specviz.museum.demonstrate import demonstrate

        exhibit = catalogue.find(name)
        if exhibit.bends:
            self.findings.append((exhibit.place, self._redraw(exhibit.place, limits.DEFAULT_RULE, name)))
            if self.trace.settings.temperature == 0:
                self.notes.append(f"{name}: at temperature 0 nothing is drawn, so its broken part is never used.")
            return
        honest = self._redraw(exhibit.place, limits.DEFAULT_RULE, None)
        demonstration = demonstrate(name, self.pair, self.trace.prompt.token_ids, self.trace.settings)
        self.findings.append((exhibit.place, demonstrated(honest, name, demonstration.exposed)))
        values = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in demonstration.values.items())
        self.notes.append(f"{name}: {values}. The distribution is not what fails.")

    def where(self) -> Text:
        """Which position was taken."""
        places = [
            f"draft {place + 1} ({transcript.visible(self.evidence.texts[self.evidence.drafted[place]])}), "
            f"TV(p, q) {distance:.3f}"
            for place, distance in self.distances.items()
        ]
        return Text(f"Round {self.index + 1} of the run: {'; '.join(places)}. {self.draws:,} redraws.")

    def table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
        for column in ("rule or exhibit", "draft", "TV exact", "TV sampled", "χ²", "p-value", "verdict"):
            named = column in ("rule or exhibit", "verdict")
            table.add_column(column, justify="left" if named else "right", no_wrap=named)
        for place, one in self.findings:
            table.add_row(
                one.exhibit or one.rule, str(place + 1), f"{one.tv_exact:.6f}", f"{one.tv_sampled:.6f}",
                _shown(one.chi2, _digits(one.chi2), "∞" if one.p_value == 0 else "–"), _shown(one.p_value, ".3g", "–"),
                one.verdict, style="red" if one.verdict in ("lossy", "exposed") else None,
            )  # fmt: skip
        return table

    def _redraw(self, place: int, rule: str, exhibit: str | None) -> Finding:
        from specviz.lab.redraw import redraw

        settings = replace(self.trace.settings, rule=rule)
        drawn = redraw(self.evidence, place, settings, exhibit, self.draws, settings.seed)
        if rule != "greedy-match":
            self.distances[place] = drawn.tv_pq
        return drawn.lanes[-1].finding


def _digits(chi2: float | None) -> str:
    return ".1f" if chi2 is None or chi2 < 1e5 else ".2e"


def _shown(value: float | None, form: str, otherwise: str) -> str:
    return otherwise if value is None else format(value, form)
