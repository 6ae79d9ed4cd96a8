"""Every figure that is shown, derived from the record alone.

What is counted: committed tokens (never chunks, never drafts), and the decode spans of ``Timing`` (never
recording, animation or prefill). A draft behind a rejection was not compared and counts neither way.
A figure whose data is missing is None, so the same functions serve a run that has only begun.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median

from specviz.analysis.speedup import expected_tokens
from specviz.trace import Position, Round, Run, RunKind, Step


@dataclass(frozen=True, slots=True)
class Decoding:
    """Counts and times common to both kinds of run. Seconds are totals over the whole run.

    ``target_step_usual_s`` is the exception: the mean time of a target forward if each had taken the median of those
    over as many positions. A true mean far above it says that something else kept the machine busy.
    """

    tokens: int
    target_forwards: int
    decode_s: float
    prefill_s: float
    draft_s: float
    verify_s: float
    sample_s: float
    overhead_s: float
    target_step_usual_s: float | None

    @property
    def tok_s(self) -> float | None:
        """Committed tokens per second of decoding."""
        return _ratio(self.tokens, self.decode_s)

    @property
    def target_step_s(self) -> float | None:
        """Mean seconds of one target forward, over whatever number of positions it had."""
        return _ratio(self.verify_s, self.target_forwards)

    @property
    def overhead_share(self) -> float | None:
        """What recording took of recording and decoding together."""
        return _ratio(self.overhead_s, self.overhead_s + self.decode_s)

    @property
    def phase_shares(self) -> dict[str, float] | None:
        """Draft, verification and sampling as parts of the decode time; they sum to 1."""
        if not self.decode_s:
            return None
        return {
            "draft": self.draft_s / self.decode_s,
            "verify": self.verify_s / self.decode_s,
            "sample": self.sample_s / self.decode_s,
        }


@dataclass(frozen=True, slots=True)
class Speculation:
    """What the verdicts say.

    ``alpha`` is accepted ÷ tested. ``conditional[i]`` is the same at position i+1 of a draft, given that all
    before it were accepted; ``survival[i]`` is the chance that a draft is accepted up to position i+1: the
    product of the conditional rates, so that a draft which stopped early is not taken for a rejected one.
    ``drafting_rounds`` counts the rounds in which anything was drafted (prompt lookup often finds nothing), and
    ``drafting_tok_s`` is the speed in these alone.
    ``mean_overlap`` is the mean of Σ min(p, q) where tested: the acceptance to expect of rejection sampling, free of
    the luck of u. All counts go by verdicts: what a rejected token was replaced from does not matter.
    """

    drafting_rounds: int
    drafting_tok_s: float | None
    drafted: int
    tested: int
    accepted: int
    alpha: float | None
    conditional: tuple[float | None, ...]
    survival: tuple[float | None, ...]
    mean_overlap: float | None
    tau: float | None
    forwards_saved: int
    draft_step_s: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Both runs and what they say together. Comparisons are None until both have begun.

    ``speedup`` is the ratio of tok/s; ``cost`` is c, a drafted token's time over a standard step's target
    forward; ``verification_overhead`` is T(γ+1)/T(1) as it came out; ``predicted_speedup`` is what the
    i.i.d. model of ``speedup.py`` makes of α, c and that overhead.
    """

    standard: Decoding | None
    speculative: Decoding | None
    speculation: Speculation | None
    speedup: float | None
    cost: float | None
    verification_overhead: float | None
    predicted_speedup: float | None
    overhead_share: float | None


def summarize(runs: Iterable[Run]) -> Summary:
    """All figures of one race; several runs of a kind are pooled as if they were one."""
    runs = tuple(runs)
    rounds = [round_ for run in runs for round_ in run.rounds]
    standard, speculative = decoding(runs, "standard"), decoding(runs, "speculative")
    speculation = speculate(rounds) if speculative else None
    target_step = standard.target_step_s if standard else None
    cost = _ratio(speculation.draft_step_s if speculation else None, target_step)
    overhead = _ratio(speculative.target_step_s if speculative else None, target_step)
    return Summary(
        standard=standard,
        speculative=speculative,
        speculation=speculation,
        speedup=_ratio(speculative.tok_s if speculative else None, standard.tok_s if standard else None),
        cost=cost,
        verification_overhead=overhead,
        predicted_speedup=_predicted(rounds, speculation.alpha if speculation else None, cost, overhead),
        overhead_share=_overhead_share(standard, speculative),
    )


def as_dict(summary: Summary) -> dict[str, object]:
    """Plain values for the wire, the derived figures of each run among them."""
    plain = asdict(summary)
    for kind in ("standard", "speculative"):
        run: Decoding | None = getattr(summary, kind)
        if run:
            plain[kind] |= {
                "tok_s": run.tok_s,
                "target_step_s": run.target_step_s,
                "overhead_share": run.overhead_share,
                "phase_shares": run.phase_shares,
            }
    return plain


def decoding(runs: Iterable[Run], kind: RunKind) -> Decoding | None:
    """Counts and times of the runs of one kind; None if there is none."""
    chosen = [run for run in runs if run.kind == kind]
    if not chosen:
        return None
    records: list[Round | Step] = []
    for run in chosen:
        records += (*run.rounds, *run.steps)
    timings = [record.timing for record in records]
    return Decoding(
        tokens=sum(len(run.emitted) for run in chosen),
        target_forwards=len(records),
        decode_s=sum(timing.duration_s for timing in timings),
        prefill_s=sum(run.prefill_s for run in chosen),
        draft_s=sum(sum(timing.draft_s) for timing in timings),
        verify_s=sum(timing.verify_s for timing in timings),
        sample_s=sum(timing.sample_s for timing in timings),
        overhead_s=sum(timing.overhead_s for timing in timings),
        target_step_usual_s=_usual_s(records) if records else None,
    )


def _usual_s(records: Iterable[Round | Step]) -> float:
    by_size: dict[int, list[float]] = defaultdict(list)
    for record in records:
        by_size[len(record.drafted) if isinstance(record, Round) else 0].append(record.timing.verify_s)
    sizes = by_size.values()
    return fmean(map(median, sizes), weights=map(len, sizes))


def speculate(rounds: Sequence[Round]) -> Speculation:
    """Acceptance over these rounds."""
    drafting = [round_ for round_ in rounds if round_.drafted]
    tested = [position for round_ in rounds for position in round_.drafted if position.verdict != "untested"]
    drafted = sum(len(round_.drafted) for round_ in rounds)
    accepted = sum(position.verdict == "accepted" for position in tested)
    tokens = sum(len(round_.emitted) for round_ in rounds)
    conditional = _conditional(rounds)
    return Speculation(
        drafting_rounds=len(drafting),
        drafting_tok_s=_ratio(
            sum(len(one.emitted) for one in drafting), sum(one.timing.duration_s for one in drafting)
        ),
        drafted=drafted,
        tested=len(tested),
        accepted=accepted,
        alpha=_ratio(accepted, len(tested)),
        conditional=conditional,
        survival=_survival(conditional),
        mean_overlap=fmean(position.overlap for position in tested) if tested else None,
        tau=_ratio(tokens, len(rounds)),
        forwards_saved=tokens - len(rounds),
        draft_step_s=_ratio(sum(sum(round_.timing.draft_s) for round_ in rounds), drafted),
    )


def _conditional(rounds: Sequence[Round]) -> tuple[float | None, ...]:
    """Acceptance at each position among the drafts that were tested there; None where none was."""
    longest = max((len(round_.drafted) for round_ in rounds), default=0)
    columns: list[list[Position]] = [
        [round_.drafted[i] for round_ in rounds if len(round_.drafted) > i and round_.drafted[i].verdict != "untested"]
        for i in range(longest)
    ]
    return tuple(_ratio(sum(p.verdict == "accepted" for p in column), len(column)) for column in columns)


def _survival(conditional: Sequence[float | None]) -> tuple[float | None, ...]:
    """Running product of the conditional rates. Once it is 0 it stays 0; past an unknown rate it is unknown."""
    curve: list[float | None] = []
    alive: float | None = 1.0
    for rate in conditional:
        if alive:
            alive = None if rate is None else alive * rate
        curve.append(alive)
    return tuple(curve)


def _predicted(
    rounds: Sequence[Round], alpha: float | None, cost: float | None, overhead: float | None
) -> float | None:
    """The i.i.d. model's speedup, each round taken at the number of tokens it really drafted."""
    if alpha is None or cost is None or overhead is None:
        return None
    tau = fmean(expected_tokens(alpha, len(round_.drafted)) for round_ in rounds)
    gamma = fmean(len(round_.drafted) for round_ in rounds)
    return tau / (gamma * cost + overhead)


def _overhead_share(*decodings: Decoding | None) -> float | None:
    present = [decoding for decoding in decodings if decoding]
    recording = sum(decoding.overhead_s for decoding in present)
    return _ratio(recording, recording + sum(decoding.decode_s for decoding in present))


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
