"""The levels of a hierarchy as a user reads them."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from repro.operators.arrays import not_copied
from repro.operators.csr_arrays import to_cupy
from repro.operators.runtime import Runtime
from repro.sparse.dynamic.storage import Storage
from repro.sparse.launches import Load
from repro.sparse.multigrid.levels import DeviceLevel
from repro.sparse.multigrid.settings import Settings
from repro.sparse.multigrid.solve import Solver


class Memory:
    """What a hierarchy holds on its device, given back once neither it nor one of its levels is in use.

    Attributes
    ----------
    runtime, load
        The device, and what gives modules in the precision.
    levels, solver
        What is held.
    settings
        That it was set up with.
    refreshable
        Whether levels keep what a refresh needs.
    cupys
        Whether matrices are handed over as CuPy's.
    """

    def __init__(
        self, runtime: Runtime, load: Load, levels: list[DeviceLevel], solver: Solver, settings: Settings,
        refreshable: bool, cupys: bool,
    ) -> None:  # fmt: skip
        self.runtime, self.load, self.levels, self.solver = runtime, load, levels, solver
        self.settings, self.refreshable, self.cupys = settings, refreshable, cupys
        finalize(self, _give_back, levels, solver)


class Level:
    """A level of a hierarchy, its matrices SciPy's, or CuPy's where the hierarchy is one for a matrix of CuPy's.

    They are brought there when they are asked for, with their columns in order.

    Attributes
    ----------
    A
        Its matrix.
    P, R
        The prolongator from the next level, and the restriction to it; the coarsest level has none.
    aggregates
        The aggregate of each node, int32, -1 for none; the coarsest level has none.
    """

    def __init__(self, memory: Memory, at: int) -> None:
        self._memory, self._level = memory, memory.levels[at]

    @cached_property
    def A(self) -> Any:
        """The matrix."""
        return self._read(self._level.a)

    @cached_property
    def P(self) -> Any:
        """The prolongator."""
        return self._read(self._of_finer(self._level.p))

    @cached_property
    def R(self) -> Any:
        """The restriction."""
        return self._read(self._of_finer(self._level.r))

    @cached_property
    def aggregates(self) -> NDArray[np.int32]:
        """The aggregate of each node."""
        buffer = self._of_finer(self._level.aggregates)
        aggregates = np.empty(buffer.nbytes // 4, np.int32)
        with self._memory.runtime.after():
            self._memory.runtime.device.download(buffer, aggregates)
        return aggregates

    @property
    def nnz(self) -> int:
        """Entries of the matrix."""
        return self._level.nnz

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self._level.a.shape

    def __reduce__(self) -> NoReturn:
        raise not_copied(self, "copy its matrices, A, P and R")

    def _of_finer(self, part: Any) -> Any:
        if part is None:
            raise AttributeError("the coarsest level has neither P nor R nor aggregates")
        return part

    def _read(self, storage: Storage) -> Any:
        with self._memory.runtime.after():
            if self._memory.cupys:
                matrix = to_cupy(self._memory.runtime, self._memory.load, storage)
            else:
                matrix = storage.download().to_csr()
        matrix.sort_indices()
        return matrix


def _give_back(levels: list[DeviceLevel], solver: Solver) -> None:
    solver.release()
    for level in levels:
        level.release()
