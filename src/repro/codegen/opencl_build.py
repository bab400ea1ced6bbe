"""The OpenCL compiler of the CPU runtime."""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from repro.codegen import opencl_runtime
from repro.codegen.nvcc import CompileError, first_error
from repro.codegen.targets import Target
from repro.whole import write_whole

FLAGS = ("-cl-std=CL2.0",)
#: What pyopencl and the runtimes for CPUs read: flags, how to vectorise and for which processor, threads and where.
VARIABLES = ("PYOPENCL_BUILD_OPTIONS",)
PREFIXES = ("CL_CONFIG_", "DPCPP_CPU_", "POCL_", "VOLCANO_")


def environment() -> tuple[str, ...]:
    """Return what the environment adds to the flags, as `NAME=value`: binaries and times depend on it as on them."""
    read = (name for name in os.environ if name in VARIABLES or name.startswith(PREFIXES))
    return tuple(f"{name}={os.environ[name]}" for name in sorted(read) if os.environ[name])


@cache
def _context() -> tuple[Any, Any]:
    device = opencl_runtime.open_device(0)
    return opencl_runtime.load().Context([device]), device


@cache
def version() -> str:
    """Return the runtime's words on itself and on the processor that it compiles for."""
    _, device = _context()
    return f"{device.platform.name} {device.driver_version} for {device.name.strip()}"


def identity() -> list[str]:
    """Return what `version` depends on, read in milliseconds: the runtime's files and packages, the processor."""
    return [*opencl_runtime.identity(), str(opencl_runtime.processor())]


def build(source: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
    """Compile a source file; the CPU reports no registers, so the result is empty.

    Raises
    ------
    CompileError
    """
    if binary.exists():
        return {}
    cl = opencl_runtime.load()
    context, device = _context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runtime greets every build with a warning that it succeeded
        try:
            program = cl.Program(context, source.read_text()).build(list(FLAGS), devices=[device])
        except cl.Error as error:
            raise CompileError(first_error(str(error))) from None
    write_whole(binary, program.get_info(cl.program_info.BINARIES)[0])
    return {}
