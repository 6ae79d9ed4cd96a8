"""One drafter a file."""

DRAFTERS = ("quantized-self", "draft-model", "prompt-lookup")
