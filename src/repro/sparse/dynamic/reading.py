"""Products of a matrix that others change meanwhile: each row as it was before a change or as it is after it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.devices.base import Argument, Buffer, Program, Queue
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import N_T


class Reading:
    """Products on a queue beside the one that the matrix is changed on, for the thread that has the queue.

    Parameters
    ----------
    queue
        The queue.
    program
        The module `reader`, in the precision of the matrix.
    width
        Threads of a row: one of `widths_of`.
    matrix
        What is read.
    """

    def __init__(self, queue: Queue, program: Program, width: int, matrix: DynamicMatrix) -> None:
        self._queue, self._program, self._width, self._matrix = queue, program, width, matrix
        self._bound: tuple[Storage, Buffer, Buffer, Callable[[], None]] | None = None

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Put A x into y and wait for it.

        A matrix that is brought together meanwhile leaves the arrays that are read as they are until then.

        Parameters
        ----------
        x, y
            `(columns,)` and `(rows,)` in the precision of the matrix.
        """
        with self._queue.current():
            storage = self._matrix.hold()
            try:
                if storage.shape[0]:
                    self._launch(storage, x, y)()
                    self._queue.synchronize()
            finally:
                storage.release()

    def _launch(self, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues the product; the one of before, where it is of the same arrays."""
        if self._bound is not None:
            *arrays, launch = self._bound
            if all(one is other for one, other in zip(arrays, (storage, x, y), strict=True)):
                return launch
        launch = self._bind(storage, x, y)
        self._bound = storage, x, y, launch
        return launch

    def _bind(self, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
        rows, columns = storage.shape
        n_t = N_T[storage.device.backend]
        arguments: list[Argument] = [
            *map(np.int32, (rows, columns, storage.capacity, storage.pitch, storage.segments)),
            *(storage.table, storage.sizes, storage.versions, storage.columns, storage.values),
            *(x, y),
        ]
        kernel = self._program.kernel(f"read_w{self._width}")
        return self._queue.bind(kernel, -(-rows * self._width // n_t), n_t, arguments)
