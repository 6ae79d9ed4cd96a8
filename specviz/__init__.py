"""SpecViz: see speculative decoding."""

__version__ = "0.1.0"
