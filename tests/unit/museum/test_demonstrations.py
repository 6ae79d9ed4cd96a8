"""The exhibits that leave the distribution alone, on tiny models: each is exposed by its own statistic."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.errors import UserError
from specviz.models.load import Pair, load_pair
from specviz.museum.demonstrate import demonstrate
from specviz.settings import make_settings

PROMPT = list(b"one two three")
SETTINGS = make_settings(drafter="draft-model", temperature=1.0, gamma=3)


def test_a_gap_costs_acceptance(twins: Pair) -> None:
    shown = demonstrate("bonus-gap", twins, PROMPT, SETTINGS)
    assert shown.exposed
    assert shown.values["acceptance_honest"] == pytest.approx(1, abs=1e-4)
    assert shown.values["acceptance_broken"] < 0.9


def test_a_wrong_rollback_differs_from_a_fresh_prefill(twins: Pair) -> None:
    settings = make_settings(drafter="prompt-lookup", temperature=1.0, gamma=3)
    shown = demonstrate("off-by-one-rollback", twins, PROMPT * 2, settings)
    assert shown.exposed
    assert shown.values["difference_honest"] < 1e-3
    assert min(shown.values["difference_long"], shown.values["difference_short"]) > 0.1


def test_what_stands_behind_an_ignored_end_is_counted(twins: Pair) -> None:
    shown = demonstrate("eos-ignored", twins, PROMPT, SETTINGS)
    assert shown.exposed
    assert shown.values["tokens_broken"] >= shown.values["tokens_honest"] + shown.values["behind"] > 0
    assert shown == demonstrate("eos-ignored", twins, PROMPT, SETTINGS)


def test_refusals(twins: Pair, folder: Path) -> None:
    with pytest.raises(UserError, match="redraws of a position"):
        demonstrate("residual-is-p", twins, PROMPT, SETTINGS)
    with pytest.raises(UserError, match="keeps no cache"):
        demonstrate("bonus-gap", twins, PROMPT, make_settings(drafter="prompt-lookup"))
    with pytest.raises(UserError, match="leaves no room"):
        demonstrate("eos-ignored", twins, [1] * 255, SETTINGS)
    with pytest.raises(UserError, match="was stopped"):
        demonstrate("eos-ignored", twins, PROMPT, SETTINGS, should_stop=lambda: True)
    with pytest.raises(UserError, match="No draft model"):
        demonstrate("bonus-gap", load_pair(str(folder), dtype="float32"), PROMPT, SETTINGS)
