"""The words of the page, one JSON file a language, used by Python and JavaScript alike."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
FALLBACK = "en"


def languages() -> list[str]:
    """The languages there are, e.g. ["en"]."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


@cache
def strings(lang: str) -> dict[str, str]:
    """Every key in this language; what it lacks, or a language there is not, is filled from English."""
    english: dict[str, str] = json.loads((_FOLDER / f"{FALLBACK}.json").read_text(encoding="utf-8"))
    if lang not in languages():
        return english
    return english | json.loads((_FOLDER / f"{lang}.json").read_text(encoding="utf-8"))
