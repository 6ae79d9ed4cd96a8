"""What the models said in a recorded round, computed again from its prefix: logits, and the full p and q."""

from __future__ import annotations

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
    target_logits, draft_logits = logits_at(trace, round_index, target, drafter)
    return distributions(target_logits, None if sampling.greedy else draft_logits, drafted, sampling)


@torch.inference_mode()
def logits_at(trace: Trace, round_index: int, target: LanguageModel, drafter: Drafter) -> tuple[Tensor, Tensor | None]:
    """The target's logits [k+1, V] and the draft's [k, V] (None where drafts are certain), float32 on the CPU.

    Uses both caches. Raises UserError as ``p_and_q_at`` does.
    """
    drafted = [position.token_id for position in round_at(trace, round_index).drafted]
    context = context_of(trace, round_index)
    if max(context + drafted) >= target.vocab_size:
        raise UserError("This trace was made with another model: it holds token ids that the loaded one does not have.")
    limit = min(target.context_limit, drafter.context_limit)
    if len(context) + len(drafted) > limit:
        raise UserError(f"This trace was made with another model: the loaded one reads {limit:,} tokens at most.")
    target.allocate(len(context) + len(drafted))
    prefill(target, context[:-1])
    logits = target.forward(torch.tensor(context[-1:] + drafted, device=target.device), keep=len(drafted) + 1)
    drafts = drafter.logits(context, drafted) if drafted else None
    return logits.float().cpu(), None if drafts is None else drafts.cpu()


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
