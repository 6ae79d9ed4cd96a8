"""Operators of the emulator: the CPU's numbers, nothing unwritten, nothing uncounted, nothing in silence."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
import torch_npu
from torch import Tensor

from tests.npu import emulator


def npu(*values: float) -> Tensor:
    return torch.tensor(values, device="npu", dtype=torch.float32)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: (x @ x.mT).softmax(-1),
        lambda x: x.cumsum(-1).sort(descending=True).values,
        lambda x: x.topk(2).indices,
        lambda x: torch.cat([x, x.flip(0)]).argmax(-1),
        lambda x: torch.where(x > 0, x, x.new_zeros(())),
        lambda x: torch.searchsorted(x.sort().values, x),
        lambda x: x.index_select(0, torch.tensor([1, 1], device=x.device)),
        lambda x: x.clone().masked_fill_(x > 0, -torch.inf).logsumexp(-1),
        lambda x: torch.arange(6, device=x.device).view(2, 3).float() + x[:2, :3],
        lambda x: x[:, ::2].contiguous().mT.bfloat16(),
        lambda x: torch.add(x, 1, out=x.new_empty(0)),
        lambda x: torch.nn.functional.scaled_dot_product_attention(*[x[None, None]] * 3, is_causal=True),
    ],
)
def test_values_are_the_cpus(compute: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(4, 6)
    y = compute(x.npu())
    assert y.device.type == "npu"
    assert torch.allclose(y.cpu().float(), compute(x).float(), atol=1e-6)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.view(2, 12),
        lambda x: x[1:, ::2],
        lambda x: x[None].squeeze().unsqueeze(1).squeeze(1),
        lambda x: x.unfold(1, 2, 2),
        lambda x: x.as_strided((3, 2), (6, 2), 1),
        lambda x: x.mT.reshape(6, 2, 2),
        lambda x: torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2))),
        lambda x: x.new_empty(0).set_(x.untyped_storage(), 2, (2, 2), (1, 3)),
    ],
)
def test_torch_npus_own_views_hold_the_same_numbers(view: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(4, 6)
    on_npu = x.npu()
    y = view(on_npu)
    assert torch.equal(y.cpu(), view(x)) and y.stride() == view(x).stride()
    y.zero_()
    view(x).zero_()
    assert torch.equal(on_npu.cpu(), x)


def test_inference_mode_and_autograd() -> None:
    x = torch.randn(3, 3)
    with torch.inference_mode():
        assert torch.equal((x.npu() @ x.npu()).add_(1).cpu(), x @ x + 1)
    on_cpu, on_npu = x.clone().requires_grad_(), x.npu().requires_grad_()
    for leaf in (on_cpu, on_npu):
        (leaf @ leaf).softmax(-1)[0].square().sum().backward()
    assert torch.allclose(on_npu.grad.cpu(), on_cpu.grad)
    with pytest.raises(NotImplementedError, match="gradient of gather"):
        on_npu.gather(0, torch.zeros(1, 3, dtype=torch.long, device="npu"))


def test_calls_and_copies_are_counted() -> None:
    x, y = torch.ones(3), npu(1, 2, 3)
    with emulator.counted() as counts:
        z = x.npu() + y
        z.cpu()
        z.tolist()
        z.sum().item()
        y.copy_(z)
    assert counts.calls == {"add.Tensor": 1, "sum": 1, "_local_scalar_dense": 1}
    assert counts.copies == {"cpu>npu": 1, "npu>cpu": 3, "npu>npu": 1}
    assert counts.bytes == {"cpu>npu": 12, "npu>cpu": 12 + 12 + 4, "npu>npu": 12}
    y.cpu()
    assert counts.copies["npu>cpu"] == 3  # the block has ended


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.nonzero(),
        lambda x: x[x > 1],
        lambda x: x.__setitem__(x > 1, 0),
        lambda x: x.unique(),
        lambda x: torch.equal(x, x),
        lambda x: bool((x > 0).all()),
        lambda x: x.untyped_storage().cpu(),
    ],
)
def test_what_makes_the_host_wait_counts_as_a_copy_to_it(wait: Callable[[Tensor], object]) -> None:
    x = npu(1, 2, 3)
    with emulator.counted() as counts:
        wait(x)
    assert counts.copies["npu>cpu"] == 1


def test_a_new_tensor_is_poison_even_on_a_block_used_before() -> None:
    ones = [torch.ones(1000, device="npu") for _ in range(8)]
    used = {x.data_ptr() for x in ones}
    del ones
    fresh = [torch.empty(1000, device="npu") for _ in range(8)]
    assert used & {x.data_ptr() for x in fresh}  # torch_npu's allocator gives blocks out again
    y = torch.cat(fresh)
    assert bool(y.isnan().all())
    for z in (torch.empty_like(y), y.new_empty(2, 3), torch.empty_strided((2, 2), (1, 2), device="npu")):
        assert bool(z.isnan().all())
    assert torch.empty(2, dtype=torch.int64, device="npu").tolist() == [-1, -1]


def test_a_grown_tensor_keeps_its_values_and_has_poison_behind_them() -> None:
    for _ in range(8):
        ones = [torch.ones(1000, device="npu") for _ in range(8)]
        x = npu(1, 2)
        del ones
        with emulator.counted() as counts:
            x.resize_(1000)
        assert x[:2].tolist() == [1, 2] and bool(x[2:].isnan().all())
        assert counts.copies == {"npu>npu": 1}  # by torch_npu's own code, past the operators


def test_an_operator_without_a_kernel_is_refused_until_allowed() -> None:
    x = npu(0.5, 0.25)
    with pytest.raises(NotImplementedError, match="no kernel for nextafter"):
        torch.nextafter(x, x)
    with pytest.raises(NotImplementedError, match="no kernel for special_entr"):
        torch.special.entr(x)
    with emulator.allow_fallbacks(), emulator.counted() as counts:
        y = torch.special.entr(x)
    assert torch.equal(y.cpu(), torch.special.entr(x.cpu()))
    assert counts.calls["fallback:special_entr.out"] == 1
    assert counts.copies == {"npu>cpu": 2, "cpu>npu": 1}  # the argument and the result it is written to
    with pytest.raises(NotImplementedError):
        torch.special.entr(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch_npu.npu_rotary_mul(x, x, x),
        lambda x: torch_npu.npu_rms_norm(x, x[0, 0, 0]),
        lambda x: torch_npu.npu_incre_flash_attention(x, x, x, num_heads=1),
        lambda x: torch_npu.npu_swiglu(x),
        lambda x: torch_npu.npu_format_cast(x, 29),
        lambda x: torch_npu.empty_with_swapped_memory([2], device="npu"),
        lambda x: x.to_sparse(),
        lambda x: torch.quantize_per_tensor(x, 1.0, 0, torch.qint8),
        lambda x: torch.nn.functional.dropout(x),
        lambda x: torch.randperm(3, device="npu"),
        lambda x: x.to(torch.complex64).conj() + 1,
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_emulated_is_refused(call: Callable[[Tensor], object]) -> None:
    with pytest.raises(NotImplementedError, match="emulated"):
        call(torch.ones(1, 1, 2, 8, device="npu"))


def test_host_tensors_do_not_mix_in() -> None:
    with pytest.raises(RuntimeError, match="all tensors on one device"):
        torch.add(npu(1, 2), torch.ones(2))
    assert torch.add(npu(1, 2), torch.tensor(1.0)).tolist() == [2, 3]  # a number may
    with emulator.counted() as counts:
        assert npu(1, 2, 3)[torch.tensor([0, 2])].tolist() == [1, 3]  # an index is copied first
    assert counts.copies["cpu>npu"] == 2


def test_draws_follow_the_generator() -> None:
    generator = torch.Generator("npu").manual_seed(1)
    first, second = (torch.rand(8, device="npu", generator=generator) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(first, torch.rand(8, device="npu", generator=generator.manual_seed(1)))
    state = generator.get_state()
    third = torch.empty(8, device="npu").exponential_(generator=generator)
    generator.set_state(state)
    assert torch.equal(third, torch.empty(8, device="npu").exponential_(generator=generator))
    torch.manual_seed(5)
    a = torch.randn(8, device="npu")
    torch.npu.manual_seed(5)
    assert torch.equal(a, torch.randn(8, device="npu"))
    with pytest.raises(RuntimeError, match="'npu' generator"):
        torch.rand(8, device="npu", generator=torch.Generator())


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_saving_copying_and_pinning() -> None:
    x = npu(1, 2)
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    assert torch.load(file, map_location="npu").tolist() == [1, 2]
    y = copy.deepcopy(x)
    assert y.tolist() == [1, 2] and y.data_ptr() != x.data_ptr()
    pinned = torch.ones(3).pin_memory()
    assert pinned.is_pinned() and pinned.to("npu", non_blocking=True).tolist() == [1, 1, 1]
