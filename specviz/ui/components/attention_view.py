"""The Attention tiles tab: schedules at work on the run's attention. Drawn by ``static/attention_view.mjs``."""

from __future__ import annotations

from typing import Any

import gradio as gr

from specviz.ui.components.base import dictionaries, start_script


class AttentionView(gr.HTML):
    """Shows the run and the round that the page's other components share.

    ``schedules`` and ``hardware`` list what can be chosen, each {name} and {name, title}; ``ablation`` is a recorded
    measurement of attention × decoding, or None. ``server_functions`` are named ``attention``, ``attention_step``,
    ``ablate``, ``ablation`` and ``stop_ablation``. ``lang`` may be updated at any time and changes the words on the
    page at once.
    """

    def __init__(
        self,
        *,
        schedules: list[dict[str, Any]],
        hardware: list[dict[str, Any]],
        ablation: dict[str, Any] | None = None,
        lang: str = "en",
        **options: Any,
    ) -> None:
        super().__init__(
            value=None,
            html_template='<div class="sv-race sv-lossless sv-attention"></div>',
            js_on_load=start_script("attention_view.mjs"),
            apply_default_css=False,
            lang=lang,
            schedules=schedules,
            hardware=hardware,
            ablation=ablation,
            strings=dictionaries("attention.", "race.verdict."),
            **options,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "null", "description": "Nothing: this component draws the run on the page."}
