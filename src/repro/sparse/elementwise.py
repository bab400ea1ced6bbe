"""Elementwise kernels: launches with one thread per element, scratch memory, and vector kernels.

Keys of kernel modules are PRECISION/MODULE. The members of vector entries are in AoS, SoA or Padded order. Code that
renders kernels imports this file, so the file must not import code that measures.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, SCALARS, Target
from repro.codegen.templates import alignment, render_template
from repro.devices.base import ADDRESS, Argument, Buffer, Call, Device, Program
from repro.entries import get_entry
from repro.errors import ReproError

Launch = Callable[[], None]
#: Default threads per block.
BLOCK_SIZE = {"cuda": 256, "opencl": 64}


class Kernels:
    def __init__(self, device: Device, program: Program) -> None:
        self.device = device
        self._program = program
        self._block_size = BLOCK_SIZE[device.backend]

    def over(self, name: str, count: int, arguments: Sequence[Argument], per_thread: int = 1) -> Launch:
        """Return a launch with one thread for every `per_thread` of `count` elements, and with at least one block."""
        return self.blocks(name, -(-count // (self._block_size * per_thread)), arguments)

    def blocks(self, name: str, count: int, arguments: Sequence[Argument], block_size: int | None = None) -> Launch:
        """Return a launch of `count` blocks, at least one."""
        return self.device.bind(self._program.kernel(name), max(1, count), block_size or self._block_size, arguments)


class Scratch:
    """Temporary buffers with names; they are kept and reused until `release`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffers: dict[tuple[str, int], Buffer] = {}

    def take(self, name: str, nbytes: int) -> Buffer:
        """Return a buffer of at least `nbytes`; earlier buffers stay allocated, so bound launches stay valid."""
        size = 1 << max(8, (nbytes - 1).bit_length())
        if (name, size) not in self._buffers:
            self._buffers[name, size] = self._device.allocate(size)
        return self._buffers[name, size]

    def release(self) -> None:
        while self._buffers:
            self._buffers.popitem()[1].release()


def in_order(launches: Sequence[Launch]) -> Launch:
    """Combine launches into one that runs them in sequence, such as clearing a result before adding to it."""

    def launch() -> None:
        for part in launches:
            part()

    return launch


class LaunchCache:
    """Queues kernels of a device, one call for each launch; for temporary arrays, to which binding is not worthwhile.

    On a GPU, launches with the same numbers among their arguments are bound once, and called with addresses.
    """

    #: Number of bound launches that are remembered.
    REMEMBERED = 256

    def __init__(self, device: Device) -> None:
        self._device = device
        self._stream = int(getattr(device, "stream", 0))
        self._calls: dict[tuple[object, ...], Call] = {}

    def queue(
        self, program: Program, name: str, grid: int, block: int, arguments: Sequence[Argument], shared: int = 0
    ) -> None:
        """Queue a kernel of `grid` blocks of `block` threads on the device's own queue."""
        if self._device.backend != "cuda":
            self._device.bind(program.kernel(name, shared), grid, block, arguments)()
            return
        numbers = [argument for argument in arguments if isinstance(argument, np.generic)]
        key = (program, name, grid, block, shared, *numbers)
        call = self._calls.get(key)
        if call is None:
            places = [argument if isinstance(argument, np.generic) else ADDRESS for argument in arguments]
            call = self._device.bind_call(program, name, grid, block, places, shared)
            assert call is not None
            if len(self._calls) >= self.REMEMBERED:
                self.release()
            self._calls[key] = call
        call(self._stream, *[int(a.pointer) for a in arguments if not isinstance(a, np.generic)])  # type: ignore[union-attr]

    def release(self) -> None:
        """Forget all bound launches."""
        while self._calls:
            self._calls.popitem()[1].close()


class CallsInOrder:
    """Several calls with the same addresses as one, in sequence on the caller's stream; implements `Call`."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls

    def __call__(self, stream: int, *addresses: int) -> None:
        for call in self._calls:
            call(stream, *addresses)

    def close(self) -> None:
        for call in self._calls:
            call.close()


def split_key(key: str, modules: Collection[str], owner: str) -> tuple[str, str]:
    """Split a module key into precision and module; an unknown key raises a `ReproError` that names `owner`."""
    precision, _, module = key.partition("/")
    if precision not in DTYPES or module not in modules:
        raise ReproError(
            "unknown module",
            where=owner,
            expected=f"PRECISION/MODULE with a precision of {', '.join(DTYPES)} and a module of {', '.join(modules)}",
            actual=key,
        )
    return precision, module


#: Number of blocks per multiprocessor for vector kernels, so few that all are resident at once.
VECTOR_BLOCKS_PER_SM = {"cuda": 4, "opencl": 1}
#: Number of bytes that a thread loads at once from each vector, and largest number of entries that it loads at once.
IN_FLIGHT, MAX_UNROLL = 32, 4
F = TypeVar("F", bound=np.floating)


def padded_size(size: int) -> int:
    """Return the padded size of a vector entry: the next power of two."""
    return 1 << (size - 1).bit_length()


def pack_vector(vector: NDArray[F], order: str) -> NDArray[F]:
    """Flatten members `(n, k)`: entry by entry (AoS), member by member (SoA), or entry by entry with zeros (Padded)."""
    if order == "Padded":
        size = vector.shape[1]
        vector = np.pad(vector, ((0, 0), (0, padded_size(size) - size)))
    return np.ascontiguousarray(vector.T if order == "SoA" else vector).ravel()


def render_vectors(templates: Path, entry: str, precision: str, order: str, target: Target) -> str:
    """Return the source of the vector module for an entry and an order: `AoS`, `SoA` or `Padded`."""
    algebra = get_entry(entry)
    scalar, scalar_bytes = SCALARS[precision]
    size = padded_size(algebra.size) if order == "Padded" else algebra.size
    return render_template(
        templates,
        "sparse/vectors.j2",
        dialect=target.dialect,
        title=f"vectors: {entry}, {precision} precision, {order}",
        entry=algebra,
        scalar=scalar,
        scalar_bytes=scalar_bytes,
        vector=order,
        vector_type="scalar" if order == "SoA" else "vector_entry",
        vector_members=[*algebra.vector_members, *(f"padding{i}" for i in range(size - algebra.size))],
        vector_alignment=alignment(size, scalar_bytes),
        plain_alignment=alignment(algebra.size, scalar_bytes),
        conjugates=entry == "complex",
        block_size=BLOCK_SIZE[target.dialect],
        blocks_per_sm=VECTOR_BLOCKS_PER_SM[target.dialect],
        in_flight=max(1, min(MAX_UNROLL, IN_FLIGHT // (size * scalar_bytes))),
    )
