"""``lossless`` on a tiny model: findings as JSON, the position in words, refusals before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import Result

from specviz.museum.catalogue import EXHIBITS, NAMES
from specviz.settings import LOSSY_RULES, RULES
from tests.conftest import byte_tokenizer, tiny_llama

Command = Callable[..., Result]
KEYS = ["rule", "exhibit", "n", "tv_sampled", "tv_exact", "chi2", "p_value", "verdict"]


@pytest.fixture(scope="module")
def models(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options that choose a tiny target and a draft that is nearly the same."""
    other = tmp_path_factory.mktemp("draft")
    draft = tiny_llama(vocab_size=256)
    with torch.no_grad():
        for weights in draft.parameters():
            weights += 0.06 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1))
    draft.save_pretrained(other)
    byte_tokenizer().save_pretrained(other)
    return (
        "--target", str(folder), "--draft", str(other), "--drafter", "draft-model", "--dtype", "float32",
        "--max-new-tokens", "24", "--rounds", "20000", "--temperature", "1", "--prompt", "one two three",
    )  # fmt: skip


def test_one_rule_is_one_finding(command: Command, models: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    result = command("lossless", *models, "--json", file)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text(encoding="utf-8"))
    assert list(found) == KEYS
    assert (found["rule"], found["exhibit"], found["n"]) == ("rejection-sampling", None, 20_000)
    assert found["tv_exact"] < 1e-6 and found["p_value"] > 1e-3 and found["verdict"] == "lossless"
    assert "TV(p, q)" in result.stdout and "draft 1 (" in result.stdout and "20,000 redraws" in result.stdout


def test_all_rules_and_all_exhibits_are_a_list(command: Command, models: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    result = command("lossless", *models, "--rule", "all", "--exhibit", "all", "--json", file)
    assert result.exit_code == 0, result.output
    found = json.loads(file.read_text(encoding="utf-8"))
    assert all(list(one) == KEYS for one in found)
    assert [one["rule"] for one in found if one["exhibit"] is None] == list(RULES)
    assert [one["exhibit"] for one in found[len(RULES) :]] == list(NAMES)
    verdicts = {one["rule"]: one["verdict"] for one in found[: len(RULES)]}
    assert verdicts["rejection-sampling"] == verdicts["greedy-match"] == "lossless"
    said = " ".join(result.stdout.split())
    for rule in LOSSY_RULES:
        assert (verdicts[rule] == "lossless") == (f"{rule} is lossy, but loses nothing at this position" in said)
    bends = {exhibit.name: exhibit.bends for exhibit in EXHIBITS}
    for one in found[len(RULES) :]:
        assert (one["p_value"] is not None) == bends[one["exhibit"]]
        assert one["verdict"] in ("exposed", "not exposed")
    assert "greedy-match was measured at temperature 0" in result.stdout
    assert "The distribution is not what fails" in result.stdout and "difference long" in result.stdout


def test_an_exhibit_alone_is_one_finding_and_twice_the_same(
    command: Command, models: tuple[str, ...], tmp_path: Path
) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    for file in (first, second):
        assert command("lossless", *models, "--exhibit", "without-replacement", "--json", file).exit_code == 0
    assert first.read_text(encoding="utf-8") == second.read_text(encoding="utf-8")
    found = json.loads(first.read_text(encoding="utf-8"))
    assert (found["exhibit"], found["verdict"]) == ("without-replacement", "exposed")
    assert found["p_value"] < 1e-6


def test_at_temperature_0_it_says_that_nothing_is_drawn(
    command: Command, models: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "found.json"
    result = command(
        "lossless", *models, "--temperature", "0", "--rule", "all", "--exhibit", "u-stuck-at-zero", "--json", file
    )
    assert result.exit_code == 0, result.output
    *rules, exhibit = json.loads(file.read_text(encoding="utf-8"))
    assert [one["verdict"] for one in rules] == ["lossless"] * 4 and {one["p_value"] for one in rules} == {1.0}
    assert exhibit["verdict"] == "not exposed"
    assert "at temperature 0 nothing is drawn" in " ".join(result.stdout.split())


REFUSALS = {
    "unknown rule": (["--rule", "fair"], "The rule must be one of rejection-sampling, greedy-match, typical"),
    "unknown exhibit": (["--exhibit", "u-stuck"], "The exhibit must be one of u-stuck-at-zero"),
    "no exhibit of another rule": (["--rule", "typical", "--exhibit", "all"], "broken variants of rejection-sampling"),
    "exhibits of a copy": (["--exhibit", "all", "--drafter", "prompt-lookup"], "prompt lookup only copies"),
    "too few draws": (["--rounds", "99"], "from 100 to 1,000,000; you gave 99"),
    "too many draws": (["--rounds", "1000001"], "you gave 1,000,001"),
    "negative temperature": (["--temperature", "-1"], "The temperature must be"),
    "negative seed": (["--seed", "-1"], "The seed must be"),
    "empty prompt": (["--prompt", " "], "The prompt is empty"),
    "json in no folder": (["--json", "/nowhere/x.json"], "There is no folder /nowhere"),
}


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(command: Command, arguments: list[str], sentence: str) -> None:
    result = command("lossless", "--prompt", "Hi", *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert result.stdout == "" and "Traceback" not in result.output


def test_a_run_that_drafts_nothing(command: Command, models: tuple[str, ...]) -> None:
    result = command("lossless", *models, "--max-new-tokens", "1")
    assert result.exit_code == 2 and "drafted nothing" in result.stderr
