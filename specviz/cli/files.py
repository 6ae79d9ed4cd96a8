"""Files a person names: checked before the work whose result they are to hold."""

from __future__ import annotations

import os
from pathlib import Path

from specviz.errors import UserError


def check_writable(path: Path | None) -> None:
    """Refuse now what would fail after minutes of work. Raises UserError."""
    if path is None:
        return
    if path.is_dir():
        raise UserError(f"{path} is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise UserError(f"There is no folder {path.parent}. Create it or choose another place.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{path} cannot be written: permission denied. Choose another place.")


def write(path: Path, content: str) -> None:
    """Write all of it, or leave what was there. Raises UserError."""
    try:
        if path.exists() and not path.is_file():  # a pipe or device is written to, never replaced
            path.write_text(content, encoding="utf-8")
        else:
            _replace(path, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"{path} could not be written: {reason}. Make room or choose another place.") from None


def _replace(path: Path, content: str) -> None:
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(content, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
