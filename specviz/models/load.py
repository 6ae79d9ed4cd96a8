"""Load a pair: the target, and on demand whatever drafts for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from transformers import PreTrainedModel

from specviz import devices
from specviz.devices import DtypeChoice
from specviz.errors import UserError
from specviz.models import sources, vocabulary
from specviz.models.attention import Attention, chosen
from specviz.models.base import LanguageModel
from specviz.models.dtype import load_in_best_dtype
from specviz.models.modules import describe, eos_token_ids, has_tokenizer, load_module, load_tokenizer
from specviz.models.quantization import SCHEMES, quantized_copy
from specviz.models.registry import DEFAULT, PAIRS, WheelModel
from specviz.models.token_texts import token_texts
from specviz.models.wrap import wrap
from specviz.trace import Machine, ModelInfo

Source = str | WheelModel


@dataclass(frozen=True, slots=True)
class Draft:
    """A model that can draft for the target. Ids below ``shared_vocab`` mean the same to both."""

    model: LanguageModel
    module: PreTrainedModel
    info: ModelInfo
    shared_vocab: int


@dataclass
class Pair:
    """A target with its tokenizer, and its drafts, made when first asked for and then kept."""

    name: str
    target: LanguageModel
    target_module: PreTrainedModel
    tokenizer: Any
    target_info: ModelInfo
    machine: Machine
    dtype_choice: DtypeChoice
    draft_source: str | None
    attention: Attention = "fused"
    _drafts: dict[tuple[str, str], Draft] = field(default_factory=dict)

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        return self.target_info.eos_token_ids

    @cached_property
    def texts(self) -> list[str]:
        """What each of the target's token ids reads as on its own."""
        return token_texts(self.tokenizer, self.target.vocab_size)

    def draft(self, kind: str, quantization: str = "") -> Draft:
        """The model behind the drafter "draft-model" or "quantized-self".

        Raises UserError if there is none, if its vocabulary differs, or if it cannot be made here.
        """
        key = (kind, quantization)
        if key not in self._drafts:
            self.free()  # a new model gets the room that caches of earlier runs hold
            if kind == "draft-model":
                self._drafts[key] = self._load_draft()
            elif kind == "quantized-self":
                self._drafts[key] = self._quantize(quantization)
            else:
                raise UserError(f"No model drafts for {kind!r}; one does for draft-model and quantized-self.")
        return self._drafts[key]

    def draft_module(self, kind: str, quantization: str = "") -> PreTrainedModel:
        """The transformers module of that draft, for ``generate(assistant_model=…)``."""
        return self.draft(kind, quantization).module

    def free(self) -> None:
        """Give up the memory of all caches, and what torch keeps on the device besides the weights."""
        for model in (self.target, *(draft.model for draft in self._drafts.values())):
            model.free()
        devices.release(self.target.device)

    def encode_chat(self, text: str) -> list[int]:
        """The prompt's token ids, in the target's chat template if it has one. Raises UserError if unusable."""
        if not getattr(self.tokenizer, "chat_template", None):
            return self.encode(text)
        messages = [{"role": "user", "content": text}]
        try:
            ids = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        except Exception as error:  # a template is a program that came with the model
            raise UserError(
                f"The chat template of {self.name} does not work: {error}. Choose another model."
            ) from error
        return self._fitting(list(ids))

    def encode(self, text: str) -> list[int]:
        """The token ids of plain text, special tokens as the tokenizer adds them. Raises UserError likewise."""
        return self._fitting(list(self.tokenizer(text)["input_ids"]))

    def _fitting(self, ids: list[int]) -> list[int]:
        if len(ids) >= self.target.context_limit:
            raise UserError(
                f"The prompt has {len(ids):,} tokens and {self.name} reads {self.target.context_limit:,}, "
                "answer included. Shorten it."
            )
        if not ids:
            raise UserError(f"{self.name} reads no token in this prompt. Type another one.")
        if max(ids) >= self.target.vocab_size:
            raise UserError(
                f"The tokenizer of {self.name} does not fit its weights: they have no row for token {max(ids)}. "
                "Choose another model."
            )
        return ids

    def _load_draft(self) -> Draft:
        if self.draft_source is None:
            raise UserError(
                f"No draft model was named for {self.name}. Start with --draft, or use quantized-self or prompt-lookup."
            )
        folder = sources.find(self.draft_source)
        module = load_module(folder, self.target.dtype, self.target.device)
        sizes = (self.target.vocab_size, module.get_output_embeddings().weight.shape[0])
        if has_tokenizer(folder):
            shared = vocabulary.shared_size(self.tokenizer, load_tokenizer(folder), *sizes)
        else:
            shared = vocabulary.shared_size_by_fingerprint(self.tokenizer, folder, *sizes)
        model = wrap(module, self.attention)
        info = describe(module, sources.title(self.draft_source), self.eos_token_ids, sources.fingerprint(folder))
        return Draft(model, module, replace(info, attention=self.attention), shared)

    def _quantize(self, scheme: str) -> Draft:
        with suppress(torch.OutOfMemoryError):
            module = quantized_copy(self.target_module, scheme)
            info = replace(self.target_info, quantization=SCHEMES[scheme].label)
            return Draft(wrap(module, self.attention), module, info, self.target.vocab_size)
        devices.release(self.target.device)  # what there was of the copy
        raise UserError(
            f"{self.machine.name} has no room for a quantized copy of {self.name} beside it. "
            "Choose the drafter prompt-lookup, or a smaller target."
        )


def load_pair(
    target: str | None = None,
    draft: str | None = None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    attention: str = "fused",
    threads: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Pair:
    """Load a target; its draft follows when it is asked for.

    ``target``: the name of a pair, a Hub id, a folder or a .gguf file; None is the default pair. ``draft``
    the same, None being the named pair's own. ``attention``: fused, or npu-fused-infer on an Ascend NPU.
    ``progress`` gets one line at a time. Raises UserError.
    """

    def report(what: str, fraction: float) -> None:
        if progress is not None:
            progress(f"{what}: {fraction:.0%}" if fraction else what)

    if threads is not None:
        torch.set_num_threads(threads)
    kind = chosen(attention)
    place = devices.pick(device)
    devices.use(place)
    pair = PAIRS.get(target or DEFAULT)
    source: Source = pair.target if pair else str(target)
    if draft in PAIRS:
        draft = PAIRS[draft].draft
    elif draft is None and pair:
        draft = pair.draft
    folder = sources.find(source, report)
    name = sources.title(source)
    report(f"Loading {name}", 0.0)
    module, choice = load_in_best_dtype(folder, place, dtype, report)
    model = wrap(module, kind)
    tokenizer = load_tokenizer(folder)
    info = describe(module, name, eos_token_ids(module, tokenizer), sources.fingerprint(folder))
    return Pair(
        name=name,
        target=model,
        target_module=module,
        tokenizer=tokenizer,
        target_info=replace(info, attention=kind),
        machine=devices.machine(place),
        dtype_choice=choice,
        draft_source=draft,
        attention=kind,
    )
