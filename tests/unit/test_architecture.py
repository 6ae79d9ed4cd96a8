"""The rooms keep their doors: imports point down, gradio stays in ui, torch stays out of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "specviz"
# From the ground up; a module may import its own room and those below it.
FLOORS = [
    {"trace", "errors", "ascend", "events", "npu"},
    {"devices", "settings", "shelf"},
    {"models", "attention", "analysis"},
    {"decoding"},
    {"race"},
    {"museum", "microscope"},
    {"lab", "tiles"},
    {"runner", "service", "bench", "selftest"},
    {"laboratory"},
    {"attention_lab"},
    {"ui"},
    {"cli", "__main__"},
]
WITHOUT_GRADIO = {
    "trace",
    "npu",
    "errors",
    "devices",
    "settings",
    "models",
    "attention",
    "analysis",
    "decoding",
    "race",
    "museum",
    "microscope",
    "lab",
    "tiles",
    "runner",
    "service",
    "bench",
    "selftest",
    "laboratory",
    "attention_lab",
}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if room(path) != "__init__")


def test_every_room_has_a_floor() -> None:
    assert {room(path) for path in SOURCES} <= set().union(*FLOORS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = next(floor for floor, rooms in enumerate(FLOORS) if room(path) in rooms)
    above = set().union(*FLOORS[own + 1 :])
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "specviz" and len(parts) > 1:
            assert parts[1] not in above, f"{path.name} imports {name}"
        if room(path) in WITHOUT_GRADIO:
            assert parts[0] != "gradio", f"{path.name} imports gradio"
        if room(path) == "ui":
            assert parts[0] not in {"torch", "transformers"}, f"{path.name} imports {name}"
        if room(path) == "trace":
            assert parts[0] != "specviz" or parts[1] == "trace", f"{path.name} imports {name}"


def test_help_starts_without_torch() -> None:
    code = "import sys, specviz.cli; sys.exit('torch' in sys.modules or 'gradio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
