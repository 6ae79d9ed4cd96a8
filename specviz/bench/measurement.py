"""What one engine did with one prompt once."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.analysis.metrics import decoding, speculate
from specviz.trace import Run


@dataclass(frozen=True, slots=True)
class Measurement:
    """``tokens`` were committed in ``decode_s`` seconds after the prefill. What an engine does not tell is None."""

    tokens: int
    decode_s: float
    prefill_s: float
    alpha: float | None = None
    tau: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    sample_s: float | None = None
    overhead_s: float | None = None

    @property
    def tok_s(self) -> float | None:
        return self.tokens / self.decode_s if self.decode_s else None


def from_run(run: Run) -> Measurement:
    """The figures of a recorded run."""
    times = decoding([run], run.kind)
    assert times is not None
    figures = speculate(run.rounds) if run.kind == "speculative" else None
    return Measurement(
        tokens=times.tokens,
        decode_s=times.decode_s,
        prefill_s=times.prefill_s,
        alpha=figures.alpha if figures else None,
        tau=times.tokens / times.target_forwards if times.target_forwards else None,
        draft_s=times.draft_s,
        verify_s=times.verify_s,
        sample_s=times.sample_s,
        overhead_s=times.overhead_s,
    )
