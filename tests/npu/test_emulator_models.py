"""Third-party code on the emulated device: transformers' models and its generation are the CPU's."""

from __future__ import annotations

import pytest
import torch

from tests.conftest import tiny_gpt2, tiny_llama
from tests.npu import emulator

PROMPT = torch.arange(1, 9)[None]
GREEDY = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


@pytest.mark.parametrize("model", [tiny_llama, tiny_gpt2])
def test_logits_are_the_cpus(model) -> None:
    on_cpu, on_npu = model(), model().npu()
    with torch.inference_mode(), emulator.counted() as counts:
        logits = on_npu(PROMPT.npu()).logits
    assert torch.allclose(logits.cpu(), on_cpu(PROMPT).logits, atol=1e-4)
    assert counts.calls["npu_fusion_attention_v3"] == 2  # one a layer
    assert counts.copies["npu>cpu"] == 0
    assert counts.wrong_device == {}


@pytest.mark.parametrize("assisted", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_generation_is_the_cpus(assisted: bool) -> None:
    def generate(device: str) -> torch.Tensor:
        draft = {"assistant_model": tiny_llama(layers=1).to(device)} if assisted else {}
        return tiny_llama().to(device).generate(PROMPT.to(device), **GREEDY, **draft).cpu()

    assert torch.equal(generate("npu"), generate("cpu"))


def test_sampling_repeats_with_its_seed() -> None:
    model = tiny_llama().npu()

    def sample(seed: int) -> list[int]:
        torch.manual_seed(seed)
        options = GREEDY | {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.8}
        return model.generate(PROMPT.npu(), **options)[0].tolist()

    assert sample(1) == sample(1) != sample(2)


def test_autocast_computes_in_half_precision() -> None:
    with torch.inference_mode(), torch.autocast("npu", torch.float16):
        assert tiny_llama().npu()(PROMPT.npu()).logits.dtype == torch.float16
