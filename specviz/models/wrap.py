"""Choose the forward for a transformers module."""

from __future__ import annotations

from transformers import PreTrainedModel

from specviz.models import llama
from specviz.models.attention import Attention
from specviz.models.base import LanguageModel
from specviz.models.transformers_model import TransformersModel


def wrap(module: PreTrainedModel, attention: Attention = "fused") -> LanguageModel:
    """The lean Llama forward where it computes the same, the module's own forward for every other model.

    Raises UserError if the model or its device cannot have that attention.
    """
    model = llama.LlamaModel(module) if llama.supports(module) else TransformersModel(module)
    if attention != "fused":
        model.use_attention(attention)
    return model
