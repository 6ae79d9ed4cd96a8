"""The real torch_npu wheel, with no CANN below it: the CPU is used, and the log and ``doctor`` say why."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
REASON = re.compile(r"torch_npu is installed, but CANN is not usable here: libascendcl\.so: .*No such file")


@pytest.fixture
def without_cann() -> dict[str, str]:
    """The environment of these tests, less the emulated libraries."""
    return {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}


def python(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_the_wheel_alone_breaks_torch(without_cann: dict[str, str]) -> None:
    result = python(without_cann, "-c", "import torch")
    assert result.returncode != 0
    assert "torch_npu" in result.stderr


def test_the_page_is_served_and_the_log_says_once_why_there_is_no_npu(
    without_cann: dict[str, str], tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path / "log"
    with log.open("w") as output:
        app = subprocess.Popen(
            [sys.executable, "app.py"],
            cwd=ROOT,
            env=without_cann | {"GRADIO_SERVER_PORT": str(port)},
            stdout=output,
            stderr=output,
        )
        try:
            assert answers(f"http://127.0.0.1:{port}/", app)
        finally:
            app.terminate()
            app.wait(timeout=20)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if REASON.search(line)]) == 1
    assert "Traceback" not in "\n".join(lines)


def answers(address: str, app: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and app.poll() is None:
        try:
            with urlopen(address, timeout=5) as page:
                return page.status == 200
        except URLError:
            time.sleep(0.5)
    return False


def test_a_run_takes_the_cpu(without_cann: dict[str, str], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    asked = ("--prompt", "Hi", "--max-new-tokens", "4", "--drafter", "prompt-lookup", "--dtype", "float32")
    result = python(without_cann, "-m", "specviz", "run", *asked, "--json", str(trace))
    assert result.returncode == 0, result.stderr
    assert json.loads(trace.read_text(encoding="utf-8"))["machine"]["device"] == "cpu"


def test_doctor_names_the_reason(without_cann: dict[str, str]) -> None:
    result = python(without_cann, "-m", "specviz", "doctor", "--no-model")
    assert result.returncode == 0, result.stderr
    assert REASON.search(one_line(result.stdout))


@pytest.mark.parametrize("command", [("doctor", "--no-model"), ("run", "--prompt", "Hi")], ids=lambda words: words[0])
def test_an_npu_that_was_asked_for_is_refused_with_the_reason(
    command: tuple[str, ...], without_cann: dict[str, str]
) -> None:
    result = python(without_cann, "-m", "specviz", *command, "--device", "npu")
    assert result.returncode == 2
    assert REASON.search(one_line(result.stderr))
    assert "Traceback" not in result.stderr
