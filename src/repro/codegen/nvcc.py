"""The CUDA compiler: finding it, calling it, reading what it says of registers and spills."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
from functools import cache
from pathlib import Path

from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.whole import replacing

# what the driver says of a part of it that was
_KILLED = re.compile(r"died due to signal")


class CompileError(Exception):
    """A source does not compile; the message is the compiler's first error."""


def flags(target: Target) -> tuple[str, ...]:
    """Return the flags for a target."""
    return (f"-arch={target.name}", "-O3", "-std=c++17", "-cubin", "-Xptxas=-v", "-lineinfo")


#: Variables that nvcc reads flags and the host's compiler from.
VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def environment() -> tuple[str, ...]:
    """Return what the environment adds to the flags, as `NAME=value`: binaries depend on it as on the flags."""
    return tuple(f"{name}={os.environ[name]}" for name in VARIABLES if os.environ.get(name))


def find() -> Path | None:
    """Look for nvcc on PATH, in CUDA_HOME and CUDA_PATH, in the pip packages, in the usual folder."""
    on_path = shutil.which("nvcc")
    if on_path:
        return Path(on_path)
    site = Path(sysconfig.get_paths()["purelib"])
    candidates = [
        *(Path(os.environ[name], "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)),
        *sorted(site.glob("nvidia/*/bin/nvcc"), reverse=True),
        Path("/usr/local/cuda/bin/nvcc"),
    ]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


@cache
def _nvcc() -> Path:
    path = find()
    if path is None:
        raise ReproError(
            "nvcc not found",
            where="PATH, CUDA_HOME, CUDA_PATH, the pip packages nvidia-cuda-nvcc, /usr/local/cuda",
            todo="install the CUDA toolkit, or pip install nvidia-cuda-nvcc",
        )
    return path


@cache
def version() -> str:
    """Return the line with which nvcc names its release and build."""
    said = subprocess.run([_nvcc(), "--version"], check=True, text=True, capture_output=True).stdout
    return "nvcc " + said.strip().splitlines()[-1]


def build(source: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
    """Compile a source file to a cubin; return registers and spilled bytes of each kernel.

    Raises
    ------
    CompileError
        It refuses the source.
    ReproError
        It was killed, by a user or for want of memory, which says nothing of the source.
    """
    log = binary.with_suffix(".log")
    if not (binary.exists() and log.exists()):
        with replacing(binary) as partial:
            done = subprocess.run(
                [_nvcc(), *flags(target), "-o", partial, source], text=True, capture_output=True, check=False
            )
            said = done.stderr or done.stdout
            if done.returncode < 0 or (done.returncode and _KILLED.search(said)):
                raise ReproError(
                    "the compiler was killed",
                    where=source,
                    actual=first_error(said) if said.strip() else signal.strsignal(-done.returncode),
                    todo="run the same command again; where memory is short, with fewer compilers at a time",
                )
            if done.returncode:
                raise CompileError(first_error(said))
            log.write_text(done.stderr + done.stdout)
    return read_resources(log.read_text())


def first_error(said: str) -> str:
    """Return the first line of a compiler's output that speaks of an error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no message")


def read_resources(log: str) -> dict[str, dict[str, int]]:
    """Read `ptxas -v`: registers and spilled bytes (stores plus loads) a thread, by kernel."""
    resources: dict[str, dict[str, int]] = {}
    name = ""
    for line in log.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            name = entry[1]
            resources[name] = {"registers": 0, "spills": 0}
        elif name and (spilled := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)):
            resources[name]["spills"] += int(spilled[1]) + int(spilled[2])
        elif name and (used := re.search(r"Used (\d+) registers", line)):
            resources[name]["registers"] = int(used[1])
    return resources
