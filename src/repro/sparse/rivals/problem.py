"""The problem that a rival receives: a task, its operands in separate arrays, and the arrays for its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.errors import Unsupported
from repro.config.models import Rival, RivalTask
from repro.sparse.expansions import INDEX_LIMIT, Bsr, to_csr
from repro.sparse.rivals.arrays import RivalArray, RivalArrays

#: Functions that a rival provides, by task: methods in Python, `repro_rival_…` in C.
FUNCTIONS: Mapping[RivalTask, tuple[str, ...]] = {
    "spmv": ("setup", "run", "teardown"),
    "spgemm": ("setup", "run", "teardown"),
    "solve": ("setup", "run", "teardown"),
    "updates": ("setup", "update", "run", "teardown"),
}


@dataclass(frozen=True)
class RivalMatrix:
    """A matrix in compressed sparse rows, or with `block` k > 1 in blocks of k×k numbers.

    Attributes
    ----------
    shape
        Rows and columns, counted in numbers.
    offsets
        `(shape[0] / block + 1,)`, int32 or int64.
    indices
        Column of each entry, counted in blocks, int32 `(entries,)`; ascending within a row.
    values
        `(entries,)`, or `(entries, block, block)` of blocks; float32 or float64.
    """

    shape: tuple[int, int]
    block: int
    offsets: RivalArray
    indices: RivalArray
    values: RivalArray

    @property
    def entries(self) -> int:
        """Number of stored entries, or of blocks."""
        return self.indices.shape[0]


@dataclass(frozen=True)
class RivalBatch:
    """Entries that a matrix gets, in any order; a place may be there twice, or in the matrix already.

    Attributes
    ----------
    rows, columns
        int32 `(entries,)`.
    values
        float32 or float64 `(entries,)`.
    """

    rows: RivalArray
    columns: RivalArray
    values: RivalArray

    @property
    def entries(self) -> int:
        return self.rows.shape[0]


@dataclass
class RivalProblem:
    """What a rival is told, the same in Python as in C (`include/repro_rival.h`).

    Arrays are NumPy's on a CPU. On a GPU they have `__cuda_array_interface__`. A rival may write `y` and `c` alone.

    Attributes
    ----------
    task
        `spmv` (y = A x), `spgemm` (C = A B), `solve` (A y = x, from y = 0) or `updates` (C = A + batches).
    precision
        `single` or `double`.
    stream
        Handle of the CUDA stream to queue work on; None on a CPU.
    device
        Number of the CUDA device; None on a CPU.
    a, b
        The matrices; `b` of `spgemm` alone.
    x, y
        Vectors `(columns,)` and `(rows,)`; None of `spgemm` and `updates`.
    c
        Of `spgemm` and `updates`: what `run` sets, (offsets, indices, values).
    tolerance, iterations
        Of `solve`: the largest |x − A y| over |x|, and the most iterations.
    coming, largest_batch
        Of `updates`: entries of all batches together, and of the largest one.
    """

    task: RivalTask
    precision: str
    stream: int | None
    device: int | None
    a: RivalMatrix
    b: RivalMatrix | None = None
    x: RivalArray | None = None
    y: RivalArray | None = None
    c: tuple[Any, Any, Any] | None = None
    tolerance: float = 0.0
    iterations: int = 0
    coming: int = 0
    largest_batch: int = 0
    #: Allocator for results of unknown size, for the tasks `spgemm` and `updates`.
    arrays: RivalArrays | None = field(default=None, repr=False)


def give_matrix(arrays: RivalArrays, rival: Rival, bsr: Bsr, columns: int, name: str) -> tuple[RivalMatrix, int]:
    """Give a rival a matrix in the format that it wants; return it, and its bytes.

    `columns` counts blocks. A matrix of more numbers than 32-bit offsets can count raises `Unsupported`.
    """
    k = bsr.values.shape[1]
    shape = (len(bsr.offsets) - 1) * k, columns * k
    block = k if rival.format == "bsr" else 1
    offsets, indices, values = (bsr.offsets, bsr.columns, bsr.values) if block > 1 else _expanded(bsr)
    if rival.offsets == 32 and len(indices) > INDEX_LIMIT:
        raise Unsupported(f"{len(indices)} entries are more than 32-bit offsets can count: say `offsets: 64`")
    parts: dict[str, NDArray[Any]] = {
        "offsets": np.asarray(offsets, np.int32 if rival.offsets == 32 else np.int64),
        "indices": np.asarray(indices, np.int32),
        "values": values,
    }
    given = {part: arrays.give(array, f"{name}'s {part}") for part, array in parts.items()}
    return RivalMatrix(shape, block, **given), sum(array.nbytes for array in parts.values())


def _expanded(bsr: Bsr) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    try:
        return to_csr(bsr)
    except OverflowError as error:
        raise Unsupported(str(error)) from None
