"""Going on from inside a run: a recorded round as it would have been, then new rounds from there."""

from __future__ import annotations

from dataclasses import replace

from specviz.errors import UserError
from specviz.microscope.evidence import Evidence
from specviz.microscope.whatif import Outcome
from specviz.race import Origin
from specviz.trace import Settings


def branch_off(evidence: Evidence, outcome: Outcome) -> tuple[Settings, Origin]:
    """Settings and origin of a run that keeps what is certain of ``outcome`` and decodes on under its settings.

    It reads on in the seed's table, so that with nothing changed it repeats the run it left. Raises UserError if
    the text ends in this round.
    """
    emitted = [token for token, _ in outcome.emitted]
    left = evidence.left - len(emitted)
    if outcome.end == "end_of_text" or left < 1:
        raise UserError("The text ends in this round, so there is nothing left to run from here.")
    origin = Origin((*evidence.context, *emitted), evidence.taken + len(emitted), evidence.row + 1)
    return replace(outcome.settings, max_new_tokens=left), origin
