"""Attention × decoding, measured: {materialised, fused} × {standard, speculative} at growing contexts, on one pair."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from statistics import median

from specviz import devices
from specviz.analysis.metrics import speculate
from specviz.bench.prompts import BUNDLED, read_prompts
from specviz.decoding.autoregressive import Autoregressive
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.ending import Ending
from specviz.decoding.recording import Recorder
from specviz.decoding.replay import sampling_of
from specviz.decoding.rules import rule_of
from specviz.decoding.speculative import Speculative
from specviz.decoding.text import StopStrings
from specviz.errors import UserError
from specviz.models.attention import ATTENTIONS, Attention, Switchable
from specviz.models.load import Pair
from specviz.race import make_drafter
from specviz.trace import FinishReason, RunKind, Settings

CONTEXTS = (128, 1024, 4096, 8192)
COMBINATIONS: tuple[tuple[Attention, RunKind], ...] = tuple(
    (attention, kind) for attention in ATTENTIONS for kind in ("standard", "speculative")
)
Poll = Callable[[], FinishReason | None]


@dataclass(frozen=True, slots=True)
class Cell:
    """One decoding of ``tokens`` behind ``context`` tokens.

    ``forward_s`` is the median time of a target forward: one position in standard decoding, a verification in
    speculative. ``peak_memory_bytes`` is the process's or device's peak from the prefill on, weights included.
    """

    context: int
    attention: Attention
    decoding: RunKind
    tokens: int
    tok_s: float
    forward_s: float
    prefill_s: float
    peak_memory_bytes: int | None
    alpha: float | None


def fitting(pair: Pair, settings: Settings, contexts: Sequence[int]) -> list[int]:
    """The contexts, each cut to what both models hold beside the answer. Raises UserError for one below 2 tokens."""
    drafter, _ = make_drafter(pair, settings)
    room = min(pair.target.context_limit, drafter.context_limit) - settings.max_new_tokens
    if room < 2 or any(context < 2 for context in contexts):
        raise UserError("A context has at least 2 tokens and leaves room for the answer. Ask for fewer new tokens.")
    return sorted({min(context, room) for context in contexts})


def ablate(
    pair: Pair, settings: Settings, context: int, turn: int = 0, poll: Poll = lambda: None
) -> Generator[Cell, None, None]:
    """The four combinations behind one context, the order rotating with ``turn``; both models switch attention.

    Raises UserError if a model's attention cannot be exchanged. ``poll`` ends it early, as in a race.
    """
    drafter, _ = make_drafter(pair, settings)
    models = [pair.target, *([drafter.model] if isinstance(drafter, DraftModel) else [])]
    token_ids = filler(pair, context)
    start = turn % len(COMBINATIONS)
    try:
        for attention, kind in (*COMBINATIONS[start:], *COMBINATIONS[:start]):
            for model in models:
                if not isinstance(model, Switchable):
                    raise UserError("This model's attention cannot be exchanged. Choose another target or drafter.")
                model.use_attention(attention)
            cell = _decode(pair, settings, token_ids, attention, kind, poll)
            if cell is None:
                return
            yield cell
    finally:
        for model in models:
            if isinstance(model, Switchable):
                model.use_attention(pair.attention)


def filler(pair: Pair, length: int) -> list[int]:
    """A chat prompt of exactly ``length`` tokens: the bundled prompts over and over, cut in the middle."""
    texts = [prompt.text for prompt in read_prompts(BUNDLED)]
    chat, body = pair.encode_chat(texts[0]), [token for text in texts for token in pair.encode(text)]
    middle = len(chat) // 2
    token_ids = [*chat[:middle], *body * (length // len(body) + 1), *chat[middle:]]
    front = length // 2
    return token_ids[:front] + token_ids[len(token_ids) - (length - front) :]


def _decode(
    pair: Pair, settings: Settings, token_ids: list[int], attention: Attention, kind: RunKind, poll: Poll
) -> Cell | None:
    """One decoding past every end-of-text, so that all have the same length; None if it was stopped."""
    drafter, _ = make_drafter(pair, settings)
    ending = Ending(frozenset(), StopStrings(()), settings.max_new_tokens, settings.max_new_tokens)
    recorder = Recorder(pair.tokenizer, pair.texts, token_ids)
    sampling = sampling_of(settings)
    devices.reset_peak_memory(pair.target.device)
    loop: Speculative | Autoregressive
    if kind == "speculative":
        loop = Speculative(
            pair.target, drafter, sampling, settings.gamma, settings.seed, ending, recorder, poll, rule_of(settings)
        )
        rounds = tuple(loop.rounds(token_ids))
        timings, tokens = [one.timing for one in rounds], sum(len(one.emitted) for one in rounds)
        figures = speculate(rounds)
        alpha = figures.alpha if figures else None
    else:
        loop = Autoregressive(pair.target, sampling, settings.seed, ending, recorder, poll)
        steps = tuple(loop.steps(token_ids))
        timings, tokens, alpha = [one.timing for one in steps], len(steps), None
    if loop.finish_reason in ("cancelled", "deadline"):
        return None
    return Cell(
        context=len(token_ids),
        attention=attention,
        decoding=kind,
        tokens=tokens,
        tok_s=tokens / sum(timing.duration_s for timing in timings),
        forward_s=median(timing.verify_s for timing in timings),
        prefill_s=loop.prefill_s,
        peak_memory_bytes=devices.peak_memory_bytes(pair.target.device),
        alpha=alpha,
    )


def summary(cells: Sequence[Cell]) -> list[dict[str, object]]:
    """Medians over repeats, one row a combination and context; ``gain`` is tok/s over materialised, standard."""
    rows: list[dict[str, object]] = []
    for context in sorted({cell.context for cell in cells}):
        rates = {}
        for attention, kind in COMBINATIONS:
            same = [
                cell for cell in cells if (cell.context, cell.attention, cell.decoding) == (context, attention, kind)
            ]
            if not same:
                continue
            rates[attention, kind] = median(cell.tok_s for cell in same)
            alphas = [cell.alpha for cell in same if cell.alpha is not None]
            base = rates.get(COMBINATIONS[0])
            rows.append(
                {
                    "context": context,
                    "attention": attention,
                    "decoding": kind,
                    "tok_s": rates[attention, kind],
                    "gain": rates[attention, kind] / base if base else None,
                    "forward_s": median(cell.forward_s for cell in same),
                    "prefill_s": median(cell.prefill_s for cell in same),
                    "peak_memory_bytes": max((cell.peak_memory_bytes or 0 for cell in same), default=0) or None,
                    "alpha": median(alphas) if alphas else None,
                }
            )
    return rows
