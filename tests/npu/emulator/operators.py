"""aten operators of the emulated device: the CPU's kernel, run on the same memory."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tests.npu.emulator import counters
from tests.npu.emulator.memory import DEVICE, POISON, allocate, host, on_device, to_device
from tests.npu.emulator.randomness import cpu_generator

Kernel = Callable[..., Any]
# Their index tensors may lie on the host, and are copied first; or be masks, whose sum the host must know.
_BY_INDEX = ("index.Tensor", "index.Tensor_out", "index_put", "index_put_", "_index_put_impl_")
_WAITS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}

_fallbacks_allowed = threading.Event()


def soc() -> str:
    return os.environ.get("FAKECANN_SOC", "Ascend910B2")


def short_name(op: torch._ops.OpOverload) -> str:
    """``add.Tensor``, ``relu``: what the counters and the error messages say."""
    return op._schema.name.split("::")[1] + (f".{op._schema.overload_name}" if op._schema.overload_name else "")


def on_cpu(op: torch._ops.OpOverload) -> Kernel:
    """The kernel of ``op`` for NPU tensors: CPU kernel on their memory, results on their device.

    Raises RuntimeError for tensors on different devices and, on a 310P, for bfloat16.
    """
    name, schema = short_name(op), op._schema
    written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
    draws = next((i for i, a in enumerate(schema.arguments) if a.name == "generator"), None)
    if draws is None and torch.Tag.nondeterministic_seeded in op.tags:
        return refused(f"{name} (a draw without a generator)")
    by_index = name in _BY_INDEX
    waits = bool(_WAITS & set(op.tags)) and not by_index

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = _in_order(schema, args, kwargs)
        device = _device_of(name, given)
        counters.call(name)
        counters.launched_on(name, device)
        if waits or (by_index and _by_mask(given)):
            counters.copy(DEVICE, "cpu", 8)  # the host learns a value or a size from the device

        values = [_each(_on_host, a) for a in given]
        if draws is not None:
            values[draws] = cpu_generator(given[draws], device)
        positional, named = _call(schema, values)
        with torch.no_grad():
            result = op(*positional, **named)
        for i in written:
            _keep_resized(given[i], values[i])
        if not written:
            return _each(lambda value: to_device(value, device) if isinstance(value, torch.Tensor) else value, result)
        outputs = [given[i] for i in written]
        return (None, outputs[0], tuple(outputs))[min(len(schema.returns), 2)]

    return kernel


def through_composite(op: torch._ops.OpOverload) -> Kernel:
    """PyTorch's own decomposition into emulated operators; those are counted (torch_npu has one kernel for all)."""
    return op.decompose


def below_autograd(op: torch._ops.OpOverload) -> Kernel:
    """For operators whose gradient torch_npu writes itself: forward only."""

    def kernel(keys: torch._C.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and any(_each_tensor(lambda t: t.requires_grad, (*args, *kwargs.values()))):
            raise NotImplementedError(f"the gradient of {short_name(op)} is not emulated")
        with torch._C._AutoDispatchBelowAutograd():
            return op.redispatch(keys & torch._C._after_autograd_keyset, *args, **kwargs)

    return kernel


def refused(name: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{name} is not emulated")

    return kernel


def fallback(op: torch._ops.OpOverload) -> Kernel:
    """torch_npu has no kernel: it copies the tensors to the host, computes there and copies back.

    Raises NotImplementedError, so that nobody depends on it unawares; see ``allow_fallbacks``.
    """
    name = short_name(op)
    run = on_cpu(op)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if not _fallbacks_allowed.is_set():
            raise NotImplementedError(
                f"torch_npu has no kernel for {name}: it would run on the CPU, copying to and fro"
            )
        counters.call(f"fallback:{name}")
        _each_tensor(lambda t: counters.copy(DEVICE, "cpu", t.nbytes) if on_device(t) else None, (args, kwargs))
        result = run(*args, **kwargs)
        _each_tensor(lambda t: counters.copy("cpu", DEVICE, t.nbytes), result)
        return result

    return kernel


@contextlib.contextmanager
def allow_fallbacks() -> Iterator[None]:
    """Let operators without a kernel run on the CPU, as torch_npu does, counted as ``fallback:NAME`` and as copies."""
    _fallbacks_allowed.set()
    try:
        yield
    finally:
        _fallbacks_allowed.clear()


def copy_(target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Every copy from, to and on the device, with a change of dtype if asked for."""
    counters.copy(source.device.type, target.device.type, source.nbytes)
    if on_device(source) and on_device(target) and source.dtype != target.dtype:
        _refuse_bfloat16("copy_", source)
        _refuse_bfloat16("copy_", target)
    host(target).copy_(host(source))
    return target


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    return copy_(target, source)


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return copy_(target.resize_(source.size()), source)


def local_scalar_dense(tensor: torch.Tensor) -> bool | int | float | complex:
    """``.item()``: a copy to the host that waits for all work before it."""
    counters.call("_local_scalar_dense")
    counters.copy(DEVICE, "cpu", tensor.element_size())
    return host(tensor).item()


def format_cast(tensor: torch.Tensor, acl_format: int, **options: Any) -> torch.Tensor:
    """Layouts in memory: all tensors have the plain one, and a cast to that is the tensor itself."""
    if acl_format != torch.ops.npu.get_npu_format(tensor) or any(v is not None for v in options.values()):
        raise NotImplementedError(f"npu_format_cast to format {acl_format} is not emulated")
    return tensor


def resize_(
    tensor: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """torch_npu's own growth of a storage, with poison in what is new."""
    if memory_format not in (None, torch.contiguous_format):
        raise NotImplementedError(f"resize_ with {memory_format} is not emulated")
    storage, before = tensor.untyped_storage(), tensor.untyped_storage().nbytes()
    needed = (tensor.storage_offset() + math.prod(size)) * tensor.element_size()
    if needed > before:
        storage.resize_(needed)
        ctypes.memset(storage.data_ptr() + before, POISON, storage.nbytes() - before)
    strides = torch.empty(size, device="meta").stride()
    return tensor.set_(storage, tensor.storage_offset(), size, strides)


def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None) -> torch.Tensor:
    return _like_meta(torch.empty(size, dtype=dtype, memory_format=memory_format, device="meta"), device)


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None) -> torch.Tensor:
    return _like_meta(torch.empty_strided(size, stride, dtype=dtype, device="meta"), device)


def empty_like(tensor, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None) -> torch.Tensor:
    shape = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
    like = torch.empty_like(shape, dtype=dtype, memory_format=memory_format)
    device = torch.device(device or tensor.device)
    if device.type != DEVICE:
        return torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=device, pin_memory=pin_memory)
    return _like_meta(like, device)


def _like_meta(meta: torch.Tensor, device: torch.device) -> torch.Tensor:
    return allocate(meta.size(), meta.stride(), meta.dtype, device, poison=True)


def _in_order(schema: torch._C.FunctionSchema, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """All arguments of a call in the schema's order, defaults filled in."""
    rest = schema.arguments[len(args) :]
    return [*args, *(kwargs.get(a.name, a.default_value if a.has_default_value() else None) for a in rest)]


def _call(schema: torch._C.FunctionSchema, values: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of the CPU's kernel."""
    pairs = [(a, None if a.name == "pin_memory" else v) for a, v in zip(schema.arguments, values, strict=True)]
    return [v for a, v in pairs if not a.kwarg_only], {a.name: v for a, v in pairs if a.kwarg_only}


def _device_of(name: str, given: list[Any]) -> torch.device:
    """The one device of a call's tensors, or the device that a factory is asked for."""
    devices: set[torch.device] = set()
    for i, argument in enumerate(given):
        for tensor in _each_tensor(lambda t: t, argument):
            _refuse_bfloat16(name, tensor)
            if on_device(tensor):
                devices.add(tensor.device)
            elif tensor.dim() and name in _BY_INDEX and i == 1:
                counters.copy("cpu", DEVICE, tensor.nbytes)
            elif tensor.dim():
                devices.add(tensor.device)
    if len(devices) > 1:
        raise RuntimeError(f"{name}: expected all tensors on one device, found {sorted(map(str, devices))}")
    asked = next((a for a in given if isinstance(a, torch.device)), torch.device(DEVICE))
    device = devices.pop() if devices else asked
    return torch.device(DEVICE, torch.npu.current_device() if device.index is None else device.index)


def _refuse_bfloat16(name: str, tensor: torch.Tensor) -> None:
    if tensor.dtype == torch.bfloat16 and soc().startswith("Ascend310P"):
        raise RuntimeError(f"{name}: bfloat16 is not supported on {soc()}")


def _by_mask(given: list[Any]) -> bool:
    return any(_each_tensor(lambda t: t.dtype in (torch.bool, torch.uint8), given[1]))


def _on_host(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else host(value)


def _keep_resized(given: Any, computed: Any) -> None:
    """An ``out=`` tensor that the kernel gave a size."""
    if on_device(given) and given.size() != computed.size():
        given.resize_(computed.size())
        host(given).copy_(computed)


def _each(function: Callable[[Any], Any], value: Any) -> Any:
    return type(value)(_each(function, v) for v in value) if isinstance(value, (list, tuple)) else function(value)


def _each_tensor(function: Callable[[torch.Tensor], Any], value: Any) -> list[Any]:
    """``function`` of every tensor in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return [function(value)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [result for v in inner for result in _each_tensor(function, v)]
