"""Tokens are data in a terminal too: marked, visible, and unable to steer it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from specviz.cli import transcript
from specviz.settings import make_settings
from specviz.trace import Branch, Candidate, Divergence, Run
from tests.unit.analysis.made_runs import a_round, speculative, standard


def rendered(renderable: object, *, colour: bool = False) -> str:
    out = io.StringIO()
    Console(file=out, force_terminal=colour, color_system="truecolor" if colour else None, width=200).print(renderable)
    return out.getvalue()


def test_every_verdict_and_source_has_its_own_mark() -> None:
    assert rendered(transcript.round_line(a_round("aru"))).split() == ["1", "✓x", "✗x", "?x", "↻x"]
    assert rendered(transcript.round_line(a_round("aa"))).split() == ["1", "✓x", "✓x", "+x"]
    assert rendered(transcript.legend(make_settings())).count("accepted") == 1


def test_a_lossy_rule_is_said_and_its_replacement_is_not_called_resampled() -> None:
    typical = make_settings(rule="typical", epsilon=0.2)
    assert rendered(transcript.round_line(a_round("aru", lossy=True))).split() == ["1", "✓x", "✗x", "?x", "•x"]
    said = rendered(transcript.heading(typical))
    assert "•drawn from p" in said and "resampled" not in said
    assert "typical (ε 0.2, δ 0.3) is lossy: the text need not follow the target's distribution." in said
    assert "τ 0.8" in rendered(transcript.heading(make_settings(rule="kl-threshold")))
    for lossless in (make_settings(), make_settings(rule="typical", temperature=0)):
        assert "lossy" not in rendered(transcript.heading(lossless))
        assert "↻resampled" in rendered(transcript.heading(lossless))


def test_a_branch_says_what_it_took_over() -> None:
    assert "from which 2 tokens were taken over: ·the\\x1b" in rendered(transcript.taken_over(Branch(2, " the\x1b", 3)))
    assert "1 token were" not in rendered(transcript.taken_over(Branch(1, "a", 0)))


def test_marks_differ_in_colour_as_well() -> None:
    line = rendered(transcript.round_line(a_round("aru")), colour=True)
    assert all(code in line for code in ("38;2;0;158;115", "38;2;213;94;0", "38;2;230;159;0"))


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;2;" not in rendered(transcript.round_line(a_round("aru")), colour=True)


@pytest.mark.parametrize(
    ("text", "seen"),
    [(" the\n", "·the⏎"), ("\x1b[31m", "\\x1b[31m"), ("\u202eabc", "\\u202eabc"), ("[bold]", "[bold]"), ("猫", "猫")],
)
def test_token_text_is_shown_and_never_obeyed(text: str, seen: str) -> None:
    assert seen in rendered(transcript.round_line(a_round("a", text=text)))


def test_the_whole_text_keeps_its_lines_but_no_escapes() -> None:
    run = Run("standard", (), (), "end_of_text", 0.0, text="one\ntwo\x1b]0;title\x07")
    assert rendered(transcript.plain_text(run)) == "one\ntwo\\x1b]0;title\\x07\n"


def test_where_two_runs_part() -> None:
    runs = speculative(a_round("aaaa")), standard(5)
    parted = transcript.agreement(*runs, Divergence(4, Candidate(1, " a", 0.4), Candidate(2, " b", 0.39), 0.0312))
    assert "token 5: ·a (speculative), ·b (standard)" in parted.plain
    assert "0.0312 apart" in parted.plain
    assert "same tokens" in transcript.agreement(*runs, None).plain
    assert "not compared" in transcript.agreement(speculative(a_round("aaaa")), standard(3), None).plain
