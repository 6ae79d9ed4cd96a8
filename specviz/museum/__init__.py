"""Ways in which real systems got speculative decoding wrong, each isolated as a variant of one function.

Negative controls: the laboratory and the tests hold them against the honest engine. No run uses them.
"""
