"""A matrix in CSR in a device's memory, as libraries take it: 32-bit offsets and columns, counted from 0."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.codegen.precisions import DTYPES, INDEX_BYTES
from repro.devices.base import Buffer, Device
from repro.errors import ReproError
from repro.sparse.work import keep

#: The entries that 32-bit offsets can tell apart.
MOST_ENTRIES = 2**31 - 1


@dataclass(frozen=True)
class GpuCsr:
    """A matrix on a device.

    Attributes
    ----------
    device
        Where it lies.
    shape
        Rows and columns.
    nnz
        Stored entries.
    offsets, columns, values
        int32 `(rows + 1,)`, int32 `(nnz,)` and `dtype` `(nnz,)`.
    dtype
        float32 or float64.
    """

    device: Device
    shape: tuple[int, int]
    nnz: int
    offsets: Buffer
    columns: Buffer
    values: Buffer
    dtype: np.dtype[Any]

    @classmethod
    def allocate(cls, device: Device, shape: tuple[int, int], nnz: int, dtype: np.dtype[Any]) -> GpuCsr:
        """Return memory for a matrix of so many entries, uninitialised.

        Raises
        ------
        OutOfDeviceMemory
        """
        with ExitStack() as held:
            sizes = INDEX_BYTES * (shape[0] + 1), INDEX_BYTES * nnz, dtype.itemsize * nnz
            offsets, columns, values = (keep(held, device.allocate(size)) for size in sizes)
            held.pop_all()
            return cls(device, shape, nnz, offsets, columns, values, dtype)

    @classmethod
    def upload(cls, device: Device, matrix: sp.csr_array) -> GpuCsr:
        """Copy a matrix to a device; the order of its entries stays, and so do those of one place.

        Raises
        ------
        ReproError
            Its values are neither float32 nor float64, or it has more entries or columns than 32 bits can count.
        OutOfDeviceMemory
        """
        if matrix.dtype.type not in DTYPES.values():
            raise ReproError("a matrix of an unknown precision", expected="float32 or float64", actual=matrix.dtype)
        if max(matrix.nnz, *matrix.shape) > MOST_ENTRIES:
            raise ReproError(
                "the matrix is too large for 32-bit indices",
                expected=f"at most {MOST_ENTRIES:,} rows, columns and entries",
                actual=f"{matrix.shape[0]:,} × {matrix.shape[1]:,} with {matrix.nnz:,} entries",
            )
        rows, columns = matrix.shape
        with ExitStack() as held:
            csr = keep(held, cls.allocate(device, (rows, columns), int(matrix.nnz), matrix.dtype))
            device.write(csr.offsets, matrix.indptr.astype(np.int32, copy=False))
            if csr.nnz:
                # SciPy's arrays may be longer than the matrix has entries
                device.write(csr.columns, matrix.indices[: csr.nnz].astype(np.int32, copy=False))
                device.write(csr.values, matrix.data[: csr.nnz])
            held.pop_all()
            return csr

    def download(self) -> sp.csr_array:
        """Wait for what is queued and return the matrix, its entries in the order in which they are stored."""
        offsets = self._read(self.offsets, self.shape[0] + 1, np.dtype(np.int32))
        columns = self._read(self.columns, self.nnz, np.dtype(np.int32))
        values = self._read(self.values, self.nnz, self.dtype)
        return sp.csr_array((values, columns, offsets), shape=self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return sum(buffer.nbytes for buffer in (self.offsets, self.columns, self.values))

    def release(self) -> None:
        """Give its memory back."""
        for buffer in (self.offsets, self.columns, self.values):
            buffer.release()

    def _read(self, buffer: Buffer, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        array = np.empty(count, dtype)
        if count:
            self.device.download(buffer, array)
        return array
