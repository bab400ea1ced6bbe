"""Compiles CUDA sources in this process by NVRTC, which needs neither a toolkit nor a host compiler."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from repro.codegen.nvcc import CompileError, first_error, read_resources
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.filesystem import write_whole
from repro.untrusted_files import read_text

#: What some kernels include headers of: the CUDA runtime, and what its headers include.
HEADERS = ("cudart", "cccl")


@cache
def include_folders() -> tuple[Path, ...]:
    """Return the folders of those `HEADERS` that are installed."""
    try:
        from cuda.pathfinder import find_nvidia_header_directory
    except ImportError:
        return ()
    return tuple(Path(folder) for name in HEADERS if (folder := find_nvidia_header_directory(name)))


@cache
def is_installed() -> bool:
    """Return whether NVRTC, NVIDIA's bindings to it and the runtime's headers are installed."""
    try:
        from cuda.bindings import nvrtc

        return nvrtc.nvrtcVersion()[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS and len(include_folders()) == len(HEADERS)
    except (ImportError, OSError, RuntimeError):  # the bindings load the library at their first call
        return False


@cache
def version() -> str:
    """Return NVRTC's name and version, such as `NVRTC 13.0`."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return f"NVRTC {major}.{minor}"


#: What nvcc takes from the host's <math.h>.
MACROS = ("INFINITY=__int_as_float(0x7f800000)", "NAN=__int_as_float(0x7fffffff)")


def flags(target: Target) -> tuple[str, ...]:
    macros = (f"--define-macro={macro}" for macro in MACROS)
    return f"--gpu-architecture={target.name}", "--std=c++17", "--generate-line-info", "--ptxas-options=-v", *macros


def build(source: Path, binary: Path, target: Target) -> dict[str, dict[str, int]]:
    """Compile a source file to a cubin unless it exists; return registers and spilled bytes per thread of each kernel.

    The compiler's output is written beside the binary.

    Raises
    ------
    CompileError
        The source does not compile.
    ReproError
        This version of NVRTC does not compile for the target.
    """
    log = binary.with_suffix(".log")
    if not (binary.exists() and log.exists()):
        cubin, output = _compile(source, target)
        write_whole(log, output.encode())
        write_whole(binary, cubin)
    return read_resources(read_text(log))


def _compile(source: Path, target: Target) -> tuple[bytes, str]:
    """Return the cubin of a source, and the compiler's messages."""
    from cuda.bindings import nvrtc

    capabilities = _call(nvrtc.nvrtcGetSupportedArchs())
    if int(target.name.removeprefix("sm_")) not in capabilities:
        names = [f"sm_{capability}" for capability in capabilities]
        raise ReproError(
            "the installed NVRTC cannot compile for this GPU",
            where=version(),
            expected=f"one of {', '.join(names)}",
            actual=target.name,
            todo="install an NVRTC release that supports the GPU: pip install nvidia-cuda-nvrtc-cu12 for compute "
            "capabilities below 7.5, a newer nvidia-cuda-nvrtc for later ones",
        )
    # the name under which profilers find the source's lines
    program = _call(nvrtc.nvrtcCreateProgram(source.read_bytes(), str(source).encode(), 0, [], []))
    try:
        paths = (f"--include-path={folder}" for folder in include_folders())
        options = [option.encode() for option in (*flags(target), *paths)]
        [result] = nvrtc.nvrtcCompileProgram(program, len(options), options)
        output = bytearray(_call(nvrtc.nvrtcGetProgramLogSize(program)))
        _call(nvrtc.nvrtcGetProgramLog(program, output))
        text = output.rstrip(b"\0").decode(errors="replace")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(first_error(text) if text.strip() else result.name)
        cubin = bytearray(_call(nvrtc.nvrtcGetCUBINSize(program)))
        _call(nvrtc.nvrtcGetCUBIN(program, cubin))
        return bytes(cubin), text
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _call(results: tuple[Any, ...]) -> Any:
    """Return the result of a call of NVRTC; raise `CompileError` if it failed, as for want of memory."""
    code, *values = results
    if code.value:
        raise CompileError(code.name)
    return values[0] if values else None
