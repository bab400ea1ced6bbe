"""Products of a matrix that others change meanwhile: each row as it was before a change or as it is after it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from repro.devices.base import Argument, Buffer, Program, Queue
from repro.studies.dynamic_csr.render import N_T
from repro.studies.dynamic_csr.storage import Storage


def bind_reading(
    queue: Queue, program: Program, width: int, storage: Storage, x: Buffer, y: Buffer
) -> Callable[[], None]:
    """Return what queues y = A x beside whatever is queued elsewhere to change the matrix.

    It is of use as long as the storage is held, see `Storage.hold`: that of a matrix which is brought together meanwhile
    stays as it was before.

    Parameters
    ----------
    queue
        Another than the one that the matrix is changed on.
    program
        The module `reader`, in the precision of the matrix.
    width
        Threads of a row: one of `widths_of`.
    storage
        The matrix.
    x, y
        `(columns,)` and `(rows,)` in its precision.
    """
    rows, columns = storage.shape
    n_t = N_T[storage.device.backend]
    arguments: list[Argument] = [
        *map(np.int32, (rows, columns, storage.capacity, storage.pitch, storage.segments)),
        *(storage.table, storage.sizes, storage.versions, storage.columns, storage.values),
        *(x, y),
    ]
    return queue.bind(program.kernel(f"read_w{width}"), max(1, -(-rows * width // n_t)), n_t, arguments)
