"""One recorded position drawn again, N times: how its frequencies grow onto p, or do not."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from specviz.analysis.losslessness import Law, PositionRule, expected_total_variation, total_variation
from specviz.decoding.distribution import as_law, uniforms
from specviz.decoding.redraw import Sampler, sampler_of
from specviz.decoding.replay import sampling_of
from specviz.errors import UserError
from specviz.lab.finding import Finding, check_draws, fit, judge
from specviz.microscope.evidence import Evidence
from specviz.museum.samplers import Position, broken_sampler
from specviz.settings import DEFAULT_RULE
from specviz.trace import Settings, is_lossy

SHOWN = 12  # likeliest tokens of each distribution
FRAMES_A_DECADE, MOST_FRAMES = 12, 40


@dataclass(frozen=True, slots=True)
class Token:
    """A token that the histogram shows, with its probability under the target."""

    id: int
    text: str
    p: float


@dataclass(frozen=True, slots=True)
class Frame:
    """After ``n`` draws: distance from p, what honest draws show on average, and counts of the shown tokens."""

    n: int
    tv: float
    expected_tv: float
    counts: list[int]
    rest: int


@dataclass(frozen=True, slots=True)
class Lane:
    """One sampler. ``law``: its exact output probability of each shown token, ``rest_law`` of all others."""

    rule: str
    exhibit: str | None
    lossless: bool
    law: list[float]
    rest_law: float
    frames: list[Frame]
    finding: Finding


@dataclass(frozen=True, slots=True)
class Redraw:
    """A position drawn ``n`` times by the honest sampler (lane 0) and, if one was chosen, by an exhibit (lane 1)."""

    place: int
    n: int
    tokens: list[Token]
    rest_p: float
    tv_pq: float
    lanes: list[Lane]


def redraw(evidence: Evidence, place: int, settings: Settings, exhibit: str | None, n: int, seed: int) -> Redraw:
    """Draw the ``place``-th drafted position ``n`` times under ``settings`` (sampling, rule and its thresholds).

    Both lanes read the same uniform numbers, so they differ by the broken part alone. The rule greedy-match is
    measured at temperature 0 whatever the settings say. Raises UserError.
    """
    check_draws(n)
    settings = at_zero(settings)
    position = position_at(evidence, place, settings)
    p = as_law(position.p)
    exact = in_float64(position)
    samplers: list[tuple[str, str | None, Sampler]] = [
        (settings.rule, None, sampler_of(settings, position.p, position.q))
    ]
    laws = [output_law(sampler_of(settings, exact.p, exact.q))]
    if exhibit is not None:
        samplers.append((DEFAULT_RULE, exhibit, broken_sampler(exhibit, position)))
        laws.append(output_law(broken_sampler(exhibit, exact)))
    shown = _likeliest(p, *laws)
    draws = uniforms(seed, n, 3)
    steps = _frame_sizes(n)
    line = [expected_total_variation(p, size) for size in steps]

    lanes = []
    for (rule, name, sampler), law in zip(samplers, laws, strict=True):
        tokens = sampler.redraw(*draws.unbind(-1)).tokens.numpy()
        frames, counts = _frames(tokens, p, shown, steps, line)
        finding = judge(
            rule, name, n,
            tv_sampled=frames[-1].tv, tv_exact=total_variation(law, p), against_p=fit(counts, p),
        )  # fmt: skip
        lossless = name is None and not is_lossy(settings)
        rest = max(0.0, 1 - float(law[shown].sum()))
        lanes.append(Lane(rule, name, lossless, law[shown].tolist(), rest, frames, finding))
    return Redraw(
        place=place,
        n=n,
        tokens=[Token(token, evidence.texts[token], float(p[token])) for token in shown.tolist()],
        rest_p=max(0.0, 1 - float(p[shown].sum())),
        tv_pq=total_variation(p, as_law(position.q)),
        lanes=lanes,
    )


def position_at(evidence: Evidence, place: int, settings: Settings) -> Position:
    """A drafted position as its sampler sees it. Raises UserError if nothing was drafted there."""
    drafted = evidence.drafted
    if not 0 <= place < len(drafted):
        raise UserError(f"Nothing was drafted at position {place + 1} of this round. Choose one of {len(drafted)}.")
    sampling = sampling_of(settings)
    p, q = evidence.p_and_q(sampling)
    logits = None if evidence.draft_logits is None else evidence.draft_logits[place]
    return Position(p[place], q[place], logits, sampling, first_q=q[0], before=drafted[:place])


def in_float64(position: Position) -> Position:
    """The position with p and q to full precision, so that the engine's functions give exact laws."""
    p, q, first_q = (torch.from_numpy(as_law(row)) for row in (position.p, position.q, position.first_q))
    return replace(position, p=p, q=q, first_q=first_q)


def output_law(sampler: Sampler) -> Law:
    """The law [V] of what a sampler emits."""
    accept = sampler.accept.double().numpy()
    return PositionRule(as_law(sampler.draft), accept, as_law(sampler.replacement)).output


def at_zero(settings: Settings) -> Settings:
    """Greedy match at temperature 0, where alone it decides; other rules as they are."""
    return replace(settings, temperature=0.0) if settings.rule == "greedy-match" else settings


def _likeliest(p: Law, *laws: Law) -> NDArray[np.int64]:
    """The likeliest tokens of p and of each law, in the order of p."""
    count = min(SHOWN, len(p))
    union = np.unique(np.concatenate([np.argpartition(-law, count - 1)[:count] for law in (p, *laws)]))
    union = union[np.maximum.reduce([law[union] for law in (p, *laws)]) > 0]
    return union[np.argsort(-p[union], kind="stable")]


def _frame_sizes(n: int) -> list[int]:
    """Growing sample sizes, evenly spaced on a logarithmic axis, from 10 to ``n``."""
    decades = math.log10(n / 10)
    return (
        np.unique(np.geomspace(10, n, min(MOST_FRAMES, round(FRAMES_A_DECADE * decades) + 1)).round())
        .astype(int)
        .tolist()
    )


def _frames(
    tokens: NDArray[np.int64], p: Law, shown: NDArray[np.int64], sizes: list[int], line: list[float]
) -> tuple[list[Frame], NDArray[np.int64]]:
    frames, counts, done = [], np.zeros(len(p), np.int64), 0
    for size, expected in zip(sizes, line, strict=True):
        counts += np.bincount(tokens[done:size], minlength=len(p))
        done = size
        visible = counts[shown]
        frames.append(
            Frame(size, total_variation(counts / size, p), expected, visible.tolist(), size - int(visible.sum()))
        )
    return frames, counts
