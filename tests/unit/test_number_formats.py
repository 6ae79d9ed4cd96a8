"""No tensor of ours takes its number format from torch's default: loading a model changes that for every thread."""

from __future__ import annotations

import ast
from pathlib import Path

import specviz

PACKAGE = Path(specviz.__file__).parent
FACTORIES = {"rand", "randn", "zeros", "ones", "full", "empty", "linspace", "eye"}
SINGLE_THREADED = {PACKAGE / "cli", PACKAGE / "selftest"}  # commands: nothing else runs in their process


def test_every_new_tensor_of_floats_names_its_format() -> None:
    forgotten = []
    for path in PACKAGE.rglob("*.py"):
        if SINGLE_THREADED & set(path.parents):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            makes = isinstance(node, ast.Call) and ast.unparse(node.func) in {f"torch.{name}" for name in FACTORIES}
            if makes and "dtype" not in {keyword.arg for keyword in node.keywords}:
                forgotten.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert forgotten == []
