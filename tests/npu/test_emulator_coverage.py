"""Every operator that torch_npu brings, and every one it lacks, is decided upon."""

from __future__ import annotations

import torch

from tests.npu.emulator.registration import KEYS, NAMESPACES, OWN, REAL, dispositions, overload

FALLBACK = "[backend fallback]"


def _entry(name: str, key: str) -> str:
    """Where the kernel of an operator for a dispatch key comes from, in the dispatcher's words."""
    table = torch._C._dispatch_dump_table(name).splitlines()
    return next((line for line in table if line.startswith(f"{key}:")), "")


def _defined() -> set[str]:
    return set(torch._C._dispatch_get_all_op_names())


def test_each_of_torch_npus_kernels_is_emulated_or_refused_or_known_to_compute_nothing() -> None:
    seen = 0
    for key in KEYS:
        for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
            if name.partition("::")[0] not in NAMESPACES or overload(name) is None:
                continue
            seen += 1
            if dispositions[key, name] == "real":
                wrapper = key == "AutogradPrivateUse1" and name in OWN
                assert name in REAL or wrapper, name
                assert "torch_npu" in _entry(name, key), name
            else:
                assert "torch_npu" not in _entry(name, key), name
    assert seen > 1000


def test_nothing_falls_back_to_the_cpu_in_silence() -> None:
    left = [name for name in _defined() if FALLBACK in _entry(name, "PrivateUse1")]
    assert left == []


def test_no_private_operator_is_left_to_torch_npu() -> None:
    private = [name for name in _defined() if name.startswith(("npu::", "atb::"))]
    left = {name for name in private if "torch_npu" in _entry(name, "PrivateUse1")}
    assert left == {name for name in REAL if name.startswith("npu::")}


def test_other_layouts_are_refused_as_a_whole() -> None:
    for key in ("SparsePrivateUse1", "SparseCsrPrivateUse1", "QuantizedPrivateUse1", "NestedTensorPrivateUse1"):
        names = [name for (k, name) in dispositions if k == key]
        assert names and all(dispositions[key, name] == "refused" for name in names)


def test_what_is_said_to_be_there_is_there() -> None:
    assert all(("PrivateUse1", name) in dispositions for name in REAL | set(OWN))
