"""What the page asks for: the pair of models, loaded once in the runner's thread, and races on it.

The engine is imported in that thread too, so that the page answers while PyTorch is still being read from disk.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from specviz import ascend
from specviz.errors import UserError
from specviz.runner import Limits, Runner, ShouldStop, Ticket
from specviz.settings import DEFAULT_DRAFTER, DEFAULT_QUANTIZATION, MAX_NEW_TOKENS
from specviz.trace import Branch, Machine, Models, RunKind, Settings

if TYPE_CHECKING:
    from specviz.events import Event
    from specviz.models.load import Pair
    from specviz.race import Origin

STACK = {"cann": "CANN", "driver": "driver"}  # below torch_npu; what a machine's versions name, and how it is said

LOAD_FAILED = "The models could not be loaded; the server's log says more."

log = logging.getLogger(__name__)

Phase = Literal["loading", "ready", "failed"]
Loader = Callable[["Options", Callable[[str], None]], "Pair"]


@dataclass(frozen=True, slots=True)
class Options:
    """The operator's choices; visitors cannot change them. None and "auto" leave the choice to measurement."""

    target: str | None = None
    draft: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    attention: str = "fused"
    threads: int | None = None
    token_limit: int = 512
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Options:
        """Read SPECVIZ_TARGET, _DRAFT, _DEVICE, _DTYPE, _ATTENTION, _THREADS, _MAX_NEW_TOKENS, _QUEUE and
        _RUN_SECONDS.

        Raises UserError for a value that cannot be used, Gradio's own GRADIO_SERVER_PORT among them.
        """
        default = cls()
        given = {name.removeprefix("SPECVIZ_"): value for name, value in environment.items() if value}

        def whole(name: str, otherwise: int, high: int, prefix: str = "SPECVIZ_") -> int:
            text = given.get(name, str(otherwise))
            if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= high:
                raise UserError(f"{prefix}{name} must be a whole number from 1 to {high}; it is {text[:40]!r}.")
            return int(text)

        whole("GRADIO_SERVER_PORT", 7860, 65_535, prefix="")
        return cls(
            target=given.get("TARGET"),
            draft=given.get("DRAFT"),
            device=given.get("DEVICE", default.device),
            dtype=given.get("DTYPE", default.dtype),
            attention=given.get("ATTENTION", default.attention),
            threads=whole("THREADS", 1, 1024) if "THREADS" in given else None,
            token_limit=whole("MAX_NEW_TOKENS", default.token_limit, MAX_NEW_TOKENS),
            limits=Limits(
                queue_length=whole("QUEUE", default.limits.queue_length, 10_000),
                run_s=float(whole("RUN_SECONDS", int(default.limits.run_s), 86_400)),
            ),
        )


@dataclass(frozen=True, slots=True)
class LoadState:
    """How far the models are: ``message`` is progress, what was chosen and why, or what went wrong."""

    phase: Phase
    message: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A race's first event: the models are there, and this is what will run on what, in this order."""

    settings: Settings
    models: Models
    machine: Machine
    prompt: str
    order: tuple[RunKind, ...]
    branch: Branch | None = None


if TYPE_CHECKING:
    RaceEvent = Prepared | Event


class Service:
    """The pair and its runner. Loading starts at once, in the background; the next run tries a failed load again."""

    def __init__(self, options: Options, load: Loader | None = None) -> None:
        self.options = options
        self.state = LoadState("loading", "")
        self._load = load or load_models
        self._pair: Pair | None = None
        self._closing = threading.Event()
        self.runner = Runner(options.limits, prepare=self._load_in_background, recover=self._free)

    def race(
        self,
        prompt: str,
        settings: Settings,
        owner: str,
        order: tuple[RunKind, ...] = ("speculative", "standard"),
        origin: Origin | None = None,
    ) -> Ticket[RaceEvent]:
        """Queue a race; ``order`` names the runs to make, speculative always among them. ``origin`` makes it a branch.

        Raises UserError if the queue is full or the owner has a race already.
        """

        def job(should_stop: ShouldStop, deadline: float) -> Iterator[RaceEvent]:
            from specviz.race import branch_of, make_drafter, race

            pair = self.pair()
            _, draft = make_drafter(pair, settings)
            branch = branch_of(pair, origin) if origin else None
            yield Prepared(settings, Models(pair.target_info, draft), pair.machine, prompt, order, branch)
            yield from race(
                pair,
                prompt,
                settings,
                baseline="standard" in order,
                speculative_first=order[0] == "speculative",
                should_stop=should_stop,
                deadline=deadline,
                origin=origin,
            )

        return self.runner.submit(job, owner)

    def stop(self, owner: str) -> bool:
        """End the owner's race; False if there is none."""
        return self.runner.cancel(owner)

    def close(self) -> None:
        """End every race, and the loading of models at its next step."""
        self._closing.set()
        self.runner.close()

    def _load_in_background(self) -> None:
        with suppress(UserError):  # the state says it, and the next race tries again
            self.pair()

    def _free(self) -> None:
        if self._pair is not None:
            self._pair.free()

    def pair(self) -> Pair:
        """The models, loaded if they are not yet. For jobs in the runner's thread. Raises UserError."""
        if self._pair is None:
            self.state = LoadState("loading", "")
            try:
                self._pair = self._load(self.options, self._report)
            except Exception as failure:
                if not isinstance(failure, UserError):
                    log.exception("Loading the models failed")
                    failure = UserError(ascend.why_torch_fails(failure) or LOAD_FAILED)
                self.state = LoadState("failed", str(failure))
                raise failure from None
            self.state = LoadState("ready", describe(self._pair))
        return self._pair

    def _report(self, message: str) -> None:
        if self._closing.is_set():
            raise UserError("This server is shutting down.")
        self.state = LoadState("loading", message)


def load_models(options: Options, report: Callable[[str], None]) -> Pair:
    """Load the pair that the operator chose. Raises UserError."""
    from specviz.models.load import load_pair

    pair = load_pair(
        options.target,
        options.draft,
        device=options.device,
        dtype=options.dtype,
        attention=options.attention,
        threads=options.threads,
        progress=report,
    )
    with suppress(UserError):  # whoever asks for this drafter then reads why it cannot be made here
        report("Preparing the first drafter")
        pair.draft(DEFAULT_DRAFTER, DEFAULT_QUANTIZATION)
    return pair


def describe(pair: Pair) -> str:
    """The status line: device, models, number format and why it was chosen."""
    machine = pair.machine
    parts = [f"{machine.device.upper()}: {machine.name}"]
    if machine.device in ("npu", "cuda"):
        parts.append(f"{machine.memory_bytes / 2**30:.0f} GiB")
    else:
        parts.append(f"{machine.threads} threads")
    parts += [f"{said} {machine.versions[name]}" for name, said in STACK.items() if name in machine.versions]
    if pair.attention != "fused":
        parts.append(f"attention {pair.attention}")
    return f"{', '.join(parts)} · {pair.name} · {pair.dtype_choice.reason}"
