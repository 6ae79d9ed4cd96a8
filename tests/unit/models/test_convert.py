"""Conversion of GGUF files: every bit kept, every damage told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from specviz.errors import UserError
from specviz.models.convert import MANIFEST, convert, narrowest_exact_dtype
from specviz.models.modules import load_module, load_tokenizer
from tests.conftest import byte_tokenizer
from tests.unit.models.tiny_files import write_gguf

CPU = torch.device("cpu")


@torch.inference_mode()
def test_the_converted_model_computes_what_the_file_holds(tmp_path: Path) -> None:
    original = write_gguf(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", "0" * 64, tmp_path / "tiny")
    loaded = load_module(tmp_path / "tiny", torch.float32, CPU)
    ids = torch.arange(20)[None]
    torch.testing.assert_close(loaded(ids).logits, original(ids).logits, rtol=0, atol=1e-5)
    for name, tensor in original.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert loaded.config.eos_token_id == 10


def test_tokenizer_and_manifest_lie_beside_the_weights(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    convert(tmp_path / "tiny.gguf", "ab" * 32, tmp_path / "tiny")
    assert load_tokenizer(tmp_path / "tiny").encode("héllo") == byte_tokenizer().encode("héllo")
    manifest = json.loads((tmp_path / "tiny" / MANIFEST).read_text())
    assert manifest["sha256"] == "ab" * 32
    assert manifest["dtype"] == "float32"


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1.0, 2.0**-100], torch.bfloat16), ([1.0, 1 + 2.0**-10], torch.float16), ([1.0, 1 + 2.0**-20], torch.float32)],
)
def test_weights_are_stored_in_the_narrowest_dtype_that_holds_them(values: list[float], dtype: torch.dtype) -> None:
    assert narrowest_exact_dtype({"weight": torch.tensor(values)}) == dtype


@pytest.mark.parametrize("kept", [0, 3, 24, 0.5, 0.99])
def test_a_truncated_file_is_named_as_damaged(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept if kept > 1 else kept * len(content))])
    with pytest.raises(UserError, match=r"tiny\.gguf is damaged or not a GGUF file"):
        convert(path, "0" * 64, tmp_path / "tiny")


def test_an_architecture_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    path.write_bytes(path.read_bytes().replace(b"llama", b"lxxxa"))
    with pytest.raises(UserError, match="cannot be converted"):
        convert(path, "0" * 64, tmp_path / "tiny")
    assert not (tmp_path / "tiny").exists()
