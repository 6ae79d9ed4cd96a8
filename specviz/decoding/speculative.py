"""The round loop of speculative decoding (Leviathan et al. 2023, arXiv 2211.17192, Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from specviz.decoding.acceptance import Judgement, greedy_match
from specviz.decoding.distribution import Sampling, one_hot, probabilities, uniforms
from specviz.decoding.drafters.base import Draft, Drafter
from specviz.decoding.ending import Ending, Stopped
from specviz.decoding.fetch import fetch
from specviz.decoding.loop import DRAFT_NOT_FINITE, NOT_FINITE, Loop, Poll
from specviz.decoding.prefill import prefill
from specviz.decoding.recording import Recorder
from specviz.decoding.rules import LOSSLESS, Rule
from specviz.errors import UserError
from specviz.models.base import LanguageModel
from specviz.trace import Round


class Speculative(Loop):
    """Speculative decoding of one prompt: ``rounds`` yields a record a round."""

    def __init__(
        self,
        target: LanguageModel,
        drafter: Drafter,
        sampling: Sampling,
        gamma: int,
        seed: int,
        ending: Ending,
        recorder: Recorder,
        poll: Poll = lambda: None,
        rule: Rule = LOSSLESS,
        first_row: int = 0,
    ) -> None:
        """``first_row``: where round 0 reads the seed's table of uniform numbers (a branch goes on in the middle)."""
        super().__init__(target, ending, recorder, poll)
        self.drafter = drafter
        self.sampling = sampling
        self.gamma = gamma
        self.seed = seed
        self.rule = rule
        self.first_row = first_row

    @torch.inference_mode()
    def rounds(self, prompt_ids: list[int]) -> Iterator[Round]:
        """Decode until the ending says so. ``prompt_ids`` [≥ 1] are read but for the last, which opens round 0."""
        target, clock = self.target, self.clock
        table = uniforms(self.seed, self.first_row + self.ending.remaining, 2 * self.gamma + 1)[self.first_row :]
        on_device = table.to(target.device)
        context_length, index = len(prompt_ids), 0
        opening = torch.tensor(prompt_ids[-1:], device=target.device)
        try:
            self._prefill(prompt_ids)
            while True:
                k = min(self.gamma, self.ending.remaining - 1)
                u = on_device[index]
                start_s = clock.elapsed
                clock.begin()
                draft = self._propose(k, u)
                k = len(draft.token_ids)

                logits = target.forward(torch.cat((opening, draft.token_ids)), keep=k + 1)
                self.mark()

                p, judged = self._judge(logits, draft, u)
                n, final, drafted, p_drafted, q_drafted = _fetch_round(judged, draft)
                proposal = [*drafted[:n], final]
                committed, reason = self.ending.cut(proposal, self.texts(proposal))
                if reason is None:
                    target.rollback(context_length + n)
                    emitted = torch.cat((draft.token_ids[:n], judged.final_token[None]))
                    self.drafter.commit(committed, emitted)
                    opening = emitted[-1:]
                spans = clock.spans()

                self.recorder.begin()
                yield self.recorder.round(
                    index=index,
                    context_length=context_length,
                    drafted=drafted,
                    n_accepted=n,
                    committed=committed,
                    p=one_hot(logits.argmax(-1), logits.shape[-1]) if p is None else p,
                    q=one_hot(draft.token_ids, logits.shape[-1]) if draft.q is None else draft.q,
                    p_drafted=p_drafted,
                    q_drafted=q_drafted,
                    u=None if p is None or self.rule.lossy else table[index, self.gamma : self.gamma + k].tolist(),
                    replaced_from_p=p is not None and self.rule.lossy,
                    start_s=start_s,
                    spans=spans,
                )
                if reason:
                    self.finish_reason = reason
                    return
                context_length, index = context_length + len(committed), index + 1
        except Stopped as stopped:
            self.finish_reason = stopped.reason

    def _prefill(self, prompt_ids: list[int]) -> None:
        capacity = len(prompt_ids) + self.ending.remaining + self.gamma
        with self.prefilling():
            self.target.allocate(capacity)
            prefill(self.target, prompt_ids[:-1], self.mark)
            self.drafter.start(prompt_ids, capacity)

    def _propose(self, k: int, u: Tensor) -> Draft:
        if k == 0:
            return Draft(torch.empty(0, dtype=torch.int64, device=self.target.device), None)
        return self.drafter.propose(k, u[: self.gamma], self.mark)

    def _judge(self, logits: Tensor, draft: Draft, u: Tensor) -> tuple[Tensor | None, Judgement]:
        """(p [k+1, V], verdicts); at temperature 0 there is no p, only argmaxes."""
        if self.sampling.greedy:
            return None, greedy_match(logits, draft.token_ids)
        p = probabilities(logits, self.sampling)
        k = len(draft.token_ids)
        u_test = u[self.gamma : self.gamma + k]
        return p, self.rule.judge(p, draft.q, draft.token_ids, u_test, u[2 * self.gamma])


def _fetch_round(judged: Judgement, draft: Draft) -> tuple[int, int, list[int], list[float], list[float]]:
    """Everything the host must know of a round, in one copy."""
    n, final, finite, drafted, p_drafted, q_drafted = fetch(
        judged.n_accepted,
        judged.final_token,
        judged.finite,
        draft.token_ids,
        judged.p_drafted,
        judged.q_drafted,
    )
    if any(map(math.isnan, q_drafted)):
        raise UserError(DRAFT_NOT_FINITE)
    if not finite or any(map(math.isnan, p_drafted)):
        raise UserError(NOT_FINITE)
    return int(n), int(final), [int(token) for token in drafted], p_drafted, q_drafted
