"""Whole rounds on the device, a thousand of them: what they emit must follow p, and a broken rule must be caught.

The rows of p and q are the loaded models' own, at the places of the CPU's text where they differ about half; each row
stands for its position whatever was drafted before it, so the law of every position is known exactly.
"""

from __future__ import annotations

import torch
from scipy import stats
from torch import Tensor

from specviz.analysis.losslessness import BEYOND_CHANCE
from specviz.decoding.acceptance import rejection_sampling
from specviz.decoding.distribution import Sampling, as_law, draw, overlap, probabilities, uniforms
from specviz.decoding.fetch import fetch
from specviz.decoding.rules import Judge
from specviz.lab.finding import fit
from specviz.museum.judges import residual_is_p
from specviz.selftest.report import Outcome
from specviz.selftest.subject import Subject, read_in_blocks

ROUNDS, GAMMA, SEED = 1000, 3, 11
TELLING = 0.4  # total variation between p and q that shows most: both verdicts occur, and so do residual draws
BATCH = 50
PLAIN = Sampling(temperature=1.0)
OTHER = Sampling(temperature=2.0)  # stands in for a draft where no model drafts


def rounds(subject: Subject) -> Outcome:
    """χ² of the tokens that rejection sampling emits on the device, at every depth, and of a broken rule's."""
    p, q = _telling_rows(subject)
    honest, tokens = _p_value(p, q, rejection_sampling)
    broken, _ = _p_value(p, q, residual_is_p)
    return Outcome(
        passed=honest >= BEYOND_CHANCE and broken < BEYOND_CHANCE,
        measured=f"p-value {honest:.2g}; of a broken rule {broken:.2g}",
        limit=f"at least {BEYOND_CHANCE:g}; below it",
        detail=f"{ROUNDS:,} rounds with {tokens:,} tokens; broken: a rejected token is replaced from p",
    )


@torch.inference_mode()
def _telling_rows(subject: Subject) -> tuple[Tensor, Tensor]:
    """p [GAMMA + 1, V] and q [GAMMA, V] on the device."""
    ids, first = [*subject.prompt_ids, *subject.text], len(subject.prompt_ids) - 1
    target = read_in_blocks(subject.pair.target, ids, first)
    p = probabilities(target, PLAIN)
    if subject.pair.draft_source is None:
        q = probabilities(target, OTHER)
    else:
        draft = subject.pair.draft("draft-model")
        rows = read_in_blocks(draft.model, ids, first)[:, : draft.shared_vocab]
        q = torch.nn.functional.pad(probabilities(rows, PLAIN), (0, p.shape[-1] - draft.shared_vocab))
    ranked = (1 - overlap(p, q) - TELLING).abs().argsort(stable=True)
    chosen = ranked[torch.arange(GAMMA + 1) % len(ranked)]
    return p[chosen].to(subject.device), q[chosen[:GAMMA]].to(subject.device)


@torch.inference_mode()
def _p_value(p: Tensor, q: Tensor, judge: Judge) -> tuple[float, int]:
    """How often honest samples would lie further from p, all depths together; and how many tokens were emitted."""
    depths = _emitted(p, q, judge)
    tests = [
        fit(torch.bincount(tokens, minlength=p.shape[-1]).numpy(), as_law(row.cpu()))
        for tokens, row in zip(depths, p, strict=True)
        if len(tokens)
    ]
    statistic, freedom = sum(test.statistic for test in tests), sum(test.freedom for test in tests)
    return float(stats.chi2.sf(statistic, freedom)) if freedom else 1.0, sum(map(len, depths))


def _emitted(p: Tensor, q: Tensor, judge: Judge) -> list[Tensor]:
    """The tokens that ROUNDS rounds emitted at each depth, on the CPU. The host waits once a batch."""
    table = uniforms(SEED, ROUNDS, 2 * GAMMA + 1).to(p.device)
    emitted: list[list[int]] = [[] for _ in range(GAMMA + 1)]
    for u in table.split(BATCH):
        drafted = draw(q.expand(len(u), -1, -1), u[:, :GAMMA])
        judged = [
            judge(p, q, tokens, row[GAMMA : 2 * GAMMA], row[2 * GAMMA]) for tokens, row in zip(drafted, u, strict=True)
        ]
        n_accepted, final = (torch.stack(column) for column in (*zip(*judged, strict=True),)[:2])
        for tokens, n, last in zip(*fetch(drafted, n_accepted, final), strict=True):
            for depth, token in enumerate([*tokens[: int(n)], last]):
                emitted[depth].append(int(token))
    return [torch.tensor(tokens, dtype=torch.int64) for tokens in emitted]
