"""The left column of the Race tab: what to ask, what drafts, how it is sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import gradio as gr

from specviz import settings as allowed
from specviz.trace import RunKind
from specviz.ui.components.notice import Notice
from specviz.ui.examples import Example

DRAFTER_CHOICES = (
    "quantized-self:int4-g32-head4",
    "quantized-self:int4-g32",
    "quantized-self:int4-g64",
    "quantized-self:int8",
    "draft-model",
    "prompt-lookup",
)
ORDERS: Mapping[str, tuple[RunKind, ...]] = {
    "speculative-first": ("speculative", "standard"),
    "standard-first": ("standard", "speculative"),
    "speculative-only": ("speculative",),
}
DEFAULT_CHOICE = f"{allowed.DEFAULT_DRAFTER}:{allowed.DEFAULT_QUANTIZATION}"


class Ask(NamedTuple):
    """The upper group: the prompt, the two buttons, and the line that answers them."""

    prompt: gr.Textbox
    run: gr.Button
    stop: gr.Button
    notice: Notice


class Sampling(NamedTuple):
    """The lower group, in the order in which the race takes them: what came later stands at the end."""

    drafter: gr.Dropdown
    gamma: gr.Slider
    temperature: gr.Slider
    max_new_tokens: gr.Slider
    seed: gr.Number
    top_k: gr.Number
    top_p: gr.Slider
    rule: gr.Dropdown
    stop_strings: gr.Textbox
    min_confidence: gr.Slider
    order: gr.Dropdown
    epsilon: gr.Slider
    delta: gr.Slider
    kl_threshold: gr.Slider


RULE_OF_SLIDER = {"epsilon": "typical", "delta": "typical", "kl_threshold": "kl-threshold"}


def ask_controls(words: Mapping[str, str], examples: list[Example]) -> Ask:
    prompt = gr.Textbox(
        examples[0].prompt,
        label=words["page.prompt"],
        lines=4,  # as many as the longest example takes: choosing one moves nothing
        max_lines=8,
        elem_id="prompt",
    )
    with gr.Row(elem_id="run-row"):
        run = gr.Button(words["page.run"], variant="primary", min_width=96, elem_id="run")
        stop = gr.Button(words["page.stop"], interactive=False, min_width=96, elem_id="stop")
    notice = Notice(label="notice", elem_id="notice")
    shown = gr.Dataset(
        label=words["page.examples"],
        components=[prompt],
        samples=[[example.prompt] for example in examples],
        sample_labels=[words[f"page.example.{example.name}"] for example in examples],
        type="index",
        layout="gallery",
        elem_id="examples",
    )
    shown.click(
        lambda index: examples[index].prompt,
        inputs=shown,
        outputs=prompt,
        api_visibility="private",
        show_progress="hidden",
        queue=False,
    )
    return Ask(prompt, run, stop, notice)


def sampling_controls(words: Mapping[str, str], token_limit: int) -> Sampling:
    def choices(group: str, values: Iterable[str]) -> list[tuple[str, str]]:
        return [(words[f"page.{group}.{value}"], value) for value in values]

    def explain(choice: str) -> dict[str, object]:
        return gr.update(info=words.get(f"page.drafter.{choice}.info", ""))

    def explain_rule(choice: str) -> list[dict[str, object]]:
        shown = [gr.update(visible=rule == choice) for rule in RULE_OF_SLIDER.values()]
        return [gr.update(info=words.get(f"page.rule.{choice}.info", "")), *shown]

    drafter = gr.Dropdown(
        choices("drafter", DRAFTER_CHOICES),
        value=DEFAULT_CHOICE,
        label=words["page.drafter"],
        info=words[f"page.drafter.{DEFAULT_CHOICE}.info"],
        filterable=False,
        elem_id="drafter",
    )
    drafter.change(
        explain, drafter, drafter, api_visibility="private", show_progress="hidden", queue=False, preprocess=False
    )
    gamma = gr.Slider(
        1, allowed.MAX_GAMMA, allowed.DEFAULT_GAMMA, step=1, label=words["page.gamma"], elem_id="gamma", buttons=[]
    )
    temperature = gr.Slider(
        0, 2, allowed.DEFAULT_TEMPERATURE, step=0.05, label=words["page.temperature"], elem_id="temperature", buttons=[]
    )
    max_new_tokens = gr.Slider(
        1,
        token_limit,
        min(allowed.DEFAULT_MAX_NEW_TOKENS, token_limit),
        step=1,
        label=words["page.max_new_tokens"],
        elem_id="max-new-tokens",
        buttons=[],
    )
    seed = gr.Number(allowed.DEFAULT_SEED, precision=0, label=words["page.seed"], elem_id="seed")
    with gr.Accordion(words["page.advanced"], open=False, elem_id="advanced"):
        top_k = gr.Number(0, precision=0, label=words["page.top_k"], info=words["page.top_k.info"], elem_id="top-k")
        top_p = gr.Slider(0.05, 1, 1, step=0.05, label=words["page.top_p"], elem_id="top-p", buttons=[])
        rule = gr.Dropdown(
            choices("rule", allowed.RULES),
            value=allowed.DEFAULT_RULE,
            label=words["page.rule"],
            info=words[f"page.rule.{allowed.DEFAULT_RULE}.info"],
            filterable=False,
            elem_id="rule",
        )
        sliders = [
            _rule_slider(words, "epsilon", 1, allowed.DEFAULT_EPSILON, step=0.01),
            _rule_slider(words, "delta", 1, allowed.DEFAULT_DELTA, step=0.01),
            _rule_slider(words, "kl_threshold", 5, allowed.DEFAULT_KL_THRESHOLD, step=0.05),
        ]
        rule.change(
            explain_rule,
            rule,
            [rule, *sliders],
            api_visibility="private",
            show_progress="hidden",
            queue=False,
            preprocess=False,
        )
        stop_strings = gr.Textbox(
            "", label=words["page.stop_strings"], info=words["page.stop_strings.info"], lines=1, max_lines=4
        )
        min_confidence = gr.Slider(
            0,
            0.95,
            0,
            step=0.05,
            label=words["page.min_confidence"],
            info=words["page.min_confidence.info"],
            buttons=[],
        )
        order = gr.Dropdown(
            choices("order", ORDERS),
            value="speculative-first",
            label=words["page.order"],
            info=words["page.order.info"],
            filterable=False,
        )
    return Sampling(
        drafter,
        gamma,
        temperature,
        max_new_tokens,
        seed,
        top_k,
        top_p,
        rule,
        stop_strings,
        min_confidence,
        order,
        *sliders,
    )


def _rule_slider(words: Mapping[str, str], name: str, most: float, value: float, step: float) -> gr.Slider:
    """A parameter of one rule, seen while that rule is chosen."""
    return gr.Slider(
        0,
        most,
        value,
        step=step,
        label=words[f"page.{name}"],
        visible=RULE_OF_SLIDER[name] == allowed.DEFAULT_RULE,
        elem_id=name.replace("_", "-"),
        buttons=[],
    )
