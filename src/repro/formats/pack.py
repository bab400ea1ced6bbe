"""Packing a matrix and a vector into a layout, and counting the bytes of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.formats.layout import Layout
from repro.formats.ordering import long_rows, select_rows
from repro.formats.outer import Slots, get_outer
from repro.formats.tiles import tile, tiled_slots
from repro.problems.problem import Problem

INDEX_BYTES = 4
#: The column of a slot without an entry, where entries have no members and so no zero that could stand there.
NO_COLUMN = -1
#: Entries of a row that the threads of a warp take in one step, at the most: width times unroll.
STEPS = 128
F = TypeVar("F", bound=np.floating)


@dataclass(frozen=True)
class Packed:
    """A matrix in a layout, ready to upload.

    Attributes
    ----------
    arrays
        `index` int32 (the outer format's: row pointers, row lengths, slice offsets), `columns` int32 `(slots,)`,
        `values` `(slots·members,)`, the members of an entry side by side (AoS), apart by `slots` (SoA), or in whole
        tiles of 32 slots (AoSoA, `repro.formats.tiles`).
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
    problem: Problem,
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
    ReproError
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


def _columns(problem: Problem, place: Slots, slots: int, absent: bool) -> NDArray[np.int32]:
    """Return the column of each slot; where absent is asked for, `NO_COLUMN` in the padding."""
    columns = np.full(slots, NO_COLUMN if absent else 0, np.int32)
    if place.padding is not None and not absent:
        free = np.ones(slots, bool)
        free[place.position] = False
        columns[free] = place.padding
    columns[place.position] = problem.indices
    return columns


def _check_slots(problem: Problem, layout: Layout, slots: int, stride: int) -> None:
    # a thread's last step takes it past the end, before it looks
    if slots + STEPS * stride > np.iinfo(np.int32).max:
        raise ReproError(
            "too large for 32-bit indices",
            where=f"{problem.name} in {layout}",
            expected="fewer than 2^31 slots, and the last step past them",
            actual=slots + STEPS * stride,
        )


def padded_size(size: int) -> int:
    """Return the numbers of a padded vector entry of so many members: the next power of two."""
    return 1 << (size - 1).bit_length()


def pack_vector(vector: NDArray[F], order: str) -> NDArray[F]:
    """Flatten `(n, k)` members: side by side (AoS), member by member (SoA), or side by side with zeros (Padded)."""
    if order == "Padded":
        size = vector.shape[1]
        vector = np.pad(vector, ((0, 0), (0, padded_size(size) - size)))
    return np.ascontiguousarray(vector.T if order == "SoA" else vector).ravel()


def count_bytes(row_lengths: NDArray[np.int32], members: int, precision_bytes: int, outer: str, warp: int = 1) -> int:
    """Count the bytes of a matrix in an outer format, without packing it (Table 9 of the 2020 paper).

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
    warp
        What the rows of ELL are padded to; the table's counts are unpadded.
    """
    slots, index = get_outer(outer).count(row_lengths, warp)
    return slots * (INDEX_BYTES + members * precision_bytes) + index * INDEX_BYTES
