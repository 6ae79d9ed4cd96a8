"""The uniform numbers as the device holds them, and what it draws with them."""

from __future__ import annotations

import torch
from scipy import stats
from torch import Tensor

from specviz.analysis.losslessness import BEYOND_CHANCE, chi_square
from specviz.decoding.distribution import as_law, draw, uniforms
from specviz.selftest.report import Outcome

SEED = 5
ROWS, COLUMNS = 2**14, 8  # 131,072 numbers
VOCABULARY, BATCH = 1000, 4096


def numbers(device: torch.device) -> Outcome:
    """A run's table goes to the device and back bit for bit, lies in [0, 1) and is uniform."""
    table = uniforms(SEED, ROWS, COLUMNS)
    back = table.to(device).cpu()
    same = torch.equal(back.view(torch.int32), table.view(torch.int32))
    inside = bool(((back >= 0) & (back < 1)).all())
    p_value = float(stats.kstest(back.double().flatten().numpy(), "uniform").pvalue)
    return Outcome(
        passed=same and inside and p_value >= BEYOND_CHANCE,
        measured=f"{'bit-equal' if same else 'changed'}, {'in' if inside else 'outside'} [0, 1), p-value {p_value:.2g}",
        limit=f"bit-equal, in [0, 1), p-value at least {BEYOND_CHANCE:g}",
        detail=f"Kolmogorov–Smirnov, {back.numel():,} numbers",
    )


def draws(device: torch.device) -> Outcome:
    """The engine's draw from a known law: the CPU's tokens but for rounding, and the law's frequencies."""
    weights = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(SEED)).mul(2).softmax(-1)
    u = uniforms(SEED, ROWS, COLUMNS, stream=1).flatten()
    there, here = _draw(weights, u, device), _draw(weights, u, torch.device("cpu"))
    differ = there != here
    wrong = int((differ & ~_at_a_boundary(weights, u, there, here)).sum())
    counts = torch.bincount(there.clamp(0, VOCABULARY - 1), minlength=VOCABULARY)
    p_value = chi_square(counts.numpy(), as_law(weights)).p_value
    return Outcome(
        passed=not wrong and p_value >= BEYOND_CHANCE,
        measured=f"{wrong} tokens other than the CPU's, p-value {p_value:.2g}",
        limit=f"0 but within rounding of a boundary, p-value at least {BEYOND_CHANCE:g}",
        detail=f"χ², {len(u):,} draws from {VOCABULARY:,} tokens; {int(differ.sum()) - wrong} differ within rounding",
    )


def _draw(weights: Tensor, u: Tensor, device: torch.device) -> Tensor:
    law = weights.to(device)
    return torch.cat([draw(law.expand(len(part), -1), part.to(device)).cpu() for part in u.split(BATCH)])


def _at_a_boundary(weights: Tensor, u: Tensor, there: Tensor, here: Tensor) -> Tensor:
    """Whether all boundaries between two tokens lie within the rounding of a running sum of float32 numbers of u."""
    rounding = torch.finfo(torch.float32).eps * VOCABULARY**0.5
    law = weights.double()
    boundaries = (law.cumsum(-1) / law.sum()).tolist()
    inside = (there >= 0) & (there < VOCABULARY)
    near = [
        all(abs(boundaries[token] - number) <= rounding for token in range(min(a, b), max(a, b)))
        for a, b, number in zip(there.clamp(0, VOCABULARY - 1).tolist(), here.tolist(), u.tolist(), strict=True)
    ]
    return inside & torch.tensor(near)
