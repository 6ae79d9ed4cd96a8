"""quantized-self on an emulated NPU: the packed kernel, the copy, and a race with it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specviz.events import Done
from specviz.models.grids import int4_grid, int8_grid
from specviz.models.llama import LlamaModel
from specviz.models.load import Pair, load_pair
from specviz.models.packed_npu import PackedLinear, pack
from specviz.models.quantization import SCHEMES, quantized_copy
from specviz.race import race
from specviz.settings import make_settings
from specviz.trace import Run
from tests.conftest import byte_tokenizer, tiny_llama
from tests.npu import emulator
from tests.npu.conftest import Run as RunEmulated
from tests.npu.emulator import quantized

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
TRAINED = Path(__file__).parents[2] / "assets/drafts/smollm2-135m-draft-14m"
PRODUCT, INT4PACK = "npu_weight_quant_batchmatmul", "npu_convert_weight_to_int4pack"


def linear(out_features: int = 48, in_features: int = 128, dtype: torch.dtype = torch.float16) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(in_features, out_features).to(dtype).requires_grad_(False).to("npu")


def dequantized(weight: Tensor, bits: int, group: int) -> Tensor:
    """float32 on the CPU: what the grids alone say the weights are."""
    weight = weight.cpu()
    if bits == 8:
        levels, scale = int8_grid(weight)
        return levels.float() * scale.float()[:, None]
    levels, scale, zero = int4_grid(weight, group)
    groups = (levels - 8).unflatten(1, (-1, group)).float()
    return (groups * scale.float()[..., None] + zero.float()[..., None]).flatten(1)


@pytest.mark.parametrize(("bits", "group"), [(4, 32), (4, 64), (4, 128), (8, 0)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 128), (5, 128), (1, 7, 128)])
def test_a_packed_layer_computes_with_the_dequantized_weights(
    bits: int, group: int, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    layer = linear(dtype=dtype)
    x = torch.randn(shape).to(dtype)
    with emulator.counted() as counts:
        packed = pack(layer, bits, group)
    assert counts.calls[INT4PACK] == (bits == 4)
    there = x.to("npu")
    with emulator.counted() as counts:
        y = packed(there)
    assert (counts.calls[PRODUCT], counts.calls[INT4PACK]) == (1, 0)
    assert (counts.copies["npu>cpu"], counts.copies["cpu>npu"]) == (0, 0)
    assert (y.dtype, y.shape) == (dtype, (*shape[:-1], 48))
    expected = F.linear(x.float(), dequantized(layer.weight, bits, group), layer.bias.float().cpu())
    torch.testing.assert_close(y.float().cpu(), expected, rtol=2e-2, atol=2e-2)


def test_packing_keeps_every_level_in_its_place() -> None:
    levels = torch.randint(-8, 8, (64, 48), dtype=torch.int32, device="npu")
    packed = torch.ops.npu.npu_convert_weight_to_int4pack(levels)
    assert (packed.shape, packed.dtype) == ((64, 6), torch.int32)
    one = torch.ones(48, dtype=torch.float16, device="npu")
    rows = torch.eye(64, dtype=torch.float16, device="npu")
    assert torch.equal(torch.ops.npu.npu_weight_quant_batchmatmul(rows, packed, one).cpu(), levels.cpu().half())


def test_int8_weights_stay_in_rows_and_int4_weights_in_columns() -> None:
    assert pack(linear(48, 128), 8, 0).weight.stride() == (1, 128)  # type: ignore[operator]
    assert pack(linear(48, 128), 4, 32).weight.stride() == (6, 1)  # type: ignore[operator]


def test_a_row_cut_out_of_a_wider_tensor_is_laid_out_for_the_kernel() -> None:
    layer = linear()
    wide = torch.randn(5, 256, dtype=torch.float16).to("npu")
    for bits, group in ((4, 32), (8, 0)):
        packed = pack(layer, bits, group)
        assert torch.equal(packed(wide[:, :128]).cpu(), packed(wide[:, :128].contiguous()).cpu())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_prefill_hands_the_kernel_no_empty_tensor(scheme: str) -> None:
    """CANN takes none, and the emulated kernel refuses it: the head is left out where no logits are asked for."""
    packed = quantized_copy(tiny_llama(vocab_size=64).to("npu"), scheme)
    layers = sum(isinstance(layer, PackedLinear) for layer in packed.modules()) - 1
    model = LlamaModel(packed)
    model.allocate(8)
    with emulator.counted() as counts:
        logits = model.forward(torch.arange(5, device="npu"), keep=0)
    assert (logits.shape, counts.calls[PRODUCT]) == ((0, 64), layers)


@pytest.mark.parametrize(
    ("out_features", "in_features", "bits", "group", "packs"),
    [
        (8, 64, 4, 32, True),
        (8, 32, 4, 32, True),
        (12, 64, 4, 32, False),  # eight levels to an int32
        (8, 96, 4, 64, False),  # whole groups
        (5, 33, 8, 0, True),
        (65_536, 1, 8, 0, False),
        (65_535, 1, 8, 0, True),
        (8, 65_568, 4, 32, False),
    ],
)
def test_shapes_that_the_kernel_cannot_take_stay_as_they_are(
    out_features: int, in_features: int, bits: int, group: int, packs: bool
) -> None:
    layer = linear(out_features, in_features)
    packed = pack(layer, bits, group)
    assert (packed is not layer) == packs
    assert packed(torch.randn(2, in_features, dtype=torch.float16).to("npu")).isfinite().all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x": torch.zeros(2, 64)}, "x is 2-D"),
        ({"x": torch.zeros(1, 2, 64).half()}, "x is 2-D"),
        ({"x": torch.zeros(2, 128).half()[:, ::2]}, "x is contiguous"),
        ({"x": torch.zeros(2, 32).half()}, "x has K 32"),
        ({"weight": torch.zeros(64, 16).half()}, "weight is int8"),
        ({"antiquant_scale": torch.ones(2, 16)}, "scale and offset are torch.float16"),
        ({"antiquant_scale": torch.ones(16, 2).half(), "antiquant_offset": None}, r"\[K/group, N\]"),
        ({"antiquant_offset": torch.ones(1, 16).half()}, "one shape"),
        ({"bias": torch.ones(16)}, "bias is not torch.float32"),
        ({"antiquant_group_size": 16}, "multiple of 32"),
        ({"antiquant_group_size": 64}, "multiple of 32"),
    ],
)
def test_the_emulated_kernel_refuses_what_the_documents_do(change: dict[str, object], reason: str) -> None:
    call: dict[str, object] = {
        "x": torch.ones(2, 64).half(),
        "weight": quantized.convert_weight_to_int4pack(torch.ones(64, 16, dtype=torch.int32)),
        "antiquant_scale": torch.ones(2, 16).half(),
        "antiquant_offset": torch.zeros(2, 16).half(),
        "bias": torch.zeros(16).half(),
        "antiquant_group_size": 32,
    }
    assert quantized.weight_quant_batchmatmul(**call).tolist() == [[64.0] * 16] * 2
    with pytest.raises(RuntimeError, match=reason):
        quantized.weight_quant_batchmatmul(**call | change)


@pytest.mark.parametrize(
    "weight",
    [torch.zeros(8, 12).int(), torch.full((8, 8), 8).int(), torch.zeros(8, 8), torch.zeros(8, 16).int()[:, ::2]],
)
def test_the_emulated_packing_refuses_what_the_documents_do(weight: Tensor) -> None:
    with pytest.raises(RuntimeError, match="error code 161002"):
        quantized.convert_weight_to_int4pack(weight)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_copy_computes_what_a_model_with_its_dequantized_weights_does(scheme: str, dtype: torch.dtype) -> None:
    original, reference = tiny_llama().to(dtype), tiny_llama()
    reference.lm_head.weight = nn.Parameter(reference.lm_head.weight.detach().clone())  # no longer the embedding
    for name, layer in reference.named_modules():
        if isinstance(layer, nn.Linear):
            chosen = SCHEMES[SCHEMES[scheme].head if name == "lm_head" else scheme]
            fits = chosen.bits == 8 or layer.in_features % chosen.group == 0
            weight = original.get_submodule(name).weight.detach()
            layer.weight.data = dequantized(weight, chosen.bits, chosen.group) if fits else weight.float()
    ids = torch.arange(20)[None]
    packed = quantized_copy(original.to("npu"), scheme)
    layers = [layer for layer in packed.modules() if isinstance(layer, PackedLinear)]
    assert layers
    with emulator.counted() as counts:
        logits = packed(ids.to("npu")).logits.float().cpu()
    assert (counts.calls[PRODUCT], counts.calls[INT4PACK]) == (len(layers), 0)
    expected = reference(ids).logits
    assert (logits - expected).norm() / expected.norm() < 0.03


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_packed_is_the_originals_own_memory(dtype: torch.dtype) -> None:
    original = tiny_llama().to(dtype).to("npu")
    before = original(torch.arange(9)[None].to("npu")).logits.cpu()
    packed = quantized_copy(original, "int4-g32")
    theirs = {name: tensor.data_ptr() for name, tensor in [*original.named_parameters(), *original.named_buffers()]}
    shared = dict(packed.named_parameters())
    assert {"model.embed_tokens.weight", "model.norm.weight"} <= set(shared)
    assert all(parameter.data_ptr() == theirs[name] for name, parameter in shared.items())
    assert packed.model.rotary_emb.inv_freq.data_ptr() == original.model.rotary_emb.inv_freq.data_ptr()
    assert torch.equal(original(torch.arange(9)[None].to("npu")).logits.cpu(), before)


def test_a_bias_is_shared_where_the_kernel_takes_its_dtype() -> None:
    half, bfloat16 = linear(), linear(dtype=torch.bfloat16)
    assert pack(half, 4, 32).bias.data_ptr() == half.bias.data_ptr()
    assert pack(bfloat16, 8, 0).bias.dtype == torch.float32


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled 14 M model as a target: trained weights, behind a tokenizer that reads bytes."""
    folder = tmp_path_factory.mktemp("trained")
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(TRAINED / name)
    byte_tokenizer().save_pretrained(folder)
    return folder


def run_of(pair: Pair, quantization: str) -> Run:
    settings = make_settings(
        drafter="quantized-self", quantization=quantization, gamma=4, temperature=0.0, max_new_tokens=20
    )
    *_, done = race(pair, "hello", settings, baseline=False)
    assert isinstance(done, Done)
    return done.trace.runs[0]


@pytest.mark.parametrize(
    ("target", "quantization"), [*(("folder", scheme) for scheme in SCHEMES), ("trained", "int4-g32")]
)
def test_at_temperature_0_the_target_keeps_its_tokens(
    target: str, quantization: str, request: pytest.FixtureRequest
) -> None:
    folder = str(request.getfixturevalue(target))
    expected = run_of(load_pair(folder, device="cpu", dtype="float32"), quantization)
    with emulator.counted() as counts:
        run = run_of(load_pair(folder, device="npu", dtype="float32"), quantization)
    assert run.token_ids == expected.token_ids
    assert counts.calls[PRODUCT] > len(run.rounds)
    # The same levels and scales on both: the copies draft alike, but for near-ties.
    assert abs(len(run.rounds) - len(expected.rounds)) <= 1


def test_a_310p_drafts_with_int8_and_refuses_int4_in_a_sentence(folder: Path, run_emulated: RunEmulated) -> None:
    code = f"""
from specviz.errors import UserError
from specviz.models.load import load_pair
from tests.npu.test_quantization import run_of
pair = load_pair({str(folder)!r}, device="npu")
print(pair.dtype_choice.dtype, len(run_of(pair, "int8").token_ids))
try:
    pair.draft("quantized-self", "int4-g32")
except UserError as error:
    print(error)
"""
    done = run_emulated(code, soc="Ascend310P3")
    assert done.stdout.splitlines()[-2:] == [
        "float16 20",
        "Ascend310P3 has no kernel for int4 weights. Choose the quantization int8, "
        "or the drafter draft-model or prompt-lookup.",
    ], done.stderr
