"""A GPU that is none: CUDA kernels compiled for the CPU and run thread by thread.

What a kernel does with the threads of a warp (ballots, shuffles) is another text in OpenCL, which the CPU's own device
runs. Here that of CUDA runs; what would hang on a GPU ends the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.codegen.targets import get_target
from repro.devices.base import ADDRESS, Captured, CopiedWords, LaunchError, LaunchSpec

ALIGNMENT = 256
HEADER = Path(__file__).with_suffix(".h")
COMPILER = ("g++", "-Og", "-std=c++17", "-w", "-fPIC")
#: A kernel may be called as a function of the C library is: its own comes first.
LINKER = ("-shared", "-Wl,-Bsymbolic")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
#: Shared memory that a launch gives: here all that there is.
_INCLUDED = re.compile(r"^#include <(?:cuda_\w+|cooperative_groups)\.h>$", re.MULTILINE)
_LAUNCHED = re.compile(r"extern (?:__shared__|SHARED) (\w+) (\w+)\[\];")
_KERNEL = re.compile(
    r'(?:extern "C" __global__ void __launch_bounds__|(?:WARP_)?KERNEL)\([^)]*\)\s+(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)'
)


class Memory:
    """A buffer: some bytes of the host.

    Parameters
    ----------
    array
        The bytes, uint8 `(nbytes,)`.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.bytes, self.nbytes, self.pointer = array, array.nbytes, array.ctypes.data

    def release(self) -> None:
        """Nothing: it goes with the last who knows it."""


@dataclass(frozen=True)
class Program:
    """A compiled module."""

    library: ctypes.CDLL

    def kernel(self, name: str, shared: int = 0) -> Any:
        """Return what launches a kernel."""
        return getattr(self.library, f"emulated_{name}")

    def together(self, name: str) -> Any:
        """Return what launches a kernel whose blocks wait for each other."""
        return getattr(self.library, f"together_{name}")


@cache
def _precompiled() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Return a copy of the header that is compiled already, which saves each module most of its time; and its folder.

    The folder is there as long as the process.
    """
    folder = tempfile.TemporaryDirectory(prefix="emulated-")
    header = Path(shutil.copy(HEADER, folder.name))
    compiled = header.with_suffix(".h.gch")
    command = [*COMPILER, "-x", "c++-header", "-o", compiled, header]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:3000]
    with compiled.open("rb") as file:
        assert file.read(4) == b"gpch"  # what is none is passed over without a word
    return folder, header


@cache
def _compiler() -> str:
    """Return which compiler it is, and what it is asked for."""
    version = subprocess.run([COMPILER[0], "--version"], capture_output=True, text=True, check=True).stdout
    return " ".join([version, *COMPILER, *LINKER])


def compile_kernels(source: str, folder: Path) -> Program:
    """Compile the CUDA source of a module for the CPU."""
    wrappers = []
    for name, parameters in _KERNEL.findall(source):
        names = [re.findall(r"\w+", parameter)[-1] for parameter in parameters.split(",")]
        wrappers.append(
            f'extern "C" void emulated_{name}(int blocks, int threads, {parameters})\n'
            f"{{ emulated::launch(blocks, threads, [=] {{ {name}({', '.join(names)}); }}); }}\n"
            f'extern "C" void together_{name}(int blocks, int threads, {parameters})\n'
            f"{{ emulated::launch_together(blocks, threads, [=] {{ {name}({', '.join(names)}); }}); }}"
        )
    assert wrappers, "a module without kernels"
    source = _INCLUDED.sub("", source)  # what they declare is in the header of this
    source = _LAUNCHED.sub(rf"alignas(16) __shared__ \1 \2[{get_target('sm_90').shared_bytes} / sizeof(\1)];", source)
    text = "\n".join([source, *wrappers])
    folder.mkdir(parents=True, exist_ok=True)
    words = "\0".join([_compiler(), HEADER.read_text(), text])
    path = folder / f"{hashlib.sha256(words.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")  # another process may compile the same
        command = [*COMPILER, *LINKER, "-include", _precompiled()[1], "-o", part, "-x", "c++", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
        part.replace(path)
    return Program(ctypes.CDLL(str(path)))


def _as_c(argument: Any) -> Any:
    if hasattr(argument, "pointer"):
        return ctypes.c_void_p(argument.pointer)
    if isinstance(argument, np.floating | float):
        return ctypes.c_double(float(argument))
    return (ctypes.c_longlong if isinstance(argument, np.int64) else ctypes.c_int)(int(argument))


@dataclass(frozen=True)
class Cooperative:
    """A kernel whose blocks wait for each other."""

    device: EmulatedCuda
    kernel: Any
    block: int
    resident: int

    def bind(self, grid: int, arguments: Sequence[Any]) -> Callable[[], None]:
        """Return what runs the kernel."""
        assert grid <= self.resident
        return self.device.bind(self.kernel, grid, self.block, arguments)


class Call:
    """A launch whose stream is ignored, since the emulator has no streams."""

    def __init__(self, kernel: Any, grid: int, block: int, arguments: Sequence[Any]) -> None:
        self._kernel, self._grid, self._block, self._arguments = kernel, grid, block, arguments
        self._closed = False

    def __call__(self, stream: int, *addresses: int) -> None:
        if self._closed:
            raise LaunchError("the memory of the kernel's arguments was freed")
        given = iter(addresses)
        values = [ctypes.c_void_p(next(given)) if a is ADDRESS else _as_c(a) for a in self._arguments]
        assert next(given, None) is None
        self._kernel(ctypes.c_int(self._grid), ctypes.c_int(self._block), *values)

    def close(self) -> None:
        """Refuse further calls."""
        self._closed = True


class EmulatedCuda:
    """What a study asks of a device, of a GPU with two multiprocessors."""

    backend = "cuda"
    name = uuid = "emulated"
    target = get_target("sm_90")
    sm_count = 2
    l2_bytes = 1 << 20

    def current(self) -> AbstractContextManager[None]:
        """Do nothing: there is no other device."""
        return nullcontext()

    def allocate(self, nbytes: int) -> Memory:
        """Return uninitialised memory, aligned like a GPU's."""
        array = np.full(nbytes + ALIGNMENT, 0xA5, np.uint8)
        offset = -array.ctypes.data % ALIGNMENT
        return Memory(array[offset : offset + nbytes])

    def allocate_ordered(self, nbytes: int) -> Memory:
        """Return memory."""
        return self.allocate(nbytes)

    def host_array(self, count: int, dtype: np.dtype) -> np.ndarray:
        """Return an array."""
        return np.empty(count, dtype)

    def pooling(self) -> AbstractContextManager[None]:
        """Do nothing: memory is had without delay."""
        return nullcontext()

    def part(self, buffer: Memory, offset: int, nbytes: int) -> Memory:
        """Return some bytes of a buffer."""
        return Memory(buffer.bytes[offset : offset + nbytes])

    def upload(self, array: np.ndarray) -> Memory:
        """Copy an array."""
        memory = self.allocate(array.nbytes)
        self.write(memory, array)
        return memory

    def write(self, buffer: Memory, array: np.ndarray) -> None:
        """Copy an array into a buffer."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer.bytes[: flat.size] = flat

    def download(self, buffer: Memory, array: np.ndarray) -> None:
        """Copy the first bytes of a buffer, which may be of another library."""
        assert array.nbytes <= buffer.nbytes
        ctypes.memmove(array.ctypes.data, buffer.pointer, array.nbytes)

    def fill(self, buffer: Memory, byte: int) -> None:
        """Set every byte."""
        buffer.bytes[:] = byte

    def host_words(self, count: int) -> CopiedWords:
        """Return numbers that are copied."""
        return CopiedWords(self, count)

    def at_close(self, release: Callable[[], None]) -> None:
        """Nothing is closed."""

    def synchronize(self) -> None:
        """Nothing is queued."""

    def bind(self, kernel: Any, grid: int, block: int, arguments: Sequence[Any]) -> Callable[[], None]:
        """Return what runs a kernel."""
        values = [_as_c(argument) for argument in arguments]

        def launch(held: Sequence[Any] = arguments) -> None:  # whose memory is there as long as the launch is
            kernel(ctypes.c_int(grid), ctypes.c_int(block), *values)

        return launch

    def bind_call(
        self, program: Program, name: str, grid: int, block: int, arguments: Sequence[Any], shared: int = 0
    ) -> Call:
        """Return a launch whose addresses are given with each call."""
        return Call(program.kernel(name, shared), grid, block, arguments)

    def bind_concurrent(self, launches: Sequence[LaunchSpec]) -> Callable[[], None]:
        """Return what runs several kernels, one after the other."""
        bound = [self.bind(*launch) for launch in launches]

        def launch() -> None:
            for part in bound:
                part()

        return launch

    def cooperative(self, program: Program, name: str, block: int, shared: int = 0) -> Cooperative:
        """Return a kernel for cooperative launches; each multiprocessor can hold two of its blocks."""
        return Cooperative(self, program.together(name), block, 2 * self.sm_count)

    def bind_dependent(
        self, program: Program, name: str, grid: int, block: int, arguments: Sequence[Any], shared: int = 0
    ) -> Callable[[], None]:
        """Return what runs a kernel; the previous one has ended."""
        return self.bind(program.kernel(name, shared), grid, block, arguments)

    def capture(self, launch: Callable[[], None]) -> Captured:
        """Return the launch."""
        return Captured(launch, lambda: None)
