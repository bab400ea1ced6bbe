"""y = A x by one generated kernel: a matrix packed in a layout, and its launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock, get_ident

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import INDEX_BYTES
from repro.devices.base import (
    ADDRESS,
    PER_THREAD_DEFAULT_STREAM,
    Argument,
    Buffer,
    Call,
    Device,
    LaunchError,
    Program,
)
from repro.entries import get_entry
from repro.errors import Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import Launch, finding_of_runs, launches, run_count, scratch_bytes
from repro.sparse.compound.outer import get_outer
from repro.sparse.compound.packing import Packed, PackedFacts, pack, pack_pairs
from repro.sparse.compound.variants import (
    DYNAMIC,
    L2_SHARE,
    SPLIT,
    STORED_ORDERS,
    TILE_ROWS,
    Layout,
    VariantId,
)
from repro.sparse.elementwise import CallsInOrder, in_order, padded_size
from repro.sparse.pairs import shared_bytes
from repro.sparse.symmetry import Symmetry


def is_square_only(layout: Layout, entry: str) -> bool:
    """Return whether no kernel of a layout takes rectangular matrices; orders of unknowns do not count."""
    return layout.stores_pairs or (layout.vector == "SoA" and get_entry(entry).size > 1)


def suits(matrix: Matrix, layout: Layout) -> bool:
    """Return whether a layout may be used for a matrix; see `require_suitable`."""
    try:
        require_suitable(matrix.shape, matrix.entry, layout)
    except Unsupported:
        return False
    return True


def require_suitable(shape: tuple[int, int], entry: str, layout: Layout) -> None:
    """Raise `Unsupported` if a layout is for square matrices only, and a matrix of a shape and entry is rectangular."""
    if shape[0] == shape[1]:
        return
    size = "a matrix of {:,} rows and {:,} columns".format(*shape)
    if layout.unknowns != "natural":
        raise Unsupported(f"{size}: @{layout.unknowns} orders rows and columns alike, so it is for square matrices")
    if is_square_only(layout, entry) and not layout.stores_pairs:
        raise Unsupported(
            f"{size}: kernels with vectors in SoA order take x and y of one length; AoS and Padded do not"
        )


#: Largest number of slots per entry for our layouts.
MAX_PADDING = 4


def padding(row_lengths: NDArray[np.int32], outer: str, warp: int) -> float:
    """Return the number of slots per entry of a matrix with rows of these lengths, `(n,)`; there are entries."""
    if get_outer(outer).group_rows == 1:
        return 1.0
    slots, _ = get_outer(outer).count(row_lengths, warp)
    return slots / int(row_lengths.sum(dtype=np.int64))


def pack_layout(
    matrix: Matrix,
    values: NDArray[np.floating],
    layout: Layout,
    warp: int,
    symmetry: Callable[[], Symmetry],
    row_order: Callable[[str], NDArray[np.int64]],
) -> Packed:
    """Store a matrix with `values` `(nnz, members)` in a layout.

    `symmetry` returns the symmetry of these values, and `row_order` a row order of `STORED_ORDERS`; they are called
    only if the layout needs them. `warp` is the device's. It raises `Unsupported` if the layout does not suit
    the matrix; what `require_suitable` refuses is to be refused before.
    """
    order = STORED_ORDERS.get(layout.ordering)
    if layout.stores_pairs:
        found = symmetry()
        return pack_pairs(matrix, values, found, layout, row_order(order) if found.kind and order else None)
    return pack(matrix, values, layout, warp, row_order(order) if order else None)


@dataclass(frozen=True)
class Steps:
    """Distances between the numbers of a matrix X or Y, in scalars of the device."""

    row: int
    column: int

    @classmethod
    def of(cls, shape: tuple[int, int], parts: int, *, row_major: bool) -> Steps:
        """Return the steps of a contiguous matrix; `parts` is the scalars of a number, 2 if it is complex."""
        rows, columns = shape
        return cls(columns * parts, parts) if row_major else cls(parts, rows * parts)


#: Scratches that `ScratchOfStreams` allocates in advance.
SPARE_SCRATCHES = 2


class ScratchOfStreams:
    """Memory of a product for each stream, since two streams cannot share it, and a lock for those who queue there.

    The device's own stream has the memory `own`. A few more are allocated in advance, since nothing can be allocated
    while a stream is captured into a graph. Graphs that were captured on one stream share its memory, and take turns.
    """

    def __init__(self, device: Device, own: Buffer, allocate: Callable[[], Buffer]) -> None:
        self._allocate = allocate
        self.own_stream = int(getattr(device, "stream", 0)), 0
        self._scratches = {self.own_stream: (Lock(), own)}
        self._spare = [allocate() for _ in range(SPARE_SCRATCHES)]

    def of(self, stream: tuple[int, int]) -> tuple[Lock, Buffer]:
        """Return those of a stream and a thread, 0 if threads share the stream; the caller locks the device."""
        if stream not in self._scratches:
            self._scratches[stream] = Lock(), self._spare.pop() if self._spare else self._allocate()
        return self._scratches[stream]


class CallOfEachStream:
    """A call of several launches that use the memory of its stream in between; implements `Call`.

    `bind` returns the call with such memory. The first is bound at once, as binding may load a module, which is not
    possible while a stream is captured either.
    """

    def __init__(self, device: Device, scratches: ScratchOfStreams, bind: Callable[[Buffer], Call]) -> None:
        self._device, self._scratches, self._bind, self._closed = device, scratches, bind, False
        self._calls: dict[tuple[int, int], tuple[Lock, Call]] = {}
        self._new(scratches.own_stream)

    def __call__(self, stream: int, *addresses: int) -> None:
        key = stream, get_ident() if stream == PER_THREAD_DEFAULT_STREAM else 0
        lock, call = self._calls.get(key) or self._new(key)
        with lock:  # the launches of another thread's call come before or after
            call(stream, *addresses)

    def _new(self, key: tuple[int, int]) -> tuple[Lock, Call]:
        with self._device.current():  # allocating needs it, and who closes has it
            if self._closed:
                raise LaunchError("the memory of the kernel's arguments was freed")
            if key not in self._calls:
                lock, scratch = self._scratches.of(key)
                self._calls[key] = lock, self._bind(scratch)
            return self._calls[key]

    def close(self) -> None:
        with self._device.current():
            self._closed = True
            for _, call in self._calls.values():
                call.close()


class CompoundProduct:
    """A packed matrix on a device, and the kernel of one variant that multiplies by it.

    Parameters
    ----------
    program
        The loaded module with the variant's kernel.
    facts, arrays
        The packed matrix: its sizes, and its arrays on the device in the order of `Packed.arrays`.
    n
        Number of rows.
    entry_bytes
        Bytes of one entry of x as stored, and of a `split` schedule's sums.
    scratch
        It returns memory on the device, at least of the given bytes: a dynamic schedule counts there, and a `split`
        schedule stores which rows each run of entries has, and the sums of those that go on in another. Products of
        one matrix may have a scratch in common, if they take turns.

    Raises
    ------
    Unsupported
        The variant keeps a part of the matrix in L2, and all of it fits.
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        id: VariantId,
        facts: PackedFacts,
        arrays: Mapping[str, Buffer],
        n: int,
        entry_bytes: int,
        scratch: Callable[[int], Buffer],
    ) -> None:
        self._device, self._program, self.id, self.nbytes = device, program, id, facts.nbytes
        layout, schedule = id.layout, id.schedule
        long_rows = layout.permutes_rows and not layout.stores_pairs
        self._grid = schedule.blocks(n, device.sm_count, facts.stride if long_rows else 0)
        self._runs = run_count(facts.slots, device.target.warp)
        self._shared = _shared_bytes(id, facts, entry_bytes)
        self._matrix: list[Argument] = [np.int32(n), np.int32(facts.slots), np.int32(facts.stride)]
        self._matrix += [np.int32(facts.leading)] if layout.stores_pairs else []
        self._matrix += arrays.values()
        self._kept_slots = _kept_slots(id, facts, device)
        self._allocate, self._scratch_bytes = scratch, INDEX_BYTES
        if schedule.kind == SPLIT:
            self._scratch_bytes = scratch_bytes(self._runs, entry_bytes)
            self._finding: list[Argument] = [np.int32(n), np.int32(facts.slots), arrays["index"]]
        self._scratch = self._new_scratch()

    def _new_scratch(self) -> Buffer:
        """Return scratch memory for the schedule, and queue the kernel that prepares it for `split`."""
        device, scratch = self._device, self._allocate(self._scratch_bytes)
        if self.id.schedule.kind == SPLIT:
            device.fill(scratch, 0)
            self._launch(finding_of_runs(device.target), [*self._finding, scratch])()
        return scratch

    def bind(self, x: Buffer, y: Buffer, *, dependent: bool = False) -> Callable[[], None]:
        """Return a launch of y = A x on the device's own queue; `dependent` as in `Device.bind_dependent`."""
        return self._bound([*self._matrix, x, y, self._scratch], overlaps=dependent)

    def _bound(self, arguments: Sequence[Argument], *, overlaps: bool = False) -> Callable[[], None]:
        """Return a launch before which a dynamic schedule's counter is reset, or after which carries are added."""
        first, *others = launches(self.id.schedule, self._device.target)
        parts = [self._launch(first, [*arguments, *self._kept_slots], overlaps=overlaps)]
        parts += [self._launch(other, arguments, overlaps=True) for other in others]
        if self.id.schedule.kind == DYNAMIC:
            parts.insert(0, lambda: self._device.fill(self._scratch, 0))
        return parts[0] if len(parts) == 1 else in_order(parts)

    def _launch(self, launch: Launch, arguments: Sequence[Argument], *, overlaps: bool = False) -> Callable[[], None]:
        """Return a launch; one that `overlaps` may begin before the previous one has ended."""
        device, grid = self._device, self._blocks(launch)
        if overlaps:
            return device.bind_dependent(self._program, launch.kernel, grid, launch.threads, arguments, self._shared)
        return device.bind(self._program.kernel(launch.kernel, self._shared), grid, launch.threads, arguments)

    def _blocks(self, launch: Launch) -> int:
        return -(-self._runs // launch.runs) if launch.runs else self._grid

    def bind_columns(self, x: Buffer, y: Buffer, first: int, x_steps: Steps, y_steps: Steps) -> Callable[[], None]:
        """Return a launch of Y = A X for the columns of X and Y from `first` on.

        The program is a module with `columns`, which says how many they are.
        """
        return self._bound([*self._columns_arguments(x, y, first, x_steps, y_steps), self._scratch])

    def bind_call(self) -> Call | None:
        """Return y = A x on any stream, called with the addresses of x and y; the caller locks the device.

        It is None if the device's memory has no addresses, or if the schedule is dynamic.
        """
        return self._call_with([[*self._matrix, ADDRESS, ADDRESS]])

    def bind_columns_call(self, starts: Sequence[int], x_steps: Steps, y_steps: Steps) -> Call | None:
        """Return what `bind_columns` does from each start on, as `bind_call`, with the addresses of X and Y."""
        return self._call_with([self._columns_arguments(ADDRESS, ADDRESS, first, x_steps, y_steps) for first in starts])

    def _call_with(self, products: Sequence[Sequence[Argument]]) -> Call | None:
        """Return products with these arguments, in this order, as one call."""
        if self.id.schedule.kind == DYNAMIC or self._device.backend != "cuda":
            return None
        if self.id.schedule.kind == SPLIT:
            return CallOfEachStream(self._device, self._scratches, lambda scratch: self._call_on(scratch, products))
        return self._call_on(self._scratch, products)

    def _call_on(self, scratch: Buffer, products: Sequence[Sequence[Argument]]) -> Call:
        calls: list[Call] = []
        for arguments in products:
            for number, launch in enumerate(launches(self.id.schedule, self._device.target)):
                call = self._device.bind_call(
                    self._program, launch.kernel, self._blocks(launch), launch.threads,
                    [*arguments, scratch, *([] if number else self._kept_slots)], self._shared,
                )  # fmt: skip
                assert call is not None
                calls.append(call)
        return calls[0] if len(calls) == 1 else CallsInOrder(calls)

    @cached_property
    def _scratches(self) -> ScratchOfStreams:
        def allocate() -> Buffer:
            scratch = self._new_scratch()
            self._device.synchronize()  # other streams do not wait for what the device's own stream does
            return scratch

        return ScratchOfStreams(self._device, self._scratch, allocate)

    def _columns_arguments(
        self, x: Buffer, y: Buffer, first: int, x_steps: Steps, y_steps: Steps
    ) -> Sequence[Argument]:
        places = (first, x_steps.row, x_steps.column, y_steps.row, y_steps.column)
        return [*self._matrix, x, y, *map(np.int32, places)]


def _shared_bytes(id: VariantId, facts: PackedFacts, entry_bytes: int) -> int:
    """Return the bytes of dynamic shared memory per block of a pair format; 0 for other formats."""
    layout = id.layout
    if not layout.stores_pairs:
        return 0
    tile_rows = TILE_ROWS[layout.outer]
    return shared_bytes(facts.shared + (id.schedule.width - 1) * tile_rows, tile_rows, entry_bytes)


def vector_entry_bytes(layout: Layout, size: int, itemsize: int) -> int:
    """Return the bytes of an entry of `size` numbers in a vector of a layout."""
    return (padded_size(size) if layout.vector == "Padded" else size) * itemsize


def _kept_slots(id: VariantId, facts: PackedFacts, device: Device) -> list[np.int32]:
    """Return the number of slots to keep in L2, an argument of `el` kernels.

    It raises `Unsupported` if the whole matrix fits in L2.
    """
    if id.schedule.load != "el":
        return []
    share = L2_SHARE * device.l2_bytes / facts.nbytes
    if share >= 1 and device.backend == "cuda":
        raise Unsupported(
            f"the matrix takes {facts.nbytes:,} bytes, and {L2_SHARE:.0%} of L2, which has {device.l2_bytes:,}, "
            "would be kept for it: all of it"
        )
    return [np.int32(min(1.0, share) * facts.slots)]
