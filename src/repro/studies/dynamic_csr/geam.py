"""CSR that cuSPARSE makes again with every batch: csrgeam2, the sum of two sparse matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from repro.devices.base import Buffer
from repro.devices.cuda import CudaDevice
from repro.sparse.built import Built
from repro.sparse.kernels import in_order
from repro.sparse.library.cusparse_library import address, gpu, load, refusals, version
from repro.sparse.work import Work
from repro.studies.dynamic_csr.csr_memory import CsrMemory
from repro.studies.dynamic_csr.rival import Updates, Updating, What

ROUTINE = "csrgeam2"


class Geam(Updates):
    """The sum of the matrix and of each batch as a matrix, by cuSPARSE.

    It takes rows whose columns are sorted, none of them twice: that the batches are brought into that form, on the
    host, is no part of the time, and a place that comes more than once is left once. The number of entries is read
    back between counting and adding, as the library asks for; memory for the sum is there already.

    Parameters
    ----------
    built
        The modules of a precision by name.
    what, which
        As of `updating`; the order is `sorted`.
    """

    format = "csr"
    clocks = ("host",)
    sums = True

    def __init__(self, built: Mapping[str, Built], what: What = "insert", which: int | None = None) -> None:
        super().__init__(built, what, "sorted", which)
        self.name = f"cusparse/{ROUTINE}/{what}{'' if which is None else f'-{which}'}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, and by which routine."""
        return {**super().columns, "routine": ROUTINE}

    @property
    def identity(self) -> str:
        """The library's version, and the hashes of its modules."""
        return " ".join([version(), super().identity])

    def bind_updates(self, work: Work, plan: Updating) -> None:
        """Bring the matrices to the GPU and add them up once, for the working memory.

        Raises
        ------
        Unsupported
            There is no GPU or no cuSPARSE, or it refuses.
        """
        library, device = load(), gpu(work.device)
        shape = plan.start.shape
        start, *batches = (_canonical(matrix) for matrix in (plan.start, *(b.to_csr(shape) for b in plan.batches)))
        most = int(start.nnz + sum(batch.nnz for batch in batches))
        targets = [CsrMemory.allocate(work, shape[0], most, start.dtype.itemsize) for _ in range(min(len(batches), 2))]
        with refusals(library, device):
            added = _Addition(work, library, device, shape, start.dtype)
        first = CsrMemory.upload(work, start)
        steps = [(CsrMemory.upload(work, batch), int(batch.nnz), targets[i % 2]) for i, batch in enumerate(batches)]

        sources = [first, *(target for _, _, target in steps)]
        counts = [int(start.nnz)] * (len(steps) + 1)

        def bind(i: int) -> Callable[[], None]:
            batch, count, target = steps[i]

            def update() -> None:
                with refusals(library, device):
                    counts[i + 1] = added(sources[i], counts[i], batch, count, target)

            return update

        mean = most / max(shape[0], 1)
        launches = self.with_products(
            work, [*map(bind, range(len(steps)))], lambda i, x, y: steps[i][2].bind_product(work, shape[0], mean, x, y)
        )
        self.launch = in_order(launches)
        self.launch()
        device.synchronize()
        self._read = lambda: steps[-1][2].read(work, shape, start.dtype)


class _Addition:
    """The routine with its handle, its description of a matrix and its working memory."""

    def __init__(
        self, work: Work, library: Any, device: CudaDevice, shape: tuple[int, int], dtype: np.dtype[np.floating]
    ) -> None:
        self._work, self._library, self._device, self._shape = work, library, device, shape
        self._handle = library.create()
        work.at_end(partial(library.destroy, self._handle))
        library.set_stream(self._handle, device.stream)
        self._matrix = library.create_mat_descr()  # general, counted from 0
        work.at_end(partial(library.destroy_mat_descr, self._matrix))
        letter = {4: "s", 8: "d"}[dtype.itemsize]
        self._size = getattr(library, f"{letter}csrgeam2_buffer_size_ext")
        self._add = getattr(library, f"{letter}csrgeam2")
        self._one, self._nnz = np.ones(1, dtype), np.zeros(1, np.int32)
        self._memory: Buffer = work.allocate(0, "csrgeam2's working memory")

    def __call__(self, a: CsrMemory, a_nnz: int, b: CsrMemory, b_nnz: int, c: CsrMemory) -> int:
        """Queue C = A + B, waiting for its number of entries, which is returned."""
        library, start = self._library, (self._handle, *self._shape)
        one = self._one.ctypes.data
        arrays = {name: [address(buffer) for buffer in memory] for name, memory in (("a", a), ("b", b), ("c", c))}
        (a_offsets, a_columns, a_values), (b_offsets, b_columns, b_values), (offsets, columns, values) = arrays.values()
        matrix = self._matrix
        given = (
            *start,
            one, matrix, a_nnz, a_values, a_offsets, a_columns,
            one, matrix, b_nnz, b_values, b_offsets, b_columns,
            matrix, values, offsets, columns,
        )  # fmt: skip
        size = int(self._size(*given))
        if size > self._memory.nbytes:
            self._device.synchronize()
            self._memory = self._work.allocate(size, "csrgeam2's working memory")
        memory = address(self._memory)
        library.xcsrgeam2nnz(
            *start, matrix, a_nnz, a_offsets, a_columns, matrix, b_nnz, b_offsets, b_columns,
            matrix, offsets, self._nnz.ctypes.data, memory,
        )  # fmt: skip
        self._add(*given, memory)
        return int(self._nnz[0])


def _canonical(matrix: sp.csr_array) -> sp.csr_array:
    """Return a matrix with each place once and the columns of a row in order."""
    summed = matrix.copy()
    summed.sum_duplicates()
    return summed
