"""The top of the page: name, what runs where and why, and the light/dark switch, which the browser remembers."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import gradio as gr

_TEMPLATE = """
<header class="page-header">
  <h1>SpecViz</h1>
  <p class="page-status" role="status"></p>
  <button type="button" class="page-theme" aria-pressed="false" title="{switch}" aria-label="{switch}">◐</button>
</header>
"""

_ON_LOAD = """
const status = element.querySelector('.page-status');
const button = element.querySelector('.page-theme');
const stored = (() => { try { return localStorage.getItem('specviz-theme'); } catch { return null; } })();
const paint = dark => {
  document.body.classList.toggle('dark', dark);
  button.setAttribute('aria-pressed', String(dark));
};
const asked = new URLSearchParams(location.search).get('__theme');
paint(asked ? asked === 'dark' : stored ? stored === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches);
button.addEventListener('click', () => {
  const dark = !document.body.classList.contains('dark');
  paint(dark);
  try { localStorage.setItem('specviz-theme', dark ? 'dark' : 'light'); } catch { /* private window */ }
});
const show = () => { status.textContent = props.value || ''; };
watch('value', show);
show();
"""


class Header(gr.HTML):
    """Its value is the status line, plain text."""

    def __init__(self, words: Mapping[str, str], value: str = "", **kwargs: Any) -> None:
        super().__init__(
            value=value,
            html_template=_TEMPLATE.format(switch=html.escape(words["page.theme"], quote=True)),
            apply_default_css=False,
            js_on_load=_ON_LOAD,
            **kwargs,
        )

    def api_info(self) -> dict[str, Any]:
        return {"type": "string", "description": "What runs where, and why."}
