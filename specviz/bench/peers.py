"""transformers' own decoding, timed like ours: tokens after the prefill, seconds after the prefill.

A streamer notes when tokens arrive. The first arrival ends the prefill (for assisted generation: the prefill
and the first round); what comes later is counted, from that instant to the last arrival. Ours and theirs so
exclude prompt processing and include draft, verification, sampling and the loop around them.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.generation.streamers import BaseStreamer

from specviz import devices
from specviz.bench.measurement import Measurement
from specviz.models.load import Pair
from specviz.trace import Settings


class Arrivals(BaseStreamer):
    """When how many tokens arrived: a forward's worth at a time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.counts: list[int] = []
        self._prompt_seen = False

    def put(self, value: Tensor) -> None:
        if not self._prompt_seen:
            self._prompt_seen = True
            return
        self.seconds.append(time.perf_counter())
        self.counts.append(value.numel())

    def end(self) -> None:
        """Nothing is held back."""

    def measurement(self, started: float) -> Measurement:
        """``started`` is the ``perf_counter`` instant of the call."""
        tokens, forwards = sum(self.counts[1:]), len(self.counts) - 1
        return Measurement(
            tokens=tokens,
            decode_s=self.seconds[-1] - self.seconds[0],
            prefill_s=self.seconds[0] - started,
            tau=tokens / forwards if forwards else None,
        )


def hf_generate(pair: Pair, prompt: str, settings: Settings) -> Measurement:
    """Ordinary ``generate`` of the target's own module."""
    return _generate(pair, prompt, settings)


def hf_assisted(pair: Pair, prompt: str, settings: Settings) -> Measurement:
    """``generate`` with the draft that ours has, γ tokens each round (transformers adapts γ unless told not to)."""
    if settings.drafter == "prompt-lookup":
        return _generate(pair, prompt, settings, prompt_lookup_num_tokens=settings.gamma)
    return _generate(pair, prompt, settings, assistant_model=assistant(pair, settings))


def assistant(pair: Pair, settings: Settings) -> PreTrainedModel:
    """The draft's module, set to draft γ tokens every round whatever its confidence."""
    module = pair.draft_module(settings.drafter, settings.quantization)
    module.generation_config.num_assistant_tokens = settings.gamma
    module.generation_config.num_assistant_tokens_schedule = "constant"
    module.generation_config.assistant_confidence_threshold = 0.0
    return module


@torch.inference_mode()
def _generate(pair: Pair, prompt: str, settings: Settings, **how: Any) -> Measurement:
    device = pair.target.device
    prompt_ids = torch.tensor([pair.encode_chat(prompt)], device=device)
    if settings.temperature > 0:
        how |= {"temperature": settings.temperature, "top_k": settings.top_k, "top_p": settings.top_p}
    devices.seed(settings.seed)
    arrivals = Arrivals()
    started = time.perf_counter()
    pair.target_module.generate(
        prompt_ids,
        attention_mask=torch.ones_like(prompt_ids),
        do_sample=settings.temperature > 0,
        max_new_tokens=settings.max_new_tokens,
        eos_token_id=list(pair.eos_token_ids) or None,
        pad_token_id=next(iter(pair.eos_token_ids), 0),
        streamer=arrivals,
        **how,
    )
    return arrivals.measurement(started)
