"""Models that load but could not be trusted: every one is a sentence, none decodes nonsense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertLMHeadModel, PreTrainedModel

from specviz.errors import UserError
from specviz.models.load import Pair, load_pair
from specviz.models.modules import check_causal
from specviz.models.sources import fingerprint
from tests.conftest import byte_tokenizer, tiny_gpt2, tiny_llama
from tests.unit.models import tiny_files


def save(folder: Path, module: PreTrainedModel, template: str | None = None, extra: int = 0) -> Path:
    module.save_pretrained(folder)
    tokenizer = byte_tokenizer(extra)
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def load(folder: Path) -> Pair:
    return load_pair(str(folder), device="cpu", dtype="float32")


def test_a_missing_weight_is_not_made_up(tmp_path: Path) -> None:
    folder = save(tmp_path / "model", tiny_llama(256))
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"model\.layers\.1\.mlp\.up_proj\.weight is missing"):
        load(folder)


def test_a_weight_missing_from_a_gguf_file_is_not_made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECVIZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.delitem(tiny_files.NAMES, "mlp.up_proj")
    tiny_files.write_gguf(tmp_path / "model.gguf")
    with pytest.raises(UserError, match="up_proj"):
        load(tmp_path / "model.gguf")
    assert not list((tmp_path / "cache").rglob("config.json"))


def test_an_encoder_is_refused() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    with pytest.raises(UserError, match="attend to those behind them"):
        check_causal(BertLMHeadModel(BertConfig(vocab_size=256, **sizes)), "it")
    check_causal(BertLMHeadModel(BertConfig(vocab_size=256, is_decoder=True, **sizes)), "it")
    check_causal(tiny_llama(), "it")
    check_causal(tiny_gpt2(), "it")


@pytest.mark.parametrize(
    "change", [{"num_attention_heads": 0}, {"max_position_embeddings": "many"}, {"vocab_size": -1}]
)
def test_a_config_that_says_what_cannot_be(tmp_path: Path, change: dict[str, object]) -> None:
    folder = save(tmp_path / "model", tiny_llama(256))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(UserError, match=r"cannot be (used|loaded)"):
        load(folder)


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{{ raise_exception('Only for cats') }}", "chat template of model does not work: Only for cats"),
        ("{% for message in %}", "chat template of model does not work"),
        ("{% if false %}never{% endif %}", "reads no token in this prompt"),
    ],
)
def test_a_chat_template_that_does_not_work(tmp_path: Path, template: str, says: str) -> None:
    pair = load(save(tmp_path / "model", tiny_llama(256), template))
    with pytest.raises(UserError, match=says):
        pair.encode_chat("Hi")


def test_a_token_without_a_row_is_refused_before_the_run(tmp_path: Path) -> None:
    pair = load(save(tmp_path / "model", tiny_llama(256), extra=2))
    assert pair.encode_chat("Hi")
    with pytest.raises(UserError, match="no row for token 257"):
        pair.encode_chat("Hi <extra1>")


@pytest.mark.parametrize("content", ["", "[]", "{}", '"text"', "\x00"])
def test_a_manifest_that_is_not_ours_is_passed_over(tmp_path: Path, content: str) -> None:
    folder = save(tmp_path / "model", tiny_llama(256))
    before = fingerprint(folder)
    (folder / "specviz.json").write_text(content)
    assert fingerprint(folder) == before


def test_two_models_have_two_fingerprints(tmp_path: Path) -> None:
    one, other = (save(tmp_path / str(seed), tiny_llama(256, seed=seed)) for seed in (0, 1))
    assert fingerprint(one) != fingerprint(other)
