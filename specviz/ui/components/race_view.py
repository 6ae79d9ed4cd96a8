"""The race: two texts growing, each round and its verdicts, both in true time. Drawn by ``static/view.mjs``."""

from __future__ import annotations

from typing import Any

import gradio as gr

from specviz.ui.components.base import dictionaries, start_script


class RaceView(gr.HTML):
    """Shows messages made by ``wire``: its value is one of their JSON strings, or None for an empty view.

    ``lang`` may be updated at any time and changes the words on the page at once. ``server_functions`` named ``look``
    and ``what_if`` serve the microscope; the event ``branch`` brings {run, round, changes, u}.
    """

    def __init__(
        self,
        value: str | None = None,
        *,
        lang: str = "en",
        **options: Any,
    ) -> None:
        super().__init__(
            value=value,
            html_template='<div class="sv-race"></div>',
            js_on_load=start_script("view.mjs", "branch"),
            apply_default_css=False,
            lang=lang,
            strings=dictionaries("race.", "autopsy.", "microscope.", "whatif."),
            **options,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string", "description": "A SpecViz race message: JSON, see specviz/ui/components/wire.py"}
