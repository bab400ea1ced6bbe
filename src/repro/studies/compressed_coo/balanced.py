"""Balanced coordinate format: the same number of entries for every thread, each with its row.

Aliaga, Anzt, Quintana-Ortí, Tomás, Tsai, "Balanced and Compressed Coordinate Layout for the Sparse Matrix-Vector
Product on GPUs" (Euro-Par 2020 workshops, doi 10.1007/978-3-030-71593-9_7): a thread holds K entries of one row, so
rows are padded to multiples of K; B threads are a chunk. The splits `unpadded` and `aligned` are ours.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.codegen.templates import LOAD_BYTES
from repro.errors import ReproError

T = TypeVar("T", bound=np.generic)
Split = Literal["padded", "unpadded", "aligned"]
WARP = 32
#: A chunk of `padded` has at most one row a thread, and a row's offset in it is to fit 8 bits.
MOST_THREADS = 256
#: So that the entries of a thread fill a load, or some of them.
ENTRIES = (1, 2, 4, 8)


@dataclass(frozen=True)
class Chunking:
    """How a matrix's entries are dealt out.

    Attributes
    ----------
    threads
        Threads of a chunk, B: a multiple of 32, at most 256.
    entries
        Slots of a thread, K: 1, 2, 4 or 8.
    split
        `padded`: the slots of a thread are of one row, so rows are padded (the paper's). `unpadded`: every slot has its
        own row. `aligned`: as padded, and no chunk ends within a row, but for rows longer than a chunk, which have
        chunks of their own.

    Raises
    ------
    ReproError
        Other numbers of threads or entries, or another split.
    """

    threads: int
    entries: int
    split: Split

    def __post_init__(self) -> None:
        if self.threads not in range(WARP, MOST_THREADS + 1, WARP):
            raise ReproError(
                "a chunk cannot have so many threads",
                expected=f"a multiple of {WARP}, {MOST_THREADS} at most",
                actual=self.threads,
            )
        if self.entries not in ENTRIES:
            raise ReproError("a thread cannot have so many entries", expected=f"one of {ENTRIES}", actual=self.entries)
        if self.split not in get_args(Split):
            raise ReproError("unknown split", expected=", ".join(get_args(Split)), actual=self.split)

    @property
    def slots(self) -> int:
        """Slots of a chunk, B·K."""
        return self.threads * self.entries

    @property
    def rows(self) -> int:
        """Row indices of a chunk."""
        return self.slots // self.unit

    @property
    def unit(self) -> int:
        """Adjacent slots that share a row index."""
        return 1 if self.split == "unpadded" else self.entries


@dataclass(frozen=True)
class Balanced:
    """A matrix in balanced coordinate format, on the host.

    Slot k of thread t of chunk c is number (c·B + t)·K + k; slots follow the rows.

    Attributes
    ----------
    n, nnz
        Rows (and columns), and the entries of the matrix itself.
    chunking
        How the entries are dealt out.
    rows
        int32, ascending without gaps: the row of each thread `(chunks·B,)`, or of each slot `(chunks·B·K,)` where
        unpadded.
    columns, values
        int32 and float32 or float64, each `(chunks·B·K,)`. Padding has value 0 and the last column of its row; of an
        empty row, its diagonal.
    """

    n: int
    nnz: int
    chunking: Chunking
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.floating]

    @property
    def chunks(self) -> int:
        """Chunks of the matrix."""
        return len(self.columns) // self.chunking.slots

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, on the device too."""
        return self.rows.nbytes + self.columns.nbytes + self.values.nbytes


def count_slots(row_lengths: NDArray[np.integer], chunking: Chunking) -> int:
    """Count the slots of a matrix with rows of those lengths `(n,)`, all padding included, without packing it."""
    return int(_slots_of_rows(row_lengths, chunking).sum())


def balance(
    n: int,
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    values: NDArray[np.floating],
    chunking: Chunking,
) -> Balanced:
    """Deal out the entries of a square matrix in CSR.

    Parameters
    ----------
    n
        Rows.
    indptr, indices
        `(n + 1,)` and `(nnz,)`.
    values
        `(nnz,)` in the working precision.
    chunking
        How to deal them out.

    Raises
    ------
    Unsupported
        More slots than 32-bit indices can count.
    """
    lengths = np.diff(indptr).astype(np.int64)
    taken = _slots_of_rows(lengths, chunking)
    total = int(taken.sum())
    if total > np.iinfo(np.int32).max:
        raise Unsupported(
            f"too large for 32-bit indices: {total} slots in balanced coordinates, {chunking.split}, "
            f"{chunking.threads} threads of {chunking.entries} entries"
        )
    pads = taken - lengths
    padding = np.repeat(np.cumsum(taken) - np.cumsum(pads), pads) + np.arange(total - len(indices))
    real = np.ones(total, bool)
    real[padding] = False
    last = np.arange(n, dtype=np.int32)
    last[lengths > 0] = indices[indptr[1:][lengths > 0] - 1]
    columns, packed = np.empty(total, np.int32), np.zeros(total, values.dtype)
    columns[padding], columns[real], packed[real] = np.repeat(last, pads), indices, values
    rows = np.repeat(np.arange(n, dtype=np.int32), taken // chunking.unit)
    return Balanced(n, len(indices), chunking, rows, columns, packed)


def _slots_of_rows(row_lengths: NDArray[np.integer], chunking: Chunking) -> NDArray[np.int64]:
    """Return the slots that each row takes, `(n,)`: what fills up a chunk belongs to the row that ends there."""
    lengths = row_lengths.astype(np.int64, copy=False)
    units = np.maximum(-(-lengths // chunking.unit), 1)
    ends = np.cumsum(units)
    last = _last_rows(ends, chunking.rows) if chunking.split == "aligned" else np.arange(len(units))[-1:]
    units[last] += -np.diff(ends[last], prepend=0) % chunking.rows
    return units * chunking.unit


def _last_rows(ends: NDArray[np.int64], chunk: int) -> NDArray[np.int64]:
    """Return the rows to fill up so that as many whole rows as fit share a chunk, and a longer row has its own."""
    n, view = len(ends), ends.data
    last: list[int] = []
    row = before = 0
    while row < n:
        # every row takes a unit at least, so no more than `chunk` rows fit
        row = max(bisect_right(view, before + chunk, row, min(row + chunk, n)), row + 1)
        before = view[row - 1]
        last.append(row - 1)
    return np.array(last, np.int64)


def interleave(array: NDArray[T], threads: int, entries: int) -> NDArray[T]:
    """Bring slots `(chunks·threads·entries,)` from row-major order into the one that threads load side by side.

    A load is at most 16 bytes, E slots: slot k of thread t moves to ((k // E)·threads + t)·E + k % E within its chunk.
    """
    words = _words(array, entries)
    if words == 1:
        return array
    return array.reshape(-1, threads, words, entries // words).swapaxes(1, 2).ravel()


def deinterleave(array: NDArray[T], threads: int, entries: int) -> NDArray[T]:
    """Bring slots back into row-major order; the inverse of `interleave`."""
    words = _words(array, entries)
    if words == 1:
        return array
    return array.reshape(-1, words, threads, entries // words).swapaxes(1, 2).ravel()


def _words(array: NDArray[Any], entries: int) -> int:
    """Return the loads of a thread's slots."""
    return entries // min(entries, LOAD_BYTES // array.itemsize)
