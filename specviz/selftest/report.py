"""What a self-test found, as plain values that can be sent to others."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

# Of variables only what every installation of CANN has.
PUBLIC = re.compile(r"/usr/local/Ascend(/[\w+-][\w.+-]*)*/?")
# Where everyone's machine has the same things; any other absolute path may name a person.
COMMON = ("usr", "opt", "lib", "lib64", "etc", "dev", "proc", "sys", "bin")
PATH = re.compile(rf"(?<![\w./~])/(?!(?:{'|'.join(COMMON)})(?:/|\b))[^\s:;,'\"()]+|\b[A-Za-z]:\\[^\s;,'\"()]+")


class NotApplicableError(Exception):
    """Here the check has nothing to look at; the message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``measured`` held against ``limit``, both in words; ``detail`` is what a reader may want to know besides."""

    passed: bool
    measured: str
    limit: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One claim on one device. ``passed`` is None where it could not be asked there; ``detail`` then says why."""

    name: str
    passed: bool | None
    measured: str
    limit: str
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """``facts`` about the machine and the models, plain values, and the checks in their order."""

    facts: dict[str, Any]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed, and at least one could be made."""
        return all(check.passed is not False for check in self.checks) and any(check.passed for check in self.checks)

    def document(self) -> dict[str, Any]:
        """The report as JSON holds it, without the paths that could name a person."""
        document = {**self.facts, "passed": self.passed, "checks": [asdict(check) for check in self.checks]}
        return {name: without_paths(value) for name, value in document.items()}


def perform(name: str, examine: Callable[[], Outcome]) -> Check:
    """Make one check. Whatever it raises is its result and stops no other."""
    started = time.perf_counter()
    try:
        outcome = examine()
        found: tuple[bool | None, str, str, str] = (outcome.passed, outcome.measured, outcome.limit, outcome.detail)
    except NotApplicableError as reason:
        found = (None, "", "", str(reason))
    except Exception as error:  # a device may fail in any way, and that is what we want to read
        first_line = (str(error).strip().splitlines() or [""])[0]
        found = (False, "", "", f"{type(error).__name__}: {first_line}")
    return Check(name, *found, seconds=round(time.perf_counter() - started, 3))


def without_paths(value: Any) -> Any:
    """A plain value in whose texts paths of a person's own keep only their last part."""
    if isinstance(value, str):
        return PATH.sub(_shortened, value)
    if isinstance(value, dict):
        return {name: without_paths(item) for name, item in value.items()}
    return [without_paths(item) for item in value] if isinstance(value, list | tuple) else value


def without_folders(variable: str) -> str:
    """The value of a variable, of a list of folders only those of CANN."""
    return ":".join(
        part if PUBLIC.fullmatch(part) or not re.search(r"[/\\~]", part) else "…" for part in variable.split(":")
    )


def _shortened(path: re.Match[str]) -> str:
    parts = [part for part in re.split(r"[/\\]", path[0]) if part]
    return f"…/{parts[-1]}" if len(parts) > 2 else "…"
