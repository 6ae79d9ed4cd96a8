"""Measurements → the table and the ratios: medians over repeats, geometric means over prompts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median, quantiles
from typing import NamedTuple

from specviz.bench.measurement import Measurement

STANDARD, SPECULATIVE, HF_GENERATE, HF_ASSISTED = "standard", "speculative", "hf-generate", "hf-assisted"

FIGURES = ("tok_s", "tokens", "alpha", "tau", "draft_s", "verify_s", "sample_s", "overhead_s", "prefill_s")

RATIOS = {
    "speculative_over_standard": (SPECULATIVE, STANDARD),
    "standard_over_hf_generate": (STANDARD, HF_GENERATE),
    "speculative_over_hf_assisted": (SPECULATIVE, HF_ASSISTED),
}


class Variant(NamedTuple):
    """An engine and the γ it ran with; None for engines that draft nothing."""

    engine: str
    gamma: int | None


class Sample(NamedTuple):
    variant: Variant
    prompt_id: str
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Report:
    """``ratios`` compare each engine at its ``best`` γ; ``spread`` holds their quartiles over the prompts."""

    rows: list[dict[str, object]]
    ratios: dict[str, float | None]
    spread: dict[str, dict[str, float]]
    best: dict[str, int | None]
    engines: list[dict[str, object]]


def report(samples: Sequence[Sample], *, lossy: bool = False) -> Report:
    """Everything the JSON file says of the measurements.

    ``lossy`` says that the rule of our speculative engine was: its lines are then marked, since what it is compared
    with keeps the target's distribution and it does not.
    """
    rates = _rates(samples)
    best = _best_variants(rates)
    chosen = {engine: rates[variant] for engine, variant in best.items()}
    by_prompt = {
        name: _per_prompt(chosen.get(above, {}), chosen.get(below, {})) for name, (above, below) in RATIOS.items()
    }
    ratios: dict[str, float | None] = {name: _geometric_mean(values) for name, values in by_prompt.items()}
    ratios["recording_overhead"] = _recording_overhead(samples)
    return Report(
        rows=_rows(samples, lossy),
        ratios=ratios,
        spread={name: _quartiles(values) for name, values in by_prompt.items() if values},
        best={engine: variant.gamma for engine, variant in best.items()},
        engines=_engines(rates, lossy),
    )


Rates = Mapping[Variant, Mapping[str, float]]


def _rates(samples: Iterable[Sample]) -> dict[Variant, dict[str, float]]:
    """Median tok/s of each variant on each prompt; a run too short to have a rate is left out."""
    repeats: dict[Variant, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for variant, prompt_id, measurement in samples:
        if rate := measurement.tok_s:
            repeats[variant][prompt_id].append(rate)
    return {
        variant: {prompt_id: median(values) for prompt_id, values in prompts.items()}
        for variant, prompts in repeats.items()
    }


def _best_variants(rates: Rates) -> dict[str, Variant]:
    best: dict[str, Variant] = {}
    for variant in rates:
        rival = best.get(variant.engine)
        if rival is None or (_geometric_mean(_per_prompt(rates[variant], rates[rival])) or 0) > 1:
            best[variant.engine] = variant
    return best


def _rows(samples: Iterable[Sample], lossy: bool) -> list[dict[str, object]]:
    groups: dict[tuple[Variant, str], list[Measurement]] = defaultdict(list)
    for variant, prompt_id, measurement in samples:
        groups[variant, prompt_id].append(measurement)
    rows: list[dict[str, object]] = []
    for (variant, prompt_id), repeats in groups.items():
        row: dict[str, object] = {"engine": variant.engine, "gamma": variant.gamma, "prompt_id": prompt_id}
        row |= {figure: _median_or_none(getattr(repeat, figure) for repeat in repeats) for figure in FIGURES}
        row["tok_s_spread"] = _quartiles([repeat.tok_s for repeat in repeats if repeat.tok_s])
        row["lossy"] = lossy and variant.engine == SPECULATIVE
        rows.append(row)
    return rows


def _engines(rates: Rates, lossy: bool) -> list[dict[str, object]]:
    """Each variant's typical tok/s, and its speed over standard decoding on the same prompts."""
    standard = rates.get(Variant(STANDARD, None), {})
    return [
        {
            "engine": variant.engine,
            "gamma": variant.gamma,
            "tok_s": _geometric_mean(prompts.values()),
            "over_standard": _geometric_mean(_per_prompt(prompts, standard)),
            "lossy": lossy and variant.engine == SPECULATIVE,
        }
        for variant, prompts in rates.items()
    ]


def _recording_overhead(samples: Iterable[Sample]) -> float | None:
    """What recording took of recording and decoding together, over every recorded run."""
    recorded = [sample.measurement for sample in samples if sample.measurement.overhead_s is not None]
    overhead = sum(measurement.overhead_s or 0.0 for measurement in recorded)
    total = overhead + sum(measurement.decode_s for measurement in recorded)
    return overhead / total if total else None


def _per_prompt(above: Mapping[str, float], below: Mapping[str, float]) -> list[float]:
    """The ratio on each prompt that both engines ran."""
    return [above[prompt_id] / below[prompt_id] for prompt_id in above if prompt_id in below]


def _geometric_mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return geometric_mean(values) if values else None


def _median_or_none(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _quartiles(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    low, _, high = quantiles(values, method="inclusive") if len(values) > 1 else (values[0],) * 3
    return {"q1": low, "q3": high}
