"""The law of a whole round, enumerated: what comes out is distributed as the target's own tokens.

The verdict function is piecewise constant in its uniform numbers. Every piece is visited once, at its middle,
and weighted with its volume, so the function that runs in the engine is integrated exactly.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from specviz.decoding.acceptance import accept_probability, greedy_match, rejection_sampling
from specviz.decoding.distribution import Sampling, one_hot, probabilities

Table = dict[tuple[int, ...], Tensor]
SAMPLINGS = [
    Sampling(1.0),
    Sampling(0.6),
    Sampling(1.0, top_k=3),
    Sampling(1.3, top_p=0.7),
    Sampling(0.8, top_k=4, top_p=0.9),
]


def table(vocab: int, depth: int, sampling: Sampling, seed: int) -> Table:
    """A random conditional distribution for every prefix of up to ``depth`` tokens."""
    generator = torch.Generator().manual_seed(seed)
    prefixes = [prefix for n in range(depth + 1) for prefix in itertools.product(range(vocab), repeat=n)]
    return {prefix: probabilities(torch.randn(vocab, generator=generator) * 2, sampling) for prefix in prefixes}


def pieces(breaks: Tensor) -> list[tuple[float, float]]:
    """(middle, length) of the pieces that ``breaks`` cut [0, 1) into."""
    edges = [0.0, *sorted(min(max(float(x), 0.0), 1.0) for x in breaks), 1.0]
    return [((a + b) / 2, b - a) for a, b in itertools.pairwise(edges) if b - a > 1e-12]


def round_law(
    p: Table, q: Table | None, copied: tuple[int, ...], vocab: int, gamma: int
) -> dict[tuple[int, ...], float]:
    """Probability of each sequence a round can emit. ``q=None``: the draft is ``copied``, with certainty."""
    law: dict[tuple[int, ...], float] = {}
    for drafted in itertools.product(range(vocab), repeat=gamma) if q else [copied]:
        chance = 1.0
        if q:
            for i in range(gamma):
                chance *= float(q[drafted[:i]][drafted[i]])
        if chance == 0:
            continue
        p_rows = torch.stack([p[drafted[:i]] for i in range(gamma + 1)])
        q_rows = torch.stack([q[drafted[:i]] for i in range(gamma)]) if q else None
        certain = one_hot(torch.tensor(drafted), vocab) if q_rows is None else q_rows
        tests = []
        for i in range(gamma):
            ratio = p_rows[i, drafted[i]].double() / certain[i, drafted[i]].double()
            tests.append(pieces(ratio.clamp(max=1)[None]))
        for point in itertools.product(*tests):
            volume = chance
            for _, length in point:
                volume *= length
            u = torch.tensor([middle for middle, _ in point], dtype=torch.float32)
            # Where the final draw changes its mind: the running sum of the leftover, worked out independently.
            fell = next((i for i in range(gamma) if u[i] >= p_rows[i, drafted[i]] / certain[i, drafted[i]]), gamma)
            left = p_rows[fell].double() - (certain[fell].double() if fell < gamma else 0)
            cumulative = left.clamp(min=0).cumsum(0)
            for middle, length in pieces(cumulative / cumulative[-1]):
                judged = rejection_sampling(p_rows, q_rows, torch.tensor(drafted), u, torch.tensor(middle))
                assert judged.finite
                emitted = (*drafted[: int(judged.n_accepted)], int(judged.final_token))
                law[emitted] = law.get(emitted, 0.0) + volume * length
    return law


def assert_lossless(law: dict[tuple[int, ...], float], p: Table, vocab: int, gamma: int) -> None:
    """Completed with the target's own tokens, the round must follow the target's joint law over γ+1 tokens."""
    for sequence in itertools.product(range(vocab), repeat=gamma + 1):
        expected = actual = 0.0
        joint = 1.0
        for i, token in enumerate(sequence):
            joint *= float(p[sequence[:i]][token])
        expected = joint
        for n in range(1, gamma + 2):
            rest = 1.0
            for i in range(n, gamma + 1):
                rest *= float(p[sequence[:i]][sequence[i]])
            actual += law.get(sequence[:n], 0.0) * rest
        assert actual == pytest.approx(expected, abs=1e-6), sequence


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize(("vocab", "gamma"), [(8, 1), (5, 2), (3, 3)])
def test_rejection_sampling_emits_the_targets_law(vocab: int, gamma: int, sampling: Sampling) -> None:
    p, q = table(vocab, gamma, sampling, seed=vocab), table(vocab, gamma, sampling, seed=100 + vocab)
    law = round_law(p, q, (), vocab, gamma)
    assert sum(law.values()) == pytest.approx(1, abs=1e-6)
    assert_lossless(law, p, vocab, gamma)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_a_copied_draft_emits_the_targets_law(sampling: Sampling) -> None:
    vocab, gamma = 6, 3
    p = table(vocab, gamma, sampling, seed=1)
    for copied in [(0, 1, 2), (3, 3, 3), (5, 0, 5)]:
        assert_lossless(round_law(p, None, copied, vocab, gamma), p, vocab, gamma)


def test_a_round_without_a_draft_emits_the_targets_law() -> None:
    p = table(8, 0, Sampling(), seed=3)
    assert_lossless(round_law(p, None, (), 8, 0), p, 8, 0)


def test_greedy_match_emits_the_targets_argmaxes_whatever_is_drafted() -> None:
    vocab, gamma = 5, 2
    logits = {
        prefix: torch.randn(vocab, generator=torch.Generator().manual_seed(hash(prefix) % 2**31))
        for n in range(gamma + 1)
        for prefix in itertools.product(range(vocab), repeat=n)
    }
    for drafted in itertools.product(range(vocab), repeat=gamma):
        rows = torch.stack([logits[drafted[:i]] for i in range(gamma + 1)])
        judged = greedy_match(rows, torch.tensor(drafted))
        emitted = (*drafted[: int(judged.n_accepted)], int(judged.final_token))
        for i, token in enumerate(emitted):
            assert token == int(logits[emitted[:i]].argmax())


def test_a_wrong_residual_is_not_lossless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the enumeration notices when a rejected position is drawn from p itself."""
    monkeypatch.setattr("specviz.decoding.acceptance.residual", lambda p, q: p)
    p, q = table(5, 2, Sampling(), seed=5), table(5, 2, Sampling(), seed=105)
    with pytest.raises(AssertionError):
        assert_lossless(round_law(p, q, (), 5, 2), p, 5, 2)


def test_acceptance_probability_is_the_ratio_up_to_one() -> None:
    p, q = torch.tensor([0.2, 0.5, 0.0]), torch.tensor([0.4, 0.25, 0.3])
    assert accept_probability(p, q).tolist() == [0.5, 1.0, 0.0]


def test_nan_is_reported_wherever_it_begins() -> None:
    p = torch.full((3, 4), 0.25)
    drafted, u = torch.tensor([1, 2]), torch.tensor([0.1, 0.1])
    assert rejection_sampling(p, p[:2], drafted, u, torch.tensor(0.5)).finite
    for row in range(3):
        broken = p.clone()
        broken[row] = torch.nan
        assert not rejection_sampling(broken, p[:2], drafted, u, torch.tensor(0.5)).finite
        logits = torch.zeros(3, 4)
        logits[:, 1], logits[1, 2] = 1, 2
        logits[row] = torch.nan
        assert not greedy_match(logits, drafted).finite


def test_at_temperature_0_a_choice_among_no_numbers_is_none_up_to_the_token_that_ends_the_round() -> None:
    logits = torch.zeros(3, 4)
    logits[:, 1], logits[1, 2] = 1, 2
    masked = logits.clone()
    masked[:, 3] = -torch.inf  # a token that the model rules out
    assert greedy_match(masked, torch.tensor([1, 2])).finite
    for row in range(3):
        overflown, ruled_out = logits.clone(), logits.clone()
        overflown[row, logits[row].argmax()] = torch.inf
        ruled_out[row] = -torch.inf
        assert not greedy_match(overflown, torch.tensor([1, 2])).finite
        assert not greedy_match(ruled_out, torch.tensor([1, 2])).finite
        # With the first draft rejected, nobody reads what the later rows say.
        assert greedy_match(overflown, torch.tensor([3, 2])).finite == (row > 0)
