"""What the page asks for when nobody has touched a control."""

from __future__ import annotations

import gradio as gr

from specviz.settings import MAX_NEW_TOKENS, make_settings
from specviz.ui.i18n import strings
from specviz.ui.tabs.race_controls import ORDERS, sampling_controls


def test_untouched_controls_ask_for_the_default_settings() -> None:
    with gr.Blocks():
        asked = {
            name: control.value for name, control in sampling_controls(strings("en"), MAX_NEW_TOKENS)._asdict().items()
        }
    drafter, quantization = asked.pop("drafter").split(":")
    assert asked.pop("order") == next(iter(ORDERS))
    stop = asked.pop("stop_strings")
    assert make_settings(drafter=drafter, quantization=quantization, stop=stop, **asked) == make_settings()


def test_a_small_limit_of_the_operator_bounds_the_tokens_asked_for() -> None:
    with gr.Blocks():
        tokens = sampling_controls(strings("en"), 10).max_new_tokens
    assert (tokens.value, tokens.maximum) == (10, 10)
