"""Keep ``import torch`` working where torch_npu is installed and CANN, the driver stack below it, is not.

torch loads torch_npu while it is imported itself, and fails with it. So the package looks first.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys

#: What torch_npu 2.13 is linked against, beside torch itself. They in turn need the driver's libraries.
LIBRARIES = ("libascendcl.so", "libhccl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so")


def prepare() -> str | None:
    """Block torch_npu if its libraries cannot be loaded or it is not wanted; the reason, or None.

    Call before torch is imported.
    """
    if "torch_npu" in sys.modules or importlib.util.find_spec("torch_npu") is None:
        return None
    try:
        for library in LIBRARIES:
            ctypes.CDLL(library)
    except OSError as error:
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        sys.modules["torch_npu"] = None  # type: ignore[assignment]
        return f"torch_npu is installed, but CANN is not usable here: {error}"
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":  # transformers would load it all the same
        sys.modules["torch_npu"] = None  # type: ignore[assignment]
        return "torch_npu is installed, but TORCH_DEVICE_BACKEND_AUTOLOAD keeps it away; unset it to use an NPU"
    return None


def why_torch_fails(failure: BaseException) -> str | None:
    """What to say where torch could not be imported because of torch_npu, with libraries of CANN that do load."""
    if "backend extension: torch_npu" not in str(failure):
        return None
    cause = next(iter(str(failure.__cause__).splitlines()), "")[:200].rstrip(".")
    return (
        f"torch_npu is installed and cannot be loaded: {cause}. Its version, torch's and CANN's do not fit together "
        "(docs/npu.md says which do); with TORCH_DEVICE_BACKEND_AUTOLOAD=0 the NPU is left out."
    )
