"""Load a pair with its progress on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from specviz.models.load import Pair
    from specviz.selftest.subject import Subject


def load(
    target: str | None, draft: str | None, device: str, dtype: str, threads: int | None, attention: str = "fused"
) -> Pair:
    """The pair that was asked for. Raises UserError."""
    with Console(stderr=True).status("Starting PyTorch") as status:
        from specviz.models.load import load_pair

        return load_pair(
            target,
            draft,
            device=device,
            dtype=dtype,
            threads=threads,
            attention=attention,
            progress=lambda line: status.update(Text(line)),
        )


def load_subject(
    target: str | None, draft: str | None, device: str, dtype: str, threads: int | None, attention: str
) -> Subject:
    """The pair on the device and on the CPU, for the self-test. Raises UserError."""
    with Console(stderr=True).status("Starting PyTorch") as status:
        from specviz.selftest import subject

        return subject.load_subject(
            target,
            draft,
            device=device,
            dtype=dtype,
            threads=threads,
            attention=attention,
            progress=lambda line: status.update(Text(line)),
        )
