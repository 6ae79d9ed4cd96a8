"""What each operator of torch_npu's device becomes: emulated, torch_npu's own, or refused. Nothing else is left."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch

from tests.npu.emulator import fused_infer, fusion_attention, operators, quantized

Disposition = Literal["emulated", "real", "refused"]

KEYS = ("PrivateUse1", "AutogradPrivateUse1")
# Layouts that are not emulated at all; their operators are refused one and all.
OTHER_LAYOUTS = ("SparsePrivateUse1", "SparseCsrPrivateUse1", "QuantizedPrivateUse1", "NestedTensorPrivateUse1")
NAMESPACES = ("aten", "npu", "atb", "quantized")

# torch_npu's own code that reads and writes sizes, strides and storages, or allocates and fills nothing in.
REAL = frozenset(
    {
        "aten::_fused_sdp_choice",  # which attention: torch_npu's decision is what the tests are about
        "aten::_pin_memory",
        "aten::_reshape_alias",
        "aten::_to_copy",  # allocates, then calls copy_
        "aten::as_strided",
        "aten::is_pinned",
        "aten::is_set_to",
        "aten::record_stream",
        "aten::scaled_dot_product_attention",  # likewise
        "aten::set_",
        "aten::set_.source_Storage",
        "aten::set_.source_Storage_storage_offset",
        "aten::set_.source_Tensor",
        "aten::squeeze",
        "aten::squeeze.dim",
        "aten::unfold",
        "aten::unsqueeze",
        "aten::view",
        "aten::view_as_complex",
        "aten::view_as_real",
        "npu::empty_with_format",
        "npu::get_npu_format",
        "npu::get_storage_size",
        "npu::set_op_timeout_ms",
        "npu::unsafe_empty_with_format",
    }
)

OWN: dict[str, Callable[..., Any]] = {
    "aten::_copy_from": operators.copy_from,
    "aten::_copy_from_and_resize": operators.copy_from_and_resize,
    "aten::_local_scalar_dense": operators.local_scalar_dense,
    "aten::copy_": operators.copy_,
    "aten::empty.memory_format": operators.empty,
    "aten::empty_like": operators.empty_like,
    "aten::empty_strided": operators.empty_strided,
    "aten::resize_": operators.resize_,
    "npu::npu_format_cast": operators.format_cast,
    **fusion_attention.KERNELS,
    **fused_infer.KERNELS,
    **quantized.KERNELS,
}

dispositions: dict[tuple[str, str], Disposition] = {}  # (dispatch key, operator) → what became of it
_libraries: dict[str, torch.library.Library] = {}  # kept: a library that is collected takes its kernels along


def install() -> None:
    """Put the emulated kernels in the place of torch_npu's. Once in a process, before the first NPU tensor."""
    if dispositions:
        return
    import torch_npu  # noqa: F401  (registers the operators)

    with _quiet():
        for key in (*KEYS, *OTHER_LAYOUTS):
            for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
                _decide(name, key)
        for name in torch._C._dispatch_get_all_op_names():
            if ("PrivateUse1", name) not in dispositions:
                _decide_unregistered(name)


def _decide(name: str, key: str) -> None:
    op = overload(name)
    if name.partition("::")[0] not in NAMESPACES or op is None:
        return  # c10d and its like call HCCL, all of which answers "feature not supported"
    if name in REAL and key in KEYS:
        dispositions[key, name] = "real"
    elif key not in KEYS:
        _put(name, key, operators.refused(f"{name} on a {key} tensor"), "refused")
    elif name in OWN:
        if key == "PrivateUse1":
            _put(name, key, OWN[name], "emulated")
        else:
            dispositions[key, name] = "real"  # torch_npu's autograd wrapper, which calls the emulated kernel
    elif _has(name, "CompositeImplicitAutograd") and name.startswith("aten::"):
        _put(name, key, operators.through_composite(op), "emulated")
    elif not _computes_on_cpu(name, op):
        _put(name, key, operators.refused(name), "refused")
    elif key == "PrivateUse1":
        _put(name, key, operators.on_cpu(op), "emulated")
    else:
        _put(name, key, operators.below_autograd(op), "emulated", with_keyset=True)


def _decide_unregistered(name: str) -> None:
    """Operators without a kernel of torch_npu: composites of PyTorch are left alone, what falls back is refused."""
    op = overload(name)
    if op is None:
        return
    line = next((x for x in torch._C._dispatch_dump_table(name).splitlines() if x.startswith("PrivateUse1:")), "")
    if name in REAL:
        dispositions["PrivateUse1", name] = "real"
    elif name in OWN:
        _put(name, "PrivateUse1", OWN[name], "emulated")
    elif "[backend fallback]" in line and _computes_on_cpu(name, op):
        _put(name, "PrivateUse1", operators.fallback(op), "refused")
    elif "[backend fallback]" in line:
        _put(name, "PrivateUse1", operators.refused(name), "refused")
    elif name.startswith(
        ("npu::", "atb::")
    ):  # torch_npu's own composites; without a tensor argument no key leads there
        for key in ("PrivateUse1", "CompositeImplicitAutograd"):
            _put(name, key, operators.refused(name), "refused")


def _computes_on_cpu(name: str, op: torch._ops.OpOverload) -> bool:
    """Whether the CPU has a kernel that computes values, rather than another view of the same memory."""
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in op._schema.returns)
    keys = ("CPU", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    return not views and name.startswith("aten::") and any(_has(name, key) for key in keys)


def _has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


def overload(name: str) -> torch._ops.OpOverload | None:
    """None for a kernel that torch_npu registers without a schema: nothing can call it."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    except AttributeError:
        return None


def _put(name: str, key: str, kernel: Callable[..., Any], disposition: Disposition, **options: bool) -> None:
    namespace, _, rest = name.partition("::")
    if namespace not in _libraries:
        _libraries[namespace] = torch.library.Library(namespace, "IMPL")
    _libraries[namespace].impl(rest, kernel, key, allow_override=True, **options)
    dispositions[key, name] = disposition


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The dispatcher warns of every override, on the file descriptor itself."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
