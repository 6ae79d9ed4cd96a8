"""The Attention tiles tab: published schedules executed over the Q, K, V of the run on the page."""

from __future__ import annotations

import json
from pathlib import Path

from specviz.attention_lab import DEVICES, SCHEDULES, AttentionLab
from specviz.ui.components.attention_server import AttentionServer
from specviz.ui.components.attention_view import AttentionView


def build(lab: AttentionLab, lang: str, ablation: Path) -> None:
    """Put the tab into the surrounding Blocks. ``ablation``: a recorded measurement to show, if it exists."""
    AttentionView(
        schedules=[{"name": name} for name in SCHEDULES],
        hardware=[{"name": name, "title": title} for name, title in DEVICES],
        ablation=json.loads(ablation.read_text(encoding="utf-8")) if ablation.exists() else None,
        lang=lang,
        server_functions=AttentionServer(lab).functions,
        elem_id="attention-view",
    )
