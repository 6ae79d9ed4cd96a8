"""One module from one folder: safetensors only, nothing executed, nothing fetched, caches that can rewind."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel

from specviz import devices
from specviz.errors import UserError
from specviz.trace import ModelInfo

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()  # progress is shown by who asked for it


def load_module(folder: Path, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The causal LM in ``folder``, from safetensors, never running code from the folder.

    Raises UserError if it is none, is damaged, or has a cache that cannot be rewound.
    """
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # so do configs that say what cannot be
        raise UserError(f"The config.json in {folder} cannot be used: {_first_line(error)}") from error
    check_rewindable(config, folder.name)
    try:
        module, loading = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            output_loading_info=True,
            dtype=dtype,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
        )
    except Exception as error:  # damaged weights end in many kinds of errors
        raise UserError(f"The model in {folder} cannot be loaded: {_first_line(error)}") from error
    check_whole(loading, folder)
    check_causal(module, folder.name)
    return _moved(module, device, folder.name).eval().requires_grad_(False)


def _moved(module: PreTrainedModel, device: torch.device, name: str) -> PreTrainedModel:
    with suppress(torch.OutOfMemoryError):
        return module.to(device)
    size = sum(parameter.nbytes for parameter in module.parameters())
    module.to("cpu")  # what had got to the device already
    devices.release(device)
    free = devices.free_bytes(device)
    has = "" if free is None else f", of which {free / 1e9:.2f} GB are free"
    raise UserError(
        f"{name} does not fit into the memory of {devices.name(device)}{has}: its weights are {size / 1e9:.2f} GB. "
        "Choose a smaller model or another device."
    )


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer in ``folder``. Raises UserError."""
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise UserError(f"The tokenizer in {folder} cannot be loaded: {_first_line(error)}") from error


def check_rewindable(config: PreTrainedConfig, name: str) -> None:
    """Refuse models that cannot forget rejected tokens by moving a pointer. Raises UserError that says why."""
    text = config.get_text_config(decoder=True)
    kinds = set(getattr(text, "layer_types", None) or ()) - {"full_attention"}
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    context: int | None = getattr(text, "max_position_embeddings", None)
    if window is None or (context is not None and window >= context):
        kinds.discard("sliding_attention")
        window = None
    model_class = transformers.AutoModelForCausalLM._model_mapping.get(type(config), None)
    if getattr(model_class, "_is_stateful", False) or kinds - {"sliding_attention", "chunked_attention"}:
        why = "it folds every token into a recurrent state that cannot be taken back"
    elif "chunked_attention" in kinds:
        why = "its layers attend within chunks, and their cache drops what lies behind"
    elif window is not None:
        why = f"its layers keep a sliding window of {window:,} tokens of a context of {context:,} and drop the rest"
    else:
        return
    raise UserError(
        f"{name} cannot take part: {why}, so tokens that were rejected could not be removed. "
        "Choose a model with full attention in every layer."
    )


def check_whole(loading: dict[str, Any], source: Path) -> None:
    """Refuse weights of which some are missing: they would be random numbers. Raises UserError."""
    if missing := sorted(loading["missing_keys"]):
        raise UserError(
            f"The weights in {source} are not whole: {missing[0]} is missing. "
            "Download them again or choose another model."
        )


def check_causal(module: PreTrainedModel, name: str) -> None:
    """Refuse models in which a token sees what comes after it, such as an encoder's. Raises UserError."""
    causal = {part.is_causal for part in module.modules() if isinstance(getattr(part, "is_causal", None), bool)}
    if causal == {False}:
        raise UserError(
            f"{name} cannot take part: its tokens attend to those behind them, so it does not predict the next one. "
            "Choose a model that generates text."
        )


def describe(module: PreTrainedModel, name: str, eos_token_ids: tuple[int, ...], fingerprint: str) -> ModelInfo:
    """The module for a trace. Tied weights count once."""
    return ModelInfo(
        name=name,
        dtype=str(module.dtype).removeprefix("torch."),
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        vocab_size=module.get_output_embeddings().weight.shape[0],
        eos_token_ids=eos_token_ids,
        fingerprint=fingerprint,
    )


def has_tokenizer(folder: Path) -> bool:
    """Whether ``folder`` brings a tokenizer of its own."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def eos_token_ids(module: PreTrainedModel, tokenizer: Any) -> tuple[int, ...]:
    """Every id that ends a text, whoever of the three files says so."""
    found: list[int] = []
    for said in (module.generation_config.eos_token_id, module.config.eos_token_id, tokenizer.eos_token_id):
        found += said if isinstance(said, list) else [] if said is None else [said]
    return tuple(dict.fromkeys(found))


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return line[:200].rstrip(".:") + "."
