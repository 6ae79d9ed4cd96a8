"""Files a person names: checked before the work whose result they are to hold."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from specviz.errors import UserError


def check_writable(path: Path | None) -> None:
    """Refuse now what would fail after minutes of work. Raises UserError."""
    if path is None:
        return
    try:
        if path.is_dir():
            raise UserError(f"{path} is a folder. Name a file in it.")
        place = path.resolve()
        if not place.parent.is_dir():
            raise UserError(f"There is no folder {path.parent}. Create it or choose another place.")
        if not os.access(path if _is_device(path) else place.parent, os.W_OK):
            raise UserError(f"{path} cannot be written: permission denied. Choose another place.")
    except (OSError, RuntimeError) as error:  # a name too long, links in a circle
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{path} cannot be written: {reason}. Choose another place.") from None


def write(path: Path, content: str) -> None:
    """Write all of it, or leave what was there. Raises UserError."""
    try:
        if _is_device(path):
            path.write_text(content, encoding="utf-8")
        else:
            _replace(path.resolve(), content)  # a link goes on pointing to the file
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} could not be written: {reason}. Make room or choose another place.") from None


def _is_device(path: Path) -> bool:
    """A pipe, a terminal and the like: written to, never replaced."""
    return path.exists() and not path.is_file()


def _replace(path: Path, content: str) -> None:
    # A name that nobody can have put a link of their own under, and that fits wherever the file's own does.
    part = path.with_name(f".{secrets.token_hex(8)}")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
