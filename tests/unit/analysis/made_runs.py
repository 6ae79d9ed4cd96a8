"""Small records with figures that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

from specviz.trace import Emitted, Position, Round, Run, Source, Step, Timing, Verdict

LETTERS: dict[str, Verdict] = {"a": "accepted", "r": "rejected", "u": "untested"}


def a_round(
    verdicts: str,
    emitted: int | None = None,
    *,
    index: int = 0,
    draft_s: Sequence[float] | None = None,
    verify_s: float = 0.05,
    sample_s: float = 0.0,
    overhead_s: float = 0.0,
    text: str = "x",
    lossy: bool = False,
) -> Round:
    """``verdicts`` spells a draft, e.g. "aaru"; it emits its accepted tokens and one more unless told otherwise."""
    drafted = tuple(
        Position(
            7, text, i, p=0.5, q=0.5, u=None if lossy else 0.5, verdict=LETTERS[v], overlap=0.6, top_p=(), top_q=()
        )
        for i, v in enumerate(verdicts)
    )
    count = verdicts.count("a") + 1 if emitted is None else emitted
    replaced: Source = "target" if lossy else "residual"
    last: Source = replaced if "r" in verdicts else "bonus"
    sources: tuple[Source, ...] = ("draft",) * (count - 1) + (last,)
    steps = tuple(draft_s) if draft_s is not None else (0.01,) * len(verdicts)
    return Round(
        index=index,
        context_length=10,
        drafted=drafted,
        emitted=tuple(Emitted(7, text, i, source) for i, source in enumerate(sources)),
        final_top_p=(),
        timing=Timing(0.0, steps, verify_s, sample_s, overhead_s),
    )


def speculative(*rounds: Round) -> Run:
    return Run("speculative", rounds, (), "max_tokens", prefill_s=0.3, text="")


def standard(tokens: int, *, step_s: float = 0.05, sample_s: float = 0.0, overhead_s: float = 0.0) -> Run:
    steps = tuple(
        Step(i, 10 + i, Emitted(7, "x", i, "target"), (), Timing(0.0, (), step_s, sample_s, overhead_s))
        for i in range(tokens)
    )
    return Run("standard", (), steps, "max_tokens", prefill_s=0.2, text="")
