"""AoSoA: the members of 32 slots cut into chunks as wide as one load, and each chunk of all 32 slots side by side.

A thread that reads an entry of 36 or 72 bytes whole strides over its neighbours' bytes; member by member (SoA) it needs
as many loads as members. In a tile each load of a warp is one contiguous run, and is as wide as a load can be.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.codegen.templates import LOAD_BYTES

F = TypeVar("F", bound=np.generic)

#: Slots of a tile: the threads of a warp.
TILE = 32


def chunks(members: int, scalar_bytes: int) -> list[tuple[int, int]]:
    """Cut an entry into loads: (first member, members) of each, widths powers of two, the widest first."""
    cut, first = [], 0
    width = LOAD_BYTES // scalar_bytes
    while first < members:
        while width > members - first:
            width //= 2
        cut.append((first, width))
        first += width
    return cut


def tiled_slots(slots: int) -> int:
    """Return so many slots rounded up to whole tiles."""
    return -(-slots // TILE) * TILE


def tile(entries: NDArray[F]) -> NDArray[F]:
    """Bring `(slots, members)`, slots a multiple of 32, into tiles; flat."""
    count, members = entries.shape
    tiles = entries.reshape(count // TILE, TILE, members)
    out = np.empty((count // TILE, TILE * members), entries.dtype)
    for first, width in chunks(members, entries.dtype.itemsize):
        part = out[:, TILE * first : TILE * (first + width)]
        part[:] = tiles[:, :, first : first + width].reshape(len(out), TILE * width)
    return out.ravel()
