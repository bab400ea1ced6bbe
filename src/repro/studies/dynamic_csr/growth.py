"""What is timed of a dynamic matrix beside its products: batches, the whole matrix, bringing together, conversions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError, Unsupported, in_turn
from repro.devices.base import Buffer
from repro.sparse.built import Built
from repro.sparse.dynamic import state
from repro.sparse.dynamic.batch import Batch
from repro.sparse.dynamic.layout import SEGMENTS, Arrays, lay_out, pitch_of, room_for
from repro.sparse.dynamic.operations import Operations
from repro.sparse.dynamic.storage import Storage
from repro.sparse.kernels import Scratch, in_order
from repro.sparse.work import Work
from repro.studies.dynamic_csr.binned import binned_products
from repro.studies.dynamic_csr.conversions import FormatConversion
from repro.studies.dynamic_csr.coordinates import Resident
from repro.studies.dynamic_csr.csr_memory import CsrMemory, bind_copy
from repro.studies.dynamic_csr.operands import GraphOperands
from repro.studies.dynamic_csr.rival import Order, Rival, Updates, Updating, What
from repro.studies.dynamic_csr.states import state_in

KIND = "variant"
FORMAT = "dcsr"
MODULES = ("matrix", "rebuild", "sort")
Mode = Literal["add", "unique"]
#: Entries that a row has room for at the least where batches of their own come into rows with room.
ROOM = 16


class DynamicUpdate(Updates):
    """Batches into a dynamic matrix, one after the other.

    What is streamed as a whole comes into rows with one segment of the mean size, as in the paper; batches into rows
    with one segment of their size, and a batch of its own into rows with room for it in the mean.

    Parameters
    ----------
    built
        The modules of a precision by name.
    what, order, which
        As of `updating`.
    mode
        `add`: entries of a place come beside each other. `unique`: they are added to the one that is there.
    """

    kind = KIND
    format = FORMAT
    modules = MODULES

    def __init__(
        self,
        built: Mapping[str, Built],
        what: What = "insert",
        order: Order = "any",
        which: int | None = None,
        mode: Mode = "add",
    ) -> None:
        super().__init__(built, what, order, which)
        self.sums = mode == "unique"
        self.name += f"/{mode}"
        self._slack: int | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, and the chains of the matrix."""
        return {**super().columns, "segments": SEGMENTS, "slack": self._slack}

    def bind_updates(self, work: Work, plan: Updating) -> None:
        """Bring the matrix and the batches to the device, and bind what inserts them.

        Raises
        ------
        Unsupported
            Chains are full in the middle of the batches, so that a launch would have to stop.
        """
        arrays, self._slack = _before(plan, self.what)
        storage = hold(work, arrays)
        operations = operations_on(work, storage)
        pristine = [work.upload(array) for array in (arrays.table, _words(arrays), arrays.sizes)]
        self._restore = _copy(work, arrays, pristine, [storage.table, storage.state, storage.sizes])
        if self.sums:  # values are added to
            given = arrays.values[: arrays.pointer]
            values = bind_copy(work, (given.nbytes // 4, 0, 0), 3 * [work.upload(given)], 3 * [storage.values])
            self._restore = in_turn(self._restore, values)
        launches, lacking = [], []
        for entries in plan.batches:
            batch = Batch(len(entries.rows), *Resident.upload(work, entries), grouped=self.order == "sorted")
            launches.append(self._bind_batch(operations, batch))
        self._restore()
        for launch in launches:
            launch()
            lacking.append(storage.report().left)
        if any(lacking):
            raise Unsupported(
                f"{sum(lacking)} entries of {sum(map(bool, lacking))} batches found no room: the matrix would have to "
                "be brought together on the way"
            )
        self._read = lambda: storage.download().to_csr()
        products = cache(partial(binned_products, work, storage, arrays.sizes))  # binned once, as rows are at first
        self.launch = in_order(self.with_products(work, launches, lambda _, x, y: products()(x, y)))

    def _bind_batch(self, operations: Operations, batch: Batch) -> Callable[[], None]:
        if not batch.count:
            return lambda: None
        assert self._slack is not None
        if not self.sums:
            return operations.insertion(batch, self._slack).launch
        arrange, arranged = operations.arranged(batch)
        return in_turn(arrange, operations.unique_insertion_of(batch, arranged, self._slack, "add").launch)

    def before(self) -> None:
        """Take all batches out again."""
        self._restore()


class Defragmentation(Rival):
    """All rows of the grown matrix, as the batches left it, into one segment each of another buffer."""

    kind = KIND
    modules = MODULES
    name = f"{FORMAT}/defragment"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is brought together."""
        return {"what": "defragment", "format": FORMAT, "state": "fragmented", "segments": SEGMENTS}

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Lay the matrix out as the batches leave it, and bind what brings it together."""
        arrays = state_in(work.workspace, operands, "fragmented")
        storage = hold(work, arrays)
        nnz, rows, number = arrays.nnz, arrays.shape[0], arrays.values.itemsize
        target = hold(work, lay_out(sp.csr_array(arrays.shape, dtype=arrays.values.dtype), SEGMENTS, nnz))
        # entries twice; pairs in use and sizes read, pairs of all slots and sizes written
        pairs = 8 * int(arrays.fragments.sum()) + 8 * SEGMENTS * rows
        self.moved = 2 * nnz * (4 + number) + pairs + 8 * rows
        self.launch = bring_together(operations_on(work, storage), target)
        self._read = lambda: _exact(target, nnz)


class DynamicConversion(FormatConversion):
    """A conversion into dynamic CSR, from `csr` or `coo`, or out of it, into `csr`.

    A dynamic matrix comes with one segment a row.
    """

    kind = KIND
    modules = MODULES

    def bind(self, work: Work, operands: GraphOperands) -> None:
        """Bring the matrix to the device in the source's format, and bind the kernels."""
        matrix = operands.grown
        rows, nnz, number = matrix.shape[0], int(matrix.nnz), matrix.dtype.itemsize
        self.moved = 2 * nnz * (4 + number) + 12 * rows
        if self._source == FORMAT:
            compact = lay_out(matrix, SEGMENTS)
            operations = operations_on(work, hold(work, compact))
            target = hold(work, lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), SEGMENTS, nnz))
            self.launch = bring_together(operations, target)
            self._read = lambda: _exact(target, nnz)
            return
        given = CsrMemory.upload(work, matrix)
        blank = lay_out(sp.csr_array(matrix.shape, dtype=matrix.dtype), SEGMENTS, nnz)
        storage = hold(work, blank)
        launches, offsets = [], given.offsets
        if self._source == "coo":
            _, offsets, launch = self.bind_offsets(work, matrix)
            launches.append(launch)
        launches += [
            bind_copy(work, (0, nnz, nnz * number // 4), given, (offsets, storage.columns, storage.values)),
            operations_on(work, storage).adoption(offsets),
        ]
        self._read = lambda: storage.download().to_csr()
        self.launch = in_order(launches)


def hold(work: Work, arrays: Arrays) -> Storage:
    """Bring a matrix to the device, its arrays between guard zones."""
    names: dict[str, NDArray[Any]] = {
        "columns": arrays.columns,
        "values": arrays.values,
        "table": arrays.table,
        "sizes": arrays.sizes,
    }
    names |= {"versions": np.zeros_like(arrays.sizes), "state": _words(arrays)}
    # where no segment is cut off yet, entries are undefined: that may be most of the memory
    used = dict.fromkeys(("columns", "values"), arrays.pointer)
    buffers = (work.load(array, f"the {name} of the matrix", used.get(name)) for name, array in names.items())
    dtype = arrays.values.dtype
    return Storage(work.device, arrays.shape, arrays.segments, arrays.capacity, dtype, *buffers)


def operations_on(work: Work, storage: Storage) -> Operations:
    """Return the operations of a matrix, with memory for what passes between their kernels."""
    scratch = work.keep(Scratch(work.device))
    return work.keep(Operations(storage, work.program("matrix"), work.program("sort"), scratch))


def bring_together(operations: Operations, target: Storage) -> Callable[[], None]:
    """Return what queues a defragmentation into a matrix that is large enough, without slack."""
    rooms, offsets = operations.rooms(0)
    return in_turn(rooms, operations.copy(offsets, target, slack=False))


def _before(plan: Updating, what: What) -> tuple[Arrays, int]:
    """Return the matrix before the first batch, and the slack: the mean row size of what the rows are to hold."""
    rows, start = plan.start.shape[0], plan.start
    counts = [len(batch.rows) for batch in plan.batches]
    mean = (plan.after if what == "stream" else start.nnz) // max(rows, 1)
    coming = room_for(counts, rows, SEGMENTS, mean)
    if what == "stream":
        return lay_out(start, SEGMENTS, rows * mean + coming, width=mean), mean
    if what in ("insert", "iterate"):
        return lay_out(start, SEGMENTS, start.nnz + coming), mean
    # a batch of its own: twice the room that it takes in the mean, and some, so that rows drawn at random have it
    room = 2 * (-(-sum(counts) // max(rows, 1))) + ROOM
    return lay_out(start, SEGMENTS, start.nnz + rows * room + coming, slack=room), mean


def _words(arrays: Arrays) -> NDArray[np.int32]:
    words = np.zeros(state.WORDS, np.int32)
    words[state.POINTER] = arrays.pointer
    return words


def _copy(work: Work, arrays: Arrays, sources: list[Buffer], targets: list[Buffer]) -> Callable[[], None]:
    """Return what queues a copy of table, state and sizes."""
    words = arrays.segments * pitch_of(arrays.shape[0]), state.WORDS, arrays.shape[0]
    return bind_copy(work, words, sources, targets)


def _exact(storage: Storage, nnz: int) -> sp.csr_array:
    """Return a matrix that has to have one segment a row without slack.

    Raises
    ------
    IncorrectError
        It has others.
    """
    arrays = storage.download()
    if (arrays.fragments > 1).any() or arrays.pointer != nnz or int(arrays.room.sum()) != nnz:
        raise IncorrectError("rows have more than one segment, or room")
    return arrays.to_csr()
