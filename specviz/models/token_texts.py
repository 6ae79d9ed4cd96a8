"""What each token id reads as on its own."""

from __future__ import annotations

from typing import Any

from transformers.convert_slow_tokenizer import bytes_to_unicode


def token_texts(tokenizer: Any, vocab_size: int) -> list[str]:
    """What each token id reads as on its own, for lists of candidates. Fragments of characters show as bytes."""
    backend = tokenizer.backend_tokenizer
    count = min(vocab_size, len(tokenizer))
    texts = backend.decode_batch([[token] for token in range(count)], skip_special_tokens=False)
    pieces = tokenizer.convert_ids_to_tokens(range(count))
    to_byte = {char: byte for byte, char in bytes_to_unicode().items()}
    for token, text in enumerate(texts):
        piece = pieces[token]
        if "�" in text and piece and all(char in to_byte for char in piece):
            texts[token] = "‹" + " ".join(f"{to_byte[char]:02X}" for char in piece) + "›"
    return texts + [f"‹{token}›" for token in range(count, vocab_size)]
