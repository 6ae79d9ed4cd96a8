"""Whether two models speak the same tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from specviz.errors import UserError
from specviz.models.vocabulary import (
    FINGERPRINT_FILE,
    fingerprint,
    shared_size,
    shared_size_by_fingerprint,
    tokens_by_id,
)

WORDS = ["<unk>", "the", "cat", "sat", "on", "mat"]


def words(*tokens: str) -> PreTrainedTokenizerFast:
    vocabulary = {token: index for index, token in enumerate(tokens)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token=tokens[0])))


def test_the_same_tokenizer_shares_all_its_tokens() -> None:
    assert shared_size(words(*WORDS), words(*WORDS), 6, 6) == 6


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(16, 8), (8, 16), (8, 6)])
def test_padding_of_either_side_is_left_out(target_rows: int, draft_rows: int) -> None:
    assert shared_size(words(*WORDS), words(*WORDS), target_rows, draft_rows) == 6


def test_tokens_that_only_the_draft_has_are_not_shared() -> None:
    assert shared_size(words(*WORDS), words(*WORDS, "purrs"), 8, 8) == 6


def test_tokens_that_only_the_target_has_are_not_shared_but_must_have_a_row() -> None:
    target, draft = words(*WORDS, "purrs"), words(*WORDS)
    assert shared_size(target, draft, 8, 8) == 6
    with pytest.raises(UserError, match="the draft ends after 6 tokens and the target goes on with token 6, 'purrs'"):
        shared_size(target, draft, 8, 6)


def test_equal_sizes_with_different_maps_are_refused_at_the_first_difference() -> None:
    swapped = words("<unk>", "the", "sat", "cat", "on", "mat")
    with pytest.raises(UserError, match="token 2 is 'cat' for the target and 'sat' for the draft"):
        shared_size(words(*WORDS), swapped, 6, 6)


def test_added_tokens_count_and_gaps_are_seen() -> None:
    target, draft = words(*WORDS), words(*WORDS)
    target.add_special_tokens({"additional_special_tokens": ["<a>"]})
    draft.add_special_tokens({"additional_special_tokens": ["<b>"]})
    assert tokens_by_id(target)[6] == "<a>"
    with pytest.raises(UserError, match="token 6 is '<a>' for the target and '<b>' for the draft"):
        shared_size(target, draft, 8, 8)


def test_a_draft_without_tokenizer_needs_the_fingerprint_of_the_targets(tmp_path: Path) -> None:
    target = words(*WORDS)
    with pytest.raises(UserError, match="has no tokenizer"):
        shared_size_by_fingerprint(target, tmp_path, 8, 8)
    (tmp_path / FINGERPRINT_FILE).write_text(fingerprint(words("<unk>", "the", "sat", "cat", "on", "mat")))
    with pytest.raises(UserError, match="another vocabulary"):
        shared_size_by_fingerprint(target, tmp_path, 8, 8)
    (tmp_path / FINGERPRINT_FILE).write_text(fingerprint(words(*WORDS)) + "\n")
    assert shared_size_by_fingerprint(target, tmp_path, 8, 8) == 6
    with pytest.raises(UserError, match="the draft ends after 4 tokens"):
        shared_size_by_fingerprint(target, tmp_path, 8, 4)
