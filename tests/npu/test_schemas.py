"""Every argument that SpecViz hands to torch_npu, against the wheel's own schemas and signatures."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch_npu

import specviz

PACKAGE = Path(specviz.__file__).parent
# What is called through torch.npu (or a name for it), with the arguments we pass: (positional, keywords).
RUNTIME: dict[str, tuple[int, set[str]]] = {
    "set_device": (1, set()),
    "current_device": (0, set()),
    "device_count": (0, set()),
    "is_available": (0, set()),
    "get_device_name": (1, set()),
    "get_device_properties": (1, set()),
    "mem_get_info": (1, set()),
    "is_bf16_supported": (0, set()),
    "set_compile_mode": (0, {"jit_compile"}),
    "synchronize": (0, set()),
    "empty_cache": (0, set()),
    "max_memory_allocated": (1, set()),
    "reset_peak_memory_stats": (1, set()),
    "set_sync_debug_mode": (1, set()),
    "get_sync_debug_mode": (0, set()),
    "memory_allocated": (1, set()),
    "Event": (0, {"enable_timing"}),
    "utils.get_cann_version": (1, set()),
}


def calls(function: str) -> Iterator[tuple[Path, ast.Call, str]]:
    """Calls of ``torch_npu.NAME`` in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == function
            ):
                yield path, node, node.func.attr


FOUND = list(calls("torch_npu"))


def test_the_calls_are_found() -> None:
    assert {"npu_fused_infer_attention_score", "npu_weight_quant_batchmatmul"} <= {name for _, _, name in FOUND}


@pytest.mark.parametrize(
    ("path", "call", "name"), FOUND, ids=[f"{path.stem}:{call.lineno}:{name}" for path, call, name in FOUND]
)
def test_the_wheel_knows_every_argument(path: Path, call: ast.Call, name: str) -> None:
    assert callable(getattr(torch_npu, name))
    arguments = getattr(torch.ops.npu, name).default._schema.arguments
    positional = [argument for argument in arguments if not argument.kwarg_only]
    assert len(call.args) <= len(positional)
    assert not [arg for arg in call.args if isinstance(arg, ast.Starred)], "spelled out, so that it can be checked"
    given = {argument.name for argument in positional[: len(call.args)]}
    known = {argument.name: argument for argument in arguments}
    for keyword in call.keywords:
        assert keyword.arg in known, f"{name} has no {keyword.arg}"
        assert keyword.arg not in given
        given.add(keyword.arg)
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is not None:
            kind = known[keyword.arg].type.kind()
            assert {"str": "StringType", "int": "IntType", "float": "FloatType", "bool": "BoolType"}[
                type(keyword.value.value).__name__
            ] == kind
    required = {argument.name for argument in arguments if not argument.has_default_value()}
    assert required <= given


def test_operators_are_only_reached_where_they_are_checked() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert "torch.ops.npu" not in path.read_text(encoding="utf-8"), path


@pytest.mark.parametrize("name", RUNTIME)
def test_the_runtime_functions_take_what_they_are_given(name: str) -> None:
    found: object = torch.npu
    for part in name.split("."):
        found = getattr(found, part)
    count, keywords = RUNTIME[name]
    signature = inspect.signature(found.__new__ if name == "Event" else found)  # type: ignore[arg-type]
    shift = [None] if name == "Event" else []
    signature.bind(*shift, *[None] * count, **dict.fromkeys(keywords))


def test_every_runtime_function_in_use_is_listed() -> None:
    """What is called on ``_backend()``, ``self._backend`` or ``torch.npu``, wherever the NPU may be meant."""
    used = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                inner = ast.unparse(node.value)
                if inner in ("_backend()", "_backend(device)", "self._backend", "torch.npu"):
                    used.add(node.attr)
                elif inner == "_backend().utils":
                    used.add(f"utils.{node.attr}")
    assert used - {"utils"} <= RUNTIME.keys()
    assert {"set_device", "Event", "synchronize", "utils.get_cann_version"} <= used
