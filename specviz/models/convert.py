"""A GGUF file becomes a Hugging Face folder, once: reading GGUF takes many seconds at every start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import gguf
import torch
import transformers
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

import specviz
from specviz.errors import UserError
from specviz.models import store
from specviz.models.modules import check_whole
from specviz.models.store import Progress, silent

MANIFEST = "specviz.json"


def convert(source: Path, sha256: str, folder: Path, progress: Progress = silent) -> None:
    """Write ``source``, dequantised, to ``folder`` as safetensors with its tokenizer and a manifest.

    Weights keep every bit: they are stored in the narrowest of bfloat16, float16 and float32 that holds
    them all. Raises UserError for a file that is damaged or of an architecture transformers cannot read.
    """
    what = f"Converting {source.stem}"
    progress(what, 0.0)
    elements = _check(source)
    store.require_space(folder.parent, 4 * elements)
    progress(what, 0.2)
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name, "local_files_only": True}
    try:
        module, loading = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, output_loading_info=True)
        progress(what, 0.6)
        tokenizer = AutoTokenizer.from_pretrained(**where)
    except MemoryError:
        raise UserError(f"There is not enough memory to convert {source.name}. Choose a smaller model.") from None
    except Exception as error:  # whatever a parser meets in a file from anywhere
        raise UserError(f"{source.name} cannot be converted: {_first_line(error)} Choose another model.") from error
    check_whole(loading, source)
    progress(what, 0.8)
    dtype = narrowest_exact_dtype(module.state_dict())
    _plain(module).to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    manifest = {
        "source": source.name,
        "sha256": sha256,
        "dtype": str(dtype).removeprefix("torch."),
        "versions": {"specviz": specviz.__version__, "transformers": transformers.__version__},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    progress(what, 1.0)


def narrowest_exact_dtype(tensors: Mapping[str, Tensor]) -> torch.dtype:
    """The first of bfloat16, float16 and float32 in which no weight changes."""
    for dtype in (torch.bfloat16, torch.float16):
        if all(torch.equal(tensor.to(dtype).to(tensor.dtype), tensor) for tensor in tensors.values()):
            return dtype
    return torch.float32


def _check(source: Path) -> int:
    """How many weights the file holds. Raises UserError if it is no whole GGUF file."""
    try:
        reader = gguf.GGUFReader(source)
        return sum(int(tensor.n_elements) for tensor in reader.tensors)
    except Exception as error:
        raise UserError(
            f"{source.name} is damaged or not a GGUF file: {_first_line(error)} Download it again or choose another."
        ) from error


def _plain(module: PreTrainedModel) -> PreTrainedModel:
    """The same model without the mark of its GGUF origin, with which transformers would not save it."""
    settings = module.config.to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path", "dtype"):
        settings.pop(key, None)
    config = type(module.config).from_dict(settings)
    with torch.device("meta"):
        plain = type(module)(config)
    plain.load_state_dict(module.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = module.generation_config
    return plain


def _first_line(error: Exception) -> str:
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    return line[:200].rstrip(".") + "."
