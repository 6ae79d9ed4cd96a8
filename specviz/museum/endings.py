"""A run that does not see its end."""

from __future__ import annotations

from specviz.decoding.ending import Ending
from specviz.trace import FinishReason


class EosIgnored(Ending):
    """Looks for end-of-text at the last token of a block only: inside an accepted one it is missed.

    LostRuins/koboldcpp, issue 1276.
    """

    def cut(self, token_ids: list[int], texts: list[str] | None) -> tuple[list[int], FinishReason | None]:
        ends, self.eos_token_ids = self.eos_token_ids, frozenset()
        committed, reason = super().cut(token_ids, texts)
        self.eos_token_ids = ends
        return committed, reason or ("end_of_text" if committed[-1] in ends else None)
