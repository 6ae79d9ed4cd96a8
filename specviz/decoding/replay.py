"""Full p and q vectors of a recorded round, computed again from its prefix."""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.decoding.distribution import Sampling, one_hot, probabilities
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.prefill import prefill
from specviz.errors import UserError
from specviz.models.base import LanguageModel
from specviz.trace import Trace


@torch.inference_mode()
def p_and_q_at(trace: Trace, round_index: int, target: LanguageModel, drafter: Drafter) -> tuple[Tensor, Tensor]:
    """(p [k+1, V], q [k, V]) float32 on the CPU, for the k tokens drafted in a round of the speculative run.

    Works for an imported trace as for a live one: models and prefix decide everything. Uses both caches, so no
    run may be in progress. Raises UserError if the trace has no such round or does not fit the model.
    """
    run = trace.run("speculative")
    if run is None or not 0 <= round_index < len(run.rounds):
        raise UserError(f"This trace has no speculative round {round_index + 1}.")
    before = [token.token_id for earlier in run.rounds[:round_index] for token in earlier.emitted]
    context = [*trace.prompt.token_ids, *before]
    drafted = [position.token_id for position in run.rounds[round_index].drafted]
    if max(context + drafted) >= target.vocab_size:
        raise UserError("This trace was made with another model: it holds token ids that the loaded one does not have.")
    limit = min(target.context_limit, drafter.context_limit)
    if len(context) + len(drafted) > limit:
        raise UserError(f"This trace was made with another model: the loaded one reads {limit:,} tokens at most.")
    settings = trace.settings
    sampling = Sampling(settings.temperature, settings.top_k, settings.top_p)

    target.allocate(len(context) + len(drafted))
    prefill(target, context[:-1])
    logits = target.forward(torch.tensor(context[-1:] + drafted, device=target.device), keep=len(drafted) + 1)
    p = one_hot(logits.argmax(-1), target.vocab_size) if sampling.greedy else probabilities(logits, sampling)
    q = drafter.score(context, drafted) if drafted else p[:0]
    return p.cpu(), q.cpu()
