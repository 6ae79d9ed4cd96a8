"""What of the NPU's packed layers needs no NPU: its form of the int4 grid, and which chips have the kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specviz import devices
from specviz.errors import UserError
from specviz.models.grids import int4_grid
from specviz.models.packed_npu import as_offsets, kernel_dtype, require

DTYPES = [torch.float16, torch.bfloat16]
GROUP = 32


def told_with_zeros(levels: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    groups = (levels - 8).unflatten(1, (-1, GROUP)).float()
    return (groups * scale.float()[..., None] + zero.float()[..., None]).flatten(1)


def told_with_offsets(levels: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    groups = levels.unflatten(1, (-1, GROUP)).float()
    return ((groups + offset.float()[..., None]) * scale.float()[..., None]).flatten(1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_offsets_tell_the_same_weights_as_zeros(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    grid = int4_grid((torch.randn(48, 128) * 0.05).to(dtype), GROUP)
    levels, scale, offset = as_offsets(*grid, dtype)
    assert torch.equal(levels, grid[0] - 8)  # the same levels as on the CPU
    assert torch.equal(scale, grid[1])
    assert (scale.dtype, offset.dtype) == (dtype, dtype)
    error = (told_with_offsets(levels, scale, offset) - told_with_zeros(*grid)).abs()
    # What is rounded is the offset, to within half a unit in its last place.
    step = scale.float().abs().repeat_interleave(GROUP, 1) * offset.float().abs().repeat_interleave(GROUP, 1)
    assert (error <= step * torch.finfo(dtype).eps / 2 + 1e-6).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [0.0, 0.25, -0.25, 8.0, 1000.0])
def test_a_group_of_equal_weights_keeps_them(dtype: torch.dtype, value: float) -> None:
    levels, scale, offset = as_offsets(*int4_grid(torch.full((8, 64), value, dtype=dtype), GROUP), dtype)
    assert told_with_offsets(levels, scale, offset).tolist() == [[value] * 64] * 8
    assert levels.min() >= -8


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_group_whose_steps_vanish_holds_its_zero_alone(dtype: torch.dtype) -> None:
    levels = torch.arange(64, dtype=torch.int32).remainder(16).expand(8, 64)
    scale, zero = torch.full((8, 2), 1e-45), torch.full((8, 2), 0.25)
    told = told_with_offsets(*as_offsets(levels, scale, zero, dtype))
    assert told.tolist() == [[0.25] * 64] * 8


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_too_small_for_their_steps_stay_finite_and_near(dtype: torch.dtype) -> None:
    weight = (0.001 + torch.randn(8, 64) * 1e-6).to(dtype)
    told = told_with_offsets(*as_offsets(*int4_grid(weight, GROUP), dtype))
    assert (told - weight.float()).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("chip", "bits"),
    [
        ("Ascend910B2", (4, 8)),
        ("Ascend910B4-1", (4, 8)),
        ("Ascend910_9391", (4, 8)),
        ("Ascend950DT_9571", (4, 8)),
        ("Ascend310P3", (8,)),
        ("Ascend910B", ()),
        ("Ascend910ProA", ()),
        ("Ascend310B1", ()),
    ],
)
def test_a_chip_without_the_kernel_is_refused(
    chip: str, bits: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "name", lambda device: chip)
    for asked in (4, 8):
        if asked in bits:
            require(torch.device("cpu"), asked)
        else:
            with pytest.raises(UserError, match=f"^{chip} has no kernel for int{asked} weights. ") as refusal:
                require(torch.device("cpu"), asked)
            assert ("quantization int8" in str(refusal.value)) == (8 in bits)
            assert "draft-model or prompt-lookup" in str(refusal.value)


@pytest.mark.parametrize(
    ("dtype", "has_bfloat16", "expected"),
    [
        (torch.float16, True, torch.float16),
        (torch.bfloat16, True, torch.bfloat16),
        (torch.float32, True, torch.bfloat16),
        (torch.float32, False, torch.float16),
    ],
)
def test_a_float32_model_is_computed_in_the_16_bits_of_its_device(
    dtype: torch.dtype, has_bfloat16: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "supports", lambda device, dtype: has_bfloat16)
    assert kernel_dtype(torch.zeros(1, dtype=dtype)) == expected
