"""Options that several commands share. Ranges are checked by ``specviz.settings`` and the loader, for the page too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_MODELS, _DECODING, _MACHINE = "Models", "Decoding", "Machine"

Target = Annotated[
    str | None,
    typer.Option(help="Large model: Hub id, Hugging Face folder or GGUF file.", rich_help_panel=_MODELS),
]
Draft = Annotated[
    str | None, typer.Option(help="Small model for --drafter draft-model, named likewise.", rich_help_panel=_MODELS)
]
Drafter = Annotated[str, typer.Option(help="quantized-self, draft-model or prompt-lookup.", rich_help_panel=_MODELS)]
Quantization = Annotated[
    str | None,
    typer.Option(help="Of quantized-self: int4-g32, int4-g32-head4, int4-g64 or int8.", rich_help_panel=_MODELS),
]
Rule = Annotated[
    str,
    typer.Option(
        help="Lossless: rejection-sampling, or greedy-match at temperature 0. Lossy: typical, kl-threshold.",
        rich_help_panel=_DECODING,
    ),
]
Epsilon = Annotated[
    float, typer.Option(help="Of typical: p(x) > min(ε, δ·e^−H(p)) is accepted; this is ε.", rich_help_panel=_DECODING)
]
Delta = Annotated[float, typer.Option(help="Of typical: δ.", rich_help_panel=_DECODING)]
KlThreshold = Annotated[
    float, typer.Option(help="Of kl-threshold: any token is accepted while KL(p‖q) < τ.", rich_help_panel=_DECODING)
]
Gamma = Annotated[int, typer.Option(help="Tokens drafted per round at most, 1 to 15.", rich_help_panel=_DECODING)]
Temperature = Annotated[float, typer.Option(help="0 takes the likeliest token.", rich_help_panel=_DECODING)]
TopK = Annotated[int, typer.Option(help="0 keeps all.", rich_help_panel=_DECODING)]
TopP = Annotated[float, typer.Option(help="1 keeps all.", rich_help_panel=_DECODING)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same run.", rich_help_panel=_DECODING)]
MaxNewTokens = Annotated[int, typer.Option(help="Tokens to commit at most.", rich_help_panel=_DECODING)]
Dtype = Annotated[str, typer.Option(help="auto (measured), float32, bfloat16 or float16.", rich_help_panel=_MACHINE)]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="CPU threads.", rich_help_panel=_MACHINE)]
Device = Annotated[str, typer.Option(help="auto, npu, cuda, mps or cpu.", rich_help_panel=_MACHINE)]
Attention = Annotated[
    str,
    typer.Option(
        help="fused (PyTorch's own), or npu-fused-infer (Ascend's for inference, Atlas A2 and A3).",
        rich_help_panel=_MACHINE,
    ),
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the record to this file.")]
