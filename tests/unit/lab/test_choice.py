"""Which round is looked at: the one that shows most, the same each time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specviz.decoding.lossy import kl_divergence
from specviz.decoding.replay import sampling_of
from specviz.errors import UserError
from specviz.lab.choice import choose
from specviz.microscope.evidence import gather
from specviz.models.load import Pair
from specviz.trace import Settings, Trace
from tests.unit.lab.conftest import decode


def test_the_first_position_shows_most_of_those_within_the_threshold(pair: Pair, trace: Trace) -> None:
    index, evidence = choose(trace, lambda at: gather(trace, at, pair))
    run = trace.run("speculative")
    assert run is not None and len(run.rounds[index].drafted) > 1
    within = []
    for round_ in run.rounds:
        if len(round_.drafted) > 1:
            p, q = gather(trace, round_.index, pair).p_and_q(sampling_of(trace.settings))
            if kl_divergence(p[0], q[0]) < 0.8:
                within.append((round_.drafted[0].overlap, round_.index))
    fallback = min((r.drafted[0].overlap, r.index) for r in run.rounds if len(r.drafted) > 1)
    assert index == min(within, default=fallback)[1]
    assert evidence.round == run.rounds[index]


def test_where_kl_is_infinite_nothing_is_shown(trace: Trace) -> None:
    run = trace.run("speculative")
    assert run is not None
    far, near = [round_.index for round_ in run.rounds if len(round_.drafted) > 1][:2]
    overlaps = {far: 0.5, near: 0.6}
    rounds = tuple(
        replace(
            round_,
            drafted=tuple(replace(one, overlap=overlaps.get(round_.index, 0.9)) for one in round_.drafted),
        )
        for round_ in run.rounds
    )
    p = torch.tensor([[0.5, 0.5]])
    q = {far: torch.tensor([[1.0, 0.0]]), near: torch.tensor([[0.9, 0.1]])}  # KL(p‖q) ∞ and 0.51, KL(q‖p) 0.69 and 0.37

    def gathered(index: int) -> Any:
        return SimpleNamespace(p_and_q=lambda sampling: (p, q[index]))

    assert choose(replace(trace, runs=(replace(run, rounds=rounds),)), gathered)[0] == near


def test_at_temperature_0_a_miss_is_chosen(pair: Pair, settings: Settings) -> None:
    trace = decode(pair, replace(settings, temperature=0.0))
    index, _ = choose(trace, lambda at: gather(trace, at, pair))
    run = trace.run("speculative")
    assert run is not None and run.rounds[index].drafted[0].overlap == 0


def test_a_run_that_drafted_nothing(pair: Pair, settings: Settings) -> None:
    trace = decode(pair, replace(settings, max_new_tokens=1))
    with pytest.raises(UserError, match="drafted nothing"):
        choose(trace, lambda at: gather(trace, at, pair))
