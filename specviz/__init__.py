"""SpecViz: see speculative decoding."""

from specviz import ascend

__version__ = "0.1.0"

#: Why an installed torch_npu is left alone, if it is. Found before anything here imports torch.
NPU_PROBLEM = ascend.prepare()
