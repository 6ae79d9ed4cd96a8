"""``run``: one prompt, decoded speculatively and in the standard way, on the terminal."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from specviz import settings as limits
from specviz import trace as traces
from specviz.cli import files, options, transcript
from specviz.cli.show import report
from specviz.events import Done, Progress, Started


def run(
    prompt: Annotated[str, typer.Option(help="What to ask the model.")],
    target: options.Target = None,
    draft: options.Draft = None,
    drafter: options.Drafter = limits.DEFAULT_DRAFTER,
    quantization: options.Quantization = None,
    rule: options.Rule = limits.DEFAULT_RULE,
    epsilon: options.Epsilon = limits.DEFAULT_EPSILON,
    delta: options.Delta = limits.DEFAULT_DELTA,
    kl_threshold: options.KlThreshold = limits.DEFAULT_KL_THRESHOLD,
    gamma: options.Gamma = limits.DEFAULT_GAMMA,
    temperature: options.Temperature = limits.DEFAULT_TEMPERATURE,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    seed: options.Seed = limits.DEFAULT_SEED,
    max_new_tokens: options.MaxNewTokens = limits.DEFAULT_MAX_NEW_TOKENS,
    min_confidence: Annotated[float, typer.Option(help="Stop a draft below this probability.")] = 0.0,
    stop: Annotated[list[str] | None, typer.Option(help="End at this text; may be given again.")] = None,
    dtype: options.Dtype = "auto",
    threads: options.Threads = None,
    device: options.Device = "auto",
    attention: options.Attention = "fused",
    baseline: Annotated[bool, typer.Option(help="Decode in the standard way too.")] = True,
    json_file: options.JsonFile = None,
) -> None:
    """Decode one prompt and show each round, both texts, and what speculation gained."""
    settings = limits.make_settings(
        drafter=drafter, gamma=gamma, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
        max_new_tokens=max_new_tokens, rule=rule, quantization=quantization, min_confidence=min_confidence,
        stop=stop or (), epsilon=epsilon, delta=delta, kl_threshold=kl_threshold,
    )  # fmt: skip
    limits.check_prompt(prompt)
    files.check_writable(json_file)

    from specviz.cli.loading import load
    from specviz.race import race

    console = Console(highlight=False)
    pair = load(target, draft, device, dtype, threads, attention)
    with console.status("Decoding") as status:
        for event in race(pair, prompt, settings, baseline=baseline):
            match event:
                case Started(kind="speculative"):
                    console.print(transcript.heading(settings), "")
                case Progress(record=traces.Round() as round_):
                    console.print(transcript.round_line(round_))
                case Progress(record=traces.Step(index=index)):
                    status.update(f"Standard decoding: {index + 1} tokens")
                case Done(trace):
                    result = trace
    console.print(report(result))
    if json_file:
        files.write(json_file, traces.to_json(result))
