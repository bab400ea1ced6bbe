"""The rows of one bin of a product by one kernel: what is searched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from repro.bench.runnable import Candidate, Clock
from repro.bench.workspace import Workspace
from repro.codegen.targets import Target
from repro.sparse.built import Built
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.bins import Bins
from repro.sparse.spgemm.factors import Factors
from repro.sparse.spgemm.plan import Plan
from repro.sparse.spgemm.product import Multiplication
from repro.sparse.spgemm.rows import Rows
from repro.sparse.spgemm.shapes import BINS, LIMITS
from repro.sparse.verify import NAN_BYTE
from repro.sparse.work import Work
from repro.studies.spgemm_amg.operands import AmgOperands, operands_of
from repro.studies.spgemm_amg.products import Product
from repro.studies.spgemm_amg.variant_id import BinMode, KernelId, Shape, shapes_for

MODES: tuple[BinMode, ...] = ("one", "numeric")


#: A bin with fewer of all products is not searched: whatever its rows are in, it is nothing beside the others.
LEAST_SHARE = 0.01
#: Columns that a sum a column goes through, of all rows of a bin: beyond, one launch takes a second and more.
MOST_SUMS = 200_000_000_000


class BinKernel(Product, Candidate):
    """The rows of a bin, the others left out. Listing them, and having memory for them, is no part of the time."""

    #: A pointer is put back before each launch.
    clocks: tuple[Clock, ...] = ("event",)

    def __init__(self, built: Mapping[str, Built], id: KernelId) -> None:
        super().__init__(built, id.product)
        self.id, self.space, self.name = id, id.space, str(id)
        self.mode, self.bin = id.mode, id.bin
        self.packing = id.product
        self.group = id.product, id.mode, id.bin, id.method
        self._restore: Callable[[], None] = lambda: None  # what has its places stays there

    @property
    def identity(self) -> str:
        """The hashes of the modules that it uses."""
        module = self.id.shape.kernel(self.id.mode)[0] if self.id.shape else self.id.mode
        return " ".join(self._built[name].module.hash for name in ("count-exact", f"{module}-exact", "sort", "matrix"))

    @property
    def columns(self) -> Mapping[str, Any]:
        """Rows and kernel, and how much it is."""
        return {**super().columns, **self.id.columns, "space": self.space}

    def prepare(self, workspace: Workspace) -> None:
        """List the bin's rows, and bind the kernel.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        super().prepare(workspace)
        operands = operands_of(workspace)
        expected = operands.expected(self.product)
        rows = expected.rows_of(self.mode, self.bin)
        nonzeros = int(expected.sizes[rows].sum())
        self._said = {"products": int(expected.products[rows].sum()), "nonzeros": nonzeros, "rows": int(rows.sum())}
        # of A these rows, of B a row for each of their entries at the least once: the whole of it, or less
        self.moved = operands.bytes_of_csr(int(rows.sum()), nonzeros)

    def bind(self, work: Work, factors: Factors) -> None:
        """Bind the kernel to memory that is as large as the product."""
        device = work.device
        bins = work.keep(Bins(device, work.program("count-exact"), factors.shape[0]))
        left = work.keep(device.allocate(4 * bins.stride))
        if self.mode == "numeric":
            self._c = c = Multiplication(device, work.program, factors.a.dtype).in_two_phases(factors)
            bins.by_sizes(c)
            device.fill(c.values, NAN_BYTE)
        else:
            entries = int(operands_of(work.workspace).expected(self.product).sizes.sum())
            self._c = c = Storage.empty(device, factors.shape, 1, max(entries, 1), factors.a.dtype)
            bins.by_products(factors.a, factors.b, c)
        counts = bins.read()
        only = tuple(rows if bin == self.bin else 0 for bin, rows in enumerate(counts.rows))
        shapes: list[Shape] = [None] * BINS
        plan = Plan((*shapes[: self.id.bin], self.id.shape, *shapes[self.id.bin + 1 :]))
        scratch = ExitStack()
        work.at_end(scratch.close)
        rows = Rows(device, work.program, factors, c, bins, left)
        self.launch = rows.bind(self.id.mode, replace(counts, rows=only), plan, scratch)
        if self.mode == "one":
            self._restore = lambda: device.fill(c.state, 0)

    def before(self) -> None:
        """Let segments be cut off from the beginning again."""
        self._restore()


def kernels_of(
    built: Mapping[str, Built], operands: AmgOperands, target: Target, space: str, least_share: float = LEAST_SHARE
) -> list[BinKernel]:
    """Return the kernels of a space to try, for each bin that matters; those of one product follow each other.

    Parameters
    ----------
    space
        `paper` or `extended`.
    least_share
        Of all products, that a bin has to have.
    """
    kernels: list[BinKernel] = []
    for product in operands.products:
        expected = operands.expected(product)
        for mode in MODES:
            for bin in range(BINS):
                rows = expected.rows_of(mode, bin)
                least = least_share * int(expected.products.sum())
                if not rows.any() or int(expected.products[rows].sum()) < least:
                    continue
                limit = LIMITS[bin] if bin < len(LIMITS) else None
                longest = int(np.max(expected.sizes[rows]))
                shapes = shapes_for(target, operands.dtype.itemsize, mode, limit, longest)
                if int(np.count_nonzero(rows)) * len(expected.x) > MOST_SUMS:
                    shapes = [shape for shape in shapes if shape is not None]
                ids = (KernelId(product, mode, bin, shape) for shape in shapes)
                kernels += [BinKernel(built, id) for id in ids if id.space == space]
    return kernels
