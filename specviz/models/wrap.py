"""Choose the forward for a transformers module."""

from __future__ import annotations

from transformers import PreTrainedModel

from specviz.models import llama
from specviz.models.base import LanguageModel
from specviz.models.transformers_model import TransformersModel


def wrap(module: PreTrainedModel) -> LanguageModel:
    """The lean Llama forward where it computes the same, the module's own forward for every other model."""
    return llama.LlamaModel(module) if llama.supports(module) else TransformersModel(module)
