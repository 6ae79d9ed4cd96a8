"""Tensors of a round → its record. Runs outside the timed spans; its own cost is the record's overhead."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from specviz.decoding.distribution import overlap, residual
from specviz.decoding.fetch import fetch
from specviz.decoding.text import Detokenizer
from specviz.trace import Candidate, Emitted, Position, Round, Source, Step, Timing, Verdict

TOP = 8  # candidates kept of each distribution


class Recorder:
    """Makes Rounds and Steps of one run, and knows the text of every token."""

    def __init__(self, tokenizer: Any, texts: list[str], prompt_ids: list[int]) -> None:
        """``texts``: what each token id reads as on its own (models/token_texts.py)."""
        self.detokenizer = Detokenizer(tokenizer, prompt_ids)
        self._texts = texts
        self._started = 0.0

    def begin(self) -> None:
        """The timed spans are over; from here on time is overhead."""
        self._started = time.perf_counter()

    def round(
        self,
        *,
        index: int,
        context_length: int,
        drafted: list[int],
        n_accepted: int,
        committed: list[int],
        p: Tensor,
        q: Tensor,
        p_drafted: list[float],
        q_drafted: list[float],
        u: list[float] | None,
        replaced_from_p: bool,
        start_s: float,
        spans: list[float],
    ) -> Round:
        """``p`` [k+1, V] and ``q`` [k, V] as they were compared; ``spans``: draft steps, verification, sampling.

        ``replaced_from_p``: a rejected token was replaced by a draw from p, not from the residual (lossy rules).
        """
        k = len(drafted)
        kept = min(n_accepted, len(committed))  # drafted tokens that stand and were committed
        cut = kept == len(committed)  # the run ended inside the accepted prefix: no final token
        texts = self._push(committed[:kept])
        drafted_texts = texts + self.detokenizer.peek(drafted[kept:])
        texts += self._push(committed[kept:])

        rejected_at = n_accepted if not cut and n_accepted < k else None
        resampled = slice(k, k) if rejected_at is None or replaced_from_p else slice(rejected_at, rejected_at + 1)
        rows = torch.cat((p, q, residual(p[resampled], q[resampled])))
        likeliest, overlaps = self._candidates(rows, overlap(p[:k], q))
        top_p, top_q, leftover = likeliest[: k + 1], likeliest[k + 1 : 2 * k + 1], likeliest[2 * k + 1 :]

        positions = []
        for i, (token, (text, glyph)) in enumerate(zip(drafted, drafted_texts, strict=True)):
            verdict: Verdict = "accepted" if i < kept else "rejected" if i == rejected_at else "untested"
            positions.append(
                Position(
                    token_id=token,
                    text=text,
                    glyph=glyph,
                    p=p_drafted[i],
                    q=q_drafted[i],
                    u=None if u is None or verdict == "untested" else u[i],
                    verdict=verdict,
                    overlap=overlaps[i],
                    top_p=top_p[i],
                    top_q=top_q[i],
                    residual=leftover[0] if leftover and verdict == "rejected" else (),
                )
            )
        replacement: Source = "target" if replaced_from_p else "residual"
        final: Source = replacement if rejected_at is not None else "bonus" if k else "target"
        drafts: list[Source] = ["draft"] * kept
        return Round(
            index=index,
            context_length=context_length,
            drafted=tuple(positions),
            emitted=tuple(
                Emitted(token, text, glyph, source)
                for token, (text, glyph), source in zip(committed, texts, [*drafts, final], strict=False)
            ),
            final_top_p=() if cut else top_p[n_accepted],
            timing=self._timing(start_s, spans),
        )

    def step(
        self, *, index: int, context_length: int, token: int, p: Tensor, start_s: float, spans: list[float]
    ) -> Step:
        """``p`` [1, V]; ``spans``: forward, sampling."""
        ((text, glyph),) = self._push([token])
        return Step(
            index=index,
            context_length=context_length,
            emitted=Emitted(token, text, glyph, "target"),
            top_p=self._candidates(p, p[:0, 0])[0][0],
            timing=self._timing(start_s, spans),
        )

    def _push(self, token_ids: list[int]) -> list[tuple[str, int]]:
        return [self.detokenizer.push(token) for token in token_ids]

    def _candidates(self, rows: Tensor, others: Tensor) -> tuple[list[tuple[Candidate, ...]], list[float]]:
        """The likeliest tokens of each row [n, V], impossible ones left out; ``others`` [m] come in the same copy."""
        top = torch.topk(rows, min(TOP, rows.shape[-1]), dim=-1)
        indices, values, numbers = fetch(top.indices, top.values, others)
        likeliest = [
            tuple(
                Candidate(int(token), self._texts[int(token)], prob)
                for token, prob in zip(tokens, probs, strict=True)
                if prob > 0
            )
            for tokens, probs in zip(indices, values, strict=True)
        ]
        return likeliest, numbers

    def _timing(self, start_s: float, spans: list[float]) -> Timing:
        *draft, verify, sample = spans
        return Timing(start_s, tuple(draft), verify, sample, overhead_s=time.perf_counter() - self._started)
