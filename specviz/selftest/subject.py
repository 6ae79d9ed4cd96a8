"""What a self-test looks at: a pair on the device, the same pair on the CPU, and the text that the CPU writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from specviz import devices
from specviz.errors import UserError
from specviz.events import Finished
from specviz.models.base import LanguageModel
from specviz.models.load import Draft, Pair, load_pair
from specviz.race import race
from specviz.selftest.report import NotApplicableError
from specviz.settings import DEFAULT_QUANTIZATION, make_settings
from specviz.trace import Run, RunKind, Settings

PROMPT = "Explain in a few sentences why the sky is blue."
TOKENS = 16
BLOCKS = (1, 5)  # rows of the forwards that a text is gone through in: one, and a verification


@dataclass
class Subject:
    """``pair`` is examined; ``reference`` is the same on the CPU, in the same dtype if the CPU has it."""

    pair: Pair
    reference: Pair

    @property
    def device(self) -> torch.device:
        return self.pair.target.device

    @cached_property
    def prompt_ids(self) -> list[int]:
        return self.reference.encode_chat(PROMPT)

    @cached_property
    def text(self) -> list[int]:
        """The token ids that the CPU writes at temperature 0, by transformers' own forward and cache."""
        return write(self.reference.target_module, self.prompt_ids, TOKENS, self.reference.eos_token_ids)

    @cached_property
    def logits(self) -> Tensor:
        """The CPU's logits [len(text), V] float32, from which each token of ``text`` was to be chosen."""
        return read(self.reference.target_module, [*self.prompt_ids, *self.text])[len(self.prompt_ids) - 1 : -1]

    @property
    def drafting(self) -> dict[str, str]:
        """Settings of a drafter with a model, if there is one here."""
        if self.pair.draft_source is not None:
            return {"drafter": "draft-model"}
        for scheme in (DEFAULT_QUANTIZATION, "int8"):
            try:
                quantized(self.pair, scheme)
            except NotApplicableError:
                continue
            return {"drafter": "quantized-self", "quantization": scheme}
        return {"drafter": "prompt-lookup"}

    def settings(self, temperature: float, **drafting: str) -> Settings:
        """Of a run over TOKENS tokens."""
        chosen: dict[str, Any] = {**(drafting or self.drafting)}
        return make_settings(temperature=temperature, max_new_tokens=TOKENS, **chosen)


def load_subject(
    target: str | None,
    draft: str | None,
    *,
    device: str,
    dtype: str,
    threads: int | None,
    attention: str,
    progress: Callable[[str], None] | None = None,
) -> Subject:
    """The pair on the device and, unless that is the CPU, once more on the CPU. Raises UserError."""
    pair = load_pair(target, draft, device=device, dtype=dtype, threads=threads, attention=attention, progress=progress)
    if pair.target.device.type == "cpu":
        return Subject(pair, pair)
    cpu = torch.device("cpu")
    same = pair.dtype_choice.dtype if devices.supports(cpu, pair.dtype_choice.dtype) else "float32"
    return Subject(pair, load_pair(target, draft, device="cpu", dtype=same, progress=progress))


def quantized(pair: Pair, scheme: str) -> Draft:
    """The packed copy. Raises NotApplicableError where the device has no kernel for it."""
    try:
        return pair.draft("quantized-self", scheme)
    except UserError as refusal:
        raise NotApplicableError(str(refusal)) from refusal


def decode(pair: Pair, settings: Settings, kind: RunKind = "speculative") -> Run:
    """One run over PROMPT, in the calling thread."""
    for event in race(pair, PROMPT, settings, baseline=kind == "standard", speculative_first=kind != "standard"):
        if isinstance(event, Finished):
            return event.run
    raise AssertionError("a race finishes its runs")


@torch.inference_mode()
def write(module: PreTrainedModel, prompt_ids: list[int], count: int, eos: Sequence[int]) -> list[int]:
    """The likeliest next token, ``count`` times or until the text ends, with none of this project's own forwards."""
    written: list[int] = []
    feed, cache = torch.tensor([prompt_ids], device=module.device), None
    while len(written) < count:
        output: Any = module(feed, cache=cache, use_cache=True)
        cache, token = output.cache, int(output.logits[0, -1].argmax())
        written.append(token)
        if token in eos:
            break
        feed = torch.tensor([[token]], device=module.device)
    return written


@torch.inference_mode()
def read(module: PreTrainedModel, token_ids: list[int]) -> Tensor:
    """Logits [n, V] float32 on the CPU of all positions, by one forward of transformers' own."""
    return module(torch.tensor([token_ids], device=module.device), use_cache=False).logits[0].float().cpu()


@torch.inference_mode()
def read_in_blocks(model: LanguageModel, token_ids: list[int], first: int) -> Tensor:
    """Logits [n − first, V] float32 on the CPU from position ``first`` on: a prefill, then forwards of BLOCKS rows."""
    ids = torch.tensor(token_ids, device=model.device).clamp(max=model.vocab_size - 1)
    model.allocate(len(token_ids))
    if first:
        model.forward(ids[:first], keep=0)
    rows: list[Tensor] = []
    while model.length < len(ids):
        block = ids[model.length :][: BLOCKS[len(rows) % len(BLOCKS)]]
        rows.append(model.forward(block, keep=len(block)).float().cpu())
    return torch.cat(rows)
