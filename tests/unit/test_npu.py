"""What is read off an NPU and what is switched on it, on a stand-in for torch.npu (tests/npu has the real one)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from specviz import npu

DEVICE = torch.device("cpu")  # never looked at by the stand-in


class Backend:
    """torch.npu of one chip, as far as npu.py uses it."""

    def __init__(self, chip: str) -> None:
        self.chip, self.called = chip, list[tuple[str, object]]()
        self.utils = SimpleNamespace(get_cann_version=lambda module: {"CANN": "8.5.0", "DRIVER": "25.5.0"}[module])

    def get_device_name(self, device: torch.device) -> str:
        return self.chip

    def mem_get_info(self, device: torch.device) -> tuple[int, int]:
        return 3, 7

    def set_device(self, device: torch.device) -> None:
        self.called.append(("set_device", device))

    def set_compile_mode(self, jit_compile: bool) -> None:
        self.called.append(("jit_compile", jit_compile))


@pytest.fixture
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    standing_in = Backend(request.param)
    monkeypatch.setattr(npu, "_backend", lambda: standing_in)
    npu._settle.cache_clear()
    yield standing_in
    npu._settle.cache_clear()


@pytest.mark.parametrize("backend", ["Ascend310P3", "Ascend310P1"], indirect=True)
def test_a_310p_compiles_nothing_on_the_way_and_is_told_once(backend: Backend) -> None:
    npu.use(DEVICE)
    npu.use(DEVICE)
    assert backend.called == [("set_device", DEVICE), ("jit_compile", False), ("set_device", DEVICE)]


@pytest.mark.parametrize("backend", ["Ascend910B2"], indirect=True)
def test_other_chips_keep_their_way_to_compile(backend: Backend) -> None:
    npu.use(DEVICE)
    assert backend.called == [("set_device", DEVICE)]


@pytest.mark.parametrize(
    ("backend", "yes"),
    [
        ("Ascend910B1", True),
        ("Ascend910B4-1", True),
        ("Ascend910_9392", True),
        ("Ascend910B", False),
        ("Ascend910A", False),
        ("Ascend910ProB", False),
        ("Ascend310P3", False),
    ],
    indirect=["backend"],
)
def test_atlas_a2_and_a3_are_told_by_name(backend: Backend, yes: bool) -> None:
    assert npu.is_atlas_a2_or_a3(DEVICE) == yes


@pytest.mark.parametrize("backend", ["Ascend910B2"], indirect=True)
def test_the_driver_is_asked_for_where_its_file_says_nothing(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "version.info"
    monkeypatch.setattr(npu, "DRIVER_INFO", info)
    assert npu.versions()["driver"] == "25.5.0"
    info.write_text("package_version=25.5\n")
    assert npu.versions()["driver"] == "25.5.0"
    info.write_text("package_version=25.5\nVersion=25.2.1\nascendhal_version=7\n")
    assert npu.versions()["driver"] == "25.2.1"
    assert npu.versions()["cann"] == "8.5.0"
    info.write_bytes(b"\xff\xfe\nVersion=25.3\n")
    assert npu.versions()["driver"] == "25.3"
    info.write_bytes(bytes(range(128, 256)))
    assert npu.versions()["driver"] == "25.5.0"


@pytest.mark.parametrize("backend", ["Ascend910B2"], indirect=True)
def test_free_memory_is_not_all_memory(backend: Backend) -> None:
    assert npu.free_bytes(DEVICE) == 3


def test_only_variables_that_are_set_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in npu.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    assert npu.environment() == {}
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "2,3")
    monkeypatch.setenv("PATH_OF_NO_INTEREST", "x")
    assert npu.environment() == {"ASCEND_RT_VISIBLE_DEVICES": "2,3"}
