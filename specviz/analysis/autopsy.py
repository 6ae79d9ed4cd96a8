"""Why speculation was faster or slower than standard decoding on this race.

A round takes draft + verification + sampling seconds and yields τ tokens, a standard step takes B seconds and
yields one, so speedup = τ·B / (draft + verification + sampling) exactly. Each candidate cause is judged by a
counterfactual: the speedup had that one part been ideal and the rest as measured. The cause that would have
gained most is named, unless the times themselves show that they cannot be trusted.

Sentences live in the page's dictionaries: ``autopsy.outcome.<outcome>`` and ``autopsy.cause.<cause>``, whose
placeholders are the keys of ``Autopsy.values``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from specviz.analysis.metrics import Decoding, Speculation, Summary
from specviz.analysis.speedup import break_even_alpha

Outcome = Literal["faster", "slower", "even", "unknown"]
Cause = Literal[
    "acceptance_low",
    "draft_expensive",
    "verification_expensive",
    "overhead",
    "drafts_rare",
    "disturbed",
    "short_run",
    "no_data",
]

EVEN_WITHIN = 0.03
"""A smaller difference from 1 than this is called even: repeats of one run differ by as much."""

ENOUGH_TOKENS = 16
"""Below this the clock's noise and the first steps' warm-up decide."""

DISTURBED_MEAN = 1.5
"""A mean target forward this many times the usual one tells of pauses that neither run has caused."""

IMPOSSIBLE_OVERHEAD = 0.8
"""T(γ+1) is never below T(1); measured so far below, the machine was slower during the standard run."""


@dataclass(frozen=True, slots=True)
class Autopsy:
    """``counterfactuals`` maps each cause to the speedup without it; ``values`` are figures ready to be read."""

    outcome: Outcome
    cause: Cause
    counterfactuals: Mapping[Cause, float]
    values: Mapping[str, str]


def autopsy(summary: Summary) -> Autopsy:
    """Judge one race. A race without both runs is "unknown" because of "no_data"."""
    standard, speculative, speculation = summary.standard, summary.speculative, summary.speculation
    if not (standard and speculative and speculation and summary.speedup):
        return Autopsy("unknown", "no_data", {}, {})
    without = _counterfactuals(standard, speculative, speculation, summary.speedup)
    cause = _cause(without, summary, standard, speculative, speculation)
    return Autopsy(
        outcome=_outcome(summary.speedup),
        cause=cause,
        counterfactuals=without,
        values=_values(summary, speculative, speculation, without.get(cause, summary.speedup)),
    )


def _outcome(speedup: float) -> Outcome:
    if abs(speedup - 1) < EVEN_WITHIN:
        return "even"
    return "faster" if speedup > 1 else "slower"


def _cause(
    without: Mapping[Cause, float],
    summary: Summary,
    standard: Decoding,
    speculative: Decoding,
    speculation: Speculation,
) -> Cause:
    if min(standard.tokens, speculative.tokens) < ENOUGH_TOKENS:
        return "short_run"
    if _disturbed(summary, standard, speculative):
        return "disturbed"
    if not speculation.drafted:
        return "drafts_rare"
    return max(without, key=lambda cause: without[cause])


def _disturbed(summary: Summary, *runs: Decoding) -> bool:
    unsteady = any((run.target_step_s or 0) > DISTURBED_MEAN * (run.target_step_usual_s or 0) for run in runs)
    # A round takes at least one target step, so it cannot gain more than the tokens it emits.
    tau = summary.speculation.tau if summary.speculation else None
    too_good = summary.speedup is not None and tau is not None and summary.speedup > tau
    return unsteady or too_good or (summary.verification_overhead or 1) < IMPOSSIBLE_OVERHEAD


def _counterfactuals(
    standard: Decoding, speculative: Decoding, speculation: Speculation, speedup: float
) -> dict[Cause, float]:
    """The speedup to expect without each cause: with every draft accepted, draft steps that cost nothing, T(γ+1)
    no more than T(1), sampling no dearer than a standard step's, and only rounds in which something was drafted.
    """
    rounds, steps = speculative.target_forwards, standard.target_forwards
    tau = speculative.tokens / rounds
    draft, verify, sample = speculative.draft_s / rounds, speculative.verify_s / rounds, speculative.sample_s / rounds

    def with_round_of(seconds: float) -> float:
        return speedup * (draft + verify + sample) / seconds if seconds > 0 else speedup

    without: dict[Cause, float] = {
        "acceptance_low": speedup * max((1 + speculation.drafted / rounds) / tau, 1.0),
        "draft_expensive": with_round_of(verify + sample),
        "verification_expensive": with_round_of(draft + min(verify, standard.verify_s / steps) + sample),
        "overhead": with_round_of(draft + verify + min(sample, standard.sample_s / steps)),
    }
    if speculation.drafting_tok_s and standard.tok_s:
        without["drafts_rare"] = max(speedup, speculation.drafting_tok_s / standard.tok_s)
    return without


def _values(summary: Summary, speculative: Decoding, speculation: Speculation, ideal: float) -> dict[str, str]:
    rounds = speculative.target_forwards
    tau, gamma = speculative.tokens / rounds, speculation.drafted / rounds
    round_in_steps = tau / (summary.speedup or 1.0)  # what a round costs: the τ that would break even
    needed = break_even_alpha(gamma, 0.0, round_in_steps)
    shares = speculative.phase_shares or {}
    return {
        "speedup": f"{summary.speedup:.2f}",
        "ideal": f"{ideal:.2f}",
        "tokens": str(speculative.tokens),
        "tau": f"{tau:.2f}",
        "gamma": f"{gamma:.1f}",
        "cost": f"{summary.cost or 0.0:.2f}",
        "verification_overhead": f"{summary.verification_overhead or 1.0:.2f}",
        "alpha": _percent(speculation.alpha),
        "alpha_needed": ">100%" if needed is None else _percent(needed),
        "drafting_rounds": _percent(speculation.drafting_rounds / rounds),
        **{f"{phase}_share": _percent(share) for phase, share in shares.items()},
    }


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"
