"""Layouts of matrices with compound entries: outer format, inner order, vector order, row order.

The inner order AoSoA stores tiles of 32 slots. An entry's members are cut into chunks of one load, and a chunk of
all 32 slots is contiguous, so each load of a warp is contiguous and as wide as possible. In AoS a thread strides over
entries of 36 or 72 bytes; in SoA it needs a load for each member.
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
    """Cut an entry into loads: (first member, number of members), powers of two, the widest first."""
    cut, first = [], 0
    width = LOAD_BYTES // scalar_bytes
    while first < members:
        while width > members - first:
            width //= 2
        cut.append((first, width))
        first += width
    return cut


def tiled_slots(slots: int) -> int:
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
#: Our additions: tiles of 32 slots (see `tile`), and vector entries padded to a power of two.
INNER = (*ORDER, "AoSoA")
VECTOR = (*ORDER, "Padded")
#: Rows of a tile, by pair format (`repro.sparse.pairs`).
TILE_ROWS = {f"Pairs-{rows}": rows for rows in (64, 128, 256)}
#: Outer formats of the space `extended` besides pairs.
OURS = ("CSR", "ELLPACK", "Sl-4", "Sl-8")
CLUSTERED = ("CSR", "Sl-4", "Sl-8")
#: Formats and vector orders that neither won nor were the only ones within a tie, in 36 recorded cases.
NEVER_BEST = (("ELLPACK", "Padded"), ("Sl-8", "Padded"))
#: `clustered` stores rows with similar entries of x together and keeps the order of both vectors. The other orders
#: renumber the unknowns, and so x and y (`repro.sparse.ordering.permutation`).
ORDERINGS = ("natural", "clustered", *UNKNOWNS[1:])


@dataclass(frozen=True, order=True)
class Layout:
    """A layout, spelt as in the papers, `CSR-AoS-AoS` or `ELL-SoA-AoS`, with additional words for ours."""

    #: `CSR`, `ELL` (ELLPACK-R), `Sl-k` (sliced ELLPACK, slices of k rows), see `outer`; or `Pairs-k` (each pair of a
    #: symmetric matrix once, in tiles of k rows), see `repro.sparse.pairs`.
    outer: str
    #: Order of the members of the matrix entries: `AoS`, `SoA`, or `AoSoA` (tiles of 32 slots).
    inner: str
    #: Order of the members of both vectors: `AoS`, `SoA`, or `Padded` (AoS, each entry padded to a power of two).
    vector: str
    #: Order of the rows: `natural`, or one of `repro.sparse.ordering`, then spelt `CSR-AoS-AoS@clustered`.
    ordering: str = "natural"

    def __str__(self) -> str:
        return f"{self.outer}-{self.inner}-{self.vector}" + f"@{self.ordering}" * (self.ordering != "natural")

    @property
    def of_pairs(self) -> bool:
        """Whether each pair of a symmetric matrix is stored once, in tiles of `TILE_ROWS` rows."""
        return self.outer in TILE_ROWS

    @property
    def unknowns(self) -> str:
        """Order of the unknowns, and so of x and y: one of `repro.sparse.ordering.UNKNOWNS`."""
        return "natural" if self.ordering == "clustered" else self.ordering

    @property
    def stored(self) -> Layout:
        """The layout without the order of the unknowns, on which its kernel does not depend."""
        return self if self.ordering == "clustered" else replace(self, ordering="natural")

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Read the papers' spelling, the inverse of `str`; unknown text raises `ReproError`."""
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
    """Return the papers' 16 layouts and those of added formats, the reference layout first."""
    outers = [outer.name for outer in outer_formats().values() if outer.space == "paper"]
    layouts = [Layout(*parts) for parts in product(outers, ORDER, ORDER)]
    return sorted(layouts, key=lambda layout: layout != REFERENCE)


def extended_layouts(entry: Entry) -> list[Layout]:
    """Return the layouts of the space `extended` for an entry.

    All have tiles, and none are the papers' padded formats: no matrix gained by another inner order, or more than 1 %
    by ELLPACK-R or slices of 16 or 32 rows (docs/performance.md). Pairs need entries with values.
    """
    vectors = ["AoS"] if entry.size & (entry.size - 1) == 0 else ["AoS", "Padded"]
    combined = [(outer, vector) for outer, vector in product(OURS, vectors) if (outer, vector) not in NEVER_BEST]
    natural = [Layout(outer, "AoSoA", vector) for outer, vector in combined]
    natural += [Layout(outer, "AoSoA", "AoS") for outer in TILE_ROWS if entry.members]
    clustered = (*CLUSTERED, *TILE_ROWS)
    return natural + [replace(layout, ordering="clustered") for layout in natural if layout.outer in clustered]
