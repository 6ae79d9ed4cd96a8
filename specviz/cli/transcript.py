"""A run in the terminal: every token with a mark and a colour that say what became of it."""

from __future__ import annotations

import unicodedata

from rich.text import Text

from specviz.trace import Branch, Divergence, Round, Run, Settings, is_lossy

STYLES: dict[str, tuple[str, str]] = {
    "accepted": ("✓", "#009E73"),
    "rejected": ("✗", "#D55E00 strike"),
    "untested": ("?", "dim"),
    "residual": ("↻", "#E69F00 bold"),
    "bonus": ("+", "#56B4E9 bold"),
    "target": ("•", "default"),
}
VISIBLE = {"\n": "⏎", "\t": "⇥", " ": "·"}


def heading(settings: Settings) -> Text:
    """What the marks mean and, where the rule is lossy, that it is."""
    note = lossy_note(settings)
    return Text("\n").join([legend(settings), *([note] if note else [])])


def legend(settings: Settings) -> Text:
    """What the marks mean. A lossy rule has no residual: it replaces a rejected token by a draw from p."""
    words = {"accepted": "accepted", "rejected": "rejected", "untested": "untested, behind a rejection"}
    if is_lossy(settings):
        words |= {"bonus": "bonus", "target": "drawn from p"}
    else:
        words |= {"residual": "resampled", "bonus": "bonus", "target": "target alone"}
    return Text("   ").join(_token(kind, word) for kind, word in words.items())


def lossy_note(settings: Settings) -> Text | None:
    """The rule and what it costs, if it is lossy."""
    if not is_lossy(settings):
        return None
    values = {
        "typical": f"ε {settings.epsilon:g}, δ {settings.delta:g}",
        "kl-threshold": f"τ {settings.kl_threshold:g}",
    }[settings.rule]
    return Text(
        f"The rule {settings.rule} ({values}) is lossy: the text need not follow the target's distribution.",
        style="bold yellow",
    )


def taken_over(branch: Branch) -> Text:
    """What a branch begins with."""
    tokens = "1 token was" if branch.tokens == 1 else f"{branch.tokens} tokens were"
    said = Text(f"Goes on from inside another run, from which {tokens} taken over: ")
    return said + Text(visible(branch.text), style="dim")


def round_line(round_: Round) -> Text:
    """One round: its draft with the verdicts, then the one more token it committed."""
    tokens = [_token(position.verdict, visible(position.text)) for position in round_.drafted]
    tokens += [_token(token.source, visible(token.text)) for token in round_.emitted if token.source != "draft"]
    return Text(f"{round_.index + 1:>4}  ", style="dim") + Text("  ").join(tokens)


def plain_text(run: Run) -> Text:
    """What a reader gets."""
    return Text("".join(c if c in "\n\t" else _escaped(c) for c in run.text))


def agreement(speculative: Run, standard: Run, divergence: Divergence | None) -> Text:
    """Whether two runs at temperature 0 wrote the same, and how near the target's choice was where they part."""
    if divergence is None:
        if speculative.token_ids != standard.token_ids:
            return Text("One run ended before the other, so the two texts are not compared.")
        return Text("At temperature 0 both runs wrote the same tokens.")
    first, second = visible(divergence.speculative.text), visible(divergence.standard.text)
    return Text(
        f"The runs part at token {divergence.index + 1}: {first} (speculative), {second} (standard). "
        f"The target's logits for the two are {divergence.margin:.3g} apart."
    )


def visible(text: str) -> str:
    """Token text with its white space to be seen and nothing that could steer a terminal."""
    return "".join(VISIBLE.get(c) or _escaped(c) for c in text)


def _escaped(character: str) -> str:
    # Cc, Cf, Cs, Co, Cn: escape sequences, direction overrides and the like
    if not unicodedata.category(character).startswith("C"):
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def _token(kind: str, text: str) -> Text:
    mark, style = STYLES[kind]
    return Text(mark + text, style=style)
