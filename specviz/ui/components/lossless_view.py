"""The Lossless tab: the proof, the lab that measures it, the bug museum. Drawn by ``static/lossless_view.mjs``."""

from __future__ import annotations

from typing import Any

import gradio as gr

from specviz.ui.components.base import dictionaries, start_script


class LosslessView(gr.HTML):
    """Shows the run that the page's other components share; asks the server functions it is given.

    ``exhibits`` lists the museum in order, each {name, bends, statistic, sources: [{label, url}]}; their words are the
    keys ``museum.<name>.…``. ``lang`` may be updated at any time and changes the words on the page at once.
    """

    def __init__(self, *, exhibits: list[dict[str, Any]], lang: str = "en", **options: Any) -> None:
        super().__init__(
            html_template='<div class="sv-race sv-lossless"></div>',
            js_on_load=start_script("lossless_view.mjs"),
            apply_default_css=False,
            lang=lang,
            exhibits=exhibits,
            strings=dictionaries("proof.", "lab.", "museum."),
            **options,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string", "description": "Nothing: this component draws what the page already holds."}
