"""What a recorded round was decided on: both models' logits and the round's uniform numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from specviz.decoding.distribution import Sampling, uniforms
from specviz.decoding.replay import context_of, distributions, logits_at, round_at, sampling_of
from specviz.errors import UserError
from specviz.models.load import Pair
from specviz.race import make_drafter
from specviz.trace import Models, Round, Settings, Trace


@dataclass(frozen=True, slots=True)
class Evidence:
    """A round and all it was judged by; tensors are float32 on the CPU and no model is needed any more.

    ``target_logits`` [k+1, V]; ``draft_logits`` [k, V], −∞ for ids that the draft lacks, or None where drafts are
    certain; ``uniforms`` [2γ+1]: the round's row of the run's table (γ draws, γ tests, the final token's);
    ``context``: every token id before the round; ``texts``: what each token id reads as.
    """

    settings: Settings
    round: Round
    target_logits: Tensor
    draft_logits: Tensor | None
    uniforms: Tensor
    context: list[int]
    texts: Sequence[str]
    eos: frozenset[int]

    @property
    def drafted(self) -> list[int]:
        return [position.token_id for position in self.round.drafted]

    def p_and_q(self, sampling: Sampling) -> tuple[Tensor, Tensor]:
        """p [k+1, V] and q [k, V] of the recorded tokens' positions, were this the sampling."""
        # A recorded greedy draft is the argmax by definition; recomputed logits may be a rounding away from a tie.
        certain = sampling.greedy and self.settings.temperature == 0
        return distributions(self.target_logits, None if certain else self.draft_logits, self.drafted, sampling)

    @property
    def difference(self) -> float:
        """The largest difference between the recorded p and q of the drafted tokens and the recomputed ones."""
        p, q = self.p_and_q(sampling_of(self.settings))
        return max(
            (
                max(abs(float(p[i, one.token_id]) - one.p), abs(float(q[i, one.token_id]) - one.q))
                for i, one in enumerate(self.round.drafted)
            ),
            default=0.0,
        )


def gather(trace: Trace, round_index: int, pair: Pair) -> Evidence:
    """Ask the models again about a round of a trace; no run may be in progress.

    Raises UserError if there is no such round or the trace was made with other models than these.
    """
    round_ = round_at(trace, round_index)
    drafter, draft_info = make_drafter(pair, trace.settings)
    _check_models(trace, Models(pair.target_info, draft_info))
    target_logits, draft_logits = logits_at(trace, round_index, pair.target, drafter)
    row = round_index + (trace.branch.first_row if trace.branch else 0)
    table = uniforms(trace.settings.seed, row + 1, 2 * trace.settings.gamma + 1)
    return Evidence(
        settings=trace.settings,
        round=round_,
        target_logits=target_logits,
        draft_logits=draft_logits,
        uniforms=table[row],
        context=context_of(trace, round_index),
        texts=pair.texts,
        eos=frozenset(pair.eos_token_ids),
    )


def _check_models(trace: Trace, here: Models) -> None:
    for role, recorded, loaded in (
        ("target", trace.models.target, here.target),
        ("draft", trace.models.draft, here.draft),
    ):
        if recorded is None or loaded is None:
            continue
        if (recorded.name, recorded.fingerprint) != (loaded.name, loaded.fingerprint):
            raise UserError(
                f"This run's {role} was {recorded.name}; here it is {loaded.name}, with other weights. Its record is "
                "shown; full distributions need the same models."
            )
