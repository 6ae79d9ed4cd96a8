"""FlashAttention's tiles: published loop orders, executed over real Q, K, V, with the bytes that they move."""
