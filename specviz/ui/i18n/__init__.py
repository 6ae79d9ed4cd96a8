"""The words of the page, a folder for each language and in it a JSON file for each part of the page (``race.json``
holds the keys ``race.…``), used by Python and JavaScript alike.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
FALLBACK = "en"


def languages() -> list[str]:
    """The languages there are, e.g. ["en"]."""
    return sorted({path.parent.name for path in _FOLDER.glob("*/*.json")})


@cache
def strings(lang: str) -> dict[str, str]:
    """Every key in this language; what it lacks, or a language there is not, is filled from English."""
    words = _read(FALLBACK)
    return words | _read(lang) if lang in languages() else words


def _read(lang: str) -> dict[str, str]:
    words: dict[str, str] = {}
    for path in sorted((_FOLDER / lang).glob("*.json")):
        words |= json.loads(path.read_text(encoding="utf-8"))
    return words
