"""What a person may ask for: one place that checks it, for the page, its API and the command line alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast, get_args

from specviz.errors import UserError
from specviz.trace import LOSSY_RULES, Quantization, Settings

DRAFTERS = ("quantized-self", "draft-model", "prompt-lookup")
QUANTIZATIONS: tuple[str, ...] = get_args(Quantization)
RULES = ("rejection-sampling", "greedy-match", *LOSSY_RULES)

DEFAULT_DRAFTER = "quantized-self"
DEFAULT_QUANTIZATION = "int4-g32-head4"
DEFAULT_RULE = "rejection-sampling"
DEFAULT_GAMMA = 4
DEFAULT_TEMPERATURE = 0.7
DEFAULT_MAX_NEW_TOKENS = 96
DEFAULT_EPSILON, DEFAULT_DELTA = 0.09, 0.3  # as in Medusa's own code, which recommends δ = √ε
DEFAULT_KL_THRESHOLD = 0.8
DEFAULT_SEED = 2  # with it every example prompt shows all kinds of tokens within its first 20 rounds

MAX_GAMMA = 15  # fused decoding attention on Ascend takes at most 16 query tokens: γ + 1
MAX_TEMPERATURE = 5.0
MAX_NEW_TOKENS = 4096
MAX_KL_THRESHOLD = 100.0
MAX_TOP_K = 2**24 - 1
MAX_SEED = 2**53 - 1  # the largest whole number that a browser holds exactly
MAX_PROMPT_CHARACTERS = 20_000
MAX_STOP_STRINGS = 16
MAX_STOP_CHARACTERS = 200

_GREEDY_NEEDS_ZERO = (
    "The rule greedy-match needs temperature 0; you gave {:g}. Set the temperature to 0 or choose rejection-sampling."
)


def make_settings(
    *,
    drafter: object = DEFAULT_DRAFTER,
    gamma: object = DEFAULT_GAMMA,
    temperature: object = DEFAULT_TEMPERATURE,
    top_k: object = 0,
    top_p: object = 1.0,
    seed: object = DEFAULT_SEED,
    max_new_tokens: object = DEFAULT_MAX_NEW_TOKENS,
    rule: object = DEFAULT_RULE,
    quantization: object = None,
    min_confidence: object = 0.0,
    stop: object = (),
    epsilon: object = DEFAULT_EPSILON,
    delta: object = DEFAULT_DELTA,
    kl_threshold: object = DEFAULT_KL_THRESHOLD,
    token_limit: int = MAX_NEW_TOKENS,
) -> Settings:
    """Checked settings. ``quantization=None`` picks the default where the drafter needs one.

    ``token_limit`` is the operator's bound on ``max_new_tokens``. Raises UserError, which names the
    setting, what was given and what is allowed.
    """
    chosen_drafter = _choice("The drafter", drafter, DRAFTERS)
    chosen_temperature = _real("The temperature", temperature, 0.0, MAX_TEMPERATURE)
    chosen_rule = _choice("The rule", rule, RULES)
    if chosen_rule == "greedy-match" and chosen_temperature > 0:
        raise UserError(_GREEDY_NEEDS_ZERO.format(chosen_temperature))
    return Settings(
        drafter=chosen_drafter,
        gamma=_whole("γ (gamma)", gamma, 1, MAX_GAMMA),
        temperature=chosen_temperature,
        top_k=_whole("top-k", top_k, 0, MAX_TOP_K),
        top_p=_top_p(top_p),
        seed=_whole("The seed", seed, 0, MAX_SEED),
        max_new_tokens=_whole("The number of new tokens", max_new_tokens, 1, token_limit),
        rule=chosen_rule,
        quantization=_quantization(chosen_drafter, quantization),
        min_confidence=_real("The minimum confidence", min_confidence, 0.0, 1.0),
        stop=_stop_strings(stop),
        epsilon=_real("ε (epsilon)", epsilon, 0.0, 1.0),
        delta=_real("δ (delta)", delta, 0.0, 1.0),
        kl_threshold=_real("The KL threshold", kl_threshold, 0.0, MAX_KL_THRESHOLD),
    )


def changed(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """The settings with another temperature, top_k, top_p, rule, epsilon, delta or kl_threshold: what judges a round.

    A rule that is chosen without a temperature brings its own: greedy match needs 0. Raises UserError.
    """
    checks: dict[str, Callable[[object], object]] = {
        "temperature": lambda value: _real("The temperature", value, 0.0, MAX_TEMPERATURE),
        "top_k": lambda value: _whole("top-k", value, 0, MAX_TOP_K),
        "top_p": _top_p,
        "rule": lambda value: _choice("The rule", value, RULES),
        "epsilon": lambda value: _real("ε (epsilon)", value, 0.0, 1.0),
        "delta": lambda value: _real("δ (delta)", value, 0.0, 1.0),
        "kl_threshold": lambda value: _real("The KL threshold", value, 0.0, MAX_KL_THRESHOLD),
    }
    if unknown := sorted(set(changes) - set(checks)):
        raise UserError(f"A round is judged by {', '.join(checks)}; you gave {_shown(unknown[0])}.")
    chosen: dict[str, Any] = {name: checks[name](value) for name, value in changes.items()}
    if chosen.get("rule") == "greedy-match":
        chosen.setdefault("temperature", 0.0)
    result = replace(settings, **chosen)
    if result.rule == "greedy-match" and result.temperature > 0:
        if "rule" in chosen:
            raise UserError(_GREEDY_NEEDS_ZERO.format(result.temperature))
        result = replace(result, rule=DEFAULT_RULE)
    return result


def check_prompt(prompt: object) -> str:
    """The prompt as given, if it can be used. Raises UserError if it is empty, no text, or too long."""
    if not isinstance(prompt, str):
        raise UserError(f"The prompt must be text; you gave {_shown(prompt)}.")
    if not prompt.strip():
        raise UserError("The prompt is empty. Type a question or pick an example.")
    if len(prompt) > MAX_PROMPT_CHARACTERS:
        raise UserError(
            f"The prompt has {len(prompt):,} characters; at most {MAX_PROMPT_CHARACTERS:,} are read. Shorten it."
        )
    _check_whole("The prompt", prompt)
    return prompt


def _check_whole(name: str, text: str) -> None:
    """Refuse text that no file and no page can hold."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UserError(f"{name} holds half a character (an unpaired surrogate). Type it again.")


def _quantization(drafter: str, value: object) -> Quantization | Literal[""]:
    if drafter != "quantized-self":
        if value in (None, ""):
            return ""
        raise UserError(
            f"Quantization is for the drafter quantized-self alone; you gave {_shown(value)} with {drafter}."
        )
    chosen = DEFAULT_QUANTIZATION if value in (None, "") else _choice("The quantization", value, QUANTIZATIONS)
    return cast(Quantization, chosen)


def _top_p(value: object) -> float:
    number = _real("top-p", value, 0.0, 1.0)
    if number == 0:
        raise UserError("top-p must be above 0 and at most 1; you gave 0.")
    return number


def _stop_strings(value: object) -> tuple[str, ...]:
    if value is None or value == "":
        return ()
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, Sequence) or not all(isinstance(item, str) for item in strings):
        raise UserError(f"The stop strings must be a list of texts; you gave {_shown(value)}.")
    if len(strings) > MAX_STOP_STRINGS:
        raise UserError(f"At most {MAX_STOP_STRINGS} stop strings are used; you gave {len(strings)}.")
    for item in strings:
        if not 1 <= len(item) <= MAX_STOP_CHARACTERS:
            raise UserError(f"A stop string has 1 to {MAX_STOP_CHARACTERS} characters; you gave {len(item)}.")
        _check_whole("A stop string", item)
    return tuple(strings)


def _choice(name: str, value: object, allowed: Sequence[str]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    raise UserError(f"{name} must be one of {', '.join(allowed)}; you gave {_shown(value)}.")


def _real(name: str, value: object, low: float, high: float) -> float:
    number = _number(value)
    if number is None or not low <= number <= high:
        raise UserError(f"{name} must be a number from {low:g} to {high:g}; you gave {_shown(value)}.")
    return number


def _whole(name: str, value: object, low: int, high: int) -> int:
    number = _number(value)
    if number is None or not low <= number <= high or number != int(number):
        raise UserError(f"{name} must be a whole number from {low} to {high}; you gave {_shown(value)}.")
    return int(cast(float, value))


def _number(value: object) -> float | None:
    """A finite number, or None. True and False are no numbers here."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _shown(value: object) -> str:
    """What was given, short enough for a sentence."""
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
