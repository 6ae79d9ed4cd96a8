"""Random problems: odd sizes, verifications and prefills, grouped heads, masked or not."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from specviz.attention.hardware import A100, ASCEND_910B, H100, Hardware, custom
from specviz.attention.problem import Problem
from specviz.attention.schedules import NAMES, SCHEDULES, plan
from specviz.attention.steps import Plan

TINY = custom(cores=40, on_chip_bytes=64 * 1024, bandwidth=1e11, flops=1e12)
MACHINES = (A100, H100, ASCEND_910B, TINY)
ALIGNED = st.sampled_from([64, 128, 192, 256])  # where tiles end exactly at the mask's edge
HEAD_DIMS = (32, 40, 64, 80, 96, 128, 192, 256)


@st.composite
def problems(draw: st.DrawFn, longest: int = 400) -> Problem:
    """A verification of γ = 1 to 15 drafts, one query, or a prefill, with or without a context before it."""
    queries = draw(st.one_of(st.just(1), st.integers(2, 16), st.integers(17, longest), ALIGNED))
    keys = queries + draw(st.one_of(st.just(0), st.integers(0, longest), ALIGNED))
    group, kv_heads = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    head_dim, causal = draw(st.sampled_from(HEAD_DIMS)), draw(st.booleans())
    return Problem(queries, keys, group * kv_heads, kv_heads, head_dim, causal)


machines = st.sampled_from(MACHINES)


def plans(problem: Problem, machine: Hardware = A100) -> list[Plan]:
    """One plan for each schedule that takes the problem."""
    return [plan(name, problem, machine) for name in NAMES if not SCHEDULES[name].refuses(problem)]


def tensors(problem: Problem, seed: int = 0, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(problem.heads, problem.queries, problem.head_dim, generator=generator)
    k, v = torch.randn(2, problem.kv_heads, problem.keys, problem.head_dim, generator=generator)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def mask(problem: Problem) -> NDArray[np.bool_]:
    """Which scores count, [queries, keys], from the definition."""
    query, key = np.ogrid[: problem.queries, : problem.keys]
    everything = np.ones((problem.queries, problem.keys), dtype=bool)
    return key <= query + problem.keys - problem.queries if problem.causal else everything
