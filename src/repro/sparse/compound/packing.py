"""Packing of a matrix into a layout, and byte counts of layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import INDEX_BYTES
from repro.problems.matrix import Matrix
from repro.sparse.compound.outer import Slots, get_outer, with_long_rows
from repro.sparse.compound.variants import TILE_ROWS, Layout, tile, tiled_slots
from repro.sparse.ordering import long_rows, rows_with_blocks, select_rows
from repro.sparse.pairs import STEPS, STEPS_OF_BLOCK, check_slots, find_pairs
from repro.sparse.symmetry import Symmetry, kept_on_diagonal

#: Column of padding for entries without members, which cannot be 0.
NO_COLUMN = -1


@dataclass(frozen=True)
class PackedFacts:
    """Sizes of a packed matrix; the host keeps them after the arrays have been uploaded."""

    #: Number of slots, including padding.
    slots: int
    #: Kernel argument: distance between the entries of a row; in a clustered layout the number of long rows, which come
    #: last; in a pair format -1 if the matrix is Hermitian, else 1.
    stride: int
    #: Total bytes of all arrays.
    nbytes: int
    #: In a pair format: largest number of vector entries that a block keeps in shared memory.
    shared: int = 0
    #: In a pair format: number of leading foreign columns per tile.
    leading: int = 0


@dataclass(frozen=True)
class Packed:
    """A matrix in a layout, ready for upload, with the sizes of `PackedFacts`."""

    #: Arrays by name, in the order of a kernel's arguments: `index` int32 (row pointers, row lengths or slice offsets
    #: of the outer format), `columns` int32 `(slots,)`, `values` `(slots·members,)`: the members of an entry side by
    #: side (AoS), `slots` apart (SoA), or in tiles of 32 slots (AoSoA). Pair formats also have `codes`
    #: (`repro.sparse.pairs`), and `diagonal`: the stored members of the diagonal entries of each tile, member by member
    #: (`repro.sparse.symmetry.kept_on_diagonal`).
    arrays: Mapping[str, NDArray[Any]]
    slots: int
    stride: int
    shared: int = 0
    leading: int = 0

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @property
    def facts(self) -> PackedFacts:
        return PackedFacts(self.slots, self.stride, self.nbytes, self.shared, self.leading)


def pack(
    problem: Matrix,
    values: NDArray[np.floating],
    layout: Layout,
    warp: int,
    rows: NDArray[np.int64] | None = None,
) -> Packed:
    """Store a matrix with `values` `(nnz, members)` in a layout's outer format and inner order.

    ELL rows are padded to a multiple of `warp`. `rows` is the row order of a clustered layout, `(n,)`, and is appended
    to `index`. More slots than 32-bit indices can address raise `Unsupported`.
    """
    if rows is not None:
        indptr, entries = select_rows(problem, rows)
        problem = replace(problem, indptr=indptr.astype(np.int32), indices=problem.indices[entries])
        values = values[entries]
    outer, stride = get_outer(layout.outer), 0
    if rows is not None:
        stride = rows_with_blocks(problem.n, int(long_rows(problem).sum()), outer.group_rows or 1)
        outer = with_long_rows(outer, stride)
    slots, _ = outer.count(problem.row_lengths, warp)
    place = outer.locate(problem, warp)
    check_slots(problem.name, layout, slots, place.step, STEPS if rows is None else STEPS_OF_BLOCK)
    columns = _columns(problem, place, slots, absent=values.shape[1] == 0)
    packed_values = put_values(values, place.position, slots, layout.inner)
    index = place.index if rows is None else np.concatenate([place.index, rows.astype(np.int32)])
    arrays = {"index": index, "columns": columns, "values": packed_values}
    return Packed(arrays, slots, place.stride if rows is None else stride)


def pack_pairs(
    problem: Matrix,
    values: NDArray[np.floating],
    symmetry: Symmetry,
    layout: Layout,
    rows: NDArray[np.int64] | None = None,
) -> Packed:
    """Store each pair of a symmetric matrix with `values` `(nnz, members)` once.

    `symmetry` is that of these values. `rows` is the order before cutting into tiles, `(n,)`, and is appended to
    `index`; None: the matrix's. Unsymmetric or too large matrices raise `Unsupported`.
    """
    tile_rows = TILE_ROWS[layout.outer]
    pairs = find_pairs(problem, symmetry, tile_rows, rows)
    tiles = pairs.tiles
    diagonal_values = values[:, kept_on_diagonal(problem.entry)]
    diagonal = np.where(tiles.diagonal[:, None] < 0, 0, diagonal_values[tiles.diagonal]).reshape(
        -1, tile_rows, diagonal_values.shape[1]
    )
    packed_values = put_values(values[tiles.entries], pairs.position, pairs.slots, layout.inner)
    arrays: Mapping[str, NDArray[Any]] = {
        "index": pairs.index,
        "codes": pairs.codes,
        "columns": tiles.columns,
        "diagonal": diagonal.transpose(0, 2, 1).ravel(),
        "values": packed_values,
    }
    return Packed(arrays, pairs.slots, tiles.sign, tiles.shared, tiles.leading)


def put_values(
    values: NDArray[np.floating], position: NDArray[np.int64], slots: int, inner: str
) -> NDArray[np.floating]:
    """Return a flat array with values `(entries, members)` at their slots in an inner order, and zeros elsewhere."""
    if inner == "SoA":
        packed_values = np.zeros((values.shape[1], slots), values.dtype)
        packed_values[:, position] = values.T
        return packed_values.ravel()
    packed_values = np.zeros((tiled_slots(slots) if inner == "AoSoA" else slots, values.shape[1]), values.dtype)
    packed_values[position] = values
    return tile(packed_values) if inner == "AoSoA" else packed_values.ravel()


def _columns(problem: Matrix, place: Slots, slots: int, absent: bool) -> NDArray[np.int32]:
    """Return the column of each slot, `(slots,)`; with `absent`, padding has `NO_COLUMN`."""
    columns = np.full(slots, NO_COLUMN if absent else 0, np.int32)
    if place.padding is not None and not absent:
        free = np.ones(slots, bool)
        free[place.position] = False
        columns[free] = place.padding
    columns[place.position] = problem.indices
    return columns


def count_bytes(row_lengths: NDArray[np.int32], members: int, precision_bytes: int, outer: str) -> int:
    """Return the bytes of a matrix in an outer format without padding (Table 9 of the 2020 paper).

    `row_lengths` is `(n,)`; entries have `members` numbers of `precision_bytes` bytes each.
    """
    slots, index = get_outer(outer).count(row_lengths, 1)
    return slots * (INDEX_BYTES + members * precision_bytes) + index * INDEX_BYTES
