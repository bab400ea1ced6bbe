"""Packing a matrix into a layout, and counting the bytes of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import INDEX_BYTES
from repro.problems.matrix import Matrix
from repro.sparse.compound.layouts import TILE_ROWS, Layout, tile, tiled_slots
from repro.sparse.compound.outer import Slots, get_outer
from repro.sparse.ordering import long_rows, select_rows
from repro.sparse.pairs import STEPS, STEPS_OF_BLOCK, check_slots, find_pairs
from repro.sparse.symmetry import Symmetry, kept_on_diagonal

#: The column of a slot without an entry, where entries have no members and so no zero that could stand there.
NO_COLUMN = -1


@dataclass(frozen=True)
class PackedFacts:
    """What is known on the host of a packed matrix.

    Attributes
    ----------
    slots
        Entries stored, padding included.
    stride
        Distance between the entries of a row where the outer format has one; in a clustered layout, whose formats have
        none, the number of long rows, which are its last; of pairs -1 where they are Hermitian, or 1.
    nbytes
        Bytes of all arrays.
    shared
        Vector entries that a block of pairs keeps in shared memory, at the most.
    leading
        Of pairs, the columns of other tiles that have a place in each tile.
    """

    slots: int
    stride: int
    nbytes: int
    shared: int = 0
    leading: int = 0


@dataclass(frozen=True)
class Packed:
    """A matrix in a layout, ready to upload.

    Attributes
    ----------
    arrays
        In the order in which a kernel takes them: `index` int32 (the outer format's: row pointers, row lengths, slice
        offsets), `columns` int32 `(slots,)`, `values` `(slots·members,)`, the members of an entry side by side (AoS),
        apart by `slots` (SoA), or in whole tiles of 32 slots (AoSoA, `repro.sparse.compound.layouts`). Pairs have
        `codes` beside them (`repro.sparse.pairs`), and `diagonal`: of each tile what is kept of its rows' diagonal
        entries (`repro.sparse.symmetry.kept_on_diagonal`), member by member.
    slots, stride, shared, leading
        As of `Facts`.
    """

    arrays: Mapping[str, NDArray[Any]]
    slots: int
    stride: int
    shared: int = 0
    leading: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def facts(self) -> PackedFacts:
        """What is to be known once the arrays are on a device."""
        return PackedFacts(self.slots, self.stride, self.nbytes, self.shared, self.leading)


def pack(
    problem: Matrix,
    values: NDArray[np.floating],
    layout: Layout,
    warp: int,
    rows: NDArray[np.int64] | None = None,
) -> Packed:
    """Bring a matrix into a layout.

    Parameters
    ----------
    problem
        The pattern.
    values
        `(nnz, members)` in the working precision.
    layout
        Outer and inner order; the vector order does not matter here.
    warp
        Rows of ELL are padded to a multiple of it.
    rows
        The order that a clustered layout stores rows in, `(n,)`; it follows in `index`.

    Raises
    ------
    Unsupported
        More slots than 32-bit indices can count.
    """
    if rows is not None:
        indptr, entries = select_rows(problem, rows)
        problem = replace(problem, indptr=indptr.astype(np.int32), indices=problem.indices[entries])
        values = values[entries]
    outer = get_outer(layout.outer)
    slots, _ = outer.count(problem.row_lengths, warp)
    place = outer.locate(problem, warp)
    check_slots(problem, layout, slots, place.step, STEPS if rows is None else STEPS_OF_BLOCK)
    columns = _columns(problem, place, slots, absent=values.shape[1] == 0)
    packed = put_values(values, place.position, slots, layout.inner)
    index, stride = place.index, place.stride
    if rows is not None:
        index, stride = np.concatenate([index, rows.astype(np.int32)]), int(long_rows(problem).sum())
    return Packed({"index": index, "columns": columns, "values": packed}, slots, stride)


def pack_pairs(
    problem: Matrix,
    values: NDArray[np.floating],
    symmetry: Symmetry,
    layout: Layout,
    rows: NDArray[np.int64] | None = None,
) -> Packed:
    """Store each pair of a symmetric matrix once.

    Parameters
    ----------
    problem
        The pattern.
    values
        `(nnz, members)` in the working precision.
    symmetry
        What `repro.sparse.symmetry.symmetry_of` says of these.
    layout
        Outer and inner order.
    rows
        The order that tiles are cut from, `(n,)`; it follows in `index`. None: that of the matrix.

    Raises
    ------
    Unsupported
        The matrix is not symmetric, or too large for what codes or indices can say.
    """
    tile_rows = TILE_ROWS[layout.outer]
    pairs = find_pairs(problem, symmetry, tile_rows, rows)
    tiles = pairs.tiles
    kept = values[:, kept_on_diagonal(problem.entry)]
    diagonal = np.where(tiles.diagonal[:, None] < 0, 0, kept[tiles.diagonal]).reshape(-1, tile_rows, kept.shape[1])
    stored = put_values(values[tiles.entries], pairs.position, pairs.slots, layout.inner)
    arrays: Mapping[str, NDArray[Any]] = {
        "index": pairs.index,
        "codes": pairs.codes,
        "columns": tiles.columns,
        "diagonal": diagonal.transpose(0, 2, 1).ravel(),
        "values": stored,
    }
    return Packed(arrays, pairs.slots, tiles.sign, tiles.shared, tiles.leading)


def put_values(
    values: NDArray[np.floating], position: NDArray[np.int64], slots: int, inner: str
) -> NDArray[np.floating]:
    """Return `(entries, members)` in their slots, `(entries,)`, in an inner order, flat; 0 in all others."""
    if inner == "SoA":
        packed = np.zeros((values.shape[1], slots), values.dtype)
        packed[:, position] = values.T
        return packed.ravel()
    packed = np.zeros((tiled_slots(slots) if inner == "AoSoA" else slots, values.shape[1]), values.dtype)
    packed[position] = values
    return tile(packed) if inner == "AoSoA" else packed.ravel()


def _columns(problem: Matrix, place: Slots, slots: int, absent: bool) -> NDArray[np.int32]:
    """Return the column of each slot; where absent is asked for, `NO_COLUMN` in the padding."""
    columns = np.full(slots, NO_COLUMN if absent else 0, np.int32)
    if place.padding is not None and not absent:
        free = np.ones(slots, bool)
        free[place.position] = False
        columns[free] = place.padding
    columns[place.position] = problem.indices
    return columns


def count_bytes(row_lengths: NDArray[np.int32], members: int, precision_bytes: int, outer: str) -> int:
    """Count the bytes of a matrix in an outer format, without packing it and unpadded (Table 9 of the 2020 paper).

    Parameters
    ----------
    row_lengths
        `(n,)`.
    members
        Numbers of an entry.
    precision_bytes
        4 or 8.
    outer
        Name of the outer format.
    """
    slots, index = get_outer(outer).count(row_lengths, 1)
    return slots * (INDEX_BYTES + members * precision_bytes) + index * INDEX_BYTES
