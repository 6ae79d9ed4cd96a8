"""The real default pair at temperature 0 in float32: every drafter's text is the target's own, token by token."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from specviz.models.load import Pair, load_pair
from specviz.race import Done, race
from specviz.settings import make_settings
from specviz.trace import RunKind

pytestmark = [pytest.mark.weights, pytest.mark.slow]

PROMPTS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "assets" / "prompts.jsonl").read_text(encoding="utf-8").splitlines()
]
NEW_TOKENS = 40
DRAFTERS = [
    ("draft-model", "", 3),
    ("quantized-self", "int4-g32", 7),
    ("quantized-self", "int4-g32-head4", 4),
    ("quantized-self", "int4-g64", 5),
    ("quantized-self", "int8", 15),
    ("prompt-lookup", "", 6),
]


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(dtype="float32", threads=2)


@pytest.fixture(scope="module")
def expected(pair: Pair) -> dict[str, list[int]]:
    """What transformers' own generate says."""
    answers = {}
    for prompt in PROMPTS:
        ids = torch.tensor([pair.encode_chat(prompt["prompt"])])
        with torch.inference_mode():
            output = pair.target_module.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS, do_sample=False
            )
        answers[prompt["id"]] = output[0, ids.shape[1] :].tolist()
    return answers


def answer(pair: Pair, prompt: str, kind: RunKind, drafter: str, quantization: str, gamma: int) -> list[int]:
    settings = make_settings(
        drafter=drafter, quantization=quantization, gamma=gamma, temperature=0.0, max_new_tokens=NEW_TOKENS
    )
    events = race(pair, prompt, settings, baseline=kind == "standard", speculative_first=kind == "speculative")
    done = next(event for event in events if isinstance(event, Done))
    run = done.trace.run(kind)
    assert run is not None
    assert done.trace.divergence is None
    return list(run.token_ids)


def test_there_are_24_prompts() -> None:
    assert len(PROMPTS) == 24


@pytest.mark.parametrize(("drafter", "quantization", "gamma"), DRAFTERS, ids=lambda value: str(value))
def test_speculative_tokens_are_those_of_transformers(
    pair: Pair, expected: dict[str, list[int]], drafter: str, quantization: str, gamma: int
) -> None:
    for prompt in PROMPTS:
        ours = answer(pair, prompt["prompt"], "speculative", drafter, quantization, gamma)
        assert ours == expected[prompt["id"]], prompt["id"]


def test_standard_tokens_are_those_of_transformers(pair: Pair, expected: dict[str, list[int]]) -> None:
    for prompt in PROMPTS:
        assert answer(pair, prompt["prompt"], "standard", "prompt-lookup", "", 1) == expected[prompt["id"]], prompt[
            "id"
        ]
