"""A recorded round judged again: another u, temperature, top-k, top-p or rule, by the functions the engine uses.

The draft tokens come again from the round's own uniform numbers. Where a change makes the draft pick another token,
that token's verdict is still certain, since nothing before it changed; what would follow it was never computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from specviz.decoding.acceptance import Judgement, accept_probability, greedy_match
from specviz.decoding.distribution import draw, overlap
from specviz.decoding.lossy import kl_divergence, typical_threshold
from specviz.decoding.replay import sampling_of
from specviz.decoding.rules import rule_of
from specviz.microscope.evidence import Evidence
from specviz.trace import Settings, Source, is_lossy

Verdict = Literal["accepted", "rejected", "untested", "unknown"]
End = Literal["round", "unknown", "end_of_text"]


@dataclass(frozen=True, slots=True)
class Again:
    """One drafted position, judged again. What is None does not apply, or was never computed.

    ``u`` is tested against ``limit`` = min(1, p/q); a lossy rule holds ``measure`` (p of the token, or KL(p‖q) in
    nats) against ``threshold`` instead. ``overlap`` is Σ min(p, q).
    """

    token_id: int
    verdict: Verdict
    p: float | None = None
    q: float | None = None
    overlap: float | None = None
    u: float | None = None
    limit: float | None = None
    measure: float | None = None
    threshold: float | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the round would have been. ``departs``: the first place where another token would have been drafted.

    ``end`` is "unknown" where what follows needs a forward that was never made. ``same``: it emits what was recorded.
    """

    settings: Settings
    positions: tuple[Again, ...]
    emitted: tuple[tuple[int, Source], ...]
    end: End
    departs: int | None
    same: bool


@dataclass(frozen=True, slots=True)
class Redraft:
    """The draft under changed settings: ``token_ids`` [known], of which none but the last can differ from the record.

    ``complete``: a round that accepts all of them has everything it needs to add its final token.
    """

    token_ids: Tensor
    departs: int | None
    complete: bool


@torch.inference_mode()
def judge_again(evidence: Evidence, settings: Settings, u: Mapping[int, float] | None = None) -> Outcome:
    """The round under ``settings``; ``u`` replaces the recorded test draws at some places.

    Of the settings, only what judges a round matters: temperature, top-k, top-p, and the rule with its thresholds.
    """
    sampling = sampling_of(settings)
    p, q = evidence.p_and_q(sampling)
    draft = redraft(evidence, q, settings)
    known = len(draft.token_ids)
    tests = evidence.uniforms[evidence.settings.gamma :][: len(evidence.drafted)].clone()
    for place, value in (u or {}).items():
        tests[place] = value
    judged = _judge(evidence, settings, p[: known + 1], q[:known], draft.token_ids, tests[:known])
    n = int(judged.n_accepted)

    emitted: list[tuple[int, Source]] = [(token, "draft") for token in draft.token_ids[:n].tolist()]
    end: End = "unknown"
    if n < known or draft.complete:
        end = "round"
        replacement: Source = "target" if is_lossy(settings) else "residual"
        final: Source = replacement if n < known else "bonus" if known else "target"
        emitted.append((int(judged.final_token), final))
    last = next((i for i, (token, _) in enumerate(emitted) if token in evidence.eos), None)
    if last is not None:
        emitted, end = emitted[: last + 1], "end_of_text"
    return Outcome(
        settings=settings,
        positions=tuple(_positions(evidence, settings, p, q, draft, tests, n, min(n, len(emitted)))),
        emitted=tuple(emitted),
        end=end,
        departs=draft.departs,
        same=_same(evidence, [token for token, _ in emitted]) and end != "unknown",
    )


def redraft(evidence: Evidence, q: Tensor, settings: Settings) -> Redraft:
    """What the draft would have drawn with the round's own numbers; itself as long as q is made as it was."""
    recorded = torch.tensor(evidence.drafted, dtype=torch.int64)
    sampling, before, k = sampling_of(settings), sampling_of(evidence.settings), len(recorded)
    both_greedy = sampling.greedy and before.greedy  # top-k and top-p never change the likeliest token
    if evidence.draft_logits is None or sampling == before or both_greedy:
        return Redraft(recorded, None, complete=True)
    tokens = evidence.draft_logits.argmax(-1) if sampling.greedy else draw(q, evidence.uniforms[:k])
    departs = _first(tokens != recorded)
    known = k if departs is None else departs + 1
    complete = departs is None
    if least := evidence.settings.min_confidence:
        sure = (evidence.draft_logits.softmax(-1) if sampling.greedy else q).gather(-1, tokens[:, None])[:, 0]
        unsure = _first(sure[:known] < least)
        if unsure is not None and unsure + 1 < known:
            known, departs, complete = unsure + 1, None, True
        elif unsure is None and k < evidence.room:
            complete = False  # it would have drafted on
    return Redraft(tokens[:known], departs, complete)


def _judge(evidence: Evidence, settings: Settings, p: Tensor, q: Tensor, drafted: Tensor, u: Tensor) -> Judgement:
    if settings.temperature == 0:
        return greedy_match(evidence.target_logits[: len(drafted) + 1], drafted)
    certain = evidence.draft_logits is None
    return rule_of(settings).judge(p, None if certain else q, drafted, u, evidence.uniforms[-1])


def _positions(
    evidence: Evidence, settings: Settings, p: Tensor, q: Tensor, draft: Redraft, u: Tensor, n: int, accepted: int
) -> list[Again]:
    """``n`` leading tokens stand; ``accepted`` of them are left where the text ended among them."""
    k, known = len(evidence.drafted), len(draft.token_ids)
    chance_p = p[:known].gather(-1, draft.token_ids[:, None])[:, 0]
    chance_q = q[:known].gather(-1, draft.token_ids[:, None])[:, 0]
    overlaps = overlap(p[:known], q[:known])
    limits = accept_probability(chance_p, chance_q)
    measures, thresholds = _lossy_tests(settings, p[:known], q[:known], chance_p)
    drawn = settings.temperature > 0 and not is_lossy(settings)
    positions = []
    for i in range(k):
        if i >= known:  # behind another token, or behind the end of a shorter draft
            verdict: Verdict = "unknown" if draft.departs is not None else "untested"
            positions.append(Again(evidence.drafted[i], verdict))
            continue
        rejected = i == accepted == n
        positions.append(
            Again(
                token_id=int(draft.token_ids[i]),
                verdict="accepted" if i < accepted else "rejected" if rejected else "untested",
                p=float(chance_p[i]),
                q=float(chance_q[i]),
                overlap=float(overlaps[i]),
                u=float(u[i]) if drawn else None,
                limit=float(limits[i]) if drawn else None,
                measure=None if measures is None else float(measures[i]),
                threshold=None if thresholds is None else float(thresholds[i]),
            )
        )
    return positions


def _lossy_tests(settings: Settings, p: Tensor, q: Tensor, p_drafted: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """What a lossy rule measures at each position [known], and what it holds it against."""
    if not is_lossy(settings):
        return None, None
    if settings.rule == "typical":
        return p_drafted, typical_threshold(p, settings.epsilon, settings.delta)
    return kl_divergence(p, q), torch.full_like(p_drafted, settings.kl_threshold)


def _same(evidence: Evidence, emitted: list[int]) -> bool:
    """Whether the record says the same; the end of a run may have cut a round short."""
    recorded = [token.token_id for token in evidence.round.emitted]
    return emitted[: len(recorded)] == recorded and (len(emitted) == len(recorded) or evidence.cut)


def _first(flags: Tensor) -> int | None:
    places = flags.nonzero()
    return int(places[0, 0]) if len(places) else None
