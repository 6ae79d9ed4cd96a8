"""The Microscope tab: one round of the race on the page, position by position, and what else could have happened."""

from __future__ import annotations

from typing import Any

from specviz.ui.components.lab_server import LabServer
from specviz.ui.components.microscope_view import MicroscopeView


def build(server: LabServer, lang: str) -> Any:
    """Put the tab into the surrounding Blocks; returns its view, whose event ``branch`` asks for a run from here."""
    return MicroscopeView(lang=lang, server_functions=server.functions("look", "what_if"), elem_id="microscope-view")
