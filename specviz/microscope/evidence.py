"""What a recorded round was decided on: both models' logits and the round's uniform numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from specviz.decoding.distribution import Sampling, uniforms
from specviz.decoding.replay import check_ids, context_of, distributions, retrace, round_at, sampling_of
from specviz.errors import UserError
from specviz.models.load import Pair
from specviz.race import make_drafter
from specviz.trace import Branch, Round, Settings, Trace


@dataclass(frozen=True, slots=True)
class Evidence:
    """A round and all it was judged by; tensors are float32 on the CPU and no model is needed any more.

    ``target_logits`` [k+1, V]; ``draft_logits`` [k, V], −∞ for ids that the draft lacks, or None where drafts are
    certain; ``uniforms`` [2γ+1]: the round's row of the run's table (γ draws, γ tests, the final token's);
    ``row`` counts the rounds before it, ``context`` is every token id before it, the last ``taken`` of them generated;
    ``left``: how many more might be committed; ``cut``: whether the run ended with it, perhaps before it was complete;
    ``texts``: what each token id reads as.
    """

    settings: Settings
    round: Round
    target_logits: Tensor
    draft_logits: Tensor | None
    uniforms: Tensor
    row: int
    context: list[int]
    taken: int
    left: int
    cut: bool
    texts: Sequence[str]
    eos: frozenset[int]
    _last: dict[Sampling, tuple[Tensor, Tensor]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def drafted(self) -> list[int]:
        return [position.token_id for position in self.round.drafted]

    @property
    def room(self) -> int:
        """How many tokens it might have drafted."""
        return min(self.settings.gamma, self.left - 1)

    @property
    def bytes(self) -> int:
        """What it weighs in memory."""
        tensors = [self.target_logits, *([] if self.draft_logits is None else [self.draft_logits])]
        return sum(tensor.nbytes for tensor in tensors)

    def p_and_q(self, sampling: Sampling) -> tuple[Tensor, Tensor]:
        """p [k+1, V] and q [k, V] of the recorded tokens' positions, were this the sampling."""
        known = self._last.get(sampling)  # whoever drags u asks again and again
        if known is None:
            # A recorded greedy draft is the argmax by definition; logits of another machine may be a rounding away.
            certain = sampling.greedy and self.settings.temperature == 0
            logits = None if certain else self.draft_logits
            known = distributions(self.target_logits, logits, self.drafted, sampling)
            self._last.clear()
            self._last[sampling] = known
        return known

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
    return next(gather_all(trace, range(round_index, round_index + 1), pair))


def gather_all(trace: Trace, wanted: range, pair: Pair, poll: Callable[[], bool] = lambda: False) -> Iterator[Evidence]:
    """``gather`` of consecutive rounds in one go through the run; ``poll`` ends it early."""
    check_models(trace, pair)
    drafter, _ = make_drafter(pair, trace.settings)
    settings, start = trace.settings, trace.branch or Branch(0, "", 0)
    table = uniforms(settings.seed, start.first_row + wanted.stop, 2 * settings.gamma + 1)[start.first_row :]
    limit = min(pair.target.context_limit, drafter.context_limit)
    run = trace.run("speculative")
    last = len(run.rounds) - 1 if run else 0
    for index, target_logits, draft_logits in retrace(trace, wanted, pair.target, drafter, poll):
        context = context_of(trace, index)
        committed = len(context) - len(trace.prompt.token_ids)
        yield Evidence(
            settings=settings,
            round=round_at(trace, index),
            target_logits=target_logits,
            draft_logits=draft_logits,
            uniforms=table[index],
            row=start.first_row + index,
            context=context,
            taken=start.tokens + committed,
            left=min(settings.max_new_tokens - committed, limit - len(context)),
            cut=index == last,
            texts=pair.texts,
            eos=frozenset(pair.eos_token_ids),
        )


def check_models(trace: Trace, pair: Pair) -> None:
    """Raises UserError if the trace was made with other models than these, or holds what they do not know."""
    _, draft = make_drafter(pair, trace.settings)
    for role, recorded, loaded in (
        ("target", trace.models.target, pair.target_info),
        ("draft", trace.models.draft, draft),
    ):
        if recorded is None or loaded is None:
            continue
        if recorded.fingerprint != loaded.fingerprint:
            raise UserError(
                f"This run's {role} was {recorded.name}; here it is {loaded.name} with other weights. Its record is "
                "shown; what was not recorded needs the same models."
            )
    check_ids(trace, pair.target)  # what a file says of its models may be wrong
