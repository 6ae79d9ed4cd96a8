"""Every number of a device has a unit and a source; shapes and devices that cannot be are refused."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest

from specviz.attention import hardware, schedules, timeline
from specviz.attention.hardware import A100, ASCEND_910B, H100, Figure
from specviz.attention.problem import Problem
from specviz.attention.steps import Plan
from specviz.errors import UserError


def figures(machine: hardware.Hardware) -> list[Figure]:
    named = [getattr(machine, field.name) for field in fields(machine)]
    return [value for value in named if isinstance(value, Figure)] + [figure for _, figure in machine.buffers]


@pytest.mark.parametrize("machine", [A100, H100, ASCEND_910B], ids=lambda machine: machine.name)
def test_numbers_have_a_unit_and_a_source(machine: hardware.Hardware) -> None:
    assert all(figure.value > 0 and figure.unit and figure.source for figure in figures(machine))
    assert {figure.status for figure in figures(machine)} <= {"published", "unofficial", "derived"}


def test_what_is_not_published_is_marked() -> None:
    assert ASCEND_910B.bandwidth.status == "unofficial"
    assert ASCEND_910B.flops.status == "derived"
    assert pytest.approx(ASCEND_910B.flops.value, rel=0.01) == 24 * 16**3 * 2 * 1.85e9
    assert H100.exponentials and H100.exponentials.status == "published"


@pytest.mark.parametrize("size", [None, "0K", "about 1 MB"])
def test_a_system_that_does_not_state_its_caches_gets_a_sentence(
    size: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "index2"
    folder.mkdir()
    (folder / "level").write_text("2\n")
    if size:
        (folder / "size").write_text(f"{size}\n")
    monkeypatch.setattr(hardware, "CACHES", tmp_path)
    monkeypatch.setenv("PATH", "")  # no sysctl either
    with pytest.raises(UserError, match="does not state its cache sizes"):
        hardware.find("this-machine")


def test_this_machine_is_measured() -> None:
    here = hardware.find("this-machine")
    assert {figure.status for figure in figures(here)} == {"measured"}
    assert 2**14 <= here.on_chip.value <= 2**30
    assert here.bandwidth.value > 1e8 and here.flops.value > 1e8


def test_devices_are_found_by_name_and_others_refused() -> None:
    assert hardware.find("A100") is A100
    with pytest.raises(UserError, match="must be one of a100"):
        hardware.find("tpu")
    with pytest.raises(UserError, match="above 0"):
        hardware.custom(0, 1, 1, 1)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"queries": 0, "keys": 1}, "number of queries"),
        ({"queries": 1, "keys": 2**21}, "number of keys"),
        ({"queries": 1, "keys": 1, "heads": 3, "kv_heads": 2}, "do not divide"),
        ({"queries": 1, "keys": 1, "head_dim": 257}, "head dimensions"),
        ({"queries": 6, "keys": 5}, "at least as many keys"),
    ],
)
def test_shapes_that_cannot_be_are_refused(shape: dict[str, int], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Problem(**shape)
    assert Problem(6, 5, causal=False).visible(0) == 5


@pytest.mark.parametrize(
    ("name", "machine"), [("flash-attention-3", H100), ("ascend-flash-attention-score", ASCEND_910B)]
)
@pytest.mark.parametrize("queries", [5, 2048])
def test_overlap_obeys_its_dependencies_and_gains(name: str, machine: hardware.Hardware, queries: int) -> None:
    one = schedules.plan(name, Problem(queries, 8192, 8, 8, 128), machine)
    spans, serial = timeline.timeline(one), timeline.timeline(one, overlap=False)
    assert [span[:4] for span in spans] == [span[:4] for span in serial]
    assert max(span.end for span in spans) < max(span.end for span in serial)
    for unit in {span.unit for span in spans}:
        mine = sorted((span.start, span.end) for span in spans if span.unit == unit)
        assert all(later[0] >= earlier[1] for earlier, later in pairwise(mine))
    ends = {(span.lane, span.what, span.tile): span.end for span in spans}
    for lane, unit, what, tile, start, _ in spans:
        if what == "softmax":
            scorer = lane if name == "flash-attention-3" else "cube"
            assert unit == "softmax" and start >= ends[scorer, "Q·Kᵀ", tile]
        if what == "P·V":
            softener = lane if name == "flash-attention-3" else "vector"
            assert start >= ends[softener, "softmax", tile]


def test_while_one_warpgroup_multiplies_another_is_at_its_softmax() -> None:
    one = schedules.plan("flash-attention-3", Problem(2048, 2048, 8, 8, 128), H100)
    spans = timeline.timeline(one)
    products = [span for span in spans if span.lane == "consumer 2" and span.unit == "matrix"]
    softmaxes = [span for span in spans if span.lane == "consumer 1" and span.unit == "softmax"]
    assert any(a.start < b.end and b.start < a.end for a in products for b in softmaxes)


def test_loads_wait_until_every_warpgroup_is_done_with_the_tile_two_before() -> None:
    one = schedules.plan("flash-attention-3", Problem(2048, 8192, 8, 8, 128, causal=False), H100)
    spans = timeline.timeline(one)
    for load, user in (("K", "Q·Kᵀ"), ("V", "P·V")):
        starts = {span.tile: span.start for span in spans if span.what == load}
        used = [(span.tile, span.end) for span in spans if span.what == user]
        assert all(starts[tile + 2] >= end for tile, end in used if tile + 2 in starts)


def test_the_cube_core_is_two_blocks_ahead() -> None:
    one = schedules.plan("ascend-flash-attention-score", Problem(2048, 8192, 8, 8, 128), ASCEND_910B)
    order = [(span.what, span.tile) for span in timeline.timeline(one) if span.lane == "cube"]
    assert order[:4] == [("Q·Kᵀ", 0), ("Q·Kᵀ", 1), ("P·V", 0), ("Q·Kᵀ", 2)]


def test_what_is_not_modelled_is_refused() -> None:
    with pytest.raises(UserError, match="modelled for"):
        timeline.timeline(schedules.plan("standard", Problem(5, 512), H100))


def test_tiles_of_a_few_rows_take_the_overlap_less_time() -> None:
    plan = schedules.plan("flash-attention-3", Problem(512, 512), H100)
    few = replace(plan, tiling=replace(plan.tiling, rows=8))
    assert longest(few, "matrix") == pytest.approx(longest(plan, "matrix") / 8)
    assert longest(few, "softmax") == pytest.approx(longest(plan, "softmax") / 8)


def longest(plan: Plan, unit: str) -> float:
    return max(span.end - span.start for span in timeline.timeline(plan) if span.unit == unit)
