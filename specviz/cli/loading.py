"""Load a pair with its progress on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from specviz.models.load import Pair


def load(target: str | None, draft: str | None, device: str, dtype: str, threads: int | None) -> Pair:
    """The pair that was asked for. Raises UserError."""
    console = Console(stderr=True, highlight=False)
    with console.status("Loading PyTorch") as status:
        from specviz.models.load import load_pair

        return load_pair(target, draft, device=device, dtype=dtype, threads=threads, progress=status.update)
