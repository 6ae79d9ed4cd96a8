"""What speculation should gain: the model of Leviathan et al. 2023 (arXiv 2211.17192, theorem 3.8).

Each drafted token is taken to be accepted with the same chance α, whatever came before. Real runs differ:
acceptance comes in stretches, so a measured speedup beside this one shows what the assumption costs.
"""

from __future__ import annotations

import math


def expected_tokens(alpha: float, gamma: float) -> float:
    """τ: mean tokens per target forward, (1 − α^(γ+1)) / (1 − α), the residual or bonus token counted."""
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"acceptance must lie in [0, 1] and γ be at least 0; got {alpha} and {gamma}")
    if alpha == 1:
        return gamma + 1
    if alpha == 0:
        return 1.0
    return -math.expm1((gamma + 1) * math.log(alpha)) / (1 - alpha)


def expected_speedup(alpha: float, gamma: float, cost: float, overhead: float = 1.0) -> float:
    """Speed over standard decoding, τ / (γ·c + T(γ+1)/T(1)).

    ``cost`` is c, one draft step over one target step; ``overhead`` is T(γ+1)/T(1).
    """
    return expected_tokens(alpha, gamma) / (gamma * cost + overhead)


def break_even_alpha(gamma: float, cost: float, overhead: float = 1.0) -> float | None:
    """The least α at which speculation is no slower than standard decoding; None if no α suffices."""
    needed = gamma * cost + overhead
    if needed > gamma + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):  # τ grows with α: halve the interval down to a float's resolution
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, gamma) >= needed else (middle, high)
    return high


def article_speedup(alpha: float, gamma: float, draft_step_s: float, target_step_s: float) -> float:
    """The shortcut many articles use: α·γ tokens in the time of one draft step and one target step.

    It leaves out the residual or bonus token and all draft steps but one. At α = 0.8, γ = 4, 10 ms and 50 ms
    it says 2.67, where ``expected_speedup(0.8, 4, 10 / 50)`` says 1.87.
    """
    return alpha * gamma * target_step_s / (draft_step_s + target_step_s)
