"""One position in full: p and q over their likeliest tokens, the rule's exact output law, and what sums them up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specviz.analysis import losslessness as laws
from specviz.decoding.distribution import as_law, residual
from specviz.decoding.replay import sampling_of
from specviz.microscope.evidence import Evidence
from specviz.microscope.whatif import Outcome
from specviz.trace import Settings, is_lossy

TOP = 12  # of p and of q each


@dataclass(frozen=True, slots=True)
class Row:
    """A token under target, draft and rule: ``out`` is the exact chance that the position emits it."""

    token_id: int
    p: float
    q: float | None
    out: float


@dataclass(frozen=True, slots=True)
class Rest:
    """All other tokens, ``n`` of them, together."""

    n: int
    p: float
    q: float | None
    out: float


@dataclass(frozen=True, slots=True)
class Detail:
    """Entropies and KL(p‖q) in nats; ``rank`` of the drafted token under the target, from 1, before anything is
    filtered; ``acceptance``: the chance that a token drafted here stands under the rule; ``output_tv``: how far the
    rule's law lies from p.

    What needs a draft is None at the final token's position; everything is where the position is not ``known``.
    """

    place: int
    known: bool
    drafted: int | None = None
    rows: tuple[Row, ...] = ()
    rest: Rest | None = None
    entropy_p: float | None = None
    entropy_q: float | None = None
    tv: float | None = None
    kl: float | None = None
    rank: int | None = None
    overlap: float | None = None
    acceptance: float | None = None
    output_tv: float | None = None
    residual: tuple[tuple[int, float], ...] = ()
    residual_rest: float | None = None
    picked: int | None = None


@torch.inference_mode()
def detail(evidence: Evidence, outcome: Outcome, place: int) -> Detail:
    """A drafted position, or the final token's (``place`` = k), under the outcome's settings.

    Raises IndexError for a place that the round does not have.
    """
    k = len(evidence.drafted)
    if not 0 <= place <= k:
        raise IndexError(place)
    if outcome.departs is not None and place > outcome.departs:
        return Detail(place, known=False)
    settings = outcome.settings
    p_rows, q_rows = evidence.p_and_q(sampling_of(settings))
    p = p_rows[place]
    finished = len(outcome.emitted) > place
    picked = outcome.emitted[place][0] if finished and outcome.emitted[place][1] != "draft" else None
    if place == k:
        return _final(p, place, picked)
    return _drafted(evidence, outcome, place, p, q_rows[place], picked)


def _final(p: Tensor, place: int, picked: int | None) -> Detail:
    law = as_law(p)
    tokens = _likeliest(p, extra=[] if picked is None else [picked])
    rows = tuple(Row(token, float(law[token]), None, float(law[token])) for token in tokens)
    left = 1 - sum(row.p for row in rows)
    return Detail(
        place,
        known=True,
        rows=rows,
        rest=Rest(len(law) - len(rows), max(0.0, left), None, max(0.0, left)),
        entropy_p=laws.entropy(law),
        picked=picked,
    )


def _drafted(evidence: Evidence, outcome: Outcome, place: int, p: Tensor, q: Tensor, picked: int | None) -> Detail:
    position, logits = outcome.positions[place], evidence.target_logits[place]
    drafted, law_p, law_q = position.token_id, as_law(p), as_law(q)
    rule = rule_law(outcome.settings, law_p, law_q)
    out = rule.output
    tokens = sorted(
        {*_likeliest(p), *_likeliest(q), drafted, *([] if picked is None else [picked])},
        key=lambda token: (-max(law_p[token], law_q[token]), token),
    )
    rows = tuple(Row(token, float(law_p[token]), float(law_q[token]), float(out[token])) for token in tokens)
    leftover: tuple[tuple[int, float], ...] = ()
    residual_rest = None
    if position.verdict == "rejected" and outcome.settings.temperature > 0 and not is_lossy(outcome.settings):
        weights = residual(p, q)
        chosen = _likeliest(weights, extra=[] if picked is None else [picked])
        leftover = tuple((token, float(weights[token])) for token in chosen if weights[token] > 0)
        residual_rest = max(0.0, 1 - sum(prob for _, prob in leftover))
    return Detail(
        place,
        known=True,
        drafted=drafted,
        rows=rows,
        rest=Rest(
            len(law_p) - len(rows),
            max(0.0, 1 - sum(row.p for row in rows)),
            max(0.0, 1 - sum(row.q or 0.0 for row in rows)),
            max(0.0, 1 - sum(row.out for row in rows)),
        ),
        entropy_p=laws.entropy(law_p),
        entropy_q=laws.entropy(law_q),
        tv=laws.total_variation(law_p, law_q),
        kl=laws.finite(laws.kl_divergence(law_p, law_q)),
        rank=int((logits > logits[drafted]).sum()) + 1,
        overlap=float(np.minimum(law_p, law_q).sum()),
        acceptance=rule.acceptance,
        output_tv=laws.total_variation(out, law_p),
        residual=leftover,
        residual_rest=residual_rest,
        picked=picked,
    )


def rule_law(settings: Settings, p: laws.Law, q: laws.Law) -> laws.PositionRule:
    """What a position emits under the rule of these settings, exactly. p and q are certain at temperature 0."""
    if settings.temperature == 0:
        return laws.greedy_match(p, q)
    if settings.rule == "typical":
        return laws.typical(p, q, settings.epsilon, settings.delta)
    if settings.rule == "kl-threshold":
        return laws.kl_threshold(p, q, settings.kl_threshold)
    return laws.rejection_sampling(p, q)


def _likeliest(row: Tensor, extra: list[int] | None = None) -> list[int]:
    top = torch.topk(row, min(TOP, len(row)))
    tokens = [token for token, prob in zip(top.indices.tolist(), top.values.tolist(), strict=True) if prob > 0]
    return tokens + [token for token in extra or [] if token not in tokens]
