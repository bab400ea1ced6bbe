"""Our sums and sort as they are timed: over the sizes of rows, and of entries by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError
from repro.devices.base import Buffer
from repro.sparse.built import Built
from repro.sparse.scan import Scan
from repro.sparse.sort import RadixSort, bits_of
from repro.sparse.work import Work
from repro.studies.dynamic_csr.operands import GraphOperands
from repro.studies.dynamic_csr.rival import Rival, updating


class Sums(Rival):
    """Exclusive sums of the sizes of all rows: the offsets of CSR."""

    kind = "primitive"
    modules: tuple[str, ...] = ("sort",)
    routine = "ours"

    def __init__(self, built: Mapping[str, Built]) -> None:
        super().__init__(built)
        self.name = f"scan/{self.routine}"
        self._count: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is added up, and by what."""
        return {"what": "scan", "routine": self.routine, "batch": self._count}

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bring the sizes to the device; behind them there is a zero, so that the last sum is that of all."""
        grown = operands.grown
        sizes = np.append(np.diff(grown.indptr), 0).astype(np.int32)
        self._count = n = len(sizes) - 1
        self.moved = 8 * n
        sums = work.allocate(4 * (n + 1), "its sums")
        self.launch = self.bind_sums(work, work.upload(sizes), sums, n)

        def read() -> sp.csr_array:
            offsets = work.download(sums, n + 1, np.dtype(np.int32))
            if (offsets != grown.indptr).any():
                raise IncorrectError(f"{np.count_nonzero(offsets != grown.indptr)} sums are wrong")
            return grown

        self._read = read

    def bind_sums(self, work: Work, sizes: Buffer, sums: Buffer, n: int) -> Callable[[], None]:
        """Return what queues the sums before each of n + 1 numbers, of which the last is zero."""
        scan = work.keep(Scan(work.device, work.program("sort"), n, work.guards))
        return scan.bind(sizes, sums, n)


class SortOfRows(Rival):
    """A stable sort of all entries' rows, which come in any order, with the place that each comes from."""

    kind = "primitive"
    modules: tuple[str, ...] = ("sort",)
    routine = "ours"

    def __init__(self, built: Mapping[str, Built]) -> None:
        super().__init__(built)
        self.name = f"sort/{self.routine}"
        self._count: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is sorted, and by what."""
        return {"what": "sort", "format": "coo", "order": "any", "routine": self.routine, "batch": self._count}

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bring the rows to the device."""
        plan = work.fact(("updating", "stream", "any", None), lambda: updating(operands, "stream", "any"))
        entries = plan.batches[0]
        self._count = n = len(entries.rows)
        launch, keys, order = self.bind_sort(work, work.upload(entries.rows), n, bits_of(operands.grown.shape[0]))
        self.launch = launch

        def read() -> sp.csr_array:
            check_sort(entries.rows, *(work.download(buffer, n, np.dtype(np.int32)) for buffer in (keys, order)))
            return operands.grown

        self._read = read

    def bind_sort(self, work: Work, keys: Buffer, n: int, bits: int) -> tuple[Callable[[], None], Buffer, Buffer]:
        """Return what queues the sort of n keys of so many bits, the keys in order, and where each was."""
        return work.keep(RadixSort(work.device, work.program("sort"), n, work.guards)).bind(keys, n, bits)


def check_sort(given: NDArray[np.int32], keys: NDArray[np.int32], order: NDArray[np.int32]) -> None:
    """Check a stable sort, without one of the host's, which takes seconds.

    Numbers of a key that ascend are different, and numbers of different keys are so anyhow: they are all numbers.

    Raises
    ------
    IncorrectError
        A place is not one of the given, a key is not the one that was there, or one comes before another that it
        should come behind.
    """
    if not len(given):
        return
    outside = np.count_nonzero((order < 0) | (order >= len(given)))
    wrong = np.count_nonzero(keys != given.take(order, mode="clip"))
    late = np.count_nonzero((keys[1:] < keys[:-1]) | ((keys[1:] == keys[:-1]) & (order[1:] <= order[:-1])))
    if outside or wrong or late:
        raise IncorrectError(f"{outside + wrong + late} keys or places are wrong")
