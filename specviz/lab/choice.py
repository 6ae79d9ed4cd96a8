"""Which round of a run the laboratory looks at unless told otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable

from specviz.decoding.lossy import kl_divergence
from specviz.decoding.replay import sampling_of
from specviz.errors import UserError
from specviz.microscope.evidence import Evidence
from specviz.settings import DEFAULT_KL_THRESHOLD
from specviz.trace import Trace

MOST_ASKED = 16  # each asks both models about a round
# Pinsker: TV ≤ √(KL/2). Rounds further apart than that need not be asked.
FURTHEST = math.sqrt(DEFAULT_KL_THRESHOLD / 2)


def choose(trace: Trace, gather: Callable[[int], Evidence]) -> tuple[int, Evidence]:
    """(index, evidence) of the round whose first position shows most: the largest TV(p, q) with KL(p‖q) < 0.8.

    Behind that KL the KL threshold replaces every draft and shows nothing. A second drafted position is preferred,
    since one exhibit needs it. ``gather`` asks the models about a round. Raises UserError if nothing was drafted.
    """
    run = trace.run("speculative")
    drafted = [round_ for round_ in (run.rounds if run else ()) if round_.drafted]
    if not drafted:
        raise UserError("This run drafted nothing. Choose another prompt or another drafter.")
    several = [round_ for round_ in drafted if len(round_.drafted) > 1]
    ranked = sorted(several or drafted, key=lambda round_: (round_.drafted[0].overlap, round_.index))
    sampling = sampling_of(trace.settings)
    if not sampling.greedy:
        near = [round_ for round_ in ranked if 1 - round_.drafted[0].overlap <= FURTHEST]
        for round_ in near[:MOST_ASKED]:
            evidence = gather(round_.index)
            p, q = evidence.p_and_q(sampling)
            if float(kl_divergence(p[0], q[0])) < DEFAULT_KL_THRESHOLD:
                return round_.index, evidence
    return ranked[0].index, gather(ranked[0].index)
