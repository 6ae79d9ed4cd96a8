"""One request: the same prompt decoded speculatively and in the standard way, one after the other."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch

from specviz import devices
from specviz.decoding.autoregressive import Autoregressive
from specviz.decoding.drafters.base import Drafter
from specviz.decoding.drafters.draft_model import DraftModel
from specviz.decoding.drafters.prompt_lookup import PromptLookup
from specviz.decoding.ending import Ending
from specviz.decoding.prefill import prefill
from specviz.decoding.recording import Recorder
from specviz.decoding.replay import sampling_of
from specviz.decoding.rules import rule_of
from specviz.decoding.speculative import Speculative
from specviz.decoding.text import StopStrings
from specviz.errors import UserError
from specviz.events import Done, Event, Finished, Progress, Started
from specviz.models.load import Pair
from specviz.trace import (
    Branch,
    Candidate,
    Divergence,
    FinishReason,
    ModelInfo,
    Models,
    Prompt,
    Round,
    Run,
    RunKind,
    Settings,
    Step,
    Trace,
)


class Origin(NamedTuple):
    """Where a branch begins: every token id before its first round, the last ``taken`` of them from another run."""

    token_ids: tuple[int, ...]
    taken: int
    first_row: int  # of the seed's table of uniform numbers


def branch_of(pair: Pair, origin: Origin) -> Branch:
    """The record of where a branch began."""
    return Branch(origin.taken, _readable(pair, origin.token_ids[-origin.taken :], ()), origin.first_row)


def race(
    pair: Pair,
    prompt: str,
    settings: Settings,
    *,
    baseline: bool = True,
    speculative_first: bool = True,
    should_stop: Callable[[], bool] = lambda: False,
    deadline: float | None = None,
    origin: Origin | None = None,
) -> Iterator[Event]:
    """Decode ``prompt`` speculatively and (with ``baseline``) in the standard way; yields events as they happen.

    ``should_stop`` is polled at every draft step and forward, ``deadline`` is a ``time.monotonic`` instant; both
    end the current run there, and the trace holds what was done. ``origin`` goes on from inside another run.
    Raises UserError for a prompt that does not fit, and for a branch behind a stop string.
    """
    devices.use(pair.target.device)
    prompt_ids = pair.encode_chat(prompt) if origin is None else list(origin.token_ids)
    drafter, draft_info = make_drafter(pair, settings)
    kinds: list[RunKind] = ["speculative", "standard"] if baseline else ["speculative"]
    if not speculative_first:
        kinds.reverse()

    def poll() -> FinishReason | None:
        if should_stop():
            return "cancelled"
        return "deadline" if deadline is not None and time.monotonic() > deadline else None

    runs: list[Run] = []
    for kind in kinds:
        yield Started(kind)
        run = yield from _run(kind, pair, drafter, prompt_ids, settings, poll, origin)
        runs.append(run)
        yield Finished(run)
        if run.finish_reason in ("cancelled", "deadline"):
            break
    trace = Trace(
        settings=settings,
        models=Models(pair.target_info, draft_info),
        machine=pair.machine,
        prompt=Prompt(prompt, tuple(prompt_ids)),
        runs=tuple(runs),
        recorded=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        branch=branch_of(pair, origin) if origin else None,
    )
    if settings.temperature == 0 and len(runs) == 2:
        trace = replace(trace, divergence=first_difference(pair, trace))
    yield Done(trace)


def make_drafter(pair: Pair, settings: Settings) -> tuple[Drafter, ModelInfo | None]:
    """The drafter that the settings name, and the model behind it if there is one."""
    if settings.drafter == "prompt-lookup":
        return PromptLookup(pair.target.vocab_size, pair.target.device), None
    draft = pair.draft(settings.drafter, settings.quantization)
    sampling = sampling_of(settings)
    drafter = DraftModel(draft.model, sampling, pair.target.vocab_size, draft.shared_vocab, settings.min_confidence)
    return drafter, draft.info


def _run(
    kind: RunKind,
    pair: Pair,
    drafter: Drafter,
    prompt_ids: list[int],
    settings: Settings,
    poll: Callable[[], FinishReason | None],
    origin: Origin | None,
) -> Generator[Event, None, Run]:
    limit = min(pair.target.context_limit, drafter.context_limit)
    if len(prompt_ids) >= limit:
        raise UserError(
            f"The prompt has {len(prompt_ids):,} tokens and the models hold {limit:,}, answer included. Shorten it."
        )
    stop_strings = StopStrings(settings.stop)
    if origin and stop_strings.push(branch_of(pair, origin).text):
        raise UserError("The text ends at a stop string in this round, so there is nothing left to run from here.")
    ending = Ending(frozenset(pair.eos_token_ids), stop_strings, settings.max_new_tokens, limit - len(prompt_ids))
    recorder = Recorder(pair.tokenizer, pair.texts, prompt_ids)
    sampling = sampling_of(settings)
    rounds: list[Round] = []
    steps: list[Step] = []
    loop: Speculative | Autoregressive
    devices.reset_peak_memory(pair.target.device)
    if kind == "speculative":
        loop = Speculative(
            pair.target,
            drafter,
            sampling,
            settings.gamma,
            settings.seed,
            ending,
            recorder,
            poll,
            rule_of(settings),
            origin.first_row if origin else 0,
        )
        for round_ in loop.rounds(prompt_ids):
            rounds.append(round_)
            yield Progress(kind, round_)
    else:
        loop = Autoregressive(pair.target, sampling, settings.seed, ending, recorder, poll)
        for step in loop.steps(prompt_ids):
            steps.append(step)
            yield Progress(kind, step)
    peak = devices.peak_memory_bytes(pair.target.device)
    run = Run(kind, tuple(rounds), tuple(steps), loop.finish_reason, loop.prefill_s, text="", peak_memory_bytes=peak)
    return replace(run, text=_readable(pair, run.token_ids, settings.stop))


def _readable(pair: Pair, token_ids: tuple[int, ...], stop: tuple[str, ...]) -> str:
    """What a reader gets: no special tokens, nothing from a stop string on."""
    text: str = pair.tokenizer.decode(list(token_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    cuts = [text.index(string) for string in stop if string in text]
    return text[: min(cuts)] if cuts else text


@torch.inference_mode()
def first_difference(pair: Pair, trace: Trace) -> Divergence | None:
    """Where the two runs of a temperature-0 trace first differ, with the target's logit margin there."""
    speculative, standard = (trace.run("speculative"), trace.run("standard"))
    if speculative is None or standard is None:
        return None
    ours, theirs = speculative.token_ids, standard.token_ids
    index = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if index is None:
        return None
    context = [*trace.prompt.token_ids, *ours[:index]]
    pair.target.allocate(len(context))
    prefill(pair.target, context[:-1])
    logits = pair.target.forward(torch.tensor(context[-1:], device=pair.target.device), keep=1)[0].float()
    chances = logits.softmax(-1)

    def candidate(token: int) -> Candidate:
        return Candidate(token, pair.texts[token], float(chances[token]))

    margin = abs(float(logits[ours[index]] - logits[theirs[index]]))
    return Divergence(index, candidate(ours[index]), candidate(theirs[index]), margin)
