"""The attention tab's m and ℓ are the softmax maximum and sum that ``npu_fusion_attention`` returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from torch import Tensor

from specviz.attention.hardware import find
from specviz.attention.problem import Problem
from specviz.attention.schedules import NAMES
from specviz.errors import UserError
from specviz.events import Done
from specviz.models.attention_hook import Captured
from specviz.models.load import load_pair
from specviz.race import race
from specviz.selftest.attention import statistics_of
from specviz.settings import make_settings
from specviz.tiles.execution import execute
from specviz.tiles.statistics import COPIES, Statistics, difference, of_execution, of_npu
from specviz.tiles.view import Phase, View, look
from tests.conftest import byte_tokenizer
from tests.npu import emulator

TRAINED = Path(__file__).parents[2] / "assets/drafts/smollm2-135m-draft-14m"
DEVICE, HARDWARE = torch.device("npu", 0), find("ascend-910b")
PHASES: tuple[Phase, ...] = ("verification", "prefill")
SAME = 1e-5  # relative to the largest |m|: the emulated kernel takes the very numbers, in float32


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def views(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[View]:
    """Verification and prefill of a run on the NPU, first and last layer of a trained model."""
    folder = tmp_path_factory.mktemp("trained")
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(TRAINED / name)
    byte_tokenizer().save_pretrained(folder)
    pair = load_pair(str(folder), device="npu", dtype=request.param)
    settings = make_settings(drafter="quantized-self", gamma=4, temperature=0.0, max_new_tokens=12)
    *_, done = race(pair, "A prompt of some length, so that there are several tiles to see.", settings, baseline=False)
    assert isinstance(done, Done)
    index = max(done.trace.runs[0].rounds, key=lambda round_: len(round_.drafted)).index
    layers = pair.target_module.config.num_hidden_layers
    return [look(done.trace, index, pair, phase, layer) for phase in PHASES for layer in (0, layers - 1)]


@pytest.fixture(scope="module")
def dtype(views: list[View]) -> torch.dtype:
    return torch.float32 if views[0].bytes_per_element == 4 else torch.bfloat16


def test_every_head_of_every_view_agrees(views: list[View], dtype: torch.dtype) -> None:
    assert [view.problem.queries for view in views[:2]] == [5, 5]
    for view in views:
        with emulator.counted() as counts:
            found, largest = statistics_of(view, DEVICE, dtype)
        assert counts.calls["npu_fusion_attention"] == 1
        assert largest > 1
        assert max(found) < SAME * largest


@pytest.mark.parametrize("tile", [None, (16, 16), (2, 8)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_ends_with_the_kernels_statistics(
    views: list[View], dtype: torch.dtype, name: str, tile: tuple[int, int] | None
) -> None:
    seen = 0
    for view in views:
        theirs = of_npu(view.captured, view.problem, DEVICE, dtype)
        for head in range(view.problem.heads):
            try:
                ours = of_execution(execute(view, head, name, HARDWARE, tile), head)
            except UserError:  # a schedule for one query only
                assert name == "ascend-incre-flash"
                continue
            apart = difference(ours, Statistics(*(part[head : head + 1] for part in theirs)))
            assert max(apart) < SAME * max(1, float(ours.m.abs().max()))
            seen += 1
    assert seen or name == "ascend-incre-flash"


def test_one_row_agrees_without_a_mask(views: list[View], dtype: torch.dtype) -> None:
    for view in views:
        seen = view.captured
        last = replace(seen, q=seen.q[:, -1:], o=seen.o[:, -1:])
        one = replace(view, captured=last)
        for name in ("ascend-incre-flash", "flash-decoding"):
            theirs = of_npu(last, one.problem, DEVICE, dtype)
            for head in range(one.problem.heads):
                ours = of_execution(execute(one, head, name, HARDWARE), head)
                apart = difference(ours, Statistics(*(part[head : head + 1] for part in theirs)))
                assert max(apart) < SAME * max(1, float(ours.m.abs().max()))


def test_the_shape_is_eight_copies_of_each_row(views: list[View], dtype: torch.dtype) -> None:
    view = views[0]
    m, ell = of_npu(view.captured, view.problem, DEVICE, dtype)
    assert m.shape == ell.shape == (view.problem.heads, view.problem.queries, COPIES)
    assert (m == m[..., :1]).all() and (ell >= 1 - 1e-6).all()


# ---- negative controls: a device with other conventions ----

Change = Callable[[dict[str, Any], tuple[Tensor, ...]], tuple[Tensor, ...]]


def other_scale(arguments: dict[str, Any], _: tuple[Tensor, ...]) -> None:
    arguments["scale"] *= 1.05


def default_scale(arguments: dict[str, Any], _: tuple[Tensor, ...]) -> None:
    del arguments["scale"]


def inverted_mask(arguments: dict[str, Any], _: tuple[Tensor, ...]) -> None:
    arguments["atten_mask"] = ~arguments["atten_mask"]


def no_mask(arguments: dict[str, Any], _: tuple[Tensor, ...]) -> None:
    arguments["atten_mask"] = None


def top_left_mask(arguments: dict[str, Any], tensors: tuple[Tensor, ...]) -> None:
    rows, keys = tensors[0].shape[2], tensors[1].shape[2]
    arguments["atten_mask"] = torch.ones(rows, keys, dtype=torch.bool).triu(1).to(DEVICE)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (other_scale, (0, 1, 2, 3)),
        (default_scale, (0, 1, 2, 3)),
        (inverted_mask, (0, 1, 2, 3)),
        (no_mask, (0, 1, 2, 3)),
        (top_left_mask, (0, 1)),  # the same mask where keys are as many as queries
    ],
)
def test_another_scale_or_mask_is_seen(
    views: list[View], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, change: Any, where: tuple[int, ...]
) -> None:
    kernel = torch_npu.npu_fusion_attention

    def changed(*tensors: Tensor, **arguments: Any) -> Any:
        change(arguments, tensors)
        return kernel(*tensors, **arguments)

    monkeypatch.setattr(torch_npu, "npu_fusion_attention", changed)
    for index in where:
        found, largest = statistics_of(views[index], DEVICE, dtype)
        assert max(found) > 1000 * SAME * largest


def test_one_copy_that_differs_is_seen(views: list[View], dtype: torch.dtype) -> None:
    view = views[0]
    m, ell = of_npu(view.captured, view.problem, DEVICE, dtype)
    ours = Statistics(m[..., 0], ell[..., 0])
    assert max(difference(ours, Statistics(m, ell))) == 0
    for spoiled in (0.5, float("nan")):
        other = m.clone()
        other[-1, -1, -1] += spoiled
        assert difference(ours, Statistics(other, ell)).m >= 0.5
    assert difference(ours, Statistics(m, ell * 2)).log_ell == pytest.approx(0.6931, abs=1e-3)


def test_grouped_heads_are_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(heads, n, 16, generator=generator) * 2 for heads, n in ((4, 3), (2, 9), (2, 9)))
    seen = Captured(q, k, v, torch.zeros_like(q), 0.25)
    theirs = of_npu(seen, Problem(3, 9, 4, 2, 16), DEVICE, torch.float32)
    view = View("verification", 0, 1, seen, (), 4)
    for name in ("flash-decoding", "flash-attention-2"):
        for head in range(4):
            ours = of_execution(execute(view, head, name, HARDWARE), head)
            right, wrong = (
                difference(ours, Statistics(*(part[other : other + 1] for part in theirs)))
                for other in (head, (head + 2) % 4)
            )
            assert max(right) < 1e-5 < 0.01 < max(wrong)
