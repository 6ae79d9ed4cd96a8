"""Numbers that are not finite must be noticed on the device just as on the CPU, and never become a token."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

from specviz.decoding.acceptance import Judgement, greedy_match, rejection_sampling
from specviz.decoding.distribution import Sampling, probabilities
from specviz.decoding.fetch import fetch
from specviz.decoding.loop import NOT_FINITE
from specviz.errors import UserError
from specviz.museum.models import Wrapped
from specviz.selftest.report import Outcome
from specviz.selftest.subject import Subject, decode
from specviz.trace import RunKind

VOCABULARY, GAMMA = 1000, 3
SAMPLINGS = (Sampling(), Sampling(top_k=20), Sampling(top_p=0.9), Sampling(0.7, top_k=50, top_p=0.9))
KINDS: tuple[RunKind, ...] = ("speculative", "standard")
FAULTY = 7  # the token whose logit is spoiled
GREEDY, DRAFT = "greedy match", "draft"


class _Fault(NamedTuple):
    """One logit of a row becomes ``value``, or all do; ``breaks``: nothing is left that could be drawn from."""

    value: float
    throughout: bool
    breaks: bool


FAULTS = {
    "a NaN": _Fault(math.nan, throughout=False, breaks=True),
    "NaN throughout": _Fault(math.nan, throughout=True, breaks=True),
    "a +inf": _Fault(math.inf, throughout=False, breaks=True),
    "a −inf": _Fault(-math.inf, throughout=False, breaks=False),
    "−inf throughout": _Fault(-math.inf, throughout=True, breaks=True),
}


class _Learned(NamedTuple):
    """What the host gets of a round; the engine refuses it where something is ``noticed``."""

    n_accepted: int
    noticed: bool
    p_drafted: list[bool]
    q_drafted: list[bool]


def judging(device: torch.device) -> Outcome:
    """The verdict functions on rows with a fault, at every place of a round, under every filter, in p and in q."""
    clean = torch.randn(GAMMA + 1, VOCABULARY, generator=torch.Generator().manual_seed(0)) * 3
    otherwise, unnoticed, seen = [], [], 0
    for (name, fault), row in product(FAULTS.items(), range(GAMMA + 1)):
        logits = clean.clone()
        logits[row, slice(None) if fault.throughout else FAULTY] = fault.value
        results = zip(_verdicts(logits, clean, device), _verdicts(logits, clean, torch.device("cpu")), strict=True)
        for (way, there), (_, here) in results:
            seen += 1
            where = f"{name} in row {row + 1}, {way}"
            if there != here:
                otherwise.append(where)
            hidden = way.startswith(DRAFT) and row == GAMMA  # a draft has no such row
            if fault.breaks and not hidden and not there.noticed:
                unnoticed.append(where)
    return Outcome(
        passed=not otherwise and not unnoticed,
        measured=f"{len(otherwise)} of {seen} judged otherwise, {len(unnoticed)} unnoticed",
        limit="all as on the CPU, none unnoticed",
        detail="; ".join([*unnoticed, *otherwise][:3]),
    )


def _verdicts(logits: Tensor, clean: Tensor, device: torch.device) -> Iterator[tuple[str, _Learned]]:
    """(way, what the host learns) of a round whose drafts stand until the fault is met."""
    drafted = clean[:GAMMA].argmax(-1).to(device)
    faulty, sound = logits.to(device), clean.to(device)
    yield GREEDY, _learned(greedy_match(faulty, drafted))
    u, u_final = torch.zeros(GAMMA, device=device), torch.full((), 0.5, device=device)
    for sampling in SAMPLINGS:
        p, q = probabilities(sound, sampling), probabilities(faulty, sampling)
        yield f"target, {sampling}", _learned(rejection_sampling(q, p[:GAMMA], drafted, u, u_final))
        yield f"{DRAFT}, {sampling}", _learned(rejection_sampling(p, q[:GAMMA], drafted, u, u_final))


def _learned(judged: Judgement) -> _Learned:
    n, finite, *drafted = fetch(judged.n_accepted, judged.finite, judged.p_drafted, judged.q_drafted)
    p, q = ([math.isnan(number) for number in numbers] for numbers in drafted)
    return _Learned(int(n), not finite or any(p) or any(q), p, q)


class _Poisoned(Wrapped):
    """A model that gives one NaN in each forward's first row of logits."""

    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        logits = super().forward(token_ids, keep).clone()
        logits[:1, FAULTY] = math.nan
        return logits


def loops(subject: Subject) -> Outcome:
    """Both loops, greedy and sampling, on a target that produces NaN: the run ends in its sentence."""
    pair = replace(subject.pair, target=_Poisoned(subject.pair.target))
    silent = []
    for kind, temperature in product(KINDS, (0.0, 1.0)):
        try:
            decode(pair, subject.settings(temperature), kind)
            silent.append(f"{kind} at temperature {temperature:g} went on")
        except UserError as refusal:
            if str(refusal) != NOT_FINITE:
                silent.append(f"{kind} at temperature {temperature:g}: {refusal}")
    return Outcome(not silent, f"{4 - len(silent)} of 4 runs refused to go on", "4 of 4", "; ".join(silent))
