"""Bad settings get one sentence that names the setting, the value and what is allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import UserError
from specviz.settings import MAX_PROMPT_CHARACTERS, MAX_SEED, check_prompt, make_settings
from specviz.trace import LOSSY_RULES, Settings, is_lossy


def test_defaults_are_valid() -> None:
    settings = make_settings()
    assert (settings.drafter, settings.quantization, settings.rule) == (
        "quantized-self",
        "int4-g32-head4",
        "rejection-sampling",
    )


@pytest.mark.parametrize(
    ("given_settings", "words"),
    [
        ({"gamma": 0}, ("γ", "1 to 15", "0")),
        ({"gamma": 16}, ("γ", "1 to 15", "16")),
        ({"gamma": 2.5}, ("γ", "whole", "2.5")),
        ({"gamma": True}, ("γ", "whole", "True")),
        ({"gamma": None}, ("γ", "nothing")),
        ({"gamma": "4"}, ("γ", "'4'")),
        ({"temperature": -0.1}, ("temperature", "0 to 5", "-0.1")),
        ({"temperature": math.nan}, ("temperature", "nan")),
        ({"temperature": math.inf}, ("temperature", "inf")),
        ({"temperature": 10**400}, ("temperature", "…")),
        ({"top_k": -1}, ("top-k", "-1")),
        ({"top_p": 0}, ("top-p", "above 0")),
        ({"top_p": 1.5}, ("top-p", "1.5")),
        ({"seed": -1}, ("seed", "-1")),
        ({"seed": MAX_SEED + 1}, ("seed",)),
        ({"max_new_tokens": 0}, ("new tokens", "1 to 4096")),
        ({"max_new_tokens": 33, "token_limit": 32}, ("new tokens", "1 to 32", "33")),
        ({"drafter": "oracle"}, ("drafter", "prompt-lookup", "'oracle'")),
        ({"drafter": ["draft-model"]}, ("drafter", "['draft-model']")),
        ({"rule": "kl"}, ("rule", "greedy-match", "kl-threshold", "'kl'")),
        ({"rule": "greedy-match", "temperature": 0.7}, ("greedy-match", "temperature 0", "0.7")),
        ({"quantization": "int2"}, ("quantization", "int4-g32", "'int2'")),
        ({"drafter": "prompt-lookup", "quantization": "int8"}, ("quantized-self alone", "'int8'")),
        ({"min_confidence": 2}, ("confidence", "0 to 1", "2")),
        ({"epsilon": 1.5}, ("ε (epsilon)", "0 to 1", "1.5")),
        ({"epsilon": None}, ("ε (epsilon)", "nothing")),
        ({"delta": -0.1}, ("δ (delta)", "0 to 1", "-0.1")),
        ({"delta": "0.3"}, ("δ (delta)", "'0.3'")),
        ({"kl_threshold": -1}, ("KL threshold", "0 to 100", "-1")),
        ({"kl_threshold": math.nan}, ("KL threshold", "nan")),
        ({"stop": ["a"] * 17}, ("16", "17")),
        ({"stop": [""]}, ("stop string", "0")),
        ({"stop": [1]}, ("stop strings", "[1]")),
        ({"stop": ["ok", "\udfff"]}, ("stop string", "half a character")),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(given_settings: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as refusal:
        make_settings(**given_settings)
    for word in words:
        assert word in str(refusal.value)


def test_whole_numbers_from_a_browser_become_integers() -> None:
    settings = make_settings(gamma=3.0, seed=float(MAX_SEED), top_k=50.0, stop="\n\n")
    assert (settings.gamma, settings.seed, settings.top_k, settings.stop) == (3, MAX_SEED, 50, ("\n\n",))
    assert type(settings.gamma) is int


def test_quantization_belongs_to_quantized_self() -> None:
    assert make_settings(drafter="draft-model").quantization == ""
    assert make_settings(drafter="quantized-self", quantization="int8").quantization == "int8"


def test_greedy_match_at_temperature_zero() -> None:
    assert make_settings(rule="greedy-match", temperature=0).rule == "greedy-match"


@pytest.mark.parametrize("rule", LOSSY_RULES)
def test_a_lossy_rule_is_lossy_above_temperature_zero_alone(rule: str) -> None:
    settings = make_settings(rule=rule)
    assert (settings.epsilon, settings.delta, settings.kl_threshold) == (0.09, 0.3, 0.8)
    assert is_lossy(settings)
    assert not is_lossy(make_settings(rule=rule, temperature=0))
    assert not is_lossy(make_settings())


@pytest.mark.parametrize("prompt", ["", "  \n", None, 3, "x" * (MAX_PROMPT_CHARACTERS + 1), "\ud800"])
def test_bad_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(UserError):
        check_prompt(prompt)


def test_a_prompt_is_kept_as_typed() -> None:
    assert check_prompt("  Why? \n") == "  Why? \n"


_anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers())
)


@given(gamma=_anything, temperature=_anything, top_p=_anything, seed=_anything, stop=_anything)
def test_whatever_is_given_the_answer_is_settings_or_a_sentence(**values: object) -> None:
    try:
        assert isinstance(make_settings(**values), Settings)
    except UserError as refusal:
        assert 10 < len(str(refusal)) < 300
