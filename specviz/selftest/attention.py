"""The device's attention kernels against attention worked out in float64, and against the tab's m and ℓ.

Each row's query points at the key of its own position and twice as strongly at the next, which the causal mask hides:
a mask that is one off in either direction changes a row altogether. What lies behind the valid part of the cache is
NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from specviz import npu
from specviz.attention.hardware import find
from specviz.attention.problem import Problem
from specviz.attention.reference import attention
from specviz.errors import UserError
from specviz.events import Done
from specviz.models.attention import Attention, Heads, kernel
from specviz.race import race
from specviz.selftest.report import NotApplicableError, Outcome
from specviz.selftest.subject import PROMPT, Subject
from specviz.selftest.tokens import rounding
from specviz.tiles.execution import execute
from specviz.tiles.statistics import Difference, difference, of_execution, of_npu
from specviz.tiles.view import Phase, View, look
from specviz.trace import Trace

OWN = 6.0  # the score of a row's own key, where others have about 1
KEYS, SPARE = 200, 56  # cached positions, and room behind them
SHAPES = ((1, KEYS), (2, KEYS), (5, KEYS), (16, KEYS), (128, 128))  # (rows, positions): steps, verifications, a prompt
OTHER_HEADS = ((8, 2, 64), (8, 8, 64), (8, 2, 128))  # query heads, key heads, head_dim
TOLERANCE = 8  # times the rounding, of V's largest number
STATISTICS_TOLERANCE = 2  # times the rounding, of the largest |m|
SCHEDULE = "ascend-flash-attention-score"


def against_float64(subject: Subject, kind: Attention) -> Outcome:
    """One kernel on the shapes of a prompt, of verifications and of single steps."""
    model, config = subject.pair.target, subject.pair.target_module.config.get_text_config(decoder=True)
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    limit, worst, where = TOLERANCE * rounding(model.dtype), 0.0, ""
    for query, key, dim in dict.fromkeys(((heads, kv_heads, head_dim), *OTHER_HEADS)):
        try:
            here = Heads(query, key, dim, model.dtype, model.device)
            kernel(kind, here)
        except UserError as refusal:
            if (query, key, dim) == (heads, kv_heads, head_dim):
                raise NotApplicableError(str(refusal)) from refusal
            raise
        for rows, positions in SHAPES:
            error = _error(kind, here, rows, positions)
            if error >= worst:
                worst, where = error, f"{rows} rows on {positions} keys, {query} heads on {key} of size {dim}"
    return Outcome(worst <= limit, f"{worst:.2g} of the largest V", f"{limit:.2g}", f"worst: {where}")


def _error(kind: Attention, heads: Heads, rows: int, positions: int) -> float:
    """The largest |ΔO| of the kernel, relative to the largest |V|."""
    problem = Problem(rows, positions, heads.query, heads.key, heads.dim)
    q, k, v = (tensor.to(heads.dtype) for tensor in _pointing(problem))
    way = kernel(kind, heads)
    keys, values = (_cached(tensor, heads) for tensor in (k, v))
    mask = way.mask(rows, positions, heads)
    if mask is None and rows > 1:
        raise RuntimeError("several rows got no mask")
    output = way.attend(q[None].to(heads.device), keys, values, mask)[0].cpu()
    exact, _ = attention(problem, q, k, v, 1 / math.sqrt(heads.dim))
    error = (output.double() - exact).abs().nan_to_num(nan=torch.inf).max()
    return float(error) / float(v.abs().max())


def _pointing(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """q [heads, m, d], k and v [kv_heads, n, d] float32 as the module's docstring says."""
    generator = torch.Generator().manual_seed(0)
    cached = (problem.kv_heads, problem.keys, problem.head_dim)
    k, v = (torch.randn(cached, generator=generator) for _ in ("keys", "values"))
    unit = k / k.norm(dim=-1, keepdim=True) ** 2 * OWN * math.sqrt(problem.head_dim)
    own = unit[:, problem.keys - problem.queries :]
    following = torch.cat((own[:, 1:], torch.zeros_like(own[:, :1])), 1)
    q = (own + 2 * following).repeat_interleave(problem.group, 0)
    return q + torch.randn(q.shape, generator=generator) * 0.3, k, v


def _cached(tensor: Tensor, heads: Heads) -> Tensor:
    """[1, kv_heads, n, d]: the head of a longer buffer on the device, as the models' cache gives it; NaN behind."""
    kv_heads, n, dim = tensor.shape
    buffer = torch.full((1, kv_heads, n + SPARE, dim), math.nan, dtype=heads.dtype, device=heads.device)
    buffer[:, :, :n] = tensor.to(heads.device)
    return buffer[:, :, :n]


def statistics(subject: Subject) -> Outcome:
    """The tab's m and ℓ of a verification and of the prompt, first and last layer, against npu_fusion_attention's."""
    device, dtype = subject.device, subject.pair.target.dtype
    if not npu.is_atlas_a2_or_a3(device):
        raise NotApplicableError(f"{npu.chip(device)} has no npu_fusion_attention.")
    largest, found = 0.0, Difference(0.0, 0.0)
    for view in _views(subject):
        apart, size = statistics_of(view, device, dtype)
        found = Difference(*map(max, zip(found, apart, strict=True)))
        largest = max(largest, size)
    limit = STATISTICS_TOLERANCE * rounding(dtype) * max(1.0, largest)
    return Outcome(
        passed=max(found) <= limit,
        measured=f"m {found.m:.2g}, ln ℓ {found.log_ell:.2g}",
        limit=f"{limit:.2g}",
        detail=f"the schedule {SCHEDULE} on {device.type}'s own Q, K, V; the largest |m| is {largest:.3g}",
    )


def statistics_of(view: View, device: torch.device, dtype: torch.dtype) -> tuple[Difference, float]:
    """How far m and ln ℓ of all heads are apart, and the largest |m|."""
    theirs = of_npu(view.captured, view.problem, device, dtype)
    hardware, largest, found = find("ascend-910b"), 0.0, Difference(0.0, 0.0)
    for head in range(view.problem.heads):
        ours = of_execution(execute(view, head, SCHEDULE, hardware), head)
        apart = difference(ours, type(theirs)(*(part[head : head + 1] for part in theirs)))
        found = Difference(*map(max, zip(found, apart, strict=True)))
        largest = max(largest, float(ours.m.abs().max()))
    return found, largest


def _views(subject: Subject) -> Iterator[View]:
    trace = _recorded(subject)
    index = max(trace.runs[0].rounds, key=lambda round_: len(round_.drafted)).index
    layers = subject.pair.target_module.config.get_text_config(decoder=True).num_hidden_layers
    phases: tuple[Phase, ...] = ("verification", "prefill")
    for phase in phases:
        for layer in sorted({0, layers - 1}):
            yield look(trace, index, subject.pair, phase, layer)


def _recorded(subject: Subject) -> Trace:
    *_, done = race(subject.pair, PROMPT, subject.settings(0.0), baseline=False)
    assert isinstance(done, Done)
    return done.trace


def kinds(subject: Subject) -> list[Attention]:
    """The kernels to ask the device about."""
    return ["fused", "npu-fused-infer"] if subject.device.type == "npu" else ["fused"]
