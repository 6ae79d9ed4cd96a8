"""Attention × decoding on a tiny pair: every combination is measured, in turn, and nothing stays switched."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.bench.ablation import COMBINATIONS, ablate, filler, fitting, summary
from specviz.errors import UserError
from specviz.models.attention import fused, materialised
from specviz.models.llama import LlamaModel
from specviz.models.load import Pair, load_pair
from specviz.settings import make_settings

SETTINGS = make_settings(drafter="draft-model", gamma=3, temperature=0.0, max_new_tokens=12)


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return load_pair(str(folder), str(folder), device="cpu", dtype="float32", threads=1)


def test_all_four_are_measured_behind_the_same_context(pair: Pair) -> None:
    cells = list(ablate(pair, SETTINGS, 40))
    assert [(cell.attention, cell.decoding) for cell in cells] == list(COMBINATIONS)
    for cell in cells:
        assert (cell.context, cell.tokens) == (40, 12)
        assert cell.tok_s > 0 and cell.forward_s > 0 and cell.prefill_s > 0
        assert (cell.alpha is not None) == (cell.decoding == "speculative")


def test_the_order_rotates(pair: Pair) -> None:
    first = next(ablate(pair, SETTINGS, 10, turn=3))
    assert (first.attention, first.decoding) == COMBINATIONS[3]


def test_the_attention_really_is_exchanged_and_put_back(pair: Pair) -> None:
    assert isinstance(pair.target, LlamaModel)
    seen = []
    for cell in ablate(pair, SETTINGS, 10):
        seen.append((cell.attention, pair.target.kernel.attend))
    assert dict(seen) == {"materialised": materialised, "fused": fused}
    unfinished = ablate(pair, SETTINGS, 10)
    next(unfinished)
    unfinished.close()
    assert pair.target.kernel.attend is fused


def test_a_stop_ends_it(pair: Pair) -> None:
    assert list(ablate(pair, SETTINGS, 10, poll=lambda: "cancelled")) == []


@pytest.mark.parametrize("length", [2, 3, 17, 100, 200])
def test_a_filler_has_the_length_asked_for(pair: Pair, length: int) -> None:
    assert len(filler(pair, length)) == length


def test_contexts_are_cut_to_what_the_models_hold(pair: Pair) -> None:
    assert fitting(pair, SETTINGS, [10, 5000, 9000]) == [10, 256 - 12]
    for contexts, tokens in (([1], 12), ([10], 4096)):
        settings = make_settings(drafter="draft-model", temperature=0.0, max_new_tokens=tokens)
        with pytest.raises(UserError, match="at least 2 tokens"):
            fitting(pair, settings, contexts)


def test_gains_are_over_materialised_standard_decoding_of_the_same_context(pair: Pair) -> None:
    cells = [cell for length in (10, 20) for turn in (0, 1) for cell in ablate(pair, SETTINGS, length, turn)]
    rows = summary(cells)
    assert [(row["context"], row["attention"], row["decoding"]) for row in rows] == [
        (length, *combination) for length in (10, 20) for combination in COMBINATIONS
    ]
    for first in (rows[0], rows[4]):
        assert first["gain"] == 1
    for row in rows:
        base = rows[0] if row["context"] == 10 else rows[4]
        assert row["gain"] == pytest.approx(float(str(row["tok_s"])) / float(str(base["tok_s"])))
