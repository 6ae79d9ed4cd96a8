"""The record of a run: everything a person sees is drawn from it.

The engine yields these records, the page plays them, a file stores them. They are frozen, hold plain
values only, and know nothing of the rest of the project. Times are seconds on the run's clock, which
starts after the prefill and stands still while a record is being made (see ``Timing``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

SCHEMA_VERSION: Literal[1] = 1

Verdict = Literal["accepted", "rejected", "untested"]
Source = Literal["draft", "residual", "bonus", "target"]
RunKind = Literal["speculative", "standard"]
Quantization = Literal["int4-g32", "int4-g32-head4", "int4-g64", "int8"]
FinishReason = Literal["end_of_text", "max_tokens", "stop_string", "context_limit", "deadline", "cancelled"]

# Bounds for files from strangers: no honest run comes near them.
TokenId = Annotated[int, Field(ge=0, lt=2**24)]
Text = Annotated[str, Field(max_length=1_000_000)]
ShortText = Annotated[str, Field(max_length=1_000)]
Seconds = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1.000001, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**40)]


def _up_to(most: int, least: int = 0) -> Any:
    """How many of something; a bad file is left at its first fault, since millions of them would fill the memory."""
    return Field(min_length=least, max_length=most, fail_fast=True)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One token a distribution considers, with its probability."""

    token_id: TokenId
    text: ShortText
    prob: Probability


Candidates = Annotated[tuple[Candidate, ...], _up_to(64)]


@dataclass(frozen=True, slots=True)
class Position:
    """One drafted token and the evidence for its verdict.

    ``p`` and ``q`` are the probabilities of this token under target and draft, ``u`` the uniform draw it
    was tested with (``None`` where the rule draws nothing: at temperature 0 and under a lossy rule), ``overlap``
    the whole sum of min(p, q) over the vocabulary, the chance that rejection sampling accepts a token drafted here.
    ``residual`` is filled where a rejected token was replaced from it. ``glyph`` numbers what the reader sees as
    one character group.
    """

    token_id: TokenId
    text: ShortText
    glyph: Count
    p: Probability
    q: Probability
    u: Probability | None
    verdict: Verdict
    overlap: Probability
    top_p: Candidates
    top_q: Candidates
    residual: Candidates = ()


@dataclass(frozen=True, slots=True)
class Emitted:
    """One committed token and where it came from. Tokens of one ``glyph`` make one character together."""

    token_id: TokenId
    text: ShortText
    glyph: Count
    source: Source


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one round, on a clock that stands still while the round is being recorded.

    ``draft_s`` (one entry a draft step), ``verify_s`` and ``sample_s`` follow one another without gaps
    from ``start_s``; ``overhead_s`` is what recording cost, outside all of them.
    """

    start_s: Seconds
    draft_s: Annotated[tuple[Seconds, ...], Field(max_length=64)]
    verify_s: Seconds
    sample_s: Seconds
    overhead_s: Seconds

    @property
    def duration_s(self) -> float:
        """Seconds of decoding, recording left out."""
        return sum(self.draft_s) + self.verify_s + self.sample_s

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Round:
    """One draft phase, one target forward over ``len(drafted) + 1`` positions, and the verdicts.

    ``context_length`` counts the tokens (prompt and committed) before the round. ``final_top_p`` is the
    distribution the last emitted token was drawn from: the residual's p, or the bonus position's.
    """

    index: Count
    context_length: Count
    drafted: Annotated[tuple[Position, ...], _up_to(64)]
    emitted: Annotated[tuple[Emitted, ...], _up_to(65, least=1)]
    final_top_p: Candidates
    timing: Timing


@dataclass(frozen=True, slots=True)
class Step:
    """One ordinary decoding step: one target forward, one token."""

    index: Count
    context_length: Count
    emitted: Emitted
    top_p: Candidates
    timing: Timing


@dataclass(frozen=True, slots=True)
class Run:
    """One whole decoding, speculative or standard. ``text`` is what a reader gets, special tokens removed."""

    kind: RunKind
    rounds: Annotated[tuple[Round, ...], _up_to(100_000)]
    steps: Annotated[tuple[Step, ...], _up_to(100_000)]
    finish_reason: FinishReason
    prefill_s: Seconds
    text: Text
    peak_memory_bytes: Count | None = None

    @property
    def emitted(self) -> tuple[Emitted, ...]:
        """Every committed token, in order."""
        if self.kind == "standard":
            return tuple(step.emitted for step in self.steps)
        return tuple(token for round_ in self.rounds for token in round_.emitted)

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token.token_id for token in self.emitted)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the visitor asked for. ``quantization`` is for the drafter ``quantized-self`` alone.

    ``min_confidence`` > 0 lets a drafter stop early once its own token falls below that probability. ``epsilon`` and
    ``delta`` are the rule typical's, ``kl_threshold`` (nats) is kl-threshold's.
    """

    drafter: ShortText
    gamma: Annotated[int, Field(ge=1, le=64)]
    temperature: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
    top_k: Annotated[int, Field(ge=0, lt=2**24)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    max_new_tokens: Annotated[int, Field(ge=1, le=1_000_000)]
    rule: ShortText
    quantization: Quantization | Literal[""] = ""
    min_confidence: Probability = 0.0
    stop: Annotated[tuple[ShortText, ...], Field(max_length=16)] = ()
    epsilon: Probability = 0.09
    delta: Probability = 0.3
    kl_threshold: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 0.8


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model as it ran. ``quantization`` is e.g. "int4, groups of 64"; empty for the weights as loaded.

    ``attention``: how it was computed, "fused" (PyTorch's own) or "npu-fused-infer" (Ascend's for inference).
    """

    name: ShortText
    dtype: ShortText
    parameters: Count
    vocab_size: Count
    eos_token_ids: Annotated[tuple[TokenId, ...], Field(max_length=64)]
    quantization: ShortText = ""
    fingerprint: ShortText = ""
    attention: ShortText = "fused"


@dataclass(frozen=True, slots=True)
class Models:
    """``draft`` is None when nothing but text drafts (prompt lookup)."""

    target: ModelInfo
    draft: ModelInfo | None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it ran: names for people, versions for those who want to repeat it."""

    device: ShortText
    name: ShortText
    memory_bytes: Count
    threads: Count
    versions: Annotated[dict[ShortText, ShortText], Field(max_length=64)]


@dataclass(frozen=True, slots=True)
class Prompt:
    """``text`` as typed; ``token_ids`` as the target saw it, chat template applied."""

    text: Text
    token_ids: Annotated[tuple[TokenId, ...], _up_to(1_000_000, least=1)]


@dataclass(frozen=True, slots=True)
class Branch:
    """A run that goes on from inside another: the prompt's last ``tokens`` token ids are ``text`` taken over from it.

    ``first_row`` is the row of the seed's table of uniform numbers that the first round reads, so that a branch
    with nothing changed repeats the run it left.
    """

    tokens: Count
    text: Text
    first_row: Count


@dataclass(frozen=True, slots=True)
class Divergence:
    """First index at which two temperature-0 texts differ, and how near the target's logits for the two were.

    ``margin`` is the gap between the logits of the two tokens under one fresh target forward.
    """

    index: Count
    speculative: Candidate
    standard: Candidate
    margin: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything about one race. ``runs`` stand in the order they ran; ``recorded`` is an ISO date."""

    settings: Settings
    models: Models
    machine: Machine
    prompt: Prompt
    runs: Annotated[tuple[Run, ...], _up_to(8)]
    recorded: ShortText
    divergence: Divergence | None = None
    branch: Branch | None = None
    version: Literal[1] = SCHEMA_VERSION

    def run(self, kind: RunKind) -> Run | None:
        """The first run of this kind, if there is one."""
        return next((run for run in self.runs if run.kind == kind), None)


LOSSY_RULES = ("typical", "kl-threshold")


def is_lossy(settings: Settings) -> bool:
    """Whether the text may leave the target's distribution. At temperature 0 every rule is greedy match: it cannot."""
    return settings.rule in LOSSY_RULES and settings.temperature > 0


for _record in filter(dataclasses.is_dataclass, list(globals().values())):
    # Read by pydantic when it validates a file; strange keys are refused, not dropped.
    _record.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[union-attr]
