"""Temperature-0 tokens, and the logits behind them, held against the CPU's.

Two computations in 16 bits differ in every logit a little, so the likeliest token may change where two are nearly
tied. Between transformers' forward and this project's, both bfloat16 on one CPU, the default target's logits differ by
5 times the dtype's rounding in the mean square of a row and by 26 times in their largest, relative to the row's own
spread (40 positions); the limits lie a little above.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.models.load import Draft
from specviz.selftest.report import NotApplicableError, Outcome
from specviz.selftest.subject import Subject, decode, quantized, read, read_in_blocks
from specviz.trace import RunKind

SUM_OF_MANY = 1e-5  # float32 rounds coarsest, but a sum of thousands of numbers depends on their order
TIE, ROW = 32, 16  # times the rounding


def rounding(dtype: torch.dtype) -> float:
    """How finely results in this dtype can be compared, relative to their size."""
    return max(torch.finfo(dtype).eps, SUM_OF_MANY)


def spread(logits: Tensor) -> Tensor:
    """Root mean square [...] of logits [..., V] about their mean: softmax does not see the mean."""
    return logits.std(-1, correction=0)


def tie(logits: Tensor, dtype: torch.dtype) -> float:
    """The margin in logits below which two tokens of a row [V] may change places."""
    return TIE * rounding(dtype) * float(spread(logits))


def tokens(subject: Subject, kind: RunKind, **drafting: str) -> Outcome:
    """Those of a run on the device, with that drafter."""
    if drafting.get("drafter") == "quantized-self":
        quantized(subject.pair, drafting["quantization"])
    if drafting.get("drafter") == "draft-model" and subject.pair.draft_source is None:
        raise NotApplicableError("No draft model was named.")
    run = decode(subject.pair, subject.settings(0.0, **drafting), kind)
    there, here = list(run.token_ids), subject.text
    limit = "the CPU's, but for near-ties"
    drafted = sum(len(round_.drafted) for round_ in run.rounds)
    accepted = sum(one.verdict == "accepted" for round_ in run.rounds for one in round_.drafted)
    detail = f"{accepted} of {drafted} drafted tokens accepted" if kind == "speculative" else ""
    place = next((i for i, (a, b) in enumerate(zip(there, here, strict=False)) if a != b), None)
    if place is None:
        return Outcome(len(there) == len(here), f"{len(there)} of {len(here)} tokens", limit, detail)
    row = subject.logits[place]
    margin, bound = float(row.max() - row[there[place]]), tie(row, subject.pair.target.dtype)
    measured = f"other at token {place + 1}, margin {margin:.3g}"
    return Outcome(margin <= bound, measured, f"near-tie, at most {bound:.3g}", detail)


def logits(subject: Subject, drafter: str = "", scheme: str = "") -> Outcome:
    """Along the CPU's text, of the target or of a model that drafts, by forwards of one row and of several."""
    if drafter == "draft-model" and subject.pair.draft_source is None:
        raise NotApplicableError("No draft model was named.")
    if drafter:
        there, here = _draft(subject, drafter, scheme)
        module, model = here.module, there.model
    else:
        module, model = subject.reference.target_module, subject.pair.target
    ids, first = [*subject.prompt_ids, *subject.text], len(subject.prompt_ids) - 1
    ids = [min(token, model.vocab_size - 1) for token in ids]
    # The CPU's packed kernels compute in bfloat16 whatever the model's dtype is.
    coarser = max(model.dtype, torch.bfloat16 if scheme else model.dtype, key=rounding)
    return compare(read_in_blocks(model, ids, first), read(module, ids)[first:], coarser)


def _draft(subject: Subject, drafter: str, scheme: str) -> tuple[Draft, Draft]:
    if drafter == "quantized-self":
        return quantized(subject.pair, scheme), quantized(subject.reference, scheme)
    return subject.pair.draft(drafter), subject.reference.draft(drafter)


def compare(there: Tensor, here: Tensor, dtype: torch.dtype) -> Outcome:
    """Logits [n, V] of the device and of the CPU: how far apart, and whether they differ in more than near-ties."""
    difference = (there - there.mean(-1, keepdim=True)) - (here - here.mean(-1, keepdim=True))
    relative = float((spread(difference) / spread(here)).nan_to_num(nan=torch.inf).max())
    largest = float(difference.abs().nan_to_num(nan=torch.inf).max())
    chosen = there.argmax(-1)
    margins = here.amax(-1) - here.gather(-1, chosen[:, None])[:, 0]
    wrong = sum(float(margin) > tie(row, dtype) for margin, row in zip(margins, here, strict=True))
    limit = ROW * rounding(dtype)
    return Outcome(
        passed=relative <= limit and not wrong,
        measured=f"{relative:.2g} of the spread; argmax {int((margins == 0).sum())} of {len(here)}",
        limit=f"{limit:.2g}; other argmax only at near-ties",
        detail=f"largest difference of a logit {largest:.3g}; {wrong} rows choose another token without a near-tie",
    )
