"""Running the real round loop on tiny models, many times."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from specviz.decoding.distribution import Sampling
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.ending import Ending
from specviz.decoding.recording import Recorder
from specviz.decoding.speculative import Speculative
from specviz.decoding.text import StopStrings
from specviz.models.base import LanguageModel
from specviz.trace import Round


class Remembering:
    """A LanguageModel that asks the real one once a context: the loop runs thousands of times in seconds."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.vocab_size, self.context_limit = model.vocab_size, model.context_limit
        self.device, self.dtype = model.device, model.dtype
        self._tokens: list[int] = []
        self._logits: dict[tuple[int, ...], Tensor] = {}

    @property
    def length(self) -> int:
        return len(self._tokens)

    def allocate(self, capacity: int) -> None:
        self._tokens = []

    def free(self) -> None:
        self._tokens = []

    def rollback(self, length: int) -> None:
        del self._tokens[length:]

    def forward(self, token_ids: Tensor, keep: int) -> Tensor:
        self._tokens += token_ids.tolist()
        rows = [self._of(tuple(self._tokens[: len(self._tokens) - i])) for i in range(keep - 1, -1, -1)]
        return torch.stack(rows) if rows else torch.empty(0, self.vocab_size, device=self.device)

    def _of(self, context: tuple[int, ...]) -> Tensor:
        if context not in self._logits:
            self.model.allocate(len(context))
            self._logits[context] = self.model.forward(torch.tensor(context, device=self.device), keep=1)[0].clone()
        return self._logits[context]


class Silent(Recorder):
    """A recorder for runs whose records nobody looks at: keeps only the emitted ids."""

    def round(self, **facts: object) -> list[int]:  # type: ignore[override]
        return facts["committed"]  # type: ignore[return-value]


def make_loop(
    target: LanguageModel,
    drafter: Drafter,
    sampling: Sampling,
    tokenizer: PreTrainedTokenizerFast,
    prompt_ids: list[int],
    *,
    gamma: int,
    max_new_tokens: int,
    seed: int = 0,
    eos: frozenset[int] = frozenset(),
    stop: tuple[str, ...] = (),
) -> Speculative:
    ending = Ending(eos, StopStrings(stop), max_new_tokens, target.context_limit - len(prompt_ids))
    texts = [f"<{token}>" for token in range(target.vocab_size)]
    return Speculative(target, drafter, sampling, gamma, seed, ending, Recorder(tokenizer, texts, prompt_ids))


def run_rounds(
    target: LanguageModel,
    drafter: Drafter,
    sampling: Sampling,
    tokenizer: PreTrainedTokenizerFast,
    prompt_ids: list[int],
    **options: object,
) -> list[Round]:
    return list(make_loop(target, drafter, sampling, tokenizer, prompt_ids, **options).rounds(prompt_ids))  # type: ignore[arg-type]


def emitted_ids(rounds: list[Round]) -> list[int]:
    return [token.token_id for round_ in rounds for token in round_.emitted]
