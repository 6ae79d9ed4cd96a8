"""Build the emulated CANN libraries for the torch_npu wheel on the path: ``python build.py OUTDIR``.

torch_npu's libraries name a few hundred CANN symbols. ``fakecann.c`` defines those that are emulated; the rest is
generated here, each answering "feature not supported". Needs gcc and nm. Silent when all is well.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("fakecann.c")
CANN_LIBRARIES = ("ascendcl", "hccl", "acl_op_compiler", "ge_runner", "graph", "acl_tdt_channel", "atb", "runtime")
SYSTEM_LIBRARIES = (
    "libstdc++.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libc.so.6",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
)
SYSTEM_FOLDERS = ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
NOT_CANN = ("_ITM", "__gmon", "_ZTH", "Py", "_Py", "__cxa_finalize")  # weak, or the interpreter's own
FEATURE_NOT_SUPPORTED = 207000


def build(out: Path) -> list[str]:
    """Write the libraries to ``out``; returns the symbols that answer "feature not supported"."""
    for tool in ("gcc", "nm"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is not installed; it builds the emulated CANN. On Debian: apt-get install gcc")
    torch_npu, torch = _package("torch_npu"), _package("torch")
    out.mkdir(parents=True, exist_ok=True)

    own = [*torch_npu.glob("lib/*.so"), *torch_npu.glob("_C*.so")]
    emulated = out / "fakecann.o"
    _gcc("-Wall", "-Wextra", "-c", SOURCE, "-o", emulated)
    others = [*own, *torch.glob("lib/*.so*"), *_system_libraries()]
    defined = set().union(*(_symbols(path, "--defined-only", "-D") for path in others))
    wanted = set().union(*(_symbols(path, "--undefined-only", "-D") for path in own))
    missing = wanted - defined - _symbols(emulated, "--defined-only")
    refused = sorted(name for name in missing if not name.startswith(NOT_CANN))

    rest = out / "rest.c"
    rest.write_text("".join(f"int {name}(void) {{ return {FEATURE_NOT_SUPPORTED}; }}\n" for name in refused))
    _gcc("-w", "-shared", "-o", out / "libfakecann.so", emulated, rest, "-lpthread")
    for name in CANN_LIBRARIES:
        link = out / f"lib{name}.so"
        link.unlink(missing_ok=True)
        link.symlink_to("libfakecann.so")
    return refused


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not on the Python path; `make test-npu` fetches it and sets the path.")
    return Path(spec.origin).parent


def _system_libraries() -> list[Path]:
    return [path for folder in SYSTEM_FOLDERS for name in SYSTEM_LIBRARIES if (path := Path(folder, name)).exists()]


def _symbols(path: Path, *flags: str) -> set[str]:
    listing = subprocess.run(["nm", *flags, path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in listing.splitlines() if line.strip()}


def _gcc(*arguments: str | Path) -> None:
    if subprocess.run(["gcc", "-O1", "-fPIC", *arguments]).returncode:
        raise SystemExit("gcc could not build the emulated CANN; its message is above.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("Usage: python build.py OUTDIR")
    build(Path(sys.argv[1]).resolve())
