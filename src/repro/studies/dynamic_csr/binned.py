"""Products of a matrix that changes, its rows in bins by the sizes that they had at some time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Buffer
from repro.sparse.dynamic.bins import at_least_one, bin_rows, our_least, parts_of
from repro.sparse.dynamic.product import Run, bind_bins, matrix_of
from repro.sparse.dynamic.schedules import usual_bins
from repro.sparse.dynamic.storage import Storage
from repro.sparse.work import Work


def binned_products(work: Work, storage: Storage, sizes: NDArray[np.int32]) -> Callable[[Buffer, Buffer], Run]:
    """Bin rows by their sizes now, and return what binds y = A x with them.

    The products stay right whatever is inserted into the rows, or deleted; they get slower as rows grow out of their
    bins.

    Parameters
    ----------
    work
        What holds the bins; module `product`.
    storage
        The matrix, which keeps its buffers.
    sizes
        Entries of each row at the time, `(rows,)`.
    """
    device = work.device
    schedule = usual_bins(device.target)
    bins = bin_rows(sizes, our_least(device.target, schedule.per_thread))
    parts = parts_of(bins, sizes, device.target)
    order, parts_on_device = work.upload(bins.order), work.upload(at_least_one(parts))
    sums = work.upload(np.zeros(max(len(parts), 1), storage.dtype))
    done = work.upload(np.zeros(max(len(parts), 1), np.int32))
    matrix = matrix_of(storage)
    kernel = f"bins_dcsr_u{schedule.unroll}_{schedule.load}"

    def bind(x: Buffer, y: Buffer) -> Run:
        return bind_bins(
            device,
            work.program("product").kernel(kernel),
            bins,
            (len(parts), [parts_on_device, sums, done]),
            [order, *matrix.arguments(False), x, y],
        )

    return bind
