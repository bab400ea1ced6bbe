"""Elementwise kernels: launches with a thread for each element, scratch memory, and the kernels of vectors.

A module of kernels has the key PRECISION/MODULE. Vectors have their members in one of three orders, AoS, SoA or
Padded. Rendering imports this module, so that it imports nothing that measures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import alignment, render_template
from repro.devices.base import Argument, Buffer, Device, Program
from repro.entries import get_entry
from repro.errors import ReproError

Launch = Callable[[], None]
#: Threads of a block, where a kernel needs no other number.
BLOCK_SIZE = {"cuda": 256, "opencl": 64}


class Kernels:
    """The kernels of a module, on a device."""

    def __init__(self, device: Device, program: Program) -> None:
        self.device = device
        self._program = program
        self._n_t = BLOCK_SIZE[device.backend]

    def over(self, name: str, count: int, arguments: Sequence[Argument], of_each: int = 1) -> Launch:
        """Return a launch with a thread for each of so many things, or for several; at least one block."""
        return self.blocks(name, -(-count // (self._n_t * of_each)), arguments)

    def blocks(self, name: str, count: int, arguments: Sequence[Argument], n_t: int | None = None) -> Launch:
        """Return a launch of so many blocks, at least one, of the usual number of threads or another."""
        return self.device.bind(self._program.kernel(name), max(1, count), n_t or self._n_t, arguments)


class Scratch:
    """Memory that operations pass things on in, by name, kept until it is released."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: dict[tuple[str, int], Buffer] = {}

    def take(self, name: str, nbytes: int) -> Buffer:
        """Return memory of a name for so many bytes or more; what is bound to it before stays valid.

        Raises
        ------
        OutOfDeviceMemory
        """
        size = 1 << max(8, (nbytes - 1).bit_length())
        if (name, size) not in self._buffers:
            self._buffers[name, size] = self._device.allocate(size)
        return self._buffers[name, size]

    def release(self) -> None:
        """Give all of it back."""
        while self._buffers:
            self._buffers.popitem()[1].release()


def in_order(launches: Sequence[Launch]) -> Launch:
    """Return a launch of all, one after the other."""

    def launch() -> None:
        for part in launches:
            part()

    return launch


def split_key(key: str, modules: Collection[str], owner: str) -> tuple[str, str]:
    """Return the precision and the module that a key names.

    Parameters
    ----------
    modules
        Those that there are.
    owner
        Whose they are, for the message.

    Raises
    ------
    ReproError
        There is none of that key.
    """
    precision, _, module = key.partition("/")
    if precision not in DTYPES or module not in modules:
        raise ReproError(
            "unknown module",
            where=owner,
            expected=f"PRECISION/MODULE with a precision of {', '.join(DTYPES)} and a module of {', '.join(modules)}",
            actual=key,
        )
    return precision, module


#: Threads of a block, and blocks of the grid for each multiprocessor: all of them fit there at once.
VECTOR_BLOCK_SIZE = {"cuda": 256, "opencl": 64}
VECTOR_BLOCKS_PER_SM = {"cuda": 4, "opencl": 1}
#: Bytes of each vector that a thread has in flight, in as many entries as that is; and the most entries.
IN_FLIGHT, MAX_UNROLL = 32, 4
F = TypeVar("F", bound=np.floating)


def padded_size(size: int) -> int:
    """Return the numbers of a padded vector entry of so many members: the next power of two."""
    return 1 << (size - 1).bit_length()


def pack_vector(vector: NDArray[F], order: str) -> NDArray[F]:
    """Flatten `(n, k)` members: side by side (AoS), member by member (SoA), or side by side with zeros (Padded)."""
    if order == "Padded":
        size = vector.shape[1]
        vector = np.pad(vector, ((0, 0), (0, padded_size(size) - size)))
    return np.ascontiguousarray(vector.T if order == "SoA" else vector).ravel()


def render_vectors(templates: Path, entry: str, precision: str, order: str, target: Target) -> str:
    """Return the source of the module for vectors of an entry in an order: `AoS`, `SoA` or `Padded`.

    Raises
    ------
    ReproError
        A template is missing or wrong; template and line are named.
    """
    what = get_entry(entry)
    scalar, scalar_bytes = SCALARS[precision]
    size = padded_size(what.size) if order == "Padded" else what.size
    return render_template(
        templates,
        "sparse/vectors.j2",
        dialect=target.dialect,
        title=f"vectors: {entry}, {precision} precision, {order}",
        entry=what,
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        vector=order,
        vector_type="scalar" if order == "SoA" else "vector_entry",
        vector_members=[*what.vector_members, *(f"padding{i}" for i in range(size - what.size))],
        vector_alignment=alignment(size, scalar_bytes),
        plain_alignment=alignment(what.size, scalar_bytes),
        conjugates=entry == "complex",
        n_t=VECTOR_BLOCK_SIZE[target.dialect],
        n_b=VECTOR_BLOCKS_PER_SM[target.dialect],
        unroll=max(1, min(MAX_UNROLL, IN_FLIGHT // (size * scalar_bytes))),
    )
