"""Packed copies: the kernels against plain arithmetic, what is shared, what is refused."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from specviz.errors import UserError
from specviz.models import packed_cpu
from specviz.models.grids import int4_grid, int8_grid
from specviz.models.packed_cpu import Int4Linear, Int8Linear
from specviz.models.quantization import SCHEMES, quantized_copy
from specviz.settings import QUANTIZATIONS

DTYPES = [torch.float32, torch.bfloat16]


def linear(
    out_features: int = 48, in_features: int = 128, dtype: torch.dtype = torch.float32, bias: bool = True
) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(in_features, out_features, bias=bias).to(dtype).requires_grad_(False)


def on_grid(out_features: int, in_features: int, group: int) -> Tensor:
    """Weights that 4 bits in such groups hold exactly, as a GGUF file in Q4_1 has them."""
    torch.manual_seed(1)
    levels = torch.randint(0, 16, (out_features, in_features // group, group)).float()
    levels[..., 0], levels[..., 1] = 0, 15  # a group's extremes are used, or its grid would be a finer one
    scale = torch.rand(out_features, in_features // group, 1) * 0.02 + 0.001
    return (levels * scale - 8 * scale + torch.randn_like(scale) * 0.01).flatten(1)


def dequantized(layer: nn.Linear, scheme: str) -> Tensor:
    if scheme == "int8":
        levels, scale = int8_grid(layer.weight)
        return levels.float() * scale.float()[:, None]
    levels, scale, zero = int4_grid(layer.weight, SCHEMES[scheme].group)
    groups = (levels - 8).unflatten(1, (-1, SCHEMES[scheme].group)).float()
    return (groups * scale.float()[..., None] + zero.float()[..., None]).flatten(1)


def pack(layer: nn.Linear, scheme: str) -> nn.Module:
    return packed_cpu.pack(layer, SCHEMES[scheme].bits, SCHEMES[scheme].group)


def test_every_scheme_can_be_asked_for() -> None:
    assert tuple(SCHEMES) == QUANTIZATIONS


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 128), (5, 128), (1, 7, 128), (2, 3, 128)])
def test_the_kernel_computes_with_the_dequantized_weights(
    scheme: str, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    layer = linear(dtype=dtype)
    x = torch.randn(shape).to(dtype)
    y = pack(layer, scheme)(x)
    expected = F.linear(x.float(), dequantized(layer, scheme), layer.bias.float())
    assert y.dtype == dtype
    assert y.shape == (*shape[:-1], 48)
    torch.testing.assert_close(y.float(), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(("scheme", "bound"), [("int4-g32", 0.10), ("int4-g64", 0.12), ("int8", 0.008)])
def test_the_weights_stay_near_the_original(scheme: str, bound: float) -> None:
    weight = torch.randn(64, 256)
    layer = nn.Linear(256, 64, bias=False)
    layer.weight.data = weight
    error = (dequantized(layer, scheme) - weight).norm() / weight.norm()
    assert error < bound


def test_the_fit_never_does_worse_than_smallest_to_largest() -> None:
    weight = torch.randn(64, 256) ** 3  # heavy tails: the extremes of a group are a poor grid
    groups = weight.unflatten(1, (-1, 64))
    low, high = groups.aminmax(dim=-1, keepdim=True)
    plain = low + ((groups - low) / (high - low) * 15).round() * (high - low) / 15
    layer = nn.Linear(256, 64, bias=False)
    layer.weight.data = weight
    assert (dequantized(layer, "int4-g64") - weight).norm() < 0.97 * (plain.flatten(1) - weight).norm()


@pytest.mark.parametrize("group", [32, 64])
def test_weights_on_a_grid_of_four_bits_come_back_exactly(group: int) -> None:
    layer = nn.Linear(256, 64, bias=False)
    layer.weight.data = on_grid(64, 256, group)
    assert (dequantized(layer, f"int4-g{group}") - layer.weight).abs().max() < 1e-6


def test_a_group_of_equal_weights_is_no_division_by_zero() -> None:
    layer = linear(bias=False)
    layer.weight[0] = 0.25
    layer.weight[1] = 0
    for scheme in SCHEMES:
        y = pack(layer, scheme)(torch.ones(1, 128))
        assert y[0, 0].item() == pytest.approx(32, rel=1e-2)
        assert y[0, 1].item() == 0


@pytest.mark.parametrize(
    ("out_features", "in_features", "scheme", "packed"),
    [
        (48, 64, "int4-g32", True),
        (48, 96, "int4-g32", True),
        (48, 96, "int4-g64", False),
        (40, 64, "int4-g32", False),
        (48, 72, "int8", False),
        (48, 96, "int8", True),
    ],
)
def test_shapes_that_the_kernels_cannot_take_stay_as_they_are(
    out_features: int, in_features: int, scheme: str, packed: bool
) -> None:
    layer = linear(out_features, in_features)
    assert (pack(layer, scheme) is not layer) == packed
    assert pack(layer, scheme)(torch.randn(2, in_features)).isfinite().all()


def model(dtype: torch.dtype = torch.float32, tied: bool = True) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(config).to(dtype).eval().requires_grad_(False)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("tied", [True, False])
def test_the_copy_computes_what_a_model_with_its_dequantized_weights_does(scheme: str, tied: bool) -> None:
    original, reference = model(tied=tied), model(tied=False)
    reference.load_state_dict(original.state_dict())
    for name, layer in reference.named_modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = dequantized(layer, SCHEMES[scheme].head if name == "lm_head" else scheme)
    ids = torch.arange(20)[None]
    packed = quantized_copy(original, scheme)(ids).logits
    expected = reference(ids).logits
    error = (packed - expected).norm() / expected.norm()
    assert error < 0.02  # the kernels compute in bfloat16
    assert (packed - original(ids).logits).norm() / expected.norm() > (0.02 if SCHEMES[scheme].bits == 4 else 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_original_is_left_as_it_was(dtype: torch.dtype) -> None:
    original = model(dtype)
    ids = torch.arange(20)[None]
    before, layers = original(ids).logits, list(original.modules())
    packed = quantized_copy(original, "int4-g64")
    assert packed(ids).logits.dtype == dtype
    assert torch.equal(original(ids).logits, before)
    assert list(original.modules()) == layers


@pytest.mark.parametrize(("scheme", "head"), [("int4-g32", Int8Linear), ("int4-g32-head4", Int4Linear)])
def test_every_linear_layer_is_packed_and_the_head_as_its_scheme_says(scheme: str, head: type[nn.Module]) -> None:
    packed = quantized_copy(model(), scheme)
    assert not [name for name, layer in packed.named_modules() if isinstance(layer, nn.Linear)]
    assert isinstance(packed.lm_head, head)
    assert isinstance(packed.model.layers[0].mlp.down_proj, Int4Linear)


def test_embeddings_norms_and_tables_are_the_originals_own_memory() -> None:
    original = model()
    packed = quantized_copy(original, "int4-g32")
    assert packed.model.embed_tokens is not original.model.embed_tokens
    theirs = dict(original.named_parameters()) | dict(original.named_buffers())
    shared = dict(packed.named_parameters())
    assert "model.embed_tokens.weight" in shared
    assert len([name for name in shared if "norm" in name]) == 5
    for name, parameter in shared.items():
        assert parameter.data_ptr() == theirs[name].data_ptr(), name
    assert packed.model.rotary_emb.inv_freq.data_ptr() == original.model.rotary_emb.inv_freq.data_ptr()


def test_an_unknown_scheme_and_a_device_without_the_kernels_are_refused() -> None:
    with pytest.raises(UserError, match="int4-g32, int4-g32-head4, int4-g64, int8; you gave int2"):
        quantized_copy(model(), "int2")
    with pytest.raises(UserError, match="kernels are for the CPU and Ascend NPUs, and this target is on meta"):
        quantized_copy(model().to("meta"), "int8")
