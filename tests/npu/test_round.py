"""What one round costs on an NPU: attention calls, copies, host waits; and the law of what it emits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from transformers import PreTrainedTokenizerFast

from specviz.decoding.autoregressive import Autoregressive
from specviz.decoding.distribution import Sampling
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.drafters.prompt_lookup import PromptLookup
from specviz.decoding.prefill import CHUNK, prefill
from specviz.decoding.rules import Rule, rule_of
from specviz.errors import UserError
from specviz.models import npu_attention
from specviz.models.attention import Attention
from specviz.models.base import LanguageModel
from specviz.models.llama import LlamaModel
from specviz.models.transformers_model import TransformersModel
from specviz.museum import judges
from specviz.settings import RULES, make_settings
from tests.conftest import tiny_gpt2, tiny_llama
from tests.npu import emulator
from tests.unit.decoding.rounds import Remembering, Silent, make_loop
from tests.unit.decoding.sequences import VOCAB, p_value

FUSED, INFER = "npu_fusion_attention_v3", "npu_fused_infer_attention_score"
PROMPT = [3, 9, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
LAYERS = 2
# These wait for the host, or compute on it, or CANN's documents name them for Atlas A2 and A3 alone.
NOWHERE_IN_A_ROUND = ("multinomial", "fallback", "nonzero", "cumprod")


def wide_llama(seed: int = 0, dtype: torch.dtype = torch.float32) -> Any:
    """Heads of 16, which the fused inference attention asks for; two query heads a key head; a long context."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.25,
    )
    return LlamaForCausalLM(config).eval().to(dtype)


def models(dtype: torch.dtype = torch.bfloat16) -> Iterator[tuple[str, Callable[[str], Any]]]:
    yield "lean", lambda device: LlamaModel(wide_llama(dtype=dtype).to(device))
    yield "transformers", lambda device: TransformersModel(wide_llama(dtype=dtype).to(device))


MODELS = dict(models())


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The keyword arguments of every call of the fused inference attention."""
    seen: list[dict[str, Any]] = []
    real = torch_npu.npu_fused_infer_attention_score

    def watched(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **options: Any) -> Any:
        seen.append({"rows": query.shape[2], "buffer": key.shape[2], **options})
        return real(query, key, value, **options)

    monkeypatch.setattr(torch_npu, "npu_fused_infer_attention_score", watched)
    return seen


@pytest.mark.parametrize("kind", MODELS)
def test_the_fused_inference_attention_is_called_as_designed(kind: str, calls: list[dict[str, Any]]) -> None:
    model = MODELS[kind]("npu")
    model.use_attention("npu-fused-infer")
    model.allocate(700)
    prefill(model, [token % 32 for token in range(600)])
    assert [call["rows"] for call in calls] == [CHUNK] * LAYERS + [600 - CHUNK] * LAYERS
    assert {call["sparse_mode"] for call in calls} == {3}
    calls.clear()
    model.forward(torch.arange(5, device="npu"), keep=5)  # a verification of γ = 4
    model.rollback(603)
    model.forward(torch.tensor([7], device="npu"), keep=1)
    assert [(call["rows"], call["sparse_mode"]) for call in calls] == [(5, 3)] * LAYERS + [(1, 0)] * LAYERS
    verification, single = calls[0], calls[-1]
    assert verification["atten_mask"].shape == (2048, 2048) and verification["atten_mask"].dtype == torch.bool
    assert single["atten_mask"] is None
    assert (verification["actual_seq_lengths_kv"], single["actual_seq_lengths_kv"]) == ([605], [604])
    for call in calls:
        assert (call["input_layout"], call["num_heads"], call["num_key_value_heads"]) == ("BNSD", 4, 2)
        assert call["scale"] == 16**-0.5
        assert call["buffer"] == 700, "the keys stay in the cache's buffer: nothing is copied"


@pytest.mark.parametrize("kind", MODELS)
def test_the_fused_inference_attention_computes_what_math_does(kind: str) -> None:
    fused, plain = MODELS[kind]("npu"), MODELS[kind]("cpu")
    fused.use_attention("npu-fused-infer")
    for model in (fused, plain):
        model.allocate(64)
    for block in ([1, 2, 3, 4, 5, 6, 7, 8, 9], [3], [4, 4, 5], [6]):
        there, here = (model.forward(torch.tensor(block, device=model.device), len(block)) for model in (fused, plain))
        assert (there.cpu().float() - here.float()).abs().max() < 0.05 * here.float().std()
        for model in (fused, plain):
            model.rollback(model.length - (len(block) > 2))


@pytest.mark.parametrize("kind", MODELS)
def test_scaled_dot_product_attention_reaches_the_fused_kernel(kind: str) -> None:
    model = MODELS[kind]("npu")
    model.allocate(64)
    for block in ([1, 2, 3, 4, 5, 6, 7, 8, 9], [3], [4, 4, 5, 6, 7]):
        with emulator.counted() as counts:
            model.forward(torch.tensor(block, device="npu"), keep=len(block))
        assert counts.calls[FUSED] == LAYERS, block
        assert not counts.calls["_softmax"], "no attention was written out"
        assert len(block) > 1 or not counts.calls["logical_not"], "one row has no mask to be turned round"


class Waits:
    """Counts the calls in which the host waits for the device by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for owner, name in (
            (torch.npu, "synchronize"),
            (torch.npu.Event, "synchronize"),
            (torch.npu.Stream, "synchronize"),
        ):
            monkeypatch.setattr(owner, name, self._counting(getattr(owner, name)))

    def _counting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*args: Any, **options: Any) -> Any:
            self.count += 1
            return real(*args, **options)

        return wait


def drafters(target: LanguageModel, sampling: Sampling) -> dict[str, Drafter]:
    draft = LlamaModel(wide_llama(1).to("npu"))
    return {
        "draft-model": DraftModel(draft, sampling, 32, 32),
        "fewer ids": DraftModel(draft, sampling, 32, 30),
        "prompt-lookup": PromptLookup(32, target.device),
    }


@pytest.mark.parametrize("attention", ["fused", "npu-fused-infer"])
@pytest.mark.parametrize("drafter", ["draft-model", "fewer ids", "prompt-lookup"])
@pytest.mark.parametrize("rule", [*RULES])
@pytest.mark.parametrize("recording", [False, True])
def test_a_round_fetches_once_and_sends_nothing(
    attention: Attention,
    drafter: str,
    rule: str,
    recording: bool,
    tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = make_settings(rule=rule, temperature=0 if rule == "greedy-match" else 1.0)
    sampling = Sampling(settings.temperature, top_k=20, top_p=0.95)
    dtype = torch.float32 if attention == "fused" else torch.bfloat16
    target = LlamaModel(wide_llama(dtype=dtype).to("npu"))
    target.use_attention(attention)
    loop = make_loop(
        target, drafters(target, sampling)[drafter], sampling, tokenizer, PROMPT, gamma=4, max_new_tokens=40
    )
    loop.rule = rule_of(settings)
    if not recording:
        loop.recorder = Silent(tokenizer, [], PROMPT)
    rounds, drafted = loop.rounds(PROMPT), 0
    next(rounds)  # the prefill and what is made once
    waits = Waits(monkeypatch)
    for _ in range(5):
        with emulator.counted() as counts:
            record = next(rounds)
        assert counts.copies["npu>cpu"] == 1 + recording
        # Copied text exists on the host only.
        assert counts.copies["cpu>npu"] == (drafter == "prompt-lookup")
        assert not counts.wrong_device
        assert waits.count == 0, "the copy is the only wait"
        drafted += len(record.drafted) if recording else 1
        calls = counts.calls[FUSED] + counts.calls[INFER]
        steps = calls - LAYERS  # the target reads once, the draft once a token
        assert steps == (0 if drafter == "prompt-lookup" else 4 * LAYERS)
        assert counts.calls[INFER] == (0 if attention == "fused" else LAYERS)
        assert not [name for name in counts.calls if name.startswith(NOWHERE_IN_A_ROUND)]
    assert drafted


@pytest.mark.parametrize("recording", [False, True])
def test_a_standard_step_fetches_once_and_sends_nothing(recording: bool, tokenizer: PreTrainedTokenizerFast) -> None:
    sampling = Sampling(0.7)
    target = LlamaModel(wide_llama().to("npu"))
    pattern = make_loop(target, PromptLookup(32, target.device), sampling, tokenizer, PROMPT, gamma=1, max_new_tokens=9)
    loop = Autoregressive(target, sampling, 0, pattern.ending, pattern.recorder)
    if not recording:
        loop.recorder.step = lambda **facts: facts["token"]  # type: ignore[method-assign]
    steps = loop.steps(PROMPT)
    next(steps)
    for _ in range(5):
        with emulator.counted() as counts:
            next(steps)
        assert (counts.copies["npu>cpu"], counts.copies["cpu>npu"]) == (1 + recording, 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": torch.float32}, "computes in float16 and bfloat16, not in float32"),
        ({"head_dim": 24}, "takes head sizes in steps of 16 up to 512, not 24"),
        ({"head_dim": 528}, "not 528"),
        ({"query_heads": 65, "key_heads": 1}, "takes up to 64 query heads a key head"),
        ({"query_heads": 3, "key_heads": 2}, "not 3 on 2"),
        ({"device": torch.device("cpu")}, "needs an Ascend NPU and the models are on cpu"),
    ],
)
def test_what_the_operator_cannot_do_is_refused_when_it_is_chosen(change: dict[str, Any], reason: str) -> None:
    fits: dict[str, Any] = {
        "query_heads": 4,
        "key_heads": 2,
        "head_dim": 16,
        "dtype": torch.bfloat16,
        "device": torch.device("npu", 0),
    }
    npu_attention.check(**fits)
    with pytest.raises(UserError, match=reason):
        npu_attention.check(**(fits | change))


def test_attention_with_something_added_is_refused() -> None:
    model = TransformersModel(tiny_gpt2().bfloat16().to("npu"))
    with pytest.raises(UserError, match="head sizes in steps of 16"):
        model.use_attention("npu-fused-infer")
    q = torch.zeros(1, 2, 1, 16, dtype=torch.bfloat16, device="npu")
    with pytest.raises(UserError, match="knows no softcap"):
        npu_attention._attend_for_transformers(None, q, q, q, None, softcap=30.0)


def test_the_scale_of_a_model_is_its_own() -> None:
    q, keys, values = (torch.randn(1, heads, 3, 16, dtype=torch.float16) for heads in (4, 2, 2))
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.float(), keys.float(), values.float(), is_causal=True, scale=0.7, enable_gqa=True
    )
    there = (tensor.to("npu") for tensor in (q, keys, values))
    output, _ = npu_attention._attend_for_transformers(None, *there, None, scaling=0.7)
    torch.testing.assert_close(output.transpose(1, 2).cpu().float(), expected, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("heads", [1, 3])
def test_the_buffer_behind_a_view_is_found_and_nothing_else_is_taken_for_one(heads: int) -> None:
    buffer = torch.randn(1, heads, 50, 16)
    found = npu_attention.whole(buffer[:, :, :20])
    assert found.is_contiguous() and torch.equal(found[:, :, :20], buffer[:, :, :20])
    assert (found.data_ptr() == buffer.data_ptr()) or heads == 1
    strange = [
        buffer[:, :, ::2],
        buffer[:, :, :, ::2],
        torch.randn(1, 50, heads, 16).transpose(1, 2)[:, :, :7],
        torch.randn(1, 1, 20, 16).expand(1, heads, 20, 16),
        torch.randn(1, heads, 60, 16)[:, :, 40:],
        torch.randn(1, heads, 20, 64)[..., 16:32],
        torch.randn(1000).as_strided((1, heads, 7, 16), (120 * heads, 120, 16, 1)),
    ]
    for view in strange:
        found = npu_attention.whole(view)
        assert found.is_contiguous() and torch.equal(found[:, :, : view.shape[2]], view)


@pytest.fixture(scope="module")
def target() -> Remembering:
    return Remembering(LlamaModel(tiny_llama(VOCAB, seed=1).to("npu")))


@pytest.mark.parametrize(
    ("rule", "honest"),
    [
        (None, True),
        (Rule(judges.residual_is_p, lossy=False), False),
        (Rule(judges.u_stuck_at_zero, lossy=False), False),
    ],
)
def test_the_loop_samples_from_the_target_and_faults_are_noticed(
    target: Remembering, tokenizer: PreTrainedTokenizerFast, rule: Rule | None, honest: bool
) -> None:
    sampling = Sampling(1.0)
    draft = Remembering(LlamaModel(tiny_llama(VOCAB, seed=2, layers=1).to("npu")))
    asked = {"rule": rule} if rule else {}
    p = p_value(target, DraftModel(draft, sampling, VOCAB, VOCAB), sampling, tokenizer, **asked, length=2, runs=2_000)
    assert p > 1e-3 if honest else p < 1e-6


def test_the_source_names_no_multinomial() -> None:
    import specviz.decoding

    sources = Path(inspect.getfile(specviz.decoding)).parent.rglob("*.py")
    assert not [path for path in sources if "multinomial" in path.read_text(encoding="utf-8")]
