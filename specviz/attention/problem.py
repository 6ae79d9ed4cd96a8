"""The shape of one attention call."""

from __future__ import annotations

from dataclasses import dataclass

from specviz.errors import UserError

LARGEST_HEAD_DIM = 256  # where FlashAttention's kernels end
LONGEST = 2**20
MOST_HEADS = 1024


@dataclass(frozen=True, slots=True)
class Problem:
    """Attention of ``queries`` new positions over ``keys`` cached and new ones, for one sequence.

    The causal mask is aligned to the bottom right: the last query sees every key, and query i sees the keys up to
    i + keys − queries. So a prefill is square, and a verification is γ+1 queries against the whole context.
    ``bytes_per_element`` is that of Q, K, V and O in memory. Raises UserError for a shape that cannot be.
    """

    queries: int
    keys: int
    heads: int = 1
    kv_heads: int = 1
    head_dim: int = 64
    causal: bool = True
    bytes_per_element: int = 2

    def __post_init__(self) -> None:
        _check("queries", self.queries, LONGEST)
        _check("keys", self.keys, LONGEST)
        _check("heads", self.heads, MOST_HEADS)
        _check("key/value heads", self.kv_heads, MOST_HEADS)
        _check("head dimensions", self.head_dim, LARGEST_HEAD_DIM)
        _check("bytes of an element", self.bytes_per_element, 8)
        if self.heads % self.kv_heads:
            raise UserError(
                f"Query heads are shared out evenly among key/value heads; {self.heads} do not divide into "
                f"{self.kv_heads} groups."
            )
        if self.causal and self.queries > self.keys:
            raise UserError(
                f"With a causal mask the last of {self.keys} keys belongs to the last query, so {self.queries} queries "
                f"are too many. Give at least as many keys as queries, or drop the mask."
            )

    @property
    def group(self) -> int:
        """Query heads that share one key/value head (grouped-query attention)."""
        return self.heads // self.kv_heads

    def visible(self, query: int) -> int:
        """How many keys, from the first on, this query sees."""
        return query + 1 + self.keys - self.queries if self.causal else self.keys


def _check(name: str, value: int, largest: int) -> None:
    if not 1 <= value <= largest:
        raise UserError(f"The number of {name} must lie between 1 and {largest:,}; you gave {value:,}.")
