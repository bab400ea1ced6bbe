"""Layouts of matrices with compound entries: outer format, inner order, order of the vectors, order of the rows.

The inner order AoSoA stores tiles of 32 slots. The members of an entry are cut into chunks as wide as one load,
and each chunk of all 32 slots lies side by side. A thread that reads an entry of 36 or 72 bytes whole strides
over its neighbours' bytes; member by member (SoA) it needs as many loads as members. In a tile each load of a
warp is one contiguous run and as wide as a load can be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.codegen.templates import LOAD_BYTES
from repro.entries import Entry
from repro.errors import ReproError
from repro.sparse.compound.outer import outer_formats
from repro.sparse.ordering import UNKNOWNS

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


#: The papers' orders of the members of an entry.
ORDER = ("AoS", "SoA")
#: Ours beside them: tiles of 32 slots (see `tile`), and vector entries padded to a power of two.
INNER = (*ORDER, "AoSoA")
VECTOR = (*ORDER, "Padded")
#: Rows of a tile of the formats that store each pair of a symmetric matrix once (`repro.sparse.pairs`).
TILE_ROWS = {f"Pairs-{rows}": rows for rows in (64, 128, 256)}
#: Outer formats of the space `extended`, beside pairs.
OURS = ("CSR", "ELLPACK", "Sl-4", "Sl-8")
CLUSTERED = ("CSR", "Sl-4", "Sl-8")
#: Formats with an order of vectors that won on none of 36 recorded cases, nor came within a tie alone.
NEVER_BEST = (("ELLPACK", "Padded"), ("Sl-8", "Padded"))
#: `clustered` stores rows that read the same entries of x together and keeps both vectors as they are; after the other
#: words the unknowns are renumbered, x and y with them (`repro.sparse.ordering.permutation`).
ORDERINGS = ("natural", "clustered", *UNKNOWNS[1:])


@dataclass(frozen=True, order=True)
class Layout:
    """A layout, spelt as in the papers: `CSR-AoS-AoS`, `ELL-SoA-AoS`, `Sl-32-SoA-SoA`; ours add to the words.

    Attributes
    ----------
    outer
        `CSR`, `ELL` (ELLPACK-R), `Sl-k` (sliced ELLPACK with slices of k rows), see `outer`; or `Pairs-k` (each pair
        of a symmetric matrix once, in tiles of k rows), see `repro.sparse.pairs`.
    inner
        Order of the members of the matrix entries: `AoS`, `SoA`, or `AoSoA` (tiles of 32 slots).
    vector
        Order of the members of the two vectors: `AoS`, `SoA`, or `Padded` (AoS, each entry padded to a power of two).
    ordering
        Order of the rows: `natural`, or one of `repro.sparse.ordering`, then spelt `CSR-AoS-AoS@clustered`.
    """

    outer: str
    inner: str
    vector: str
    ordering: str = "natural"

    def __str__(self) -> str:
        return f"{self.outer}-{self.inner}-{self.vector}" + f"@{self.ordering}" * (self.ordering != "natural")

    @property
    def of_pairs(self) -> bool:
        """Whether each pair of a symmetric matrix is stored once, in tiles of `TILE_ROWS` rows."""
        return self.outer in TILE_ROWS

    @property
    def unknowns(self) -> str:
        """The order of the unknowns, and so of x and y: one of `repro.sparse.ordering.UNKNOWNS`."""
        return "natural" if self.ordering == "clustered" else self.ordering

    @property
    def stored(self) -> Layout:
        """The layout whatever the order of the unknowns: what a kernel is compiled for."""
        return self if self.ordering == "clustered" else replace(self, ordering="natural")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the papers' spelling; the inverse of `str`.

        Raises
        ------
        ReproError
            The text names no layout.
        """
        name, _, ordering = text.strip().partition("@")
        outer, inner, vector = ([""] * 3 + name.rsplit("-", 2))[-3:]
        layout = cls(outer, inner, vector, ordering or "natural")
        outers = [*outer_formats(), *TILE_ROWS]
        if (
            layout.outer not in outers
            or layout.inner not in INNER
            or layout.vector not in VECTOR
            or layout.ordering not in ORDERINGS
            or text.endswith("@")
        ):
            raise ReproError(
                "unknown layout",
                expected=f"outer-inner-vector with outer one of {', '.join(outers)}, inner one of {', '.join(INNER)}, "
                f"vector one of {', '.join(VECTOR)}, and after it, where rows are reordered, "
                f"{', '.join(f'@{ordering}' for ordering in ORDERINGS[1:])}",
                actual=text,
                todo="spell it as the papers do, for example Sl-32-SoA-AoS; `repro list layouts` prints all",
            )
        clustered = [*CLUSTERED, *TILE_ROWS]
        if layout.ordering == "clustered" and outer not in clustered:
            raise ReproError(
                "this format is not stored clustered", expected=f"one of {', '.join(clustered)}", actual=text
            )
        return layout


REFERENCE = Layout("CSR", "AoS", "AoS")


def all_layouts() -> list[Layout]:
    """Return every layout in the papers' words, the reference layout first: the papers' 16, and added formats'."""
    outers = [outer.name for outer in outer_formats().values() if outer.space == "paper"]
    layouts = [Layout(*parts) for parts in product(outers, ORDER, ORDER)]
    return sorted(layouts, key=lambda layout: layout != REFERENCE)


def extended_layouts(entry: Entry) -> list[Layout]:
    """Return the layouts of the space `extended` for matrices of an entry.

    Tiles alone, and none of the papers' padded formats: no matrix gained by another inner order, or more than 1 %
    by ELLPACK-R or slices of 16 or 32 rows (docs/performance.md). Pairs have values.
    """
    vectors = ["AoS"] if entry.size & (entry.size - 1) == 0 else ["AoS", "Padded"]
    combined = [(outer, vector) for outer, vector in product(OURS, vectors) if (outer, vector) not in NEVER_BEST]
    natural = [Layout(outer, "AoSoA", vector) for outer, vector in combined]
    natural += [Layout(outer, "AoSoA", "AoS") for outer in TILE_ROWS if entry.members]
    clustered = (*CLUSTERED, *TILE_ROWS)
    return natural + [replace(layout, ordering="clustered") for layout in natural if layout.outer in clustered]
