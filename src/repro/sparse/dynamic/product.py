"""Products y = A x of a dynamic matrix, or of one in CSR, by kernels of the module `product`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, Device, Kernel, Program
from repro.sparse.dynamic.bins import LONG, Bins, widths_of
from repro.sparse.dynamic.layout import pitch_of
from repro.sparse.dynamic.schedules import Schedule
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import N_T

#: What gives a kernel of its name.
GetKernel = Callable[[str], Kernel]
Run = Callable[[], None]


@dataclass(frozen=True)
class Matrix:
    """A matrix on the device.

    Attributes
    ----------
    rows, segments
        Rows, and the most segments of a row's chain; 0 in CSR.
    buffers
        `columns`, `values`, and `table` and `sizes`, or `offsets` of CSR.
    sizes
        Returns the entries of each row, int32 `(rows,)`, on the host.
    """

    rows: int
    segments: int
    buffers: Mapping[str, Buffer]
    sizes: Callable[[], NDArray[np.int32]]

    def arguments(self, exact: bool) -> list[Argument]:
        """Return what kernels take of it: `csr`, `exact` or `dcsr`."""
        entries = [self.buffers["columns"], self.buffers["values"]]
        if not self.segments:
            return [self.buffers["offsets"], *entries]
        if exact:
            return [self.buffers["table"], *entries]
        shape = np.int32(pitch_of(self.rows)), np.int32(self.segments)
        return [*shape, self.buffers["table"], self.buffers["sizes"], *entries]


def bind_product(program: Program, schedule: Schedule, storage: Storage, x: Buffer, y: Buffer) -> Callable[[], None]:
    """Return what queues y = A x for a matrix on a device, whatever is inserted into it or deleted from it later.

    It is of no use once the matrix has other buffers, as after it was brought together or grew.

    Parameters
    ----------
    program
        The module `product`, in the precision of the matrix.
    schedule
        One of kind `vector` or `mixed` that is not exact; see `usual_schedule`.
    storage
        The matrix.
    x, y
        `(columns,)` and `(rows,)` in its precision.
    """
    return bind_vector(storage.device, program.kernel, schedule, matrix_of(storage), (x, y))


def matrix_of(storage: Storage) -> Matrix:
    """Return a matrix on a device as kernels of products take it."""
    buffers = {name: getattr(storage, name) for name in ("columns", "values", "table", "sizes")}
    return Matrix(storage.shape[0], storage.segments, buffers, lambda: storage.download().sizes)


def bind_vector(
    device: Device, kernel: GetKernel, schedule: Schedule, matrix: Matrix, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Return what queues y = A x by so many threads a row; it needs nothing beside the matrix, which may change.

    Parameters
    ----------
    kernel
        Returns a kernel of the module `product`.
    schedule
        One of kind `vector` or `mixed`.
    vectors
        x and y.
    """
    n_t = N_T[device.backend]
    format = "csr" if not matrix.segments else "exact" if schedule.exact else "dcsr"
    name = f"{schedule.kind}_{format}_w{schedule.width}_{suffix_of(schedule)}"
    arguments = [np.int32(matrix.rows), *matrix.arguments(schedule.exact), *vectors]
    return device.bind(kernel(name), -(-matrix.rows * schedule.width // n_t), n_t, arguments)


def bind_bins(
    device: Device,
    kernel: Kernel,
    bins: Bins,
    parts: tuple[int, Sequence[Argument]],
    arguments: Sequence[Argument],
) -> Run:
    """Bind all of our bins to one launch.

    Parameters
    ----------
    kernel
        One that is called `bins_...`.
    bins
        Those of `our_least`.
    parts
        How many parts the longest rows have, and the buffers that the kernel takes for them.
    arguments
        What it takes from `order` on.
    """
    n_t = N_T[device.backend]
    blocks, for_parts = parts
    numbers: list[Argument] = [np.int32(blocks), np.int32(LONG[device.backend].part_length), *for_parts]
    numbers += [np.int32(bins.ends[0])]
    rows_of_block = (1, *(n_t // width for width in reversed(widths_of(device.target))))
    for (first, last), rows in zip(bins.spans[1:], rows_of_block, strict=True):
        blocks += -(-(last - first) // rows)
        numbers += [np.int32(blocks), np.int32(last)]
    return device.bind(kernel, blocks, n_t, [*numbers, *arguments])


def suffix_of(schedule: Schedule) -> str:
    """Return the end of a kernel's name."""
    return f"u{schedule.unroll}_{schedule.load}"
