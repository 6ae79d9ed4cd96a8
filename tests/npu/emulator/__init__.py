"""The real torch_npu on an emulated Ascend runtime, for tests. README.md says what is real and what is not.

``install()`` first, before a tensor is put on an NPU; then ``counted()`` says what ran and what was copied.
"""

from tests.npu.emulator.counters import Counted, counted
from tests.npu.emulator.operators import allow_fallbacks
from tests.npu.emulator.registration import install
from tests.npu.emulator.softmax import ASCEND_MASK_SIZE

__all__ = ["ASCEND_MASK_SIZE", "Counted", "allow_fallbacks", "counted", "install"]
