"""The exhibits that bend the distribution, at one position: what ``redraw.Sampler`` becomes with the broken part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.decoding import redraw
from specviz.decoding.distribution import Sampling, one_hot, probabilities
from specviz.decoding.redraw import Sampler
from specviz.errors import UserError
from specviz.museum.drafters import PLAIN, few, without
from specviz.museum.judges import ARTICLE_THRESHOLD


@dataclass(frozen=True, slots=True)
class Position:
    """A recorded position. ``p``, ``q`` [V]; ``draft_logits`` [V], None where drafts are certain.

    ``first_q`` [V] is the round's first q, ``before`` the tokens drafted ahead of this position.
    """

    p: Tensor
    q: Tensor
    draft_logits: Tensor | None
    sampling: Sampling
    first_q: Tensor
    before: list[int]


def u_stuck_at_zero(position: Position) -> Sampler:
    """See ``judges.u_stuck_at_zero``: 0 is below every ratio that is not 0 itself."""
    honest = redraw.rejection_sampling(position.p, position.q)
    return replace(honest, accept=(honest.accept > 0).float())


def unprocessed_q(position: Position) -> Sampler:
    """See ``drafters.UnprocessedQ``."""
    logits = _drawn_from(position)
    return _scored(
        position.p, drawn=probabilities(logits, few(position.sampling)), reported=probabilities(logits, PLAIN)
    )


def residual_is_p(position: Position) -> Sampler:
    """See ``judges.residual_is_p``."""
    return replace(redraw.rejection_sampling(position.p, position.q), replacement=position.p)


def greedy_scored_as_sampled(position: Position) -> Sampler:
    """See ``drafters.GreedyScoredAsSampled``."""
    likeliest = one_hot(_drawn_from(position).argmax(-1), len(position.p))
    return _scored(position.p, drawn=likeliest, reported=position.q)


def without_replacement(position: Position) -> Sampler:
    """See ``drafters.WithoutReplacement``. The first position is drawn as it should be."""
    _drawn_from(position)
    if not position.before:
        raise UserError("Drawing without replacement shows from the second drafted position on. Choose a later one.")
    drawn = [torch.tensor([token]) for token in position.before]
    return _scored(position.p, drawn=without(position.first_q[None], drawn)[0], reported=position.q)


def kl_acceptance(position: Position) -> Sampler:
    """See ``judges.kl_acceptance``."""
    return redraw.kl_threshold(position.p, position.q, ARTICLE_THRESHOLD)


BENDING: dict[str, Callable[[Position], Sampler]] = {
    "u-stuck-at-zero": u_stuck_at_zero,
    "unprocessed-q": unprocessed_q,
    "residual-is-p": residual_is_p,
    "greedy-scored-as-sampled": greedy_scored_as_sampled,
    "without-replacement": without_replacement,
    "kl-acceptance": kl_acceptance,
}


def broken_sampler(name: str, position: Position) -> Sampler:
    """The position with the broken part in place.

    At temperature 0 no exhibit shows: nothing is drawn, tested with u or replaced from a residual there, the greedy
    match compares two choices. Raises UserError if the exhibit does not bend the distribution, or not here.
    """
    if name not in BENDING:
        raise UserError(f"The exhibit {name} does not bend the distribution; its own statistic shows it.")
    if position.sampling.greedy:
        return redraw.greedy_match(position.p, position.q)
    return BENDING[name](position)


def _scored(p: Tensor, *, drawn: Tensor, reported: Tensor) -> Sampler:
    """Rejection sampling against a q that the token was not drawn from."""
    return replace(redraw.rejection_sampling(p, reported), draft=drawn)


def _drawn_from(position: Position) -> Tensor:
    if position.draft_logits is None:
        raise UserError("This exhibit needs a draft that is drawn from a distribution; prompt lookup only copies.")
    return position.draft_logits
