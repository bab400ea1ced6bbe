"""CSR arrays that lie on the device already: read in place as operands of a product, and written as its result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from repro.devices.base import Argument, Buffer, Device
from repro.sparse.device_primitives import Load, keep
from repro.sparse.dynamic.operations import Operations
from repro.sparse.dynamic.storage import Lease, Storage, allocate_row_arrays
from repro.sparse.elementwise import BLOCK_SIZE, LaunchCache, Scratch
from repro.sparse.spgemm.kernels import CsrWord
from repro.sparse.spgemm.one_launch import single_launch

#: Resident blocks per multiprocessor of the kernel that reads arrays.
BLOCKS_PER_SM = 8
#: Largest number of matrices that are read together.
AT_ONCE = 2


class CsrArrays(NamedTuple):
    """The arrays of a CSR matrix on the device, in another library's memory."""

    shape: tuple[int, int]
    #: Length of `columns` and `values`; the last offset may be less.
    length: int
    #: int32, or int64 if `long`: `(rows + 1,)`.
    offsets: Buffer
    #: Of the type of `offsets`, `(length,)`.
    columns: Buffer
    values: Buffer
    long: bool = False


class UnsuitableCsr(Exception):
    """The matrix with this index in a call of `CsrReader.read` cannot be read in place.

    `damaged`: an offset or a column is wrong; else its columns do not ascend in each row.
    """

    def __init__(self, index: int, *, damaged: bool) -> None:
        super().__init__(index, damaged)
        self.index, self.damaged = index, damaged


class CsrReader:
    """Reads and writes CSR arrays of others for products of one dtype on a device; its memory is kept between calls.

    `load` loads modules of the precision, as for `Multiplication`.
    """

    def __init__(self, device: Device, load: Load, dtype: np.dtype[np.floating]) -> None:
        self._device, self._load, self._dtype = device, load, dtype
        self._launches = LaunchCache(device)
        #: The copies of products to arrays of others, which keep a counter of theirs in `_scratch`.
        self._copies: Operations | None = None
        self._scratch = Scratch(device)
        with ExitStack() as undo:
            self._words = keep(undo, device.allocate(4 * AT_ONCE * len(CsrWord)))
            device.fill(self._words, 0)
            self._host = device.host_words(AT_ONCE * len(CsrWord))
            undo.pop_all()

    def read(self, matrices: Sequence[CsrArrays]) -> list[Storage]:
        """Return the matrices as operands, without copies of columns and values; it waits for the device once.

        Raises
        ------
        UnsuitableCsr
        """
        storages: list[Storage] = []
        try:
            for place, matrix in enumerate(matrices):
                storages.append(self._queue(place, matrix))
            numbers = self._host.read()
            for place, (storage, matrix) in enumerate(zip(storages, matrices, strict=True)):
                words = numbers[place * len(CsrWord) :]
                damaged = words[CsrWord.WRONG] or (not matrix.shape[0] and words[CsrWord.ENTRIES])
                if damaged or words[CsrWord.UNORDERED]:
                    raise UnsuitableCsr(place, damaged=bool(damaged))
                storage.entries, storage.longest = words[CsrWord.ENTRIES], words[CsrWord.LONGEST]
        except BaseException:
            for storage in storages:
                storage.release()
            raise
        return storages

    def _queue(self, place: int, matrix: CsrArrays) -> Storage:
        """Queue the check and conversion of a matrix, which report in the `place`th group of the host's words."""
        device, (rows, columns) = self._device, matrix.shape
        lease, row_arrays = self._row_arrays(rows)
        own_columns = device.allocate_ordered(4 * matrix.length) if matrix.long else matrix.columns
        storage = Storage(
            device, matrix.shape, 1, matrix.length, self._dtype, own_columns, matrix.values, *row_arrays,
            borrowed=True, lease=own_columns if matrix.long else None, lease_of_rows=lease,
        )  # fmt: skip
        block_size = BLOCK_SIZE[device.backend]
        blocks = min(-(-max(rows, matrix.length, 1) // block_size), BLOCKS_PER_SM * device.sm_count)
        arguments: list[Argument] = [
            np.int32(rows), np.int32(columns), np.int32(matrix.length), matrix.offsets, matrix.columns,
            storage.table, storage.sizes, storage.versions, storage.state, *([own_columns] if matrix.long else []),
            np.int32(place), self._words, self._host.buffer,
        ]  # fmt: skip
        name = "read_csr_long" if matrix.long else "read_csr"
        self._launches.queue(self._load("csr-exact"), name, blocks, block_size, arguments)
        return storage

    def _row_arrays(self, rows: int) -> tuple[Lease, Sequence[Buffer]]:
        """Return the arrays with one element per row, and their owner; on a GPU they come from the pool of products."""
        if self._device.backend != "cuda":
            return allocate_row_arrays(self._device, rows)
        arrays = single_launch(self._device, self._dtype).row_arrays.take(rows)
        return arrays, arrays.parts

    def write(self, product: Storage, target: CsrArrays) -> None:
        """Queue the copy of a product to CSR arrays of int32, with as many entries as `product.entries`."""
        device = self._device
        lease, row_arrays = self._row_arrays(product.shape[0])
        storage = Storage(
            device, product.shape, 1, target.length, self._dtype, target.columns, target.values, *row_arrays,
            borrowed=True, lease_of_rows=lease,
        )  # fmt: skip
        if self._copies is None:
            self._copies = Operations(product, self._load("matrix"), self._load("sort"), self._scratch)
        self._copies.storage = product
        try:
            self._copies.queue_together(storage, target.offsets, self._launches)
        finally:
            if device.backend != "cuda":
                device.synchronize()  # the scan's memory is released next
                self._copies.release()
                self._copies = None
            storage.release()  # the pool gives the row arrays to later work of the same queue

    def release(self) -> None:
        self._launches.release()
        self._scratch.release()
        self._words.release()
        self._host.release()
