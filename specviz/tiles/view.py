"""Q, K, V of one layer in a recorded round's verification or in the prefill, and whose rows they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specviz.attention.problem import Problem
from specviz.decoding.replay import check_ids, context_of, round_at
from specviz.errors import UserError
from specviz.microscope.evidence import check_models
from specviz.models.attention_hook import Captured, capture
from specviz.models.load import Pair
from specviz.trace import Trace, Verdict

Phase = Literal["verification", "prefill"]


@dataclass(frozen=True, slots=True)
class Row:
    """A query position: its token, and what became of it if it was drafted."""

    text: str
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class View:
    """One layer's attention in one forward of a run. ``rows`` name the queries of a verification; empty for a prefill.

    ``layers`` is how many the target has; ``bytes_per_element`` that of its number format.
    """

    phase: Phase
    layer: int
    layers: int
    captured: Captured
    rows: tuple[Row, ...]
    bytes_per_element: int

    @property
    def problem(self) -> Problem:
        """The shape of the call, all heads."""
        heads, queries, head_dim = self.captured.q.shape
        kv_heads, keys, _ = self.captured.k.shape
        return Problem(queries, keys, heads, kv_heads, head_dim, True, self.bytes_per_element)

    @property
    def bytes(self) -> int:
        """What it weighs in memory."""
        seen = self.captured
        return sum(tensor.nbytes for tensor in (seen.q, seen.k, seen.v, seen.o))


def look(trace: Trace, round_index: int, pair: Pair, phase: Phase, layer: int) -> View:
    """Capture the verification of a round, γ+1 rows over the context, or the prefill, square over the prompt.

    Runs the target once; no run may be in progress. Raises UserError if there is no such round or layer, or if the
    trace was made with other models.
    """
    check_models(trace, pair)
    check_ids(trace, pair.target)
    if phase == "prefill":
        token_ids, queries = list(trace.prompt.token_ids), len(trace.prompt.token_ids)
        rows: tuple[Row, ...] = ()
    else:
        round_ = round_at(trace, round_index)
        drafted = [position.token_id for position in round_.drafted]
        token_ids, queries = [*context_of(trace, round_index), *drafted], len(drafted) + 1
        last = Row(pair.texts[token_ids[-queries]], None)
        rows = (last, *(Row(pair.texts[one.token_id], one.verdict) for one in round_.drafted))
    if len(token_ids) > pair.target.context_limit:
        raise UserError("This trace was made with another model: the loaded one reads fewer tokens.")
    return View(
        phase=phase,
        layer=layer,
        layers=pair.target_module.config.get_text_config(decoder=True).num_hidden_layers,
        captured=capture(pair.target_module, token_ids, layer, queries),
        rows=rows,
        bytes_per_element=pair.target.dtype.itemsize,
    )
