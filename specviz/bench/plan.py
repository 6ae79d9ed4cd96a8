"""Which engine runs when: interleaved, so that a machine that slows down slows all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from specviz.bench.measurement import Measurement, from_run
from specviz.bench.peers import hf_assisted, hf_generate
from specviz.bench.prompts import BenchPrompt
from specviz.bench.report import HF_ASSISTED, HF_GENERATE, SPECULATIVE, STANDARD, Sample, Variant
from specviz.events import Event, Finished
from specviz.models.load import Pair
from specviz.race import race
from specviz.trace import Settings

WARM_UP_TOKENS = 16


def variants(gammas: Sequence[int], peers: Sequence[str]) -> list[Variant]:
    """Every engine to measure; those that draft once for each γ."""
    chosen = [Variant(STANDARD, None)]
    if HF_GENERATE in peers:
        chosen.append(Variant(HF_GENERATE, None))
    for gamma in gammas:
        chosen.append(Variant(SPECULATIVE, gamma))
        if HF_ASSISTED in peers:
            chosen.append(Variant(HF_ASSISTED, gamma))
    return chosen


def measure(
    pair: Pair, prompts: Sequence[BenchPrompt], settings: Settings, chosen: Sequence[Variant], repeats: int
) -> Iterator[Sample]:
    """Run everything, one measurement at a time. Each engine first runs a short warm-up that is not yielded.

    Repeats take the next seed; the order of the engines rotates from prompt to prompt and repeat to repeat.
    """
    for variant in chosen:
        short = replace(settings, max_new_tokens=min(WARM_UP_TOKENS, settings.max_new_tokens))
        _measure_once(pair, variant, prompts[0].text, short)
    turn = 0
    for repeat in range(repeats):
        for prompt in prompts:
            for variant in rotated(chosen, turn):
                now = replace(settings, seed=settings.seed + repeat)
                yield Sample(variant, prompt.id, _measure_once(pair, variant, prompt.text, now))
            turn += 1


def rotated(items: Sequence[Variant], turn: int) -> list[Variant]:
    """The same items, begun elsewhere."""
    start = turn % len(items)
    return [*items[start:], *items[:start]]


def _measure_once(pair: Pair, variant: Variant, prompt: str, settings: Settings) -> Measurement:
    if variant.gamma is not None:
        settings = replace(settings, gamma=variant.gamma)
    return ENGINES[variant.engine](pair, prompt, settings)


def standard(pair: Pair, prompt: str, settings: Settings) -> Measurement:
    """Our standard decoding."""
    return _first_run(race(pair, prompt, settings, speculative_first=False))


def speculative(pair: Pair, prompt: str, settings: Settings) -> Measurement:
    """Our speculative decoding."""
    return _first_run(race(pair, prompt, settings, baseline=False))


def _first_run(events: Iterable[Event]) -> Measurement:
    """The run that a race begins with; the race is left there."""
    return from_run(next(event.run for event in events if isinstance(event, Finished)))


ENGINES: dict[str, Callable[[Pair, str, Settings], Measurement]] = {
    STANDARD: standard,
    SPECULATIVE: speculative,
    HF_GENERATE: hf_generate,
    HF_ASSISTED: hf_assisted,
}
