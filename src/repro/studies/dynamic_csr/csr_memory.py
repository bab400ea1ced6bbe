"""A matrix in CSR on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from repro.devices.base import Buffer
from repro.sparse.dynamic.product import Matrix, bind_vector
from repro.sparse.dynamic.schedules import usual_schedule
from repro.sparse.work import Work


class CsrMemory(NamedTuple):
    """Memory for a matrix: int32 offsets `(rows + 1,)` and columns, values."""

    offsets: Buffer
    columns: Buffer
    values: Buffer

    @classmethod
    def upload(cls, work: Work, matrix: sp.csr_array) -> CsrMemory:
        """Bring a matrix to the device."""
        arrays = (numbers.astype(np.int32, copy=False) for numbers in (matrix.indptr, matrix.indices))
        return cls(*(work.upload(array) for array in (*arrays, matrix.data)))

    @classmethod
    def allocate(cls, work: Work, rows: int, count: int, number_bytes: int) -> CsrMemory:
        """Return memory for a matrix of so many rows and entries."""
        sizes = {"offsets": 4 * (rows + 1), "columns": 4 * count, "values": number_bytes * count}
        return cls(*(work.allocate(size, f"the {name} of CSR") for name, size in sizes.items()))

    def bind_product(self, work: Work, rows: int, mean: float, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x by the schedule that is usual for rows of a mean size."""
        matrix = Matrix(
            rows, 0, self._asdict(), lambda: np.diff(work.download(self.offsets, rows + 1, np.dtype(np.int32)))
        )
        schedule = usual_schedule(work.device.target, mean)
        return bind_vector(work.device, work.program("product").kernel, schedule, matrix, (x, y))

    def read(self, work: Work, shape: tuple[int, int], dtype: np.dtype[np.floating]) -> sp.csr_array:
        """Wait for what is queued and return the matrix."""
        offsets = work.download(self.offsets, shape[0] + 1, np.dtype(np.int32))
        columns = work.download(self.columns, int(offsets[-1]), np.dtype(np.int32))
        values = work.download(self.values, int(offsets[-1]), dtype)
        return sp.csr_array((values, columns, offsets), shape=shape)


def bind_copy(
    work: Work, words: tuple[int, int, int], sources: Sequence[Buffer], targets: Sequence[Buffer]
) -> Callable[[], None]:
    """Return what queues a copy of three arrays, by one kernel of the module `rebuild`.

    Parameters
    ----------
    words
        So many 4-byte words of each; of one that has none, the buffers are not looked at.
    sources, targets
        Three buffers each.
    """
    # a thread copies four words at a time, and some have a rest beside them
    return work.bind("rebuild", "copy_matrix", max(words) // 4 + 1, *words, *sources, *targets)
