"""SpecViz: see speculative decoding."""

import os

from specviz import ascend

__version__ = "0.1.0"

# A thread of torch's CPU kernels that waits for another spins for milliseconds before it sleeps. As soon as something
# else (a browser, say) wants one of few cores, that makes every forward several times slower: 14 against 52 tokens a
# second on two cores with one busy neighbour. Twenty thousand turns cost nothing on an idle machine.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

#: Why an installed torch_npu is left alone, if it is. Found before anything here imports torch.
NPU_PROBLEM = ascend.prepare()
