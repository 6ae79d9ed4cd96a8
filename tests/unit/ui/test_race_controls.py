"""What the page asks for when nobody has touched a control."""

from __future__ import annotations

import gradio as gr

from specviz.settings import LOSSY_RULES, MAX_NEW_TOKENS, RULES, make_settings
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


def test_the_lossy_rules_are_marked_in_the_dropdown_and_explained() -> None:
    words = strings("en")
    with gr.Blocks():
        rule = sampling_controls(words, MAX_NEW_TOKENS).rule
    labels = {value: label for label, value in rule.choices}
    assert tuple(labels) == RULES
    assert {value for value, label in labels.items() if "(lossy)" in label} == set(LOSSY_RULES)
    for value in RULES:
        need_not = "need not follow the target's distribution" in words[f"page.rule.{value}.info"]
        assert need_not == (value in LOSSY_RULES)


def test_each_rule_shows_its_own_sliders() -> None:
    with gr.Blocks() as page:
        controls = sampling_controls(strings("en"), MAX_NEW_TOKENS)
    assert [slider.visible for slider in (controls.epsilon, controls.delta, controls.kl_threshold)] == [False] * 3
    (change,) = [fn for fn in page.fns.values() if (controls.rule._id, "change") in fn.targets]
    for rule, shown in {
        "rejection-sampling": [False, False, False],
        "greedy-match": [False, False, False],
        "typical": [True, True, False],
        "kl-threshold": [False, False, True],
    }.items():
        explained, *sliders = change.fn(rule)  # type: ignore[misc]
        assert explained["info"] == strings("en")[f"page.rule.{rule}.info"]
        assert [slider["visible"] for slider in sliders] == shown


def test_a_small_limit_of_the_operator_bounds_the_tokens_asked_for() -> None:
    with gr.Blocks():
        tokens = sampling_controls(strings("en"), 10).max_new_tokens
    assert (tokens.value, tokens.maximum) == (10, 10)
