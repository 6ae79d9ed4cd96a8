"""What every component of ours shares: where its static files are and how its script is started."""

from __future__ import annotations

import json
from pathlib import Path

import gradio as gr

from specviz.ui.i18n import languages, strings

STATIC = Path(__file__).resolve().parents[1] / "static"

CSS_PATHS = [STATIC / "palette.css"]
"""For ``launch(css_paths=…)``: the colours as variables, for the page as well as for the components."""

gr.set_static_paths([STATIC])


def start_script(module: str, *events: str) -> str:
    """The ``js_on_load`` that mounts ``module`` (a file of ``static``, exporting ``mount``), under any root path.

    ``events`` are the custom events it triggers: Gradio offers those whose quoted name stands in the script.
    """
    path = f"gradio_api/file={(STATIC / module).as_posix()}"
    return (
        "const root = (window.gradio_config?.root ?? location.origin).replace(/\\/$/, '');"
        f"import(`${{root}}/{path}`).then((module) => module.mount({{ element, props, trigger, server, watch }}));"
        f"/* triggers {json.dumps(events)} */"
    )


def dictionaries(*prefixes: str) -> dict[str, dict[str, str]]:
    """{language: {key: text}} of the keys that begin with one of these prefixes, for a component's script."""
    return {
        lang: {key: text for key, text in strings(lang).items() if key.startswith(prefixes)} for lang in languages()
    }
