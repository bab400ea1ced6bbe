"""CSR matrices on the device, copied or checked there."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, INDEX_BYTES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.devices.base import Argument, Buffer, Device, Program
from repro.problems.matrix import Matrix
from repro.sparse.compound.defaults import Rows
from repro.sparse.compound.kernels import TEMPLATES
from repro.sparse.compound.outer import get_outer
from repro.sparse.compound.variants import WIDE_SLICES
from repro.sparse.device_primitives import LOOP_BLOCKS_PER_SM, keep
from repro.sparse.elementwise import BLOCK_SIZE, Kernels
from repro.sparse.spgemm.csr_arrays import CsrArrays


class CheckWord(IntEnum):
    """Index of each word that the kernels of `checked_csr.j2` write."""

    #: Whether an offset or a column is wrong.
    WRONG = 0
    #: 0 if columns ascend in each row.
    UNORDERED = 1
    #: Whether a number is infinite or NaN, and whether one does not fit into float32.
    INFINITE = 2
    LOST = 3
    ENTRIES = 4
    LONGEST = 5
    #: Slots in slices of `WIDE_SLICES`, in two words of 32 bits.
    LOW = 6
    HIGH = 7


def render_check(templates: Path, target: Target, owner: str) -> str:
    """Return the source of the module with which `DeviceCsr.checked` checks matrices; `owner` is in its title."""
    limits = {scalar: np.finfo(DTYPES[precision]) for precision, (scalar, _) in SCALARS.items()}
    return render_template(
        templates,
        f"{TEMPLATES}/checked_csr.j2",
        dialect=target.dialect,
        title=f"{owner}: checks of CSR matrices",
        block_size=BLOCK_SIZE[target.dialect],
        words={word.name: word.value for word in CheckWord},
        max_finite={scalar: float(limit.max) for scalar, limit in limits.items()},
        min_normal=float(limits["float"].tiny),
        slice_rows=get_outer(WIDE_SLICES).group_rows,
    )


class FlawedCsr(Exception):
    """A matrix that `DeviceCsr.checked` refuses; `flaw` is the first of the words that say so."""

    def __init__(self, flaw: CheckWord) -> None:
        super().__init__(flaw.name)
        self.flaw = flaw


class SharedMemory:
    """Device memory with several owners, of whom the last frees it by `release`.

    `borrowed` memory belongs to someone else, and is only read for a while.
    """

    def __init__(self, buffer: Buffer, *, borrowed: bool = False) -> None:
        self.buffer, self.borrowed, self._owners = buffer, borrowed, 1

    def retain(self) -> SharedMemory:
        """Return the memory with one more owner."""
        self._owners += 1
        return self

    def release(self) -> None:
        self._owners -= 1
        if not self._owners and not self.borrowed:
            self.buffer.release()


@dataclass(frozen=True)
class DeviceCsr:
    """A checked CSR matrix on the device: offsets ascend, and columns ascend in each row."""

    name: str
    #: Rows and columns, counted in entries.
    shape: tuple[int, int]
    nnz: int
    #: int32 `(rows + 1,)` and `(nnz,)`.
    pointers: SharedMemory
    indices: SharedMemory
    #: `(nnz, members)` of `dtype`, which is float32 or float64.
    values: SharedMemory
    dtype: np.dtype[Any]
    #: Statistics of the rows; None: not known.
    rows: Rows | None = None

    @classmethod
    def upload(cls, device: Device, matrix: Matrix, values: NDArray[np.floating]) -> DeviceCsr:
        """Copy a matrix with `values` `(nnz, members)` to the device."""
        with ExitStack() as undo:
            pointers, indices, numbers = (
                keep(undo, SharedMemory(device.upload(array))) for array in (matrix.indptr, matrix.indices, values)
            )
            undo.pop_all()
        return cls(matrix.name, matrix.shape, matrix.nnz, pointers, indices, numbers, values.dtype)

    @classmethod
    def checked(
        cls, device: Device, program: Program, name: str, arrays: CsrArrays, members: int, dtype: np.dtype[Any], *,
        narrow: bool, borrowed: bool = True,
    ) -> DeviceCsr:  # fmt: skip
        """Return another library's matrix after a check, with its columns of int32 and its values.

        If it succeeds, it owns those that are not `borrowed`. `program` is the loaded module of
        `render_check`. `arrays` has `members` numbers of `dtype` per entry, float32 or float64; with `narrow` they have
        to fit into float32. It waits for the device, and raises `FlawedCsr`.
        """
        (rows, columns), length = arrays.shape, arrays.length
        with ExitStack() as undo:
            pointers = keep(undo, SharedMemory(device.allocate(INDEX_BYTES * (rows + 1))))
            if arrays.long:
                indices = keep(undo, SharedMemory(device.allocate(INDEX_BYTES * length)))
            else:
                indices = SharedMemory(arrays.columns, borrowed=borrowed)
            words, numbers = device.allocate(INDEX_BYTES * len(CheckWord)), np.empty(len(CheckWord), np.int32)
            with ExitStack() as temporaries:
                keep(temporaries, words)
                device.fill(words, 0)
                arguments: list[Argument] = [
                    *map(np.int32, (rows, columns, length, members, narrow)), arrays.offsets, arrays.columns,
                    arrays.values, pointers.buffer, indices.buffer, words,
                ]  # fmt: skip
                block_size, sm_blocks = BLOCK_SIZE[device.backend], LOOP_BLOCKS_PER_SM[device.backend]
                blocks = min(-(-max(rows, length, 1) // block_size), sm_blocks * device.sm_count)
                kernel = f"check_{64 if arrays.long else 32}_{'float' if dtype == np.float32 else 'double'}"
                Kernels(device, program).blocks(kernel, blocks, arguments)()
                device.download(words, numbers)
            nnz = int(numbers[CheckWord.ENTRIES])
            numbers[CheckWord.WRONG] |= nnz > 0 and not rows
            for flaw in (CheckWord.WRONG, CheckWord.UNORDERED, CheckWord.INFINITE, CheckWord.LOST):
                if numbers[flaw]:
                    raise FlawedCsr(flaw)
            undo.pop_all()
        values = SharedMemory(arrays.values, borrowed=borrowed)
        statistics = Rows(rows, nnz, int(numbers[CheckWord.LONGEST]), long_of(numbers, CheckWord.LOW, CheckWord.HIGH))
        return cls(name, arrays.shape, nnz, pointers, indices, values, dtype, statistics)

    def download(
        self, device: Device, members: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating]]:
        """Copy row pointers, columns and values `(nnz, members)` to the host."""
        arrays = (
            np.empty(self.shape[0] + 1, np.int32), np.empty(self.nnz, np.int32),
            np.empty((self.nnz, members), self.dtype),
        )  # fmt: skip
        for memory, array in zip((self.pointers, self.indices, self.values), arrays, strict=True):
            if array.size:
                device.download(memory.buffer, array)
        return arrays

    def release(self) -> None:
        for memory in (self.pointers, self.indices, self.values):
            memory.release()


def long_of(words: NDArray[np.int32], low: int, high: int) -> int:
    """Return a number of 64 bits that kernels wrote as two words."""
    return int(words[high]) << 32 | int(words[low]) & 0xFFFFFFFF
