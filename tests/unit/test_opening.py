"""What a newcomer meets: the example prompts under the settings that the page opens with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specviz.events import Progress
from specviz.models.load import Pair, load_pair
from specviz.race import race
from specviz.settings import make_settings
from specviz.trace import Round
from specviz.ui.examples import Example, example_prompts

pytestmark = [pytest.mark.weights, pytest.mark.slow]

EXAMPLES = example_prompts(Path(__file__).parents[2] / "assets" / "prompts.jsonl")
ROUNDS = 20


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(dtype="bfloat16", threads=2)


def first_rounds(pair: Pair, prompt: str) -> Iterator[Round]:
    for event in race(pair, prompt, make_settings(), baseline=False):
        match event:
            case Progress(record=Round() as round_):
                yield round_
                if round_.index + 1 == ROUNDS:
                    return


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_soon_shows_all_that_can_happen_to_a_token(pair: Pair, example: Example) -> None:
    rounds = list(first_rounds(pair, example.prompt))
    verdicts = {position.verdict for round_ in rounds for position in round_.drafted}
    sources = {token.source for round_ in rounds for token in round_.emitted}
    assert {"accepted", "rejected"} <= verdicts
    assert {"draft", "residual", "bonus"} <= sources
