"""The tree of prefixes that a round can have accepted, walked by many rounds together."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.analysis.losslessness import ChiSquare, total_variation
from specviz.decoding.distribution import as_law, one_hot, probabilities
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.prefill import prefill
from specviz.decoding.redraw import Sampler, sampler_of
from specviz.decoding.replay import sampling_of
from specviz.errors import UserError
from specviz.lab.finding import fit
from specviz.lab.redraw import output_law
from specviz.models.base import LanguageModel
from specviz.models.load import Pair
from specviz.race import make_drafter
from specviz.trace import Settings


@dataclass(frozen=True, slots=True)
class Visit:
    """What the ``n`` rounds did that came to one prefix of ``depth`` accepted tokens; ``continued`` went deeper.

    What they emitted there is held ``against_p``; ``tv_sampled`` and ``tv_exact`` are the distances from p.
    """

    depth: int
    n: int
    continued: int
    tv_sampled: float
    tv_exact: float
    against_p: ChiSquare


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Rounds that accepted ``prefix``: their ``rows`` of the table, and whether a token is drafted next."""

    prefix: tuple[int, ...]
    rows: NDArray[np.int64]
    drafting: bool


class Tree:
    """The round behind ``context`` under ``settings``, asked of the models prefix by prefix.

    Raises UserError if the context leaves no room for a round.
    """

    def __init__(self, pair: Pair, settings: Settings, context: list[int]) -> None:
        drafter, _ = make_drafter(pair, settings)
        room = min(pair.target.context_limit, drafter.context_limit) - len(context)
        if room < 1:
            raise UserError("The text before this round fills the models' context. Choose an earlier round.")
        self.settings = settings
        self.sampling = sampling_of(settings)
        self.eos = sorted(pair.eos_token_ids)
        self.gamma = min(settings.gamma, room)
        self._target = _Reader(pair.target, context, self.gamma)
        self._draft: _Reader | None = None
        self._copied: list[int] = []
        if isinstance(drafter, DraftModel):
            self._draft = _Reader(drafter.model, context, self.gamma, drafter.shared_vocab)
        else:
            drafter.start(context, len(context))
            no_draws = torch.empty(0, dtype=torch.float32)
            self._copied = drafter.propose(self.gamma, no_draws, lambda: None).token_ids.tolist()
            self.gamma = len(self._copied)

    def walk(self, table: Tensor, most: int, should_stop: Callable[[], bool]) -> Iterator[Visit]:
        """Send a round a row of ``table`` [N, 2γ+1] down; the prefixes with most rounds first, ``most`` of them."""
        order = itertools.count()  # decides between equals, so that a walk can be repeated
        waiting = [(0, next(order), _Arrival((), np.arange(len(table)), self.gamma > 0))]
        for _ in range(most):
            if not waiting or should_stop():
                return
            arrival = heapq.heappop(waiting)[-1]
            visit, children = self._visit(arrival, table)
            for child in children:
                heapq.heappush(waiting, (-len(child.rows), next(order), child))
            yield visit

    def _visit(self, here: _Arrival, table: Tensor) -> tuple[Visit, list[_Arrival]]:
        depth, gamma = len(here.prefix), self.settings.gamma
        p = self._distribution(self._target(here.prefix))
        q = self._q(here.prefix, len(p)) if here.drafting else None
        sampler = self._sampler(p, q)
        exact = self._sampler(torch.from_numpy(as_law(p)), None if q is None else torch.from_numpy(as_law(q)))
        u = table[torch.from_numpy(here.rows)]
        tested = min(depth, gamma - 1)
        tokens, accepted = (one.numpy() for one in sampler.redraw(u[:, tested], u[:, gamma + tested], u[:, 2 * gamma]))
        law, n = as_law(p), len(here.rows)
        counts = np.bincount(tokens, minlength=len(law))
        goes_on = accepted & ~np.isin(tokens, self.eos)
        visit = Visit(
            depth=depth,
            n=n,
            continued=int(goes_on.sum()),
            tv_sampled=total_variation(counts / n, law),
            tv_exact=total_variation(output_law(exact), law),
            against_p=fit(counts, law),
        )
        if q is None:
            return visit, []
        return visit, list(self._children(here.prefix, tokens[goes_on], here.rows[goes_on], q))

    def _sampler(self, p: Tensor, q: Tensor | None) -> Sampler:
        if q is None:  # the bonus behind the last drafted token: nothing is drafted, so nothing stands
            return Sampler(p, torch.zeros_like(p), p)
        return sampler_of(self.settings, p, q)

    def _children(
        self, prefix: tuple[int, ...], tokens: NDArray[np.int64], rows: NDArray[np.int64], q: Tensor
    ) -> Iterator[_Arrival]:
        by_token = np.argsort(tokens, kind="stable")
        found, starts = np.unique(tokens[by_token], return_index=True)
        for token, its_rows in zip(found.tolist(), np.split(rows[by_token], starts[1:]), strict=False):
            unsure = float(q[token]) < self.settings.min_confidence
            yield _Arrival((*prefix, token), its_rows, len(prefix) + 1 < self.gamma and not unsure)

    def _q(self, prefix: tuple[int, ...], vocab_size: int) -> Tensor:
        if self._draft is None:
            return one_hot(torch.tensor(self._copied[len(prefix)]), vocab_size)
        logits = self._draft(prefix)
        return self._distribution(torch.nn.functional.pad(logits, (0, vocab_size - len(logits)), value=-torch.inf))

    def _distribution(self, logits: Tensor) -> Tensor:
        if self.sampling.greedy:
            return one_hot(logits.argmax(-1), len(logits))
        return probabilities(logits, self.sampling)


class _Reader:
    """Next-token logits [V] float32 on the CPU behind a context and a prefix. The context is read once."""

    def __init__(self, model: LanguageModel, context: list[int], depth: int, shared_vocab: int | None = None) -> None:
        self.model = model
        self.shared_vocab = shared_vocab
        known = self._known(context)
        self.before, self.last = known[:-1], known[-1]
        with torch.inference_mode():
            model.allocate(len(context) + depth)
            prefill(model, self.before)

    @torch.inference_mode()
    def __call__(self, prefix: tuple[int, ...]) -> Tensor:
        self.model.rollback(len(self.before))
        feed = torch.tensor([self.last, *self._known(list(prefix))], device=self.model.device)
        return self.model.forward(feed, keep=1)[0, : self.shared_vocab].float().cpu().clone()

    def _known(self, token_ids: list[int]) -> list[int]:
        return [min(token, self.model.vocab_size - 1) for token in token_ids]
