"""The laboratory's answers as plain JSON for the browser: token ids get their text, infinities become null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from specviz.trace import is_lossy
from specviz.ui.components.wire import finite

if TYPE_CHECKING:
    from specviz.laboratory import Judged, Looked
    from specviz.microscope.detail import Detail
    from specviz.microscope.evidence import Evidence
    from specviz.microscope.whatif import Again

Json = dict[str, Any]
JUDGING = ("temperature", "top_k", "top_p", "rule", "epsilon", "delta", "kl_threshold")


def looked(answer: Looked, judged: Judged) -> Json:
    """The evidence of a round has come: its key, and the round judged as it was."""
    evidence = answer.evidence
    return {
        "key": answer.key,
        "round": evidence.round.index,
        "k": len(evidence.drafted),
        "gamma": evidence.settings.gamma,
        "difference": evidence.difference,
        "outcome": outcome(judged),
    }


def outcome(judged: Judged) -> Json:
    """A round judged again, one of its positions in full."""
    evidence, result = judged.evidence, judged.outcome
    texts = evidence.texts
    return finite(
        {
            "settings": {name: getattr(result.settings, name) for name in JUDGING},
            "lossy": is_lossy(result.settings),
            "greedy": result.settings.temperature == 0,
            "changed": judged.changed,
            "same": result.same,
            "positions": [_position(evidence, place, again) for place, again in enumerate(result.positions)],
            "emitted": [{"id": token, "text": texts[token], "source": source} for token, source in result.emitted],
            "end": result.end,
            "departs": result.departs,
            "detail": _detail(judged.detail, texts),
        }
    )


def answer(record: Any) -> Json:
    """Any other answer of the laboratory, a dataclass of plain values."""
    return finite(asdict(record))


def _position(evidence: Evidence, place: int, again: Again) -> Json:
    recorded = evidence.round.drafted[place]
    texts = evidence.texts
    values = asdict(again)
    token = values.pop("token_id")
    return {
        "id": token,
        "text": texts[token],
        **values,
        "recorded": {"id": recorded.token_id, "text": texts[recorded.token_id], "verdict": recorded.verdict},
    }


def _detail(detail: Detail, texts: Sequence[str]) -> Json:
    values = asdict(detail)
    drafted = values.pop("drafted")
    rows = values.pop("rows")
    return values | {
        "candidates": [
            {
                "id": row["token_id"],
                "text": texts[row["token_id"]],
                "p": row["p"],
                "q": row["q"],
                "out": row["out"],
                "drafted": row["token_id"] == drafted,
            }
            for row in rows
        ],
        "residual": [{"id": token, "text": texts[token], "prob": prob} for token, prob in detail.residual],
    }
