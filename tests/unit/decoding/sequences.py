"""χ² of what the real loop emits on tiny models, over many runs."""

from __future__ import annotations

import itertools
from collections import Counter

import torch
from scipy import stats
from transformers import PreTrainedTokenizerFast

from specviz.decoding.distribution import Sampling, probabilities
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.rules import LOSSLESS, Rule
from tests.unit.decoding.rounds import Remembering, Silent, make_loop

VOCAB, GAMMA = 6, 2
PROMPT = [1, 4, 2]


def p_value(
    target: Remembering,
    drafter: DraftModel,
    sampling: Sampling,
    tokenizer: PreTrainedTokenizerFast,
    rule: Rule = LOSSLESS,
    length: int = 3,
    runs: int = 20_000,
) -> float:
    """χ² of the sequences of ``length`` tokens that ``runs`` runs emit, against the target's joint law."""
    loop = make_loop(target, drafter, sampling, tokenizer, PROMPT, gamma=GAMMA, max_new_tokens=length)
    loop.rule = rule
    loop.recorder = Silent(tokenizer, [], PROMPT)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(runs):
        loop.seed = seed
        loop.ending.max_new_tokens, loop.ending.room = length, 100
        counts[tuple(itertools.chain.from_iterable(loop.rounds(PROMPT)))] += 1  # type: ignore[arg-type]
    assert sum(counts.values()) == runs

    expected = {}
    for sequence in itertools.product(range(VOCAB), repeat=length):
        chance = 1.0
        for i, token in enumerate(sequence):
            target.allocate(0)
            logits = target.forward(torch.tensor([*PROMPT, *sequence[:i]], device=target.device), keep=1)[0]
            chance *= float(probabilities(logits, sampling)[token])
        expected[sequence] = chance * runs
    if any(expected[sequence] == 0 for sequence in counts):
        return 0.0
    frequent = [sequence for sequence in expected if expected[sequence] >= 5]
    rare = [sequence for sequence in expected if 0 < expected[sequence] < 5]
    observed_bins = [counts[sequence] for sequence in frequent]
    expected_bins = [expected[sequence] for sequence in frequent]
    if sum(expected[sequence] for sequence in rare) >= 5:
        observed_bins.append(sum(counts[sequence] for sequence in rare))
        expected_bins.append(sum(expected[sequence] for sequence in rare))
    assert len(expected_bins) >= 10
    scale = sum(observed_bins) / sum(expected_bins)
    return float(stats.chisquare(observed_bins, [e * scale for e in expected_bins]).pvalue)
