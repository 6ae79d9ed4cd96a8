"""The Lossless tab: why nothing is lost, the laboratory that measures it, the museum of what went wrong elsewhere."""

from __future__ import annotations

from dataclasses import asdict

from specviz.museum.catalogue import EXHIBITS
from specviz.ui.components.lab_server import LabServer
from specviz.ui.components.lossless_view import LosslessView


def build(server: LabServer, lang: str) -> None:
    """Put the tab into the surrounding Blocks."""
    LosslessView(
        exhibits=[asdict(exhibit) for exhibit in EXHIBITS],
        lang=lang,
        server_functions=server.functions("look", "redraw", "rounds", "exhibit"),
        elem_id="lossless-view",
    )
