"""What is on show: names, what each exhibit spoils, how one sees it, and the public reports. Needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.errors import UserError

_GITHUB = "https://github.com"
_ARTICLE = "“FlashAttention与投机解码：一张小票如何验出整桌菜的味道？”, its code listing"


@dataclass(frozen=True, slots=True)
class Source:
    """A public report; ``url`` is None for what has no stable address."""

    label: str
    url: str | None


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One failure. ``bends``: whether it bends the output's distribution, so that χ² exposes it.

    ``statistic`` exposes it: "chi2", "acceptance", "logits" (largest difference from a fresh prefill) or "tokens"
    (counted behind the end). ``place`` is the drafted position that shows it, 0 being the first.
    """

    name: str
    bends: bool
    statistic: str
    sources: tuple[Source, ...]
    place: int = 0


EXHIBITS = (
    Exhibit(
        "u-stuck-at-zero",
        True,
        "chi2",
        (Source("vllm-project/vllm-ascend, issue 13730", f"{_GITHUB}/vllm-project/vllm-ascend/issues/13730"),),
    ),
    Exhibit(
        "unprocessed-q",
        True,
        "chi2",
        (Source("huggingface/transformers, issue 47932", f"{_GITHUB}/huggingface/transformers/issues/47932"),),
    ),
    Exhibit(
        "residual-is-p",
        True,
        "chi2",
        (Source("ShopeeLLM/Spec-RL, issue 14 (on purpose there: to train)", f"{_GITHUB}/ShopeeLLM/Spec-RL/issues/14"),),
    ),
    Exhibit(
        "greedy-scored-as-sampled",
        True,
        "chi2",
        (
            Source("huggingface/transformers, issue 32867", f"{_GITHUB}/huggingface/transformers/issues/32867"),
            Source("jaymody/speculative-sampling, issue 3", f"{_GITHUB}/jaymody/speculative-sampling/issues/3"),
        ),
    ),
    Exhibit("without-replacement", True, "chi2", (Source(_ARTICLE, None),), place=1),
    Exhibit("kl-acceptance", True, "chi2", (Source(_ARTICLE, None),)),
    Exhibit(
        "bonus-gap",
        False,
        "acceptance",
        (
            Source(
                "vllm-project/vllm, pull request 9730 (a wrong entry there, not a missing one)",
                f"{_GITHUB}/vllm-project/vllm/pull/9730",
            ),
        ),
    ),
    Exhibit(
        "off-by-one-rollback",
        False,
        "logits",
        (
            Source(
                "openvinotoolkit/openvino.genai, issue 4190 (one too few)",
                f"{_GITHUB}/openvinotoolkit/openvino.genai/issues/4190",
            ),
            Source(
                "lablup/mlxcel, issue 994 (two too many, in the draft's cache)", f"{_GITHUB}/lablup/mlxcel/issues/994"
            ),
        ),
    ),
    Exhibit(
        "eos-ignored",
        False,
        "tokens",
        (Source("LostRuins/koboldcpp, issue 1276", f"{_GITHUB}/LostRuins/koboldcpp/issues/1276"),),
    ),
)

NAMES = tuple(exhibit.name for exhibit in EXHIBITS)


def find(name: str) -> Exhibit:
    """The exhibit of that name. Raises UserError."""
    for exhibit in EXHIBITS:
        if exhibit.name == name:
            return exhibit
    raise UserError(f"The exhibit must be one of {', '.join(NAMES)}; you gave {name[:40]!r}.")
