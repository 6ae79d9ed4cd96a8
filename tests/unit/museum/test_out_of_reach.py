"""No exhibit can be reached from a normal run: the code that breaks things is not even imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Names and sources of the exhibits may be read by whoever lists them; it holds no code of theirs.
LOADED = "sorted(m for m in sys.modules if m.startswith('specviz.museum.') and m != 'specviz.museum.catalogue')"
RUN = """
import sys
from typer.testing import CliRunner
from specviz.cli.app import app
result = CliRunner().invoke(app, ["run", "--prompt", "Hi", "--target", {folder!r}, "--drafter", "prompt-lookup",
                                  "--max-new-tokens", "3", "--dtype", "float32"])
assert result.exit_code == 0, result.output
"""
PAGE = """
import sys, time
import specviz.ui.app
from specviz.service import Options, Service
from specviz.settings import make_settings
service = Service(Options(target={folder!r}, dtype="float32"))
ticket = service.race("Hi", make_settings(drafter="prompt-lookup", max_new_tokens=3), "ada")
while not ticket.ended:
    time.sleep(0.05)
assert ticket.state == "finished", ticket.error
service.close()
"""


@pytest.mark.parametrize("program", [RUN, PAGE], ids=["command line", "page"])
def test_a_run_imports_no_exhibit(program: str, folder: Path) -> None:
    code = program.format(folder=str(folder)) + f"print({LOADED})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"
