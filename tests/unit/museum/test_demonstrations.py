"""The exhibits that leave the distribution alone, on tiny models: each is exposed by its own statistic."""

from __future__ import annotations

from pathlib import Path

import pytest

from specviz.errors import UserError
from specviz.models.load import Pair, load_pair
from specviz.museum import demonstrate as demonstrations
from specviz.museum.demonstrate import demonstrate
from specviz.museum.models import OffByOneRollback
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


def test_a_difference_within_three_standard_errors_is_chance(twins: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for broken, exposed in (([0.3, 0.7] * 8, False), ([0.2, 0.4] * 8, True)):
        chances = iter(([0.5, 0.7] * 8, broken))
        monkeypatch.setattr(demonstrations, "_chances", lambda _, chances=chances: next(chances))
        shown = demonstrate("bonus-gap", twins, PROMPT, SETTINGS)
        assert shown.exposed == exposed
        spread = (0.1**2 + ((broken[1] - broken[0]) / 2) ** 2) * 16 / 15  # sample variances
        assert shown.values["standard_error"] == pytest.approx((spread / 16) ** 0.5)


def test_a_right_rollback_is_not_exposed(twins: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demonstrations, "OffByOneRollback", lambda model, by: OffByOneRollback(model, 0))
    shown = demonstrate("off-by-one-rollback", twins, PROMPT * 2, SETTINGS)
    assert not shown.exposed and len(set(shown.values.values())) == 1


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
