"""What the models said in a recorded round, computed again: logits, and the full p and q."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from specviz.decoding.distribution import Sampling, one_hot, probabilities
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.prefill import prefill
from specviz.errors import UserError
from specviz.models.base import LanguageModel
from specviz.trace import Round, Settings, Trace


def p_and_q_at(trace: Trace, round_index: int, target: LanguageModel, drafter: Drafter) -> tuple[Tensor, Tensor]:
    """(p [k+1, V], q [k, V]) float32 on the CPU, for the k tokens drafted in a round of the speculative run.

    Works for an imported trace as for a live one: models and prefix decide everything. Uses both caches, so no
    run may be in progress. Raises UserError if the trace has no such round or does not fit the model.
    """
    sampling = sampling_of(trace.settings)
    drafted = [position.token_id for position in round_at(trace, round_index).drafted]
    ((_, target_logits, draft_logits),) = retrace(trace, range(round_index, round_index + 1), target, drafter)
    return distributions(target_logits, None if sampling.greedy else draft_logits, drafted, sampling)


@torch.inference_mode()
def retrace(
    trace: Trace,
    wanted: range,
    target: LanguageModel,
    drafter: Drafter,
    poll: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, Tensor, Tensor | None]]:
    """Go through the speculative run again up to the last wanted round, by the same forwards the run made.

    Yields (index, the target's logits [k+1, V], the draft's [k, V] or None where drafts are certain) of each wanted
    round, float32 on the CPU: where the same models run on the same machine these are the very numbers of the run.
    Uses both caches; ``poll`` ends it early. Raises UserError as ``p_and_q_at`` does.
    """
    last = round_at(trace, wanted[-1]).index
    run = trace.run("speculative")
    assert run is not None
    rounds, prompt_ids = run.rounds[: last + 1], list(trace.prompt.token_ids)
    drafts = [[position.token_id for position in round_.drafted] for round_ in rounds]
    longest = max(round_.context_length + len(drafted) for round_, drafted in zip(rounds, drafts, strict=True))
    check_ids(trace, target)
    _check_length(longest, target, drafter)
    target.allocate(longest)
    prefill(target, prompt_ids[:-1])
    drafter.start(prompt_ids, longest)
    opening = prompt_ids[-1]
    for round_, drafted in zip(rounds, drafts, strict=True):
        if poll():
            return
        draft_logits = drafter.retrace(drafted) if drafted else None
        block = torch.tensor([opening, *drafted], device=target.device)
        logits = target.forward(block, keep=len(block))
        if round_.index in wanted:
            yield round_.index, logits.float().cpu(), None if draft_logits is None else draft_logits.cpu()
        committed = [token.token_id for token in round_.emitted]
        target.rollback(round_.context_length + len(committed) - 1)
        drafter.commit(committed)
        opening = committed[-1]


def check_ids(trace: Trace, target: LanguageModel) -> None:
    """Raises UserError if the prompt or the speculative run holds a token id that the target does not have."""
    run = trace.run("speculative")
    rounds = run.rounds if run else ()
    largest = max(
        itertools.chain(
            trace.prompt.token_ids,
            (position.token_id for round_ in rounds for position in round_.drafted),
            (token.token_id for round_ in rounds for token in round_.emitted),
        )
    )
    if largest >= target.vocab_size:
        raise UserError("This trace was made with another model: it holds token ids that the loaded one does not have.")


def _check_length(length: int, target: LanguageModel, drafter: Drafter) -> None:
    limit = min(target.context_limit, drafter.context_limit)
    if length > limit:
        raise UserError(f"This trace was made with another model: the loaded one reads {limit:,} tokens at most.")


def distributions(
    target_logits: Tensor, draft_logits: Tensor | None, drafted: list[int], sampling: Sampling
) -> tuple[Tensor, Tensor]:
    """p [k+1, V] and q [k, V] as a run with this ``sampling`` compares them; certain drafts are one-hot."""
    vocab_size = target_logits.shape[-1]
    p = one_hot(target_logits.argmax(-1), vocab_size) if sampling.greedy else probabilities(target_logits, sampling)
    if draft_logits is None:
        return p, one_hot(torch.tensor(drafted, dtype=torch.int64), vocab_size)
    if sampling.greedy:
        return p, one_hot(draft_logits.argmax(-1), vocab_size)
    return p, probabilities(draft_logits, sampling)


def sampling_of(settings: Settings) -> Sampling:
    """How a run with these settings turns logits into probabilities."""
    return Sampling(settings.temperature, settings.top_k, settings.top_p)


def round_at(trace: Trace, index: int) -> Round:
    """A round of the speculative run. Raises UserError if there is none with this index."""
    run = trace.run("speculative")
    if run is None or not 0 <= index < len(run.rounds):
        raise UserError(f"This trace has no speculative round {index + 1}.")
    return run.rounds[index]


def context_of(trace: Trace, round_index: int) -> list[int]:
    """Every token id before a round: the prompt's and the committed ones."""
    run = trace.run("speculative")
    assert run is not None
    before = [token.token_id for earlier in run.rounds[:round_index] for token in earlier.emitted]
    return [*trace.prompt.token_ids, *before]
