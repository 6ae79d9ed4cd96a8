"""Do two models speak the same tokens? A draft's token 4711 must be the target's token 4711."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from specviz.errors import UserError

#: Beside a draft without a tokenizer of its own: the fingerprint of the vocabulary it was trained with.
FINGERPRINT_FILE = "vocabulary.sha256"


def tokens_by_id(tokenizer: Any) -> list[str | None]:
    """Each id's token as the tokenizer spells it; None for ids it does not use."""
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    tokens: list[str | None] = [None] * (max(vocabulary.values(), default=-1) + 1)
    for token, index in vocabulary.items():
        tokens[index] = token
    return tokens


def fingerprint(tokenizer: Any) -> str:
    """One hash of the whole map from ids to tokens."""
    digest = hashlib.sha256()
    for token in tokens_by_id(tokenizer):
        digest.update(b"\0" if token is None else token.encode() + b"\n")
    return digest.hexdigest()


def shared_size(target: Any, draft: Any, target_rows: int, draft_rows: int) -> int:
    """How many ids, from 0 on, mean the same in both; a drafter may propose these and no others.

    ``target`` and ``draft`` are tokenizers. Models pad their vocabularies to round numbers of ``rows``, so
    Qwen2.5 has 151,936 or 152,064 for the same tokens; padding is not compared. Raises UserError naming
    the first token that differs, or the first that the draft has no row for.
    """
    ours, theirs = tokens_by_id(target), tokens_by_id(draft)
    for index, (own, other) in enumerate(zip(ours, theirs, strict=False)):
        if own != other:
            raise UserError(
                f"The draft's vocabulary does not fit the target's: token {index} is {own!r} for the target and "
                f"{other!r} for the draft. Choose a draft of the same model family."
            )
    return _comparable(ours, min(len(ours), len(theirs)), target_rows, draft_rows)


def shared_size_by_fingerprint(target: Any, draft_folder: Path, target_rows: int, draft_rows: int) -> int:
    """``shared_size`` for a draft that brings no tokenizer but the fingerprint of the one it was trained with."""
    note = draft_folder / FINGERPRINT_FILE
    if not note.is_file():
        raise UserError(
            f"The draft in {draft_folder} has no tokenizer, so its tokens cannot be compared with the target's. "
            "Put the tokenizer that it was trained with beside it."
        )
    if note.read_text(encoding="utf-8").strip() != fingerprint(target):
        raise UserError(
            f"The draft in {draft_folder} was trained with another vocabulary than the target's. "
            "Choose a draft of the same model family."
        )
    tokens = tokens_by_id(target)
    return _comparable(tokens, len(tokens), target_rows, draft_rows)


def _comparable(target: list[str | None], shared: int, target_rows: int, draft_rows: int) -> int:
    if len(target) > draft_rows:
        raise UserError(
            f"The draft's vocabulary does not fit the target's: the draft ends after {draft_rows} tokens and the "
            f"target goes on with token {draft_rows}, {target[draft_rows]!r}. Choose a draft of the same model family."
        )
    return min(shared, target_rows)
