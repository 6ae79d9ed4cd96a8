"""The cache folder: what is built there appears whole or not at all, and once, whoever else is building."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_path

from specviz.errors import UserError

#: Told what is being done and how much of it is done, 0..1.
Progress = Callable[[str, float], None]


CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)


def silent(what: str, fraction: float) -> None:
    """Progress that nobody watches."""


def root() -> Path:
    """``SPECVIZ_CACHE``, or the user's cache folder of this system. Raises UserError where there is no home."""
    chosen = os.environ.get("SPECVIZ_CACHE")
    try:
        return Path(chosen).expanduser().resolve() if chosen else user_cache_path("specviz", appauthor=False)
    except RuntimeError:  # a user without a home, as in some containers
        raise UserError("There is no home folder to keep models in. Set SPECVIZ_CACHE to a folder.") from None


def build_once(destination: Path, build: Callable[[Path], None]) -> Path:
    """``destination``, a file or folder of the cache, made by ``build(part)`` if it is not there.

    A second process waits for the first. Whatever ``build`` leaves behind when it fails is removed; what a
    killed process left is removed by the next one. Raises UserError where the disk is full or closed to us.
    """
    if destination.exists():
        return destination
    with disk_errors_in_words(destination.parent):
        destination.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{destination.name}."
        with FileLock(destination.parent / f"{prefix}lock"):
            if destination.exists():
                return destination
            for debris in destination.parent.glob(f"{prefix}part-*"):
                shutil.rmtree(debris)
            work = Path(tempfile.mkdtemp(prefix=f"{prefix}part-", dir=destination.parent))
            try:
                part = work / destination.name
                build(part)
                part.replace(destination)
            finally:
                shutil.rmtree(work)
    return destination


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raises UserError if the disk below ``folder`` has less room than that."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise UserError(
            f"The disk of {folder} has {free / 1e9:.1f} GB left and {needed_bytes / 1e9:.1f} GB are needed. "
            "Make room, or set SPECVIZ_CACHE to a folder on another disk."
        )


@contextmanager
def disk_errors_in_words(folder: Path, variable: str = "SPECVIZ_CACHE") -> Iterator[None]:
    """Turn a full or closed disk into a UserError; other errors pass. ``variable`` moves ``folder`` elsewhere."""
    try:
        yield
    except Exception as error:
        # Some libraries wrap the system's error and keep only its text.
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left on device" in str(error):
            problem = f"The disk of {folder} is full; nothing was kept."
        elif isinstance(error, OSError) and error.errno in CLOSED:
            problem = f"{folder} cannot be written."
        else:
            raise
        raise UserError(f"{problem} Make room, or set {variable} to another folder.") from error
