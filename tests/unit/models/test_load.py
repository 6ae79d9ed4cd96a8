"""Loading a pair from folders and files, without a network, and everything that is refused on the way."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, GemmaConfig, LlamaConfig, MambaConfig, MistralConfig, Qwen2Config

from specviz.devices import DtypeTiming
from specviz.errors import UserError
from specviz.models import dtype as dtypes
from specviz.models import sources
from specviz.models.dtype import measure
from specviz.models.load import Pair, load_pair
from specviz.models.modules import check_rewindable
from specviz.models.registry import DEFAULT, PAIRS
from specviz.models.vocabulary import FINGERPRINT_FILE, fingerprint
from specviz.models.wrap import wrap
from tests.conftest import byte_tokenizer, tiny_llama
from tests.unit.models.tiny_files import write_gguf

TEMPLATE = "{% for m in messages %}[{{ m.content }}]{% endfor %}{% if add_generation_prompt %}>{% endif %}"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*address: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))


def save(folder: Path, vocab_size: int = 272, template: str | None = TEMPLATE, extra: int = 8, seed: int = 0) -> Path:
    module = tiny_llama(vocab_size, seed)
    module.generation_config.eos_token_id = [257, 258]
    module.config.eos_token_id = 257
    module.save_pretrained(folder)
    tokenizer = byte_tokenizer(extra)
    tokenizer.eos_token = "<extra3>"
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def load(folder: Path, draft: Path | None = None, dtype: str = "float32") -> Pair:
    return load_pair(str(folder), str(draft) if draft else None, device="cpu", dtype=dtype)


def test_a_pair_from_two_folders(tmp_path: Path) -> None:
    lines: list[str] = []
    target, small = save(tmp_path / "big"), save(tmp_path / "small", seed=1)
    pair = load_pair(str(target), str(small), device="cpu", dtype="float32", progress=lines.append)
    assert lines == ["Loading big"]
    assert pair.name == "big"
    assert pair.eos_token_ids == (257, 258, 259)
    assert pair.target_info.dtype == "float32"
    assert pair.target_info.parameters == sum(p.numel() for p in pair.target_module.parameters())
    assert pair.machine.device == "cpu"
    draft = pair.draft("draft-model")
    assert draft is pair.draft("draft-model")
    assert draft.info.name == "small"
    assert draft.info.fingerprint != pair.target_info.fingerprint
    assert draft.module is pair.draft_module("draft-model")
    assert draft.shared_vocab == 264  # 256 bytes and 8 special tokens; 8 rows of padding


def test_quantized_self_shares_the_targets_embedding_and_has_a_cache_of_its_own(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "big"))
    draft = pair.draft("quantized-self", "int8")
    assert draft.info.quantization == "int8, one scale a row"
    assert draft.shared_vocab == pair.target.vocab_size
    embeddings = draft.module.get_input_embeddings().weight, pair.target_module.get_input_embeddings().weight
    assert embeddings[0].data_ptr() == embeddings[1].data_ptr()
    draft.model.allocate(8)
    draft.model.forward(torch.arange(4), keep=1)
    assert (draft.model.length, pair.target.length) == (4, 0)


def test_freeing_a_pair_frees_the_caches_of_all_its_models(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "target"), save(tmp_path / "draft", seed=1))
    models = [pair.target, pair.draft("draft-model").model, pair.draft("quantized-self", "int8").model]
    for model in models:
        model.allocate(8)
    pair.free()
    assert [model.cache.capacity for model in models] == [0, 0, 0]  # type: ignore[attr-defined]


def test_padded_vocabularies_of_different_size_fit(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "big", 288), save(tmp_path / "small", 272))
    assert pair.draft("draft-model").shared_vocab == 264


def test_a_draft_with_other_tokens_is_refused_with_the_first_that_differs(tmp_path: Path) -> None:
    small = save(tmp_path / "small")
    path = small / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    vocabulary["A"], vocabulary["B"] = vocabulary["B"], vocabulary["A"]
    path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="token 32 is 'A' for the target and 'B' for the draft"):
        load(save(tmp_path / "big"), small).draft("draft-model")


def test_a_draft_without_tokenizer_is_taken_on_its_fingerprint_alone(tmp_path: Path) -> None:
    target = save(tmp_path / "big")
    small = tmp_path / "small"
    tiny_llama(272, 1).save_pretrained(small)
    with pytest.raises(UserError, match="has no tokenizer"):
        load(target, small).draft("draft-model")
    pair = load(target, small)
    (small / FINGERPRINT_FILE).write_text(fingerprint(pair.tokenizer))
    assert pair.draft("draft-model").shared_vocab == 264


def test_no_draft_and_an_unknown_drafter_are_told_apart(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "big"))
    with pytest.raises(UserError, match="Start with --draft"):
        pair.draft("draft-model")
    with pytest.raises(UserError, match="No model drafts for 'medusa'"):
        pair.draft("medusa")


@pytest.mark.parametrize(
    ("attention", "says"),
    [
        ("materialised", "must be one of fused, npu-fused-infer; you gave 'materialised'"),
        ("npu-fused-infer", "needs an Ascend NPU and the models are on cpu"),
    ],
)
def test_an_attention_that_cannot_be_had_is_refused(attention: str, says: str, tmp_path: Path) -> None:
    folder = save(tmp_path / "one")
    with pytest.raises(UserError, match=says):
        load_pair(str(folder), device="cpu", dtype="float32", attention=attention)


def test_the_chat_template_is_applied_where_there_is_one(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "big"))
    assert pair.tokenizer.decode(pair.encode_chat("hé")) == "[hé]>"
    assert pair.encode("ab") == byte_tokenizer().encode("ab")
    plain = load(save(tmp_path / "plain", template=None))
    assert plain.encode_chat("ab") == plain.encode("ab")


def test_a_prompt_longer_than_the_context_is_refused(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "big"))
    assert len(pair.encode_chat("x" * 252)) == 255
    with pytest.raises(UserError, match="The prompt has 256 tokens and big reads 256"):
        pair.encode_chat("x" * 253)


def test_a_gguf_file_is_converted_once_and_told_apart_by_content(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    pair = load(tmp_path / "tiny.gguf")
    assert pair.name == "tiny"
    assert pair.eos_token_ids == (10,)
    lines: list[str] = []
    load_pair(str(tmp_path / "tiny.gguf"), device="cpu", dtype="float32", progress=lines.append)
    assert lines == ["Checking tiny.gguf", "Loading tiny"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("no-such-name", "no model named 'no-such-name'.*smollm2-135m"),
        ("./no/such/folder", "no folder"),
        ("/no/such/file.gguf", "no file"),
        ("someone/some-model", "someone/some-model is not on this machine and the Hub cannot be reached"),
    ],
)
def test_a_source_that_is_not_there(source: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_pair(source, device="cpu", dtype="float32")


def test_folders_that_lack_something_or_hold_pickles(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no config\.json"):
        load(tmp_path)
    folder = save(tmp_path / "big")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"holds no \.safetensors weights"):
        load(folder)


def test_damaged_weights_and_configs_are_told_in_words(tmp_path: Path) -> None:
    folder = save(tmp_path / "big")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    with pytest.raises(UserError, match="cannot be loaded"):
        load(folder)
    (folder / "config.json").write_text('{"model_type": "llama"')
    with pytest.raises(UserError, match=r"config\.json in .* cannot be used"):
        load(folder)


def test_code_that_a_folder_brings_is_never_run(tmp_path: Path) -> None:
    folder = save(tmp_path / "big")
    (folder / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass\n")
    (folder / "config.json").write_text(json.dumps({"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}))
    with pytest.raises(UserError, match=r"config\.json in .* cannot be used"):
        load(folder)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (MambaConfig(), "recurrent state"),
        (AutoConfig.for_model("jamba"), "recurrent state"),
        (AutoConfig.for_model("qwen3_next"), "recurrent state"),
        (AutoConfig.for_model("lfm2", num_hidden_layers=2, layer_types=["conv", "full_attention"]), "recurrent state"),
        (MistralConfig(sliding_window=4096, max_position_embeddings=32768), "sliding window of 4,096 tokens"),
        (AutoConfig.for_model("gemma2"), "sliding window"),
        (AutoConfig.for_model("llama4_text"), "within chunks"),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_caches_that_cannot_rewind_are_refused_with_the_reason(config: AutoConfig, why: str) -> None:
    with pytest.raises(UserError, match=f"cannot take part: .*{why}"):
        check_rewindable(config, "it")


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(),
        GemmaConfig(),
        Qwen2Config(sliding_window=4096, use_sliding_window=False),
        MistralConfig(sliding_window=None),
        MistralConfig(sliding_window=32768, max_position_embeddings=32768),
    ],
    ids=lambda config: config.model_type,
)
def test_caches_that_can_rewind_are_welcome(config: AutoConfig) -> None:
    check_rewindable(config, "it")


def test_auto_measures_both_dtypes_and_keeps_the_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path / "big")
    for winner, loser in (("bfloat16", "float32"), ("float32", "bfloat16")):
        timings = {winner: DtypeTiming(0.01, 0.02), loser: DtypeTiming(0.02, 0.03)}
        monkeypatch.setattr(dtypes, "measure", lambda models, timings=timings: timings)
        pair = load(folder, dtype="auto")
        assert pair.target_info.dtype == pair.dtype_choice.dtype == winner
        assert "20 ms" in pair.dtype_choice.reason


def test_a_model_too_large_to_be_held_twice_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.devices.memory_bytes", lambda device: 1000)
    pair = load(save(tmp_path / "big"), dtype="auto")
    assert pair.dtype_choice.dtype == "bfloat16"
    assert "too large" in pair.dtype_choice.reason


def test_measuring_sees_which_model_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    quick, slow = wrap(tiny_llama()), wrap(tiny_llama())
    forward = slow.forward

    def delayed(token_ids: torch.Tensor, keep: int) -> torch.Tensor:
        time.sleep(0.02 if len(token_ids) == 1 else 0.04)
        return forward(token_ids, keep)

    monkeypatch.setattr(slow, "forward", delayed)
    timings = measure({"quick": quick, "slow": slow}, gamma=4)
    assert timings["slow"].step_s > 0.02
    assert timings["slow"].verify_s > 0.04
    assert timings["quick"].step_s < timings["slow"].step_s


@pytest.mark.parametrize(("dtype", "says"), [("int3", "dtype must be auto or one of"), ("float16", "does not run")])
def test_a_dtype_that_cannot_be_used_is_refused(tmp_path: Path, dtype: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load(save(tmp_path / "big"), dtype=dtype)


def test_the_named_pairs_say_where_they_were_tried() -> None:
    assert DEFAULT in PAIRS
    for pair in PAIRS.values():
        assert pair.tried
        assert isinstance(pair.target, str) == (pair.name != DEFAULT)
        if isinstance(pair.target, str):
            assert sources.HUB_ID.fullmatch(pair.target)
            assert sources.HUB_ID.fullmatch(pair.draft)
    assert (Path(PAIRS[DEFAULT].draft) / "config.json").is_file()
