"""Launching the kernels that compute the rows of a product, bin by bin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Protocol

import numpy as np

from repro.devices.base import Argument, Buffer, Device, Launch
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Kernels, in_order
from repro.sparse.launches import Load
from repro.sparse.spgemm.bins import Counts, arguments_of
from repro.sparse.spgemm.factors import Factors
from repro.sparse.spgemm.plan import Plan
from repro.sparse.spgemm.render import Mode
from repro.sparse.work import keep

#: Blocks for each multiprocessor at most: they go through the rows of a bin in steps of the grid.
BLOCKS = {"cuda": 32, "opencl": 4}
#: Blocks that have a sum for every column, and the bytes that these may take if there are several.
DENSE_BLOCKS, DENSE_BYTES = 256, 1 << 28


class Lists(Protocol):
    """Rows in lists, one a bin.

    Attributes
    ----------
    stride
        Numbers from one list to the next.
    lists, counts
        int32 on the device: numbers of rows, and how many each list has, `(BINS,)`.
    """

    @property
    def stride(self) -> int: ...  # noqa: D102
    @property
    def lists(self) -> Buffer: ...  # noqa: D102
    @property
    def counts(self) -> Buffer: ...  # noqa: D102


class Rows:
    """The rows of C = A B, listed in bins.

    Parameters
    ----------
    device, load
        The device, and what gives the modules of the factors' precision.
    factors
        What is multiplied.
    c
        The product.
    bins
        The lists.
    left
        Room for the numbers of all rows: those that a kernel leaves undone are listed here.
    """

    def __init__(self, device: Device, load: Load, factors: Factors, c: Storage, bins: Lists, left: Buffer) -> None:
        self._device, self._load = device, load
        self._factors, self._c, self._bins, self._left = factors, c, bins, left

    def bind(self, mode: Mode, counts: Counts, plan: Plan, held: ExitStack) -> Callable[[], None]:
        """Return what queues the rows of all bins, which have no order among themselves.

        Parameters
        ----------
        mode
            What the kernels leave; C has to have the memory for it.
        counts
            What the bins have.
        plan
            Which kernel the rows of each bin are for.
        held
            What gives the kernels' working memory back, once they are done.

        Raises
        ------
        OutOfDeviceMemory
        """
        launches: list[Launch] = []
        dense: dict[int, int] = {}
        for bin, (shape, rows) in enumerate(zip(plan.shapes, counts.rows, strict=True)):
            if rows and shape is None:
                dense[bin] = rows
            elif rows and shape is not None:
                module, name = shape.kernel(mode)
                kernel = self._load(f"{module}-{self._factors.format}").kernel(name)
                blocks = min(-(-rows // shape.rows), self._device.n_s * BLOCKS[self._device.backend])
                launches.append(Launch(kernel, blocks, shape.threads, [np.int32(bin), *self._arguments()]))
        bound: list[Callable[[], None]] = []
        if len(launches) == 1:
            bound.append(self._device.bind(*launches[0]))
        elif launches:
            bound.append(self._device.bind_concurrent(launches))
        if dense:
            bound.append(self._bind_dense(mode, dense, held))
        return in_order(bound)

    def _bind_dense(self, mode: Mode, rows: Mapping[int, int], held: ExitStack) -> Callable[[], None]:
        """Return what queues some bins' rows, each with a sum for every column in global memory."""
        columns, c = self._c.shape[1], self._c
        sums, words = columns * c.dtype.itemsize, -(-columns // 32)
        blocks = max(1, min(sum(rows.values()), DENSE_BLOCKS, DENSE_BYTES // (sums + 4 * words)))
        kernels = Kernels(self._device, self._load(f"{mode}-{self._factors.format}"))
        memory = [keep(held, self._device.allocate(blocks * nbytes)) for nbytes in (4 * words, sums)]
        given = [*self._arguments(), np.int32(columns), *memory]
        launches = [
            kernels.blocks(f"{mode}_dense", min(blocks, count), [np.int32(bin), *given]) for bin, count in rows.items()
        ]

        def launch() -> None:
            for buffer in memory:
                self._device.fill(buffer, 0)
            for run in launches:
                run()

        return launch

    def _arguments(self) -> list[Argument]:
        bins, c, factors = self._bins, self._c, self._factors
        return [
            np.int32(bins.stride), bins.lists, bins.counts, *arguments_of(factors.a), *arguments_of(factors.b),
            c.table, c.sizes, c.columns, c.values, np.int32(c.capacity), self._left, c.state,
        ]  # fmt: skip
