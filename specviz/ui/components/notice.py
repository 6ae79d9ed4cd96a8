"""A line for people: why a request was refused, or how long the wait is. Shown as text, never as HTML."""

from __future__ import annotations

from typing import Any, Literal

import gradio as gr

Kind = Literal["error", "info"]
Value = dict[str, str]

_ON_LOAD = """
const line = element.querySelector('p');
const show = () => {
  const { kind = 'info', text = '' } = props.value || {};
  line.className = 'notice notice-' + kind;
  line.textContent = text;
  line.hidden = !text;
};
watch('value', show);
show();
"""


class Notice(gr.HTML):
    """An alert region that screen readers announce. Its value is what ``notice`` makes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            value=CLEAR,
            html_template='<p class="notice" role="alert" hidden></p>',
            apply_default_css=False,
            js_on_load=_ON_LOAD,
            **kwargs,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "object", "description": '{"kind": "error" or "info", "text": one or two sentences, or ""}'}


def notice(text: str, kind: Kind = "error") -> Value:
    return {"kind": kind, "text": text}


CLEAR = notice("", "info")
