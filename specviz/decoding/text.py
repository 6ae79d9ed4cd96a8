"""Token ids to text, one token at a time, without breaking characters and without starting over."""

from __future__ import annotations

from typing import Any

REPLACEMENT = "�"
# A character takes at most four bytes, so at most four tokens; what is still broken then is really broken.
MAX_PARTS = 4


class Detokenizer:
    """Text of a growing token sequence. Every token gets its text and the number of the glyph it belongs to.

    A glyph may need several tokens: the first ones get no text, the last one gets all of it, and they share
    their glyph number. Only the last few tokens are ever decoded (a window that starts where the previous
    glyph did, since some tokenizers treat the first token of a text differently).
    """

    def __init__(self, tokenizer: Any, context_ids: list[int]) -> None:
        self._tokenizer = tokenizer
        self._window = context_ids[-MAX_PARTS:]
        self._read = len(self._window)  # tokens of the window whose text is out
        self._glyph = 0

    def push(self, token_id: int) -> tuple[str, int]:
        """Append a token; (its text, its glyph number)."""
        self._window.append(token_id)
        glyph = self._glyph
        known = self._decode(self._window[: self._read])
        text = self._decode(self._window)
        parts = len(self._window) - self._read
        if text.endswith(REPLACEMENT) and parts < MAX_PARTS:
            return "", glyph
        self._window = self._window[-max(parts, 1) :]
        self._read = len(self._window)
        self._glyph += 1
        return text[len(known) :], glyph

    def peek(self, token_ids: list[int]) -> list[tuple[str, int]]:
        """What pushing these tokens would give, without pushing them."""
        state = (list(self._window), self._read, self._glyph)
        try:
            return [self.push(token) for token in token_ids]
        finally:
            self._window, self._read, self._glyph = state

    def _decode(self, token_ids: list[int]) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


class StopStrings:
    """Watches a growing text for any of some strings. Remembers no more than the longest of them."""

    def __init__(self, strings: tuple[str, ...]) -> None:
        self._strings = strings
        self._tail = ""
        self._longest = max(map(len, strings), default=1)

    def __bool__(self) -> bool:
        return bool(self._strings)

    def push(self, text: str) -> bool:
        """Append text; whether a stop string now stands complete in it."""
        seen = self._tail + text
        self._tail = seen[-self._longest :]
        return any(string in seen for string in self._strings)
