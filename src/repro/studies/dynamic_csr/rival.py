"""What other formats are given to do: batches to insert into what there is, or the whole matrix into nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import Clock, Unsupported, not_prepared
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.sparse.built import Built
from repro.sparse.operands import x_on, y_on
from repro.sparse.verify import NAN_BYTE
from repro.sparse.work import Work
from repro.studies.dynamic_csr.coordinates import Entries
from repro.studies.dynamic_csr.operands import GraphOperands, Rebuilds, operands_of
from repro.studies.dynamic_csr.paper import PRODUCTS

KIND = "rival"
Alone = Literal["insert", "stream", "batch"]
What = Literal[Alone, "iterate"]
Order = Literal["sorted", "any"]
#: The order of entries that come in any order.
SEED = 20170501


Run = Callable[[], None]


class Updating(NamedTuple):
    """What there is, and what is inserted one batch after the other."""

    start: sp.csr_array
    batches: list[Entries]

    @property
    def after(self) -> int:
        """Entries in the end."""
        return int(self.start.nnz + sum(len(batch.rows) for batch in self.batches))


def updating(operands: GraphOperands, what: What, order: Order, which: int | None = None) -> Updating:
    """Return what an update starts from, and its batches.

    Parameters
    ----------
    what
        `insert`: the problem's batches into its matrix. `iterate`: the same, and products after each batch. `stream`:
        the grown matrix as one batch into an empty one. `batch`: one of the problem's batches into its matrix.
    order
        `sorted`: the entries of a batch come by row. `any`: batches as they are; the grown matrix shuffled.
    which
        The one, for `batch`.

    Raises
    ------
    Unsupported
        There is no batch.
    """
    problem, grown = operands.problem, operands.grown
    if what == "stream":
        entries = Entries.of(grown)
        if order == "any":
            entries = entries.take(np.random.default_rng(SEED).permutation(grown.nnz))
        return Updating(sp.csr_array(grown.shape, dtype=grown.dtype), [entries])
    if not problem.batches:
        raise Unsupported("there is no batch to insert")
    batches = []
    for i in range(problem.batches) if which is None else [which]:
        rows, columns, values = problem.batch(i)
        batch = Entries(rows, columns, values.astype(grown.dtype))
        batches.append(batch.by_row() if order == "sorted" else batch)
    return Updating(operands.base, batches)


class Rival(Rebuilds):
    """A runnable of this study that leaves a matrix in another format.

    Parameters
    ----------
    built
        The modules of a precision by name.
    """

    kind = KIND
    #: What it reads, or most of it, is not what the launch before it read.
    cold = False
    #: Modules that it needs.
    modules: tuple[str, ...] = ()

    def __init__(self, built: Mapping[str, Built]) -> None:
        self._built = built
        self._held = ExitStack()
        self._read: Callable[[], sp.csr_array] = not_prepared
        self._restore: Callable[[], None] = not_prepared

    @property
    def identity(self) -> str:
        """The hashes of its modules."""
        return " ".join(self._built[name].module.hash for name in self.modules)

    def prepare(self, workspace: Workspace) -> None:
        """Bring what it needs to the device and bind its kernels.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            self.bind(Work(workspace, self._built, held), operands_of(workspace))
            self._held = held.pop_all()

    @abstractmethod
    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Do what `prepare` does, and say how the matrix is read; what is held is given to `work`."""

    def result(self) -> sp.csr_array:
        """Wait for what is queued and return the matrix."""
        return self._read()

    def release(self) -> None:
        """Give all memory back."""
        self._held, held = ExitStack(), self._held
        held.close()
        self.launch = self._read = self._restore = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)


class Updates(Rival):
    """A rival that is updated.

    Several batches are one operation of the device, a graph: one by one they would be more than its queue holds.

    Parameters
    ----------
    built
        The modules of a precision by name.
    what, order, which
        As of `updating`.
    """

    format: str
    #: What is put back before a launch cannot be put back within a graph.
    clocks: tuple[Clock, ...] = ("event",)

    def __init__(
        self, built: Mapping[str, Built], what: What = "insert", order: Order = "any", which: int | None = None
    ) -> None:
        super().__init__(built)
        self.what, self.order, self._which = what, order, which
        self.name = f"{self.format}/{what}{'' if which is None else f'-{which}'}/{order}"
        self._batch: int | None = None
        self._y: Buffer | None = None
        self._read_y: Callable[[], NDArray[np.floating]] | None = None
        if which is not None:
            self.leaves = which
        if what == "iterate":
            self.modules = (*self.modules, "product")

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, and with how many entries a batch."""
        return {
            "what": self.what,
            "format": self.format,
            "order": self.order,
            "mode": "unique" if self.sums else "add",
            "batch": self._batch,
        }

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bind the update; the batch of its row is the mean of all."""
        key = "updating", self.what, self.order, self._which
        plan = work.fact(key, lambda: updating(operands, self.what, self.order, self._which))
        self._batch = round((plan.after - plan.start.nnz) / len(plan.batches))
        self.bind_updates(work, plan)
        if len(plan.batches) > 1 and "event" in self.clocks:
            self.before()
            self.launch, self.clocks = work.captured(self.launch), ("event",)
        if self._y:
            work.device.fill(self._y, NAN_BYTE)

    @abstractmethod
    def bind_updates(self, work: Work, plan: Updating) -> None:
        """Bring start and batches to the device, and bind the kernels that insert them."""

    def with_products(
        self, work: Work, updates: Sequence[Run], product: Callable[[int, Buffer, Buffer], Run]
    ) -> list[Run]:
        """Return the updates, and where it iterates products behind each of them.

        Parameters
        ----------
        updates
            One a batch.
        product
            Given the number of a batch, x and y, returns what queues y = A x with the matrix that it leaves.
        """
        if self.what != "iterate":
            return [*updates]
        x, y = x_on(work.workspace, "AoS"), y_on(work.workspace)
        shape = operands_of(work.workspace).reference.shape
        self._y = y
        self._read_y = lambda: work.download(y, shape[0], operands_of(work.workspace).x.dtype)
        return [run for i, update in enumerate(updates) for run in (update, *[product(i, x, y)] * PRODUCTS)]

    def product(self) -> NDArray[np.floating] | None:
        """Wait for what is queued and return the last product."""
        return self._read_y() if self._read_y else None

    def release(self) -> None:
        """Give all memory back."""
        super().release()
        self._y = self._read_y = None
