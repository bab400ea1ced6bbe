"""Packing a matrix into a layout, and counting the bytes of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.codegen.precisions import INDEX_BYTES
from repro.problems.matrix import Matrix
from repro.sparse.ordering import select_rows
from repro.studies.compound_spmv.clusters import long_rows
from repro.studies.compound_spmv.layout import Layout
from repro.studies.compound_spmv.outer import Slots, get_outer
from repro.studies.compound_spmv.tiles import tile, tiled_slots

#: The column of a slot without an entry, where entries have no members and so no zero that could stand there.
NO_COLUMN = -1
#: Entries of a row that the threads of a warp take in one step, at the most: width times unroll.
STEPS = 128


@dataclass(frozen=True)
class Packed:
    """A matrix in a layout, ready to upload.

    Attributes
    ----------
    arrays
        `index` int32 (the outer format's: row pointers, row lengths, slice offsets), `columns` int32 `(slots,)`,
        `values` `(slots·members,)`, the members of an entry side by side (AoS), apart by `slots` (SoA), or in whole
        tiles of 32 slots (AoSoA, `repro.studies.compound_spmv.tiles`).
    slots
        Entries stored, padding included.
    stride
        Distance between the entries of a row where the outer format has one; in a clustered layout, whose formats have
        none, the number of long rows, which are its last.
    """

    arrays: Mapping[str, NDArray[Any]]
    slots: int
    stride: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


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
    _check_slots(problem, layout, slots, place.stride)
    columns = _columns(problem, place, slots, absent=values.shape[1] == 0)
    if layout.inner == "AoS":
        packed = np.zeros((slots, values.shape[1]), values.dtype)
        packed[place.position] = values
    elif layout.inner == "AoSoA":
        packed = np.zeros((tiled_slots(slots), values.shape[1]), values.dtype)
        packed[place.position] = values
        packed = tile(packed)
    else:
        packed = np.zeros((values.shape[1], slots), values.dtype)
        packed[:, place.position] = values.T
    index, stride = place.index, place.stride
    if rows is not None:
        index, stride = np.concatenate([index, rows.astype(np.int32)]), int(long_rows(problem).sum())
    return Packed({"index": index, "columns": columns, "values": packed.ravel()}, slots, stride)


def _columns(problem: Matrix, place: Slots, slots: int, absent: bool) -> NDArray[np.int32]:
    """Return the column of each slot; where absent is asked for, `NO_COLUMN` in the padding."""
    columns = np.full(slots, NO_COLUMN if absent else 0, np.int32)
    if place.padding is not None and not absent:
        free = np.ones(slots, bool)
        free[place.position] = False
        columns[free] = place.padding
    columns[place.position] = problem.indices
    return columns


def _check_slots(problem: Matrix, layout: Layout, slots: int, stride: int) -> None:
    # a thread's last step takes it past the end, before it looks
    if slots + STEPS * stride > np.iinfo(np.int32).max:
        raise Unsupported(
            f"too large for 32-bit indices: {problem.name} in {layout} has {slots} slots, and the last step goes "
            f"{STEPS * stride} past them"
        )


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
