"""The exhibits that leave the distribution alone: the real loop with the broken part, beside the honest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, variance

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.ending import Ending
from specviz.decoding.prefill import prefill
from specviz.decoding.recording import Recorder
from specviz.decoding.replay import sampling_of
from specviz.decoding.speculative import Speculative
from specviz.decoding.text import StopStrings
from specviz.errors import UserError
from specviz.models.base import LanguageModel
from specviz.models.load import Pair
from specviz.museum.drafters import BonusGap
from specviz.museum.endings import EosIgnored
from specviz.museum.models import OffByOneRollback, Overheard
from specviz.race import make_drafter
from specviz.trace import Round, Settings

TOKENS = 64  # committed by each run, some twenty rounds
TOKENS_FOR_A_RATE = 160  # an acceptance rate is known only after many drafted tokens
BEYOND_NOISE = 3.0  # standard errors between two mean chances of acceptance
BEYOND_ROUNDING = 3.0  # times the honest cache's own difference from a fresh prefill


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What the exhibit's statistic said: named numbers, honest and broken, and whether they expose it."""

    name: str
    exposed: bool
    values: dict[str, float]


def demonstrate(
    name: str,
    pair: Pair,
    prompt_ids: Sequence[int],
    settings: Settings,
    should_stop: Callable[[], bool] = lambda: False,
) -> Demonstration:
    """Run the exhibit on a prompt, past every end-of-text, with the run's drafter, sampling and seed.

    Uses both models' caches, so no run may be in progress. Raises UserError if the exhibit has no statistic of its
    own, if the drafter has no part that could break so, if the prompt leaves no room, or if it was stopped.
    """
    if name not in DEMONSTRATIONS:
        raise UserError(f"The exhibit {name} bends the distribution: redraws of a position show it.")
    return DEMONSTRATIONS[name](_Bench(pair, list(prompt_ids), settings, should_stop))


class _Bench:
    """One prompt to run with any part exchanged."""

    def __init__(self, pair: Pair, prompt_ids: list[int], settings: Settings, should_stop: Callable[[], bool]) -> None:
        self.pair, self.prompt_ids, self.settings, self.should_stop = pair, prompt_ids, settings, should_stop
        self.drafter, _ = make_drafter(pair, settings)
        # A cache that keeps a token too many each round needs room for those too.
        self.room = (min(pair.target.context_limit, self.drafter.context_limit) - len(prompt_ids)) // 2
        if self.room < 2:
            raise UserError("This prompt fills the models' context and leaves no room for an exhibit. Shorten it.")

    def run(
        self,
        *,
        target: LanguageModel | None = None,
        drafter: Drafter | None = None,
        ending: type[Ending] = Ending,
        ends: frozenset[int] = frozenset(),
        tokens: int = TOKENS,
    ) -> list[Round]:
        """The rounds of a run; what is not given is the honest part. ``ends``: the tokens that end it."""
        tokens = min(tokens, self.room)
        loop = Speculative(
            target or self.pair.target,
            drafter or self.drafter,
            sampling_of(self.settings),
            self.settings.gamma,
            self.settings.seed,
            ending(ends, StopStrings(()), tokens, tokens),
            Recorder(self.pair.tokenizer, self.pair.texts, self.prompt_ids),
            poll=lambda: "cancelled" if self.should_stop() else None,
        )
        rounds = list(loop.rounds(self.prompt_ids))
        if loop.finish_reason == "cancelled":
            raise UserError("The exhibit was stopped before it was done.")
        return rounds


def bonus_gap(bench: _Bench) -> Demonstration:
    """The mean chance that a drafted token is accepted, with and without the gap, over the same prompt and seed.

    The chance Σ min(p, q) of each drafted token says more than its one verdict. Their standard error counts tokens as
    independent, so it is a yardstick and no test.
    """
    honest = bench.drafter
    if not isinstance(honest, DraftModel):
        raise UserError("Prompt lookup keeps no cache, so no gap can open in it. Choose a drafter with a model.")
    broken = BonusGap(honest.model, honest.sampling, honest.target_vocab, honest.shared_vocab, honest.min_confidence)
    before = _chances(bench.run(tokens=TOKENS_FOR_A_RATE))
    after = _chances(bench.run(drafter=broken, tokens=TOKENS_FOR_A_RATE))
    error = sqrt(variance(before) / len(before) + variance(after) / len(after))
    return Demonstration(
        "bonus-gap",
        exposed=mean(before) - mean(after) > BEYOND_NOISE * error,
        values={
            "acceptance_honest": mean(before),
            "acceptance_broken": mean(after),
            "drafted_honest": len(before),
            "drafted_broken": len(after),
            "standard_error": error,
        },
    )


def off_by_one_rollback(bench: _Bench) -> Demonstration:
    """The largest difference between a round's first logits and those of a fresh prefill of the same text.

    The honest cache differs by rounding alone, since it reads several tokens at once. A rejected token can stay only
    where one was rejected: in a run without rejections ``difference_long`` is the honest one.
    """
    honest, long, short = (_largest_difference(bench, by) for by in (0, 1, -1))
    return Demonstration(
        "off-by-one-rollback",
        exposed=max(long, short) > BEYOND_ROUNDING * honest,
        values={"difference_honest": honest, "difference_long": long, "difference_short": short},
    )


def eos_ignored(bench: _Bench) -> Demonstration:
    """Tokens counted behind the end, where the end was accepted inside a block.

    The prompt is first run past every end. If no end-of-text was accepted inside a block there, a token that was,
    from the middle of those that stand nowhere earlier, is taken for one: the honest run then ends at it and the broken
    one does not.
    """
    rounds = bench.run()
    ends = frozenset(bench.pair.eos_token_ids)
    stand_ins = _first_seen_inside_a_block(rounds)
    if not stand_ins:
        raise UserError("In this run no block holds a new token ahead of its last one. Choose another prompt or γ.")
    end = next((token for token in stand_ins if token in ends), stand_ins[len(stand_ins) // 2])
    honest = _committed(bench.run(ends=frozenset({end})))
    broken = _committed(bench.run(ending=EosIgnored, ends=frozenset({end})))
    behind = len(broken) - 1 - broken.index(end)
    return Demonstration(
        "eos-ignored",
        exposed=behind > 0 and honest[-1] == end,
        values={
            "tokens_honest": len(honest),
            "tokens_broken": len(broken),
            "behind": behind,
            "end": end,
            "stand_in": float(end not in ends),
        },
    )


DEMONSTRATIONS: dict[str, Callable[[_Bench], Demonstration]] = {
    "bonus-gap": bonus_gap,
    "off-by-one-rollback": off_by_one_rollback,
    "eos-ignored": eos_ignored,
}


def _chances(rounds: list[Round]) -> list[float]:
    """Of every drafted token; two at least, since a spread is asked of them."""
    chances = [position.overlap for round_ in rounds for position in round_.drafted]
    if len(chances) < 2:
        raise UserError("Next to nothing was drafted in this run. Choose another prompt.")
    return chances


def _committed(rounds: list[Round]) -> list[int]:
    return [token.token_id for round_ in rounds for token in round_.emitted]


def _first_seen_inside_a_block(rounds: list[Round]) -> list[int]:
    """Tokens committed ahead of the last one of a block, that stand nowhere before, in their order."""
    seen: set[int] = set()
    found = []
    for round_ in rounds:
        block = [token.token_id for token in round_.emitted]
        for token in block[:-1]:
            if token not in seen and token != block[-1]:
                found.append(token)
            seen.add(token)
        seen.add(block[-1])
    return found


@torch.inference_mode()
def _largest_difference(bench: _Bench, by: int) -> float:
    """Largest |logit − fresh logit| over every round's first position, for a cache rolled back wrongly by ``by``."""
    overheard = Overheard(OffByOneRollback(bench.pair.target, by))
    rounds = bench.run(target=overheard)
    rows = iter(overheard.take())
    firsts = []
    for round_ in rounds:
        firsts.append(next(rows))
        for _ in round_.drafted:
            next(rows)
    fresh = _fresh_logits(bench.pair.target, bench.prompt_ids + _committed(rounds), rounds[0].context_length)
    return max(
        float((first.float() - fresh[round_.context_length - rounds[0].context_length].float()).abs().max())
        for first, round_ in zip(firsts, rounds, strict=True)
    )


def _fresh_logits(model: LanguageModel, token_ids: list[int], prompt_length: int) -> Tensor:
    """Logits behind every prefix from the prompt on, of one prefill of all of it."""
    model.allocate(len(token_ids))
    prefill(model, token_ids[: prompt_length - 1])
    rest = torch.tensor(token_ids[prompt_length - 1 :], device=model.device)
    return model.forward(rest, keep=len(rest))
