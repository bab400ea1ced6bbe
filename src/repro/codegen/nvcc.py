"""Finds and calls the CUDA compiler nvcc, and reads registers and spills from its output."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.filesystem import replacing
from repro.programs import run_program
from repro.untrusted_files import read_text, shown

# Message of nvcc when one of its subprocesses was killed.
_KILLED = re.compile(r"died due to signal")
#: Matches the release number in the output of `nvcc --version`.
_RELEASE = re.compile(r"\brelease \d+\.\d+")
#: Timeouts in seconds: for `nvcc --version`, in case of a slow file system, and for one module, in case of a busy
#: machine.
ANSWERING, COMPILING = 60.0, 1800.0


class CompileError(Exception):
    """Compilation failed because of the source; the message is the compiler's first error."""


def flags(target: Target, *, shared: bool = False) -> tuple[str, ...]:
    """Return the flags for a cubin, or for a shared library with host functions."""
    output_flags = ("-shared", "-Xcompiler=-fPIC") if shared else ("-cubin",)
    return (f"-arch={target.name}", "-O3", "-std=c++17", *output_flags, "-Xptxas=-v", "-lineinfo")


#: Environment variables from which nvcc reads flags and the host compiler.
VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")


def environment() -> tuple[str, ...]:
    """Return the environment variables that affect nvcc, as `NAME=value`."""
    return tuple(f"{name}={os.environ[name]}" for name in VARIABLES if os.environ.get(name))


def find() -> Path | None:
    """Search nvcc on PATH, in CUDA_HOME and CUDA_PATH, in pip packages and in the default installation folder."""
    executable = shutil.which("nvcc")
    if executable:
        return Path(executable)
    site = Path(sysconfig.get_paths()["purelib"])
    candidates = [
        *(Path(os.environ[name], "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)),
        *sorted(site.glob("nvidia/*/bin/nvcc"), reverse=True),
        Path("/usr/local/cuda/bin/nvcc"),
    ]
    return next((path for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)


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
    """Return nvcc's release and build line; raise `ReproError` if nvcc is missing or does not work."""
    run = run_program([_nvcc(), "--version"], ANSWERING, "nvcc")
    if run.code or not _RELEASE.search(run.output):
        raise ReproError(
            "nvcc does not print its version",
            where=f"{_nvcc()} --version",
            expected="its release, such as: release 12.8, V12.8.93",
            actual=shown(run.said) or f"nothing, and exit code {run.code}",
            todo="reinstall the CUDA toolkit, or remove this one from PATH and CUDA_HOME",
        )
    return "nvcc " + shown(run.output.strip().splitlines()[-1])


def build(source: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
    """Compile a source file to a cubin; return registers and spilled bytes per thread of each kernel.

    Raises
    ------
    CompileError
        The source does not compile.
    ReproError
        The compiler was killed, timed out or wrote no output, so the source is not the cause.
    """
    return read_resources(read_text(_compile(source, binary, flags(target))))


def build_foreign(
    source: Path, folder: Path, identity: str, target: Target, words: Sequence[str], *, shared: bool
) -> Path:
    """Compile a source from outside the project with additional flags; return the binary, a cubin or a shared library.

    The name of the binary in `folder` is a hash of `identity`, compiler and flags, and it is compiled only once.
    `identity` must change with the source and with all files that it includes. Errors are those of `build`.
    """
    options = (*flags(target, shared=shared), *words)
    key = "\0".join([identity, version(), *options, *environment()])
    suffix = ".so" if shared else ".cubin"
    binary = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{suffix}"
    folder.mkdir(parents=True, exist_ok=True)
    _compile(source, binary, options)
    return binary


def _compile(source: Path, binary: Path, options: Sequence[str]) -> Path:
    """Compile a source unless its binary exists; return the file with the compiler's output."""
    log = binary.with_suffix(".log")
    if not (binary.exists() and log.exists()):
        with replacing(binary) as partial:
            run = run_program([_nvcc(), *options, "-o", partial, source], COMPILING, "the compiler")
            if run.code < 0 or (run.code and _KILLED.search(run.said)):
                raise ReproError(
                    "the compiler was killed",
                    where=source,
                    actual=first_error(run.said) if run.said.strip() else signal.strsignal(-run.code),
                    todo="run the command again; if memory is short, with fewer compilers at a time",
                )
            if run.code:
                raise CompileError(first_error(run.said))
            if not partial.exists():
                raise ReproError(
                    "the compiler wrote no binary",
                    where=source,
                    actual=shown(run.said) or "it printed nothing",
                    todo=f"check that {_nvcc()} is nvcc",
                )
            log.write_text(run.errors + run.output)
    return log


def kernel_names(binary: Path) -> list[str]:
    """Return the names of the kernels in a binary that this module compiled; names are mangled unless extern "C"."""
    return list(read_resources(read_text(binary.with_suffix(".log"))))


def first_error(output: str) -> str:
    lines = [line for line in map(shown, output.splitlines()) if line]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no message")


def read_resources(log: str) -> dict[str, dict[str, int]]:
    """Read the output of `ptxas -v`: for each kernel, registers and spilled bytes (stores plus loads) per thread."""
    resources: dict[str, dict[str, int]] = {}
    name = ""
    for line in log.splitlines():
        if entry := re.search(r"Compiling entry function '(\w+)'", line):
            name = entry[1]
            resources[name] = {"registers": 0, "spills": 0}
        elif name and (spills := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line)):
            resources[name]["spills"] += int(spills[1]) + int(spills[2])
        elif name and (registers := re.search(r"Used (\d+) registers", line)):
            resources[name]["registers"] = int(registers[1])
    return resources
