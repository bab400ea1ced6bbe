"""Packing a matrix and a vector into a layout, and counting the bytes of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.errors import ReproError
from repro.formats.layout import Layout
from repro.problems.problem import Problem

INDEX_BYTES = 4
F = TypeVar("F", bound=np.floating)


@dataclass(frozen=True)
class Packed:
    """A matrix in a layout, ready to upload.

    Attributes
    ----------
    arrays
        `index` int32 (CSR: n + 1 row pointers; ELL: n row lengths; Sl: ⌈n/k⌉ + 1 slice offsets), `columns` int32
        `(slots,)`, `values` `(slots·members,)`, the members of an entry side by side (AoS) or apart by `slots` (SoA).
    slots
        Entries stored, padding included.
    stride
        ELL: distance between the entries of a row, n padded to the warp; otherwise 0.
    """

    arrays: Mapping[str, NDArray[Any]]
    slots: int
    stride: int

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


def pack(problem: Problem, values: NDArray[np.floating], layout: Layout, warp: int) -> Packed:
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

    Raises
    ------
    ReproError
        More slots than 32-bit indices can count.
    """
    index, stride, slots, position = _outer(problem, layout, warp)
    columns = np.zeros(slots, np.int32)
    columns[position] = problem.indices
    if layout.inner == "AoS":
        packed = np.zeros((slots, values.shape[1]), values.dtype)
        packed[position] = values
    else:
        packed = np.zeros((values.shape[1], slots), values.dtype)
        packed[:, position] = values.T
    if layout.slice_rows:
        _fill_columns(problem, layout.slice_rows, index, columns, position)
    return Packed({"index": index, "columns": columns, "values": packed.ravel()}, slots, stride)


def _outer(problem: Problem, layout: Layout, warp: int) -> tuple[NDArray[np.int32], int, int, NDArray[np.int64]]:
    """Return the index array, the row stride, the number of slots and each entry's slot."""
    lengths = problem.row_lengths
    if layout.outer == "CSR":
        return problem.indptr.astype(np.int32), 0, problem.nnz, np.arange(problem.nnz)
    rows = np.repeat(np.arange(problem.n, dtype=np.int64), lengths)
    within = np.arange(problem.nnz) - problem.indptr[rows]
    k = layout.slice_rows
    if k is None:
        stride = -(-problem.n // warp) * warp
        slots = stride * int(lengths.max())
        _check_slots(problem, layout, slots)
        return lengths, stride, slots, within * stride + rows
    offsets = np.concatenate([[0], np.cumsum(_slice_widths(lengths, k).astype(np.int64) * k)])
    _check_slots(problem, layout, int(offsets[-1]))
    slot = offsets[rows // k] + within * k + rows % k
    return offsets.astype(np.int32), 0, int(offsets[-1]), slot


def _slice_widths(lengths: NDArray[np.int32], k: int) -> NDArray[np.int32]:
    """Return the longest row of each slice of k rows."""
    padded = np.zeros(-(-len(lengths) // k) * k, lengths.dtype)
    padded[: len(lengths)] = lengths
    widths: NDArray[np.int32] = padded.reshape(-1, k).max(axis=1)
    return widths


def _fill_columns(
    problem: Problem, k: int, offsets: NDArray[np.int32], columns: NDArray[np.int32], used: NDArray[np.int64]
) -> None:
    """Give the padding of each row the column of its last entry: a valid one, and already in the cache."""
    free = np.ones(len(columns), bool)
    free[used] = False
    slots = np.flatnonzero(free)
    lane = (slots - offsets[np.searchsorted(offsets, slots, side="right") - 1]) % k
    rows = (np.searchsorted(offsets, slots, side="right") - 1) * k + lane
    inside = rows < problem.n
    rows = np.minimum(rows, problem.n - 1)
    filled = inside & (problem.row_lengths[rows] > 0)
    last = problem.indices[np.maximum(problem.indptr[rows + 1] - 1, 0)]
    columns[slots] = np.where(filled, last, np.minimum(rows, problem.n - 1))


def _check_slots(problem: Problem, layout: Layout, slots: int) -> None:
    if slots > np.iinfo(np.int32).max:
        raise ReproError(
            "too large for 32-bit indices",
            where=f"{problem.name} in {layout}",
            expected="fewer than 2^31 slots",
            actual=slots,
        )


def pack_vector(vector: NDArray[F], order: str) -> NDArray[F]:
    """Flatten `(n, k)` members: side by side (AoS), or member by member (SoA)."""
    return np.ascontiguousarray(vector if order == "AoS" else vector.T).ravel()


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
        `CSR`, `ELL`, `Sl-16` or `Sl-32`.
    warp
        What the rows of ELL are padded to; the table's counts are unpadded.
    """
    n = len(row_lengths)
    if outer == "CSR":
        slots, index = int(row_lengths.sum()), n + 1
    elif outer == "ELL":
        slots, index = -(-n // warp) * warp * int(row_lengths.max()), n
    else:
        widths = _slice_widths(row_lengths, int(outer.removeprefix("Sl-")))
        slots, index = int(widths.sum()) * int(outer.removeprefix("Sl-")), len(widths) + 1
    return slots * (INDEX_BYTES + members * precision_bytes) + index * INDEX_BYTES
