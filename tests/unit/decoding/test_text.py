"""Characters that need several tokens are never shown broken; stop strings are found across tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from specviz.decoding.text import Detokenizer, StopStrings
from specviz.models.token_texts import token_texts
from tests.conftest import byte_tokenizer

TOKENIZER = byte_tokenizer(extra=2)


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False)


@given(st.text(max_size=20), st.text(max_size=20))
def test_the_pieces_join_to_the_text_and_none_is_broken(prompt: str, answer: str) -> None:
    detokenizer = Detokenizer(TOKENIZER, ids(prompt))
    parts = [detokenizer.push(token) for token in ids(answer)]
    assert "".join(text for text, _ in parts) == answer
    assert all("\ufffd" not in text for text, _ in parts) or "\ufffd" in answer


def test_the_parts_of_a_glyph_share_its_number_and_the_last_has_its_text() -> None:
    detokenizer = Detokenizer(TOKENIZER, ids("x"))
    parts = [detokenizer.push(token) for token in ids("a€b")]
    assert parts == [("a", 0), ("", 1), ("", 1), ("€", 1), ("b", 2)]


def test_peeking_changes_nothing() -> None:
    detokenizer, other = Detokenizer(TOKENIZER, []), Detokenizer(TOKENIZER, [])
    for token in ids("é€ü!"):
        detokenizer.peek(ids("€€"))
        assert detokenizer.peek([token]) == [other.push(token)] == [detokenizer.push(token)]


def test_bytes_that_are_no_text_do_not_hold_up_what_follows() -> None:
    euro = ids("€")
    detokenizer = Detokenizer(TOKENIZER, [])
    texts = [detokenizer.push(token)[0] for token in [*euro[:1], *ids("abcdefgh")]]
    assert "".join(texts).endswith("efgh")


def test_single_token_texts_show_fragments_as_bytes() -> None:
    texts = token_texts(TOKENIZER, 260)
    assert texts[ids("a")[0]] == "a"
    assert [texts[token] for token in ids("€")] == ["‹E2›", "‹82›", "‹AC›"]
    assert texts[256:] == ["<extra0>", "<extra1>", "‹258›", "‹259›"]


@given(st.text("ab", max_size=12), st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3))
def test_a_stop_string_is_seen_at_the_token_that_completes_it(text: str, stops: list[str]) -> None:
    watch = StopStrings(tuple(stops))
    for end in range(1, len(text) + 1):
        complete = any(text[:end].endswith(stop) for stop in stops)
        assert watch.push(text[end - 1]) == complete
        if complete:
            break


def test_a_sentencepiece_like_space_survives(tokenizer: PreTrainedTokenizerFast) -> None:
    detokenizer = Detokenizer(tokenizer, tokenizer.encode("The"))
    assert "".join(detokenizer.push(token)[0] for token in tokenizer.encode(" sky is")) == " sky is"
