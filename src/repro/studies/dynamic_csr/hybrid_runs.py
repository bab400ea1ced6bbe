"""What is timed of the hybrid format: its product, its update, and the sort that an update ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import in_turn, not_prepared
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.sparse.built import Built
from repro.sparse.kernels import in_order
from repro.sparse.operands import Multiplies, x_on, y_on
from repro.sparse.work import Work
from repro.studies.dynamic_csr.coordinates import Resident
from repro.studies.dynamic_csr.hybrid import Hybrid, HybridArrays, overflow
from repro.studies.dynamic_csr.memory import width_of
from repro.studies.dynamic_csr.operands import GraphOperands, operands_of
from repro.studies.dynamic_csr.rival import KIND, SEED, Order, Rival, Updates, Updating, What

FORMAT = "hyb"
MODULES = ("hybrid", "rebuild", "sort")


class HybridProduct(Multiplies):
    """y = A x of the grown matrix in the hybrid format.

    Parameters
    ----------
    built
        The modules of a precision by name.
    """

    kind = KIND
    name = f"{FORMAT}/product"
    arrangement = "AoS@natural"

    def __init__(self, built: Mapping[str, Built]) -> None:
        self._built = built
        self._held = ExitStack()
        self._y: Buffer | None = None
        self._bind: Callable[[Buffer, Buffer], Callable[[], None]] | None = None

    @property
    def identity(self) -> str:
        """The hashes of its modules."""
        return " ".join(self._built[name].module.hash for name in MODULES)

    @property
    def columns(self) -> Mapping[str, Any]:
        """Format, and bytes of the matrix."""
        return {"what": "product", "format": FORMAT, "matrix_bytes": self.matrix_bytes or None}

    def prepare(self, workspace: Workspace) -> None:
        """Lay the matrix out, bring it to the device and bind the kernels.

        Raises
        ------
        ModuleError, OutOfDeviceMemory
        """
        self.release()
        matrix = operands_of(workspace).grown
        width = width_of(matrix.shape[0], matrix.nnz)
        over = overflow(np.diff(matrix.indptr), width)
        with ExitStack() as held:
            work = Work(workspace, self._built, held)
            hybrid = Hybrid(work, matrix, width, over)
            hybrid.bind_restore()()
            x, self._y = x_on(workspace, "AoS"), y_on(workspace)
            self.launch = hybrid.bind_product(0, over, x, self._y)
            self._held = held.pop_all()
        self._bind = lambda x, y: hybrid.bind_product(0, over, x, y)
        number = matrix.dtype.itemsize
        rows = matrix.shape[0]
        self.matrix_bytes = hybrid.pitch * width * (4 + number) + 4 * rows + over * (8 + number)
        self.moved = matrix.nnz * (4 + number) + 4 * (rows + over) + x.nbytes + self._y.nbytes

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors; valid until `release`."""
        assert self._bind is not None, "prepared first"
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        """Return y."""
        return self._y

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers as they are: one to a row."""
        return values.ravel()

    def release(self) -> None:
        """Give the memory back."""
        self._held, held = ExitStack(), self._held
        held.close()
        self._bind = self._y = None
        self.launch = not_prepared


class HybridUpdate(Updates):
    """Batches into the hybrid format: entries to ELLPACK while a row has room, else to the coordinates; then a sort.

    How many coordinates there are after a batch is known ahead: the update need not read it back, which it would have
    to do otherwise. After each batch the coordinates are sorted, as the next product asks for.
    """

    format = FORMAT
    modules = MODULES

    def __init__(
        self, built: Mapping[str, Built], what: What = "insert", order: Order = "any", which: int | None = None
    ) -> None:
        super().__init__(built, what, order, which)
        if what == "stream":  # one batch: two stages
            self.stages = {"update": not_prepared, "sort": not_prepared}

    def bind_updates(self, work: Work, plan: Updating) -> None:
        """Lay out what there is and bind appending and sorting, batch by batch, from side to side."""
        rows = plan.start.shape[0]
        sizes = np.diff(plan.start.indptr).astype(np.int64)
        after = []
        for batch in plan.batches:
            sizes += np.bincount(batch.rows, minlength=rows)
            after.append(sizes.copy())
        width = width_of(rows, plan.start.nnz or plan.after)
        hybrid = Hybrid(work, plan.start, width, overflow(sizes, width))
        stages: list[tuple[Callable[[], None], Callable[[], None]]] = []
        for i, batch in enumerate(plan.batches):
            append = hybrid.bind_append(Resident.upload(work, batch), len(batch.rows), i % 2)
            stages.append((append, hybrid.coordinates.bind_sort(i % 2, overflow(after[i], width))))
        self._read = lambda: hybrid.read(len(plan.batches) % 2, overflow(sizes, width))
        self._restore = hybrid.bind_restore()
        updates = [in_turn(*stage) for stage in stages]
        self.launch = in_order(
            self.with_products(
                work, updates, lambda i, x, y: hybrid.bind_product((i + 1) % 2, overflow(after[i], width), x, y)
            )
        )
        if self.stages:
            self.stages = dict(zip(self.stages, stages[0], strict=True))

    def before(self) -> None:
        """Take all batches out again."""
        self._restore()


class HybridSort(Rival):
    """The sort of the coordinates alone, after the whole matrix has come in any order."""

    modules = MODULES
    name = f"{FORMAT}/sort"

    def __init__(self, built: Mapping[str, Built]) -> None:
        super().__init__(built)
        self._over: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """Format, and the entries that are sorted."""
        return {"what": "sort", "format": FORMAT, "order": "any", "batch": self._over}

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Lay the matrix out, shuffle its coordinates and bind the sort."""
        matrix = operands.grown
        width = width_of(matrix.shape[0], matrix.nnz)
        self._over = over = overflow(np.diff(matrix.indptr), width)
        hybrid = Hybrid(work, matrix, width, over)
        hybrid.bind_restore()()
        shuffled = HybridArrays.of(matrix, width).over.take(np.random.default_rng(SEED).permutation(over))
        hybrid.coordinates.bind_copy(Resident.upload(work, shuffled), over)()
        self.launch = hybrid.coordinates.bind_sort(0, over)
        self._read = lambda: hybrid.read(1, over)
