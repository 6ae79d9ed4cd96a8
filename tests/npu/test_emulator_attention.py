"""The emulated attention kernels: the mathematics of PyTorch's own, the manners of Ascend's."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch import Tensor

from tests.npu import emulator
from tests.npu.emulator import ASCEND_MASK_SIZE

HEADS, KEY_HEADS, DIM = 4, 2, 16
COMPRESSED = torch.ones(ASCEND_MASK_SIZE, ASCEND_MASK_SIZE, dtype=torch.bool).triu(1)
SCALE = 1 / math.sqrt(DIM)


def draw(
    rows: int, columns: int, *, batch: int = 1, dim: int = DIM, dtype: torch.dtype = torch.float16
) -> list[Tensor]:
    torch.manual_seed(rows * 100 + columns)
    shapes = ((batch, HEADS, rows, dim), *((batch, KEY_HEADS, columns, dim),) * 2)
    return [torch.randn(shape).to(dtype) for shape in shapes]


def expected(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), seen, scale=SCALE, enable_gqa=True)


def infer(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    """The fused-infer operator with the arguments of a verification, ``options`` on top."""
    given = {"num_heads": HEADS, "num_key_value_heads": KEY_HEADS, "input_layout": "BNSD", "scale": SCALE} | options
    return torch_npu.npu_fused_infer_attention_score(q.npu(), k.npu(), v.npu(), **given)[0].cpu().float()


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, atol=2e-3)


@pytest.mark.parametrize("columns", [5, 12])
def test_sparse_mode_3_sees_up_to_its_own_place_from_the_end(columns: int) -> None:
    q, k, v = draw(5, columns)
    seen = torch.ones(5, columns, dtype=torch.bool).tril(columns - 5)
    assert close(infer(q, k, v, sparse_mode=3, atten_mask=COMPRESSED.npu()), expected(q, k, v, seen))


def test_only_the_valid_length_of_a_cache_counts_whatever_lies_behind() -> None:
    q, k, v = draw(5, 12)
    room = [torch.cat([t, torch.full((1, KEY_HEADS, 20, DIM), torch.nan, dtype=t.dtype)], dim=2) for t in (k, v)]
    causal = {"sparse_mode": 3, "atten_mask": COMPRESSED.npu()}
    whole = infer(q, k, v, **causal)
    assert torch.equal(infer(q, *room, actual_seq_lengths_kv=[12], **causal), whole)
    assert torch.equal(infer(q[:, :, -1:].contiguous(), *room, actual_seq_lengths_kv=[12]), whole[:, :, -1:])
    assert infer(q, *room, **causal).isnan().any()  # without it the poison is read


def test_lengths_may_differ_in_a_batch_and_rows_beyond_theirs_are_nobodys() -> None:
    q, k, v = draw(3, 8, batch=2)
    y = infer(q, k, v, actual_seq_lengths=[3, 2], actual_seq_lengths_kv=[8, 5])
    assert close(y[0], expected(q[:1], k[:1], v[:1])[0])
    assert close(y[1, :, :2], expected(q[1:, :, :2], k[1:, :, :5], v[1:, :, :5])[0])
    assert y[1, :, 2:].isnan().all()
    with pytest.raises(RuntimeError, match="do not fit a batch of 2"):
        infer(q, k, v, actual_seq_lengths_kv=[8, 9])


def test_one_row_ignores_sparse_mode_and_takes_no_compressed_mask() -> None:
    q, k, v = draw(1, 7)
    assert close(infer(q, k, v, sparse_mode=3), expected(q, k, v))
    hidden = torch.tensor([[False] * 4 + [True] * 3])
    assert close(infer(q, k, v, atten_mask=hidden.npu()), expected(q, k[:, :, :4], v[:, :, :4]))
    with pytest.raises(RuntimeError, match="none of the shapes"):
        infer(q, k, v, sparse_mode=3, atten_mask=COMPRESSED.npu())


def test_sparse_modes_0_1_2_and_4() -> None:
    q, k, v = draw(4, 6)
    hidden = torch.rand(4, 6) < 0.4
    hidden[:, 0] = False
    assert close(infer(q, k, v), expected(q, k, v))
    for mode in (0, 1):
        assert close(infer(q, k, v, sparse_mode=mode, atten_mask=hidden.npu()), expected(q, k, v, ~hidden))
    left_up = torch.ones(4, 6, dtype=torch.bool).tril()
    assert close(infer(q, k, v, sparse_mode=2, atten_mask=COMPRESSED.npu()), expected(q, k, v, left_up))
    band = torch.ones(4, 6, dtype=torch.bool).tril(2).triu(1)
    y = infer(q, k, v, sparse_mode=4, atten_mask=COMPRESSED.npu(), pre_tokens=1, next_tokens=0)
    assert close(y, expected(q, k, v, band))


def test_log_sum_exp_is_an_output_if_asked_for() -> None:
    q, k, v = draw(3, 8)
    on_npu = [t.npu() for t in (q, k, v)]
    given = {"num_heads": HEADS, "num_key_value_heads": KEY_HEADS, "input_layout": "BNSD", "scale": SCALE}
    lse = torch_npu.npu_fused_infer_attention_score(*on_npu, **given)[1]
    assert lse.tolist() == [0]
    lse = torch_npu.npu_fused_infer_attention_score(*on_npu, softmax_lse_flag=True, **given)[1].cpu()
    scores = q.float() @ k.float().repeat_interleave(2, 1).mT * SCALE
    assert lse.shape == (1, HEADS, 3, 1) and lse.dtype == torch.float32
    assert torch.allclose(lse[..., 0], scores.logsumexp(-1))


@pytest.mark.parametrize("layout", ["BSND", "BSH", "BNSD_BSND"])
def test_other_layouts_hold_the_same_numbers(layout: str) -> None:
    q, k, v = draw(3, 6)
    x = [q, k, v] if layout.startswith("BNSD") else [t.transpose(1, 2).contiguous() for t in (q, k, v)]
    x = [t.flatten(2) for t in x] if layout == "BSH" else x
    y = infer(*x, input_layout=layout)
    y = y.unflatten(-1, (HEADS, DIM)) if layout == "BSH" else y
    assert torch.equal(y.transpose(1, 2), infer(q, k, v))


def test_the_second_version_is_the_first_by_other_names() -> None:
    q, k, v = draw(3, 6)
    y = torch_npu.npu_fused_infer_attention_score_v2(
        *(t.npu() for t in (q, k, v)),
        num_query_heads=HEADS,
        num_key_value_heads=KEY_HEADS,
        softmax_scale=SCALE,
        input_layout="BNSD",
        sparse_mode=3,
        atten_mask=COMPRESSED.npu(),
        actual_seq_kvlen=[5],
    )[0]
    first = infer(q, k, v, sparse_mode=3, atten_mask=COMPRESSED.npu(), actual_seq_lengths_kv=[5])
    assert torch.equal(y.cpu().float(), first)


@pytest.mark.parametrize(
    ("message", "shape", "options"),
    [
        ("torch.float32 is not one of", {"dtype": torch.float32}, {}),
        ("head_dim 24 is not a multiple of 16", {"dim": 24}, {}),
        ("head_dim 528 is not a multiple of 16 up to 512", {"dim": 528}, {}),
        ("do not fit", {}, {"num_heads": 8}),
        ("needs the compressed 2048x2048", {}, {"sparse_mode": 3}),
        ("needs the compressed 2048x2048", {}, {"sparse_mode": 2, "atten_mask": COMPRESSED[:4, :6].contiguous()}),
        ("True strictly above the diagonal", {}, {"sparse_mode": 3, "atten_mask": ~COMPRESSED}),
        ("needs a whole atten_mask", {}, {"sparse_mode": 1}),
        ("none of the shapes", {}, {"atten_mask": torch.zeros(3, 6, dtype=torch.bool)}),
        ("atten_mask must be bool, int8 or uint8", {}, {"atten_mask": torch.zeros(4, 6)}),
        ("atten_mask must be contiguous", {}, {"atten_mask": torch.zeros(6, 4, dtype=torch.bool).mT}),
        ("sparse_mode 5 is not supported", {}, {"sparse_mode": 5}),
        ("inner_precise 4", {}, {"inner_precise": 4}),
        ("pse_shift is not emulated", {}, {"pse_shift": torch.zeros(1, HEADS, 4, 6)}),
        ("block_size is not emulated", {}, {"block_size": 128}),
    ],
)
def test_what_the_operator_refuses(message: str, shape: dict[str, Any], options: dict[str, Any]) -> None:
    on_npu = {
        name: v.npu().as_strided(v.shape, v.stride()) if isinstance(v, Tensor) else v for name, v in options.items()
    }
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        infer(*draw(4, 6, **shape), **on_npu)


def test_a_mask_on_the_host_is_refused() -> None:
    q, k, v = draw(4, 6)
    with pytest.raises(RuntimeError, match="must be on one device"):
        infer(q, k, v, sparse_mode=3, atten_mask=COMPRESSED)
    with pytest.raises(RuntimeError, match="must be on one device"):
        torch_npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), HEADS, "BNSD", atten_mask=COMPRESSED, sparse_mode=3)


def test_key_and_value_must_be_contiguous_too() -> None:
    q, k, v = (t.npu() for t in draw(4, 6))
    given = {"num_heads": HEADS, "num_key_value_heads": KEY_HEADS, "input_layout": "BNSD"}
    for spoiled in range(3):
        x = [t.transpose(1, 2).contiguous().transpose(1, 2) if i == spoiled else t for i, t in enumerate((q, k, v))]
        with pytest.raises(RuntimeError, match=f"{('query', 'key', 'value')[spoiled]} must be contiguous"):
            torch_npu.npu_fused_infer_attention_score(*x, **given)


@pytest.mark.parametrize(
    ("heads", "key_heads", "message"), [(65, 1, "more than 64 times"), (512, 256, "more than 256")]
)
def test_too_many_heads_are_refused(heads: int, key_heads: int, message: str) -> None:
    q, k = (torch.zeros(1, n, 2, 16).half().npu() for n in (heads, key_heads))
    given = {"num_heads": heads, "num_key_value_heads": key_heads, "input_layout": "BNSD"}
    with pytest.raises(RuntimeError, match=message):
        torch_npu.npu_fused_infer_attention_score(q, k, k, **given)


def test_fusion_attention_returns_each_rows_maximum_and_sum_eight_times() -> None:
    q, k, v = draw(4, 6, dtype=torch.float32)
    hidden = torch.ones(4, 6, dtype=torch.bool).triu(3)
    output, maximum, total, empty, *seeds = torch_npu.npu_fusion_attention(
        *(t.npu() for t in (q, k, v)), HEADS, "BNSD", atten_mask=hidden.npu(), scale=SCALE
    )
    scores = (q @ k.repeat_interleave(2, 1).mT * SCALE).masked_fill(hidden, -torch.inf)
    top = scores.amax(-1)
    assert torch.allclose(output.cpu(), expected(q, k, v, ~hidden), atol=1e-6)
    assert maximum.shape == total.shape == (1, HEADS, 4, 8) and maximum.dtype == total.dtype == torch.float32
    assert torch.allclose(maximum.cpu(), top[..., None].expand(-1, -1, -1, 8))
    assert torch.allclose(total.cpu(), (scores - top[..., None]).exp().sum(-1)[..., None].expand(-1, -1, -1, 8))
    assert (empty.numel(), seeds) == (0, [0, 0, 0])


@pytest.mark.parametrize("layout", ["BSND", "BSH", "SBH"])
def test_fusion_attention_in_other_layouts_holds_the_same_numbers(layout: str) -> None:
    x = [t.npu() for t in draw(3, 6, batch=2, dtype=torch.float32)]
    expected = torch_npu.npu_fusion_attention(*x, HEADS, "BNSD", scale=SCALE)[0].transpose(1, 2)
    x = [t.transpose(1, 2) for t in x]
    x = [t.flatten(2) for t in x] if layout.endswith("H") else x
    x = [t.transpose(0, 1) for t in x] if layout == "SBH" else x
    y = torch_npu.npu_fusion_attention(*x, HEADS, layout, scale=SCALE)[0]
    y = y.transpose(0, 1) if layout == "SBH" else y
    assert torch.equal(y.reshape(expected.shape).cpu(), expected.cpu())


def test_fusion_attention_of_packed_sequences() -> None:
    q, k, v = (t[0].transpose(0, 1).contiguous() for t in draw(7, 7))
    y = torch_npu.npu_fusion_attention(
        *(t.npu() for t in (q, k, v)),
        HEADS,
        "TND",
        atten_mask=COMPRESSED.npu(),
        scale=SCALE,
        sparse_mode=3,
        actual_seq_qlen=[3, 7],
        actual_seq_kvlen=[3, 7],
    )[0].cpu()
    for begin, end in ((0, 3), (3, 7)):
        part = [t[begin:end].transpose(0, 1)[None] for t in (q, k, v)]
        size = end - begin
        seen = torch.ones(size, size, dtype=torch.bool).tril()
        assert close(y[begin:end].transpose(0, 1)[None].float(), expected(*part, seen))


def test_torch_npu_routes_sdpa_to_the_fused_kernel_by_the_kind_of_mask() -> None:
    q, k, v = (t.npu() for t in draw(4, 6))
    k, v = (t.repeat_interleave(2, 1) for t in (k, v))
    seen = torch.ones(4, 6, dtype=torch.bool, device="npu").tril(2)
    for mask, fused in ((None, 1), (seen, 1), (torch.zeros(4, 6, device="npu").masked_fill(~seen, -torch.inf), 0)):
        with emulator.counted() as counts:
            y = F.scaled_dot_product_attention(q, k, v, mask if fused else mask.half())
        assert counts.calls["npu_fusion_attention_v3"] == fused
        assert counts.copies["npu>cpu"] == 0
        reference = F.scaled_dot_product_attention(
            *(t.cpu().float() for t in (q, k, v)), None if mask is None else mask.cpu()
        )
        assert close(y.cpu().float(), reference)
