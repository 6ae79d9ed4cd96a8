"""The standard loop: one target forward, one token. Same model, same cache, same record."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from specviz.decoding.acceptance import can_be_chosen
from specviz.decoding.distribution import Sampling, draw, one_hot, probabilities, uniforms
from specviz.decoding.ending import Ending, Stopped
from specviz.decoding.loop import NOT_FINITE, Loop, Poll
from specviz.decoding.prefill import prefill
from specviz.decoding.recording import Recorder
from specviz.errors import UserError
from specviz.models.base import LanguageModel
from specviz.trace import Step


class Autoregressive(Loop):
    """Ordinary decoding of one prompt: ``steps`` yields a record a token."""

    def __init__(
        self,
        target: LanguageModel,
        sampling: Sampling,
        seed: int,
        ending: Ending,
        recorder: Recorder,
        poll: Poll = lambda: None,
    ) -> None:
        super().__init__(target, ending, recorder, poll)
        self.sampling = sampling
        self.seed = seed

    @torch.inference_mode()
    def steps(self, prompt_ids: list[int]) -> Iterator[Step]:
        """Decode until the ending says so. ``prompt_ids`` [≥ 1] are read but for the last, which opens step 0."""
        target, clock = self.target, self.clock
        u = uniforms(self.seed, self.ending.remaining, 1, stream=1).to(target.device)
        context_length, index = len(prompt_ids), 0
        opening = torch.tensor(prompt_ids[-1:], device=target.device)
        try:
            self._prefill(prompt_ids)
            while True:
                start_s = clock.elapsed
                clock.begin()
                logits = target.forward(opening, keep=1)
                self.mark()

                p = None if self.sampling.greedy else probabilities(logits, self.sampling)
                opening = logits.argmax(-1) if p is None else draw(p, u[index])
                finite = can_be_chosen(logits, opening) if p is None else ~p.sum(-1).isnan()
                token, is_finite = torch.cat((opening, finite.long())).tolist()
                if not is_finite:
                    raise UserError(NOT_FINITE)
                _, reason = self.ending.cut([token], self.texts([token]))
                spans = clock.spans()

                self.recorder.begin()
                yield self.recorder.step(
                    index=index,
                    context_length=context_length,
                    token=token,
                    p=one_hot(opening, logits.shape[-1]) if p is None else p,
                    start_s=start_s,
                    spans=spans,
                )
                if reason:
                    self.finish_reason = reason
                    return
                context_length, index = context_length + 1, index + 1
        except Stopped as stopped:
            self.finish_reason = stopped.reason

    def _prefill(self, prompt_ids: list[int]) -> None:
        with self.prefilling():
            self.target.allocate(len(prompt_ids) + self.ending.remaining)
            prefill(self.target, prompt_ids[:-1], self.mark)
