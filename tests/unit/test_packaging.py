"""The images hold what they need and nothing else, run as a user, and notice when their server is gone."""

from __future__ import annotations

import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from specviz import ascend, npu
from specviz.cli.app import app

ROOT = Path(__file__).parents[2]
IMAGES = ("Dockerfile", "Dockerfile.npu")
FETCH = "python -m specviz.models.fetch"
each_image = pytest.mark.parametrize("image", IMAGES)


class Step(NamedTuple):
    instruction: str
    rest: str


def steps(image: str) -> list[Step]:
    lines = (ROOT / image).read_text(encoding="utf-8").splitlines()
    joined = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", " ")
    return [Step(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def rest(image: str, instruction: str) -> list[str]:
    return [step.rest for step in steps(image) if step.instruction == instruction]


def copies(image: str, before: str | None = None) -> list[tuple[list[str], str]]:
    """(sources, destination) of every COPY, or of those before the step that says ``before``."""
    found = []
    for step in steps(image):
        if step.rest == before:
            break
        if step.instruction == "COPY":
            *sources, destination = [word for word in step.rest.split() if not word.startswith("--")]
            found.append((sources, destination))
    return found


def environment(image: str) -> dict[str, str]:
    return dict(word.split("=", 1) for line in rest(image, "ENV") for word in line.split())


def health_command(image: str) -> list[str]:
    (check,) = rest(image, "HEALTHCHECK")
    python, *arguments = json.loads(check[check.index("[") :])
    assert python == "python"
    return [sys.executable, *arguments]


def ignored(path: str) -> bool:
    """What .dockerignore says of a file: the last line that fits it or a folder above it decides."""
    parts = Path(path).parts
    names = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    verdict = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").split():
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, name) for name in names):
            verdict = not line.startswith("!")
    return verdict


def lay_out(image: str, folder: Path, before: str | None = None) -> None:
    """The app folder as the image has it; every COPY keeps a path as it is in the repository."""
    for sources, _ in copies(image, before):
        for source in sources:
            target = folder / source
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                leave = shutil.ignore_patterns("__pycache__", "*.pyi")
                shutil.copytree(ROOT / source, target, ignore=leave, dirs_exist_ok=True)
            else:
                shutil.copy(ROOT / source, target)


@each_image
def test_what_is_copied_exists_reaches_the_builder_and_keeps_its_path(image: str) -> None:
    assert copies(image)
    for sources, destination in copies(image):
        for source in sources:
            path = ROOT / source
            assert path.exists()
            assert Path(destination) == (Path(source) if path.is_dir() else Path(source).parent)
            inside = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
            for file in inside:
                name = file.relative_to(ROOT).as_posix()
                assert ignored(name) == ("__pycache__" in name or file.suffix == ".pyi"), name


@pytest.mark.parametrize(
    "path", [".git/config", ".venv/bin/python", ".npu/lib/libhccl.so", ".env", "tests/conftest.py"]
)
def test_what_no_image_needs_does_not_reach_the_builder(path: str) -> None:
    assert ignored(path)


@each_image
def test_the_weights_layer_has_all_that_fetching_and_converting_need(image: str, tmp_path: Path) -> None:
    lay_out(image, tmp_path, before=FETCH)
    assert not (tmp_path / "app.py").exists()
    code = (
        "from specviz.models import convert, fetch, registry\n"
        "print(fetch.__file__, registry.SMOLLM2_135M.requirements)\n"
        "assert registry.SMOLLM2_135M.requirements.is_file()"
    )
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert all(path.startswith(str(tmp_path)) for path in result.stdout.split())


@each_image
def test_everything_after_the_installation_happens_as_user_1000(image: str) -> None:
    assert any(
        "useradd" in line and "--uid 1000 user" in line.replace("--gid 1000 ", "") for line in rest(image, "RUN")
    )
    order = [step for step in steps(image) if step.instruction == "USER" or step.rest == FETCH]
    assert order == [Step("USER", "user"), Step("RUN", FETCH)]
    after = steps(image)[steps(image).index(Step("USER", "user")) :]
    assert all("--chown=1000:1000" in step.rest for step in after if step.instruction == "COPY")


@each_image
def test_the_port_is_that_of_docker_spaces(image: str) -> None:
    assert rest(image, "EXPOSE") == ["7860"]
    assert environment(image)["GRADIO_SERVER_PORT"] == "7860"
    assert environment(image)["GRADIO_SERVER_NAME"] == "0.0.0.0"
    assert "sdk: docker\napp_port: 7860\n" in (ROOT / "docs" / "docker.md").read_text(encoding="utf-8")


@each_image
def test_base_images_are_pinned(image: str) -> None:
    (base,) = rest(image, "FROM")
    defaults = dict(line.split("=", 1) for line in rest(image, "ARG") if "=" in line)
    for name, value in defaults.items():
        base = base.replace(f"${{{name}}}", value)
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+[\w.-]+", base), base


class Answer(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


class Broken(Answer):
    status = 500


@pytest.fixture
def port_of() -> Iterator[object]:
    servers = []

    def start(answer: type[Answer]) -> int:
        servers.append(http.server.HTTPServer(("127.0.0.1", 0), answer))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return int(servers[-1].server_port)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(image: str, port: int) -> bool:
    # A proxy that the container was given must not be asked for the container itself.
    asked = {**os.environ, "GRADIO_SERVER_PORT": str(port), "http_proxy": f"http://127.0.0.1:{free_port()}"}
    return subprocess.run(health_command(image), env=asked, capture_output=True).returncode == 0


@each_image
def test_the_health_check_tells_a_page_from_an_error_and_from_nothing(image: str, port_of: object) -> None:
    assert callable(port_of)
    assert healthy(image, port_of(Answer))
    assert not healthy(image, port_of(Broken))
    assert not healthy(image, free_port())


@pytest.mark.slow
def test_the_laid_out_app_serves_its_page_is_healthy_and_ends_on_the_stop_signal(tmp_path: Path) -> None:
    lay_out("Dockerfile", tmp_path)
    (command,) = rest("Dockerfile", "CMD")
    python, *arguments = json.loads(command)
    assert python == "python"
    port = free_port()
    home = {"HOME": str(tmp_path / "home"), "SPECVIZ_CACHE": str(tmp_path / "cache")}
    asked = environment("Dockerfile") | home | {"GRADIO_SERVER_PORT": str(port), "PATH": os.environ["PATH"]}
    # No model is there, and none is fetched: the page does not wait for one.
    page = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env=asked | {"SPECVIZ_TARGET": str(tmp_path / "none")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job is born deaf to it
    )
    try:
        deadline = time.monotonic() + 90
        while not healthy("Dockerfile", port) and time.monotonic() < deadline and page.poll() is None:
            time.sleep(0.5)
        assert healthy("Dockerfile", port)
        (stop,) = rest("Dockerfile", "STOPSIGNAL")
        page.send_signal(getattr(signal, stop))
        said, _ = page.communicate(timeout=10)
        assert page.returncode in (0, 130)
        assert "Traceback" not in said
    finally:
        page.kill()
        page.wait()


def pins(file: str) -> dict[str, str]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w-]+)==(\S+)", text, re.MULTILINE))


@each_image
def test_requirements_that_an_image_installs_exist_and_torch_npu_is_only_in_its_own(image: str) -> None:
    named = re.findall(r"-r (\S+)", " ".join(rest(image, "RUN")))
    assert named and all((ROOT / name).is_file() for name in named)
    assert ("requirements-npu.txt" in named) == (image == "Dockerfile.npu")
    everywhere = re.sub(r"#.*", "", (ROOT / "requirements.txt").read_text(encoding="utf-8"))
    assert "torch-npu" not in everywhere and "torch_npu" not in everywhere


def test_torch_npu_is_pinned_to_the_torch_of_all_other_machines() -> None:
    torch = pins("requirements.txt")["torch"]
    assert pins("requirements-npu.txt")["torch"] == torch
    assert pins("requirements-npu.txt")["torch-npu"].split(".")[:2] == torch.split(".")[:2]


def test_the_npu_page_names_every_variable_that_doctor_shows() -> None:
    page = (ROOT / "docs" / "npu.md").read_text(encoding="utf-8")
    missing = [name for name in npu.ENVIRONMENT if f"| `{name}` |" not in page]
    assert not missing


def test_the_npu_page_names_the_libraries_that_are_looked_for() -> None:
    page = (ROOT / "docs" / "npu.md").read_text(encoding="utf-8")
    assert all(f"`{library}`" in page for library in ascend.LIBRARIES)


def options(command: str) -> set[str]:
    found = cast(TyperGroup, get_command(app)).commands[command]
    return {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", ["docs/npu.md", "docs/docker.md", "README.md"])
def test_commands_on_the_page_have_the_options_that_they_are_given(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    given = re.findall(r"python -m specviz (\w[\w-]*)([^`\n]*)", text)
    assert given
    for command, arguments in given:
        assert set(re.findall(r"--[\w-]+", arguments)) <= options(command), command
