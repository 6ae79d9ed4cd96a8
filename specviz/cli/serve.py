"""``serve``: the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from specviz.cli import options
from specviz.errors import UserError
from specviz.service import Options


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 unless told otherwise.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="The first free one from 7860 on unless given.")
    ] = None,
    target: options.Target = None,
    draft: options.Draft = None,
    dtype: options.Dtype = "auto",
    threads: options.Threads = None,
    device: options.Device = "auto",
    attention: Annotated[
        str | None, typer.Option(help="fused or npu-fused-infer (Ascend's for inference, Atlas A2 and A3).")
    ] = None,
) -> None:
    """Serve the page. What is not given here is taken from the SPECVIZ_* environment variables."""
    asked = {
        "target": target,
        "draft": draft,
        "dtype": dtype,
        "threads": threads,
        "device": device,
        "attention": attention,
    }
    chosen = replace(
        Options.from_environment(),
        **{name: value for name, value in asked.items() if value not in (None, "auto")},  # type: ignore[arg-type]
    )

    from specviz.ui.app import launch

    try:
        launch(chosen, host=host, port=port)
    except OSError as error:
        raise UserError(f"The page cannot be served there: {error} Choose another --host or --port.") from None
