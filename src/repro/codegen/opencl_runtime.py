"""Finds a CPU's OpenCL runtime before pyopencl is imported, lists its devices, and calls its compiler."""

from __future__ import annotations

import atexit
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from repro.codegen.nvcc import CompileError, first_error
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.package_data import install
from repro.untrusted_files import read_text, shown

_VENDORS = tempfile.TemporaryDirectory(prefix="repro-opencl-")
atexit.register(_VENDORS.cleanup)  # delete the folder explicitly to avoid a warning at exit
#: pyopencl and pip packages that contain an OpenCL runtime for CPUs.
PACKAGES = ("pyopencl", "intel-opencl-rt", "pocl-binary-distribution")


def find_library() -> Path | None:
    """Return the CPU runtime library that pip installed into this Python environment; None if there is none."""
    libraries = sorted(Path(sys.prefix, "lib").glob("libintelocl.so*"))
    return next((path for path in libraries if not path.name.endswith(".py")), None)


def runtime_identity() -> list[str]:
    """Return texts that identify the runtime that pyopencl would load, without loading the runtime."""
    library = find_library()
    if library is not None and os.environ.get("OCL_ICD_VENDORS") in (None, _VENDORS.name):
        sources = [str(library)]
    else:
        vendors = Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors"))
        sources = [read_text(path).strip() for path in sorted(vendors.glob("*.icd"))]
    return [*sources, *_installed_versions()]


@cache
def _installed_versions() -> tuple[str, ...]:
    """Return the installed OpenCL packages with versions; cached, since plans need them for hundreds of modules."""
    versions = []
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return tuple(versions)


def processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


@cache
def load() -> Any:
    """Import pyopencl with the CPU runtime installed by pip; raise `ReproError` if this fails.

    The runtime's own `.icd` file contains a placeholder path. A corrected file is written to a temporary folder, and
    OCL_ICD_VENDORS is set to this folder unless the user has set it. The OpenCL loader reads the variable only once.
    """
    library = find_library()
    if library is not None and "OCL_ICD_VENDORS" not in os.environ:
        Path(_VENDORS.name, "cpu.icd").write_text(f"{library}\n")
        os.environ["OCL_ICD_VENDORS"] = _VENDORS.name
    # Disable pyopencl's cache of compiled kernels; this package's cache depends on more properties.
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")
    try:
        return import_module("pyopencl")
    except ImportError as error:
        raise ReproError("PyOpenCL is not installed", actual=error, todo=install("cpu")) from None


def find_devices() -> list[Any]:
    """Return the CPU devices of all OpenCL platforms; raise `ReproError` if there are none."""
    cl = load()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise ReproError("no OpenCL runtime was found", actual=error, todo=install("cpu")) from None
    devices = []
    for platform in platforms:
        try:
            devices += platform.get_devices(cl.device_type.CPU)
        except cl.Error:  # the platform has no CPU device
            continue
    if not devices:
        names = ", ".join(p.name for p in platforms) or "none"
        raise ReproError("no OpenCL runtime offers the CPU", actual=f"platforms: {names}", todo=install("cpu"))
    return devices


def open_device(ordinal: int) -> Any:
    """Return the CPU device with the given number; raise `ReproError` if there is none."""
    devices = find_devices()
    if ordinal >= len(devices):
        names = ", ".join(f"opencl:{i} {d.name.strip()}" for i, d in enumerate(devices))
        raise ReproError(
            "no such OpenCL device",
            where="device",
            expected=f"one of {names}",
            actual=f"opencl:{ordinal}",
            todo="`repro list devices` prints all",
        )
    return devices[ordinal]


def split_device(ordinal: int, count: int) -> list[Any]:
    """Split a CPU device into `count` parts with equal numbers of cores; leftover cores stay idle. Raises
    `ReproError`.
    """
    cl, device = load(), open_device(ordinal)
    cores = int(device.max_compute_units)
    try:
        if cores < count:
            raise ReproError(
                "the CPU has too few cores for this many parts",
                where=f"opencl:{ordinal} {device.name.strip()}",
                expected=f"at most {cores}",
                actual=f"opencl:{ordinal}/{count}",
            )
        parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, cores // count])
    except cl.Error as error:
        raise ReproError(
            "the OpenCL runtime cannot split the CPU",
            where=f"opencl:{ordinal} {device.name.strip()}",
            actual=error,
            todo=f"`device: opencl:{ordinal}` takes it whole",
        ) from None
    return list(parts[:count])


FLAGS = ("-cl-std=CL2.0",)
#: Environment variables, or prefixes of their names, that pyopencl and CPU runtimes read: flags, vectorisation,
#: processor, threads, affinity.
VARIABLES = ("PYOPENCL_BUILD_OPTIONS",)
PREFIXES = ("CL_CONFIG_", "DPCPP_CPU_", "POCL_", "VOLCANO_")


def environment() -> tuple[str, ...]:
    """Return the environment variables that affect binaries and times, as `NAME=value`."""
    read = (name for name in os.environ if name in VARIABLES or name.startswith(PREFIXES))
    return tuple(f"{name}={os.environ[name]}" for name in sorted(read) if os.environ[name])


@cache
def _context() -> tuple[Any, Any]:
    device = open_device(0)
    return load().Context([device]), device


@cache
def compiler_version() -> str:
    """Return name and version of the runtime, and name of the processor."""
    _, device = _context()
    return f"{device.platform.name} {device.driver_version} for {device.name.strip()}"


def build_identity() -> list[str]:
    return [*runtime_identity(), str(processor())]


def _locate_errors(error: str, source: Path) -> str:
    """Return an error message with the source's file name, which the runtime does not know, and the line's text."""
    if not (place := re.match(r"(?:[^:]*:)?(\d+):(\d+): (.*)", error)):
        return error
    lines = source.read_text().splitlines()
    number = int(place[1])
    line = shown(lines[number - 1].strip()) if 0 < number <= len(lines) else ""
    return f"{source}:{number}:{place[2]}: {place[3]}: {line}"


def build(source: Path, binary: Path, target: Target, flags: Sequence[str] = FLAGS) -> dict[str, dict[str, int]]:
    """Compile a source file; raise `CompileError` if this fails. The result is empty, since CPUs report no
    registers.
    """
    if binary.exists():
        return {}
    cl = load()
    context, device = _context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runtime warns even if compilation succeeds
        try:
            program = cl.Program(context, source.read_text()).build(list(flags), devices=[device])
        except cl.Error as error:
            raise CompileError(_locate_errors(first_error(str(error)), source)) from None
    write_whole(binary, program.get_info(cl.program_info.BINARIES)[0])
    return {}
