"""Our engines and those of transformers, interleaved in one process on the same weights (docs/bench.md)."""
