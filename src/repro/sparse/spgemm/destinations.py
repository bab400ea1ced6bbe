"""The numeric phase of a product by stored destinations: of each product, the place in C's row that it is added to.

Rows of C are listed by their rooms, a launch each; where most rows have one or two rooms, one launch takes all of them
in the order of the matrix. Rows that are too long for a plan are computed by hash tables, as without one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device
from repro.sparse.device_work import Load, Scan, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import Kernels, in_order
from repro.sparse.spgemm.kernels import BYTES_ROOM, ROOMS, RefillShape, refill_shape, rows_that_plan
from repro.sparse.spgemm.rows import Factors, ProductBins, ProductRows, arguments_of, plan_for_any

#: Bytes of an entry of A in a plan.
STEP_BYTES = 8
#: Bytes of destinations that 32-bit offsets can address.
MAX_BYTES = (1 << 31) - 1
_LISTS = len(ROOMS) + 1
#: The lists of rows begin at multiples of so many numbers, as parts of a buffer do.
_ALIGNED = PART_ALIGNMENT // 4


class RoomRows(NamedTuple):
    """The rows of one launch."""

    room: int
    number: int
    #: Which they are, ascending, int32 `(number,)`; None: all rows of the matrix.
    listed: Buffer | None

    def arguments(self, instead: Buffer) -> list[Argument]:
        """Return the arguments that name the rows; without a list another buffer stands there, which is not read."""
        return [np.int32(self.number), np.int32(self.listed is not None), self.listed or instead]


class Destinations:
    """Where each product of C = A B is added to, for one pattern of each matrix.

    `load` loads modules of the precision. `factors` are in the format `exact`, and `c` is their product, with one
    segment a row and no free space. Other matrices may take their places later, if their tables are the same.
    """

    def __init__(self, device: Device, load: Load, factors: Factors, c: Storage) -> None:
        self._device, self._load, self._rows, self._dtype = device, load, c.shape[0], c.dtype
        self._means = _mean_row(factors.a), _mean_row(factors.b)
        self._kept: list[Buffer] = []
        self._launches: list[RoomRows] = []
        with device.pooling(), ExitStack() as held:
            self._make(held, factors, c)
            self._held = held.pop_all()

    @property
    def nbytes(self) -> int:
        """Return the bytes of the plan on the device."""
        return sum(buffer.nbytes for buffer in self._kept)

    @property
    def kernels(self) -> dict[str, int]:
        """Return the rows of each kernel that adds to stored destinations."""
        return {self._shape(rows).kernel: rows.number for rows in self._launches}

    def _make(self, held: ExitStack, factors: Factors, c: Storage) -> None:
        device, n = self._device, self._rows
        stride = -(-max(n, 1) // _ALIGNED) * _ALIGNED
        with ExitStack() as passing:
            # rows of each list and, behind them, the bytes of all destinations: one call clears or reads both
            counts = keep(passing, device.allocate(PART_ALIGNMENT + 8))
            totals = keep(passing, device.part(counts, PART_ALIGNMENT, 8))
            lists = keep(passing, device.allocate(4 * _LISTS * stride))
            sizes = keep(passing, device.allocate(4 * max(n, 1)))
            unplanned = device.allocate(4 * max(n, 1))
            held.callback(unplanned.release)
            device.fill(counts, 0)
            given = [*arguments_of(factors.a), *arguments_of(factors.b), c.table]
            own: list[Argument] = [np.int32(stride), lists, counts, sizes, unplanned, totals]
            Kernels(device, self._load("refill-exact")).over("list_rooms", n, [np.int32(n), *given, *own])()
            words = np.empty(_ALIGNED + 2, np.int32)
            device.download(counts, words)
            *of_rooms, self.unplanned = words[:_LISTS].tolist()
            high, low = words[-2:].astype(np.int64).tolist()
            nbytes = high * 65536 + low
            if nbytes > MAX_BYTES:  # offsets would not reach the last rows
                of_rooms, self.unplanned = [0] * len(ROOMS), n
                device.write(unplanned, _sizes_of(device, c))
            self._unplanned = unplanned
            if self.unplanned:
                self._kept.append(unplanned)
            else:
                unplanned.release()
            if any(of_rooms):
                self._base = self._keep(held, 4 * (n + 1))
                scan = keep(passing, Scan(device, self._load("sort"), n))
                scan.bind(sizes, self._base, n)()
                self._steps = self._keep(held, STEP_BYTES * factors.a.capacity)
                self._destinations = self._keep(held, nbytes)
                self._launches = self._list(held, of_rooms, lists, stride)
            for rows in self._launches:
                found = [*given, c.columns, self._base, self._steps, self._destinations]
                self._find(rows, [*rows.arguments(lists), *found])
            device.synchronize()  # what is passed on is released here

    def _keep(self, held: ExitStack, nbytes: int) -> Buffer:
        buffer = keep(held, self._device.allocate(max(nbytes, 4)))
        self._kept.append(buffer)
        return buffer

    def _list(self, held: ExitStack, counts: list[int], lists: Buffer, stride: int) -> list[RoomRows]:
        """Choose between one launch over all rows and one for each room, with a list of its rows."""
        used = [room for room, count in enumerate(counts) if count]
        top = used[-1]
        # shorter rows in a larger room cost less than lists: rows side by side share lines
        most = sum(counts[max(top - 1, 0) : top + 1])
        if not self.unplanned and ROOMS[top] <= BYTES_ROOM and 2 * most >= sum(counts):
            return [RoomRows(ROOMS[top], self._rows, None)]
        launches = []
        for room in used:
            part = self._device.part(lists, 4 * room * stride, 4 * counts[room])
            numbers = np.empty(counts[room], np.int32)
            self._device.download(part, numbers)
            part.release()
            listed = self._keep(held, numbers.nbytes)
            self._device.write(listed, np.sort(numbers))
            launches.append(RoomRows(ROOMS[room], counts[room], listed))
        return launches

    def _find(self, rows: RoomRows, arguments: list[Argument]) -> None:
        """Queue the kernel that finds the destinations of some rows."""
        target, device = self._device.target, self._device
        per_block = rows_that_plan(rows.room, target)
        kernel = self._load("refill-exact").kernel(f"plan_r{rows.room}")
        lanes = target.warp if target.dialect == "cuda" else 1
        device.bind(kernel, -(-rows.number // per_block), per_block * lanes, arguments)()

    def _shape(self, rows: RoomRows) -> RefillShape:
        target = self._device.target
        resident = self._device.sm_count * target.threads_per_sm
        return refill_shape(target, self._dtype.itemsize, rows.room, rows.number, *self._means, resident)

    def bind(self, factors: Factors, c: Storage, held: ExitStack) -> Callable[[], None]:
        """Return a launch of the values of C = A B; `held` releases working memory for rows without destinations."""
        launches: list[Callable[[], None]] = []
        for rows in self._launches:
            shape = self._shape(rows)
            kernel = self._load("refill-exact").kernel(shape.kernel)
            of_a: list[Argument] = [factors.a.table, factors.a.values, self._steps, self._base, self._destinations]
            arguments = [*rows.arguments(self._base), *of_a, factors.b.values, c.table, c.values]
            launches.append(self._device.bind(kernel, -(-rows.number // shape.rows), shape.threads, arguments))
        if self.unplanned:
            launches.append(self._bind_unplanned(factors, c, held))
        return in_order(launches)

    def _bind_unplanned(self, factors: Factors, c: Storage, held: ExitStack) -> Callable[[], None]:
        device = self._device
        with device.pooling():
            bins = keep(held, ProductBins(device, self._load(f"count-{factors.format}"), self._rows))
            bins.by_sizes(c, self._unplanned)
            rows = ProductRows(device, self._load, factors, c, bins, bins.counts)
            return rows.bind("numeric", bins.read(), plan_for_any(device.target, c.dtype.itemsize), held)

    def release(self) -> None:
        """Release the memory; a second call has no effect."""
        self._held.close()


def _mean_row(matrix: Storage) -> float:
    return matrix.report().pointer / max(matrix.shape[0], 1)


def _sizes_of(device: Device, matrix: Storage) -> NDArray[np.int32]:
    sizes = np.empty(max(matrix.shape[0], 1), np.int32)
    device.download(matrix.sizes, sizes)
    return sizes
