"""The microscope on a tab of its own: one position of the race on the page. Drawn by ``static/microscope_view.mjs``."""

from __future__ import annotations

from typing import Any

import gradio as gr

from specviz.ui.components.base import dictionaries, start_script


class MicroscopeView(gr.HTML):
    """Shows the run and the selection of the ``RaceView`` on the same page: they share their script's store.

    ``server_functions`` are named ``look`` and ``what_if``; without them only recorded numbers are shown.
    Triggers the event ``branch`` with {run, round, changes, u}.
    """

    def __init__(self, *, lang: str = "en", **options: Any) -> None:
        super().__init__(
            value=None,
            html_template='<div class="sv-race sv-microscope"></div>',
            js_on_load=start_script("microscope_view.mjs", "branch"),
            apply_default_css=False,
            lang=lang,
            strings=dictionaries("race.", "microscope.", "whatif."),
            **options,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "null", "description": "Nothing: the microscope shows the race on the page."}
