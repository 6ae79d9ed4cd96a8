"""The rule that a run's settings name: what judges its rounds, and whether it keeps the target's distribution."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from specviz.decoding import lossy
from specviz.decoding.acceptance import Judgement, rejection_sampling
from specviz.trace import Settings

Judge = Callable[[Tensor, Tensor | None, Tensor, Tensor, Tensor], Judgement]
"""(p [k+1, V], q [k, V] or None for one-hot, drafted [k], u [k], u_final []) → verdicts."""


class Rule(NamedTuple):
    """``lossy`` rules test with no u and replace a rejected token by a draw from p instead of the residual."""

    judge: Judge
    lossy: bool


LOSSLESS = Rule(rejection_sampling, lossy=False)


def rule_of(settings: Settings) -> Rule:
    """What judges at temperatures above 0; at 0 there is no p and every rule is ``acceptance.greedy_match``."""
    match settings.rule:
        case "typical":
            return Rule(partial(lossy.typical, epsilon=settings.epsilon, delta=settings.delta), lossy=True)
        case "kl-threshold":
            return Rule(partial(lossy.kl_threshold, threshold=settings.kl_threshold), lossy=True)
        case _:
            return LOSSLESS
