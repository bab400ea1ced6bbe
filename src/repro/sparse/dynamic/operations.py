"""Operations of a dynamic matrix on its device, each queued as one launch of one or several kernels.

None of them waits for the device. `repro.sparse.dynamic.matrix` reads from the report (`Storage.report`) which entries
were not inserted, and makes space for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer, Device, Program
from repro.sparse.device_primitives import SORT_KEY_BITS, RadixSort, Scan, bit_count
from repro.sparse.dynamic.kernels import (
    CONTINUED_ROW_WORDS,
    COPIES_PER_THREAD,
    ENTRIES_PER_PART,
    ENTRIES_PER_THREAD,
    INSERT_ENTRIES_PER_THREAD,
    LONG_BLOCKS,
    MAX_MEDIUM_BATCH,
    MAX_SMALL_BATCH,
    ROWS_PER_THREAD,
    SMALL_BLOCK_SIZE,
)
from repro.sparse.dynamic.storage import EntryBatch, SortedBatch, Storage
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, Launch, LaunchCache, Scratch, in_order

#: Key bits of four radix-sort passes of seven bits; and limits of the number of bits of a column's hash: with more
#: bits, fewer columns of a row collide.
KEPT_BITS = 28
#: Largest number of operations whose launches are kept.
MAX_KEPT = 8
MIN_HASH_BITS, MAX_HASH_BITS = 8, 16
#: Treatment of a value whose coordinates have an entry already.
Existing = Literal["replace", "add"]
T = TypeVar("T")


@dataclass(frozen=True)
class Insertion:
    """An insertion of a batch that can be launched repeatedly."""

    launch: Launch
    #: Queues a kernel that collects the reported number of unplaced entries, to be inserted again.
    gather_unplaced: Callable[[int], SortedBatch]
    #: Waits, and returns the indices in the batch of the unplaced entries, int32 `(m,)`; allocates no device memory.
    unplaced_indices: Callable[[int], NDArray[np.int32]]


class Operations:
    """The operations of one matrix, bound to its arrays; if the arrays are replaced, new operations are needed.

    `matrix` and `sort` are the loaded modules of these names; `scratch` is temporary memory of the kernels.
    """

    def __init__(self, storage: Storage, matrix: Program, sort: Program, scratch: Scratch) -> None:
        self.storage = storage
        self._program = matrix
        self._kernels = Kernels(storage.device, matrix)
        self._sort = sort
        self._scratch = scratch
        self._known: list[Buffer] = []
        self._scans: dict[int, Scan] = {}
        self._sorts: dict[int, RadixSort] = {}
        self._kept: dict[tuple[object, ...], Any] = {}

    def kept(self, batch: EntryBatch, make: Callable[[], T], *settings: object) -> T:
        """Return the operation that `make` binds for a batch; it is bound once for batches in the same buffers.

        `settings` tell apart the operations on a batch.
        """
        if not batch.in_own_memory:
            return make()
        key = batch.count, batch.rows, batch.values, *settings
        if key not in self._kept:
            if len(self._kept) == MAX_KEPT:
                self._kept.clear()
            self._kept[key] = make()
        operation: T = self._kept[key]
        return operation

    @property
    def _device(self) -> Device:
        return self.storage.device

    # inserting --------------------------------------------------------------------------------------------------------

    def insertion(self, batch: EntryBatch, slack: int) -> Insertion:
        """Return the insertion of a batch; duplicates stay side by side, and each new segment has `slack` free entries.

        For a small batch the launch costs more than the work: a single block inserts it, or several blocks that divide
        its rows. A large batch is sorted by row, and inserted by blocks of consecutive entries.
        """
        if batch.count <= MAX_SMALL_BATCH:
            return self._single_launch("insert_small", 1, batch, slack)
        if batch.count <= MAX_MEDIUM_BATCH:
            bits = max(1, (-(-batch.count // ENTRIES_PER_PART) - 1).bit_length())
            return self._single_launch("insert_parts", 1 << bits, batch, slack, np.int32(bits))
        if batch.grouped:
            insertion = self.sorted_insertion(batch, SortedBatch(batch.count, batch.rows), slack)
            return replace(insertion, launch=in_order([self._check(batch), insertion.launch]))
        row_sort = self._sorter(batch.count).bind(batch.rows, batch.count, bit_count(self.storage.shape[0]))
        insertion = self.sorted_insertion(batch, SortedBatch(batch.count, row_sort.keys, row_sort.order), slack)
        return replace(insertion, launch=in_order([self._check(batch), row_sort.launch, insertion.launch]))

    def sorted_insertion(self, batch: EntryBatch, sorted_batch: SortedBatch, slack: int) -> Insertion:
        """Return the insertion of a batch whose entries are grouped by row and known to be inside the matrix."""
        storage, m = self.storage, np.int32(sorted_batch.count)
        entries_per_thread = INSERT_ENTRIES_PER_THREAD[self._device.backend]
        entries_per_block = entries_per_thread * BLOCK_SIZE[self._device.backend]
        continued_rows = self._zeros(
            "continued rows", CONTINUED_ROW_WORDS * -(-sorted_batch.count // entries_per_block)
        )
        unplaced = self._ints("unplaced", sorted_batch.count)
        order = sorted_batch.order or sorted_batch.rows  # without an order, the kernel does not read this argument
        assert batch.values is not None
        batch_arguments: list[Argument] = [
            m, np.int32(sorted_batch.order is not None), sorted_batch.rows, order, batch.columns, batch.values,
            continued_rows,
            unplaced,
        ]  # fmt: skip
        storage_arguments: list[Argument] = [
            np.int32(storage.capacity), *self._chain, storage.columns, storage.values, storage.state,
        ]  # fmt: skip
        launch = self._kernels.over(
            "insert_runs",
            sorted_batch.count,
            [*batch_arguments, np.int32(slack), *storage_arguments],
            entries_per_thread,
        )
        if self._device.backend != "cuda":  # here no block waits for another one, so a second kernel completes rows
            launch = in_order(
                [
                    launch,
                    self._kernels.over(
                        "insert_rest", sorted_batch.count, [*batch_arguments, *storage_arguments], entries_per_block
                    ),
                ]
            )
        return Insertion(
            launch,
            partial(self._gather_unplaced, batch, sorted_batch, unplaced),
            partial(self._unplaced_indices, sorted_batch, unplaced),
        )

    def _gather_unplaced(
        self, batch: EntryBatch, sorted_batch: SortedBatch, unplaced: Buffer, count: int
    ) -> SortedBatch:
        """Collect the unplaced entries of a sorted batch; entries of the same row keep their order."""
        rows, order = self._ints("unplaced rows", count), self._ints("unplaced order", count)
        self._over(
            "gather_unplaced", count, np.int32(count), np.int32(sorted_batch.order is not None), unplaced,
            sorted_batch.rows, sorted_batch.order or sorted_batch.rows, rows, order,
        )()  # fmt: skip
        if sorted_batch.columns is None:
            return SortedBatch(count, rows, order)
        columns = self._ints("unplaced columns", count)
        self._over("gather", count, np.int32(count), order, batch.columns, columns)()
        return SortedBatch(count, rows, order, columns)

    def _unplaced_indices(self, sorted_batch: SortedBatch, unplaced: Buffer, count: int) -> NDArray[np.int32]:
        places = self._download(unplaced, count)
        return places if sorted_batch.order is None else self._download(sorted_batch.order, sorted_batch.count)[places]

    def _download(self, numbers: Buffer, count: int) -> NDArray[np.int32]:
        array = np.empty(count, np.int32)
        self._device.download(numbers, array)
        return array

    def _single_launch(self, name: str, blocks: int, batch: EntryBatch, slack: int, *parts: Argument) -> Insertion:
        storage, shape = self.storage, self.storage.shape
        rows, order = self._ints("unplaced rows", batch.count), self._ints("unplaced order", batch.count)
        assert batch.values is not None
        arguments: list[Argument] = [
            np.int32(batch.count), *parts, np.int32(shape[0]), np.int32(shape[1]), batch.rows, batch.columns,
            batch.values, rows, order, np.int32(slack), np.int32(storage.capacity), *self._chain, storage.columns,
            storage.values, storage.state,
        ]  # fmt: skip
        launch = self._kernels.blocks(name, blocks, arguments, SMALL_BLOCK_SIZE[self._device.backend])
        return Insertion(launch, lambda count: SortedBatch(count, rows, order), partial(self._download, order))

    # changing ---------------------------------------------------------------------------------------------------------

    def sorting(self, batch: EntryBatch) -> tuple[Launch, SortedBatch]:
        """Return a launch that sorts a batch by row and by a hash of the column, and the sorted batch.

        The launch counts entries outside of the matrix in the state; later launches refuse the batch if there are any.
        """
        count, storage = batch.count, self.storage
        keys, rows, columns = (self._ints(name, count) for name in ("keys", "sorted rows", "sorted columns"))
        m, bits, n_rows, n_columns = map(np.int32, (count, self._hash_bits, *storage.shape))
        key_sort = self._sorter(count).bind(keys, count, bit_count(storage.shape[0]) + self._hash_bits)
        launch = in_order(
            [
                self._over(
                    "make_keys", count, m, n_rows, n_columns, bits, batch.rows, batch.columns, keys, storage.state
                ),
                key_sort.launch,
                self._over("split_keys", count, m, bits, key_sort.keys, key_sort.order, batch.columns, rows, columns),
            ]
        )
        return launch, SortedBatch(count, rows, key_sort.order, columns)

    def unique_insertion(
        self,
        batch: EntryBatch,
        sorted_batch: SortedBatch,
        slack: int,
        existing: Existing = "replace",
        grow: bool = True,
    ) -> Insertion:
        """Return an insertion that appends entries at new coordinates, and replaces existing values or adds to them.

        `sorted_batch` is the result of `sorting`, or the unplaced entries of an insertion. If several entries of the
        batch have the same coordinates, the last one counts, or their sum. Without `grow`, entries at new coordinates
        are ignored.
        """
        storage, count = self.storage, sorted_batch.count
        assert sorted_batch.order is not None and batch.values is not None
        hits, ranks, unplaced = (self._ints(name, count) for name in ("hits", "ranks", "unplaced"))
        batch_arguments: list[Argument] = [
            *self._row_arguments(sorted_batch), np.int32(existing == "add"), np.int32(grow), sorted_batch.order,
            batch.values,
        ]  # fmt: skip
        storage_arguments: list[Argument] = [
            unplaced,
            np.int32(slack),
            np.int32(storage.capacity),
            *self._update_arguments,
        ]
        long_runs = self._ints("long runs", count)
        launches = [
            self._over("merge", count, *batch_arguments, long_runs, *storage_arguments),
            self._long_row_launch("merge_long", count, [*batch_arguments, long_runs, hits, ranks, *storage_arguments]),
            self._settle(),
        ]  # fmt: skip
        return Insertion(
            in_order(launches),
            partial(self._gather_unplaced, batch, sorted_batch, unplaced),
            partial(self._unplaced_indices, sorted_batch, unplaced),
        )

    def deletion(self, batch: EntryBatch) -> Launch:
        arrange, sorted_batch = self.sorting(batch)
        arguments = [*self._row_arguments(sorted_batch), self._ints("long runs", batch.count), *self._update_arguments]
        erase = self._over("erase", batch.count, *arguments)
        return in_order([arrange, erase, self._long_row_launch("erase_long", batch.count, arguments), self._settle()])

    def _row_arguments(self, sorted_batch: SortedBatch) -> list[Argument]:
        assert sorted_batch.columns is not None
        return [np.int32(sorted_batch.count), sorted_batch.rows, sorted_batch.columns, np.int32(self._hash_bits)]

    @property
    def _update_arguments(self) -> list[Argument]:
        """Kernel arguments of the matrix for kernels that change rows one by one."""
        storage = self.storage
        return [*self._chain, storage.columns, storage.values, storage.versions, storage.state]

    def _long_row_launch(self, name: str, count: int, arguments: Sequence[Argument]) -> Launch:
        """Return a launch of a kernel with a block for each row that the previous kernel has listed."""
        block_size = SMALL_BLOCK_SIZE[self._device.backend]
        return self._kernels.blocks(name, min(count, self._device.sm_count * LONG_BLOCKS), arguments, block_size)

    # defragmentation --------------------------------------------------------------------------------------------------

    def tidying(self, min_segments: int, slack: int) -> Launch:
        """Merge rows of at least `min_segments` segments, each into a new segment, while the buffer has space."""
        rows, limits = self.storage.shape[0], map(np.int32, (min_segments, slack, self.storage.capacity))
        tidy = self._over("compact_rows", rows, np.int32(rows), *limits, *self._update_arguments)
        return in_order([tidy, self._settle()])

    def rooms(
        self, slack: int, permutation: Buffer | None = None, demand: SortedBatch | None = None
    ) -> tuple[Launch, Buffer]:
        """Return a launch that computes the row offsets of a defragmented matrix, and the offsets, int32 `(rows + 1,)`.

        Each row has `slack` free entries and space for its entries of the batch `demand`. `permutation`, int32
        `(rows,)`, is the order of rows in memory; it excludes `demand`. The last offset is the total.
        """
        storage, rows = self.storage, self.storage.shape[0]
        offsets = self._ints("offsets", rows + 1)
        if not slack and permutation is None and demand is None:
            return self._scan(rows)(storage.sizes, offsets, rows), offsets
        room = self._ints("rooms", rows)
        launches = [
            self._over(
                "row_capacities", rows, np.int32(rows), np.int32(slack),
                *_permutation_arguments(permutation, storage.sizes),
                storage.sizes, room,
            )
        ]  # fmt: skip
        if demand is not None:
            launches.append(self._over("add_demand", demand.count, np.int32(demand.count), demand.rows, room))
        launches.append(self._scan(rows)(room, offsets, rows))
        return in_order(launches), offsets

    def copy(self, offsets: Buffer, target: Storage, slack: bool, permutation: Buffer | None = None) -> Launch:
        """Return a launch that copies all rows into the matrix `target`, each into one segment at its offset.

        `offsets` are those of `rooms`.

        It also sets sizes, table and pointer of `target`, which has the same shape. Without `slack`, columns and values
        of `target` with the offsets are CSR.
        """
        storage, rows = self.storage, self.storage.shape[0]
        firsts, n_rows, permutation_arguments = (
            self._firsts(target),
            np.int32(rows),
            _permutation_arguments(permutation, storage.sizes),
        )
        place = self._over(
            "place_rows", rows, n_rows, offsets, *permutation_arguments, storage.sizes, np.int32(target.segments),
            np.int32(target.pitch), target.table, target.sizes, target.state, firsts,
        )  # fmt: skip
        tiles, arguments = self._tiles(offsets, firsts, target, slack, permutation_arguments)
        return in_order([place, self._kernels.blocks("copy_rows", tiles, arguments)])

    def together(self, target: Storage) -> Launch:
        """Return a launch that copies all rows into the matrix `target`, in order and without free space.

        `target` has the same shape and enough capacity; its columns and values are CSR then. On a GPU one kernel
        computes the offsets and segments, and the kernel that copies entries starts while it still runs.
        """
        offsets = self._ints("offsets", self.storage.shape[0] + 1)
        if self._device.backend != "cuda":
            return self._scanned_copy(target, offsets)
        place, copy = self._copy_in_order(target, offsets)
        block_size = BLOCK_SIZE["cuda"]
        return in_order(
            [
                self._kernels.blocks("place_all_rows", *place),
                self._device.bind_dependent(self._program, "copy_rows", copy[0], block_size, copy[1]),
            ]
        )

    def queue_together(self, target: Storage, offsets: Buffer, launches: LaunchCache) -> None:
        """Queue such a copy; the offsets of the rows of `target`, int32 `(rows + 1,)`, are written, too."""
        if self._device.backend != "cuda":
            self._scanned_copy(target, offsets)()
            return
        for name, (blocks, arguments) in zip(
            ("place_all_rows", "copy_rows"), self._copy_in_order(target, offsets), strict=True
        ):
            launches.queue(self._program, name, blocks, BLOCK_SIZE["cuda"], arguments)

    def _scanned_copy(self, target: Storage, offsets: Buffer) -> Launch:
        rows = self.storage.shape[0]
        return in_order([self._scan(rows)(self.storage.sizes, offsets, rows), self.copy(offsets, target, slack=False)])

    def _copy_in_order(self, target: Storage, offsets: Buffer) -> tuple[tuple[int, list[Argument]], ...]:
        """Return the numbers of blocks and the arguments of `place_all_rows` and `copy_rows`."""
        storage, rows = self.storage, self.storage.shape[0]
        blocks = max(1, -(-rows // (ROWS_PER_THREAD * BLOCK_SIZE["cuda"])))
        firsts = self._firsts(target)
        place: list[Argument] = [
            np.int32(rows), offsets, storage.sizes, np.int32(target.segments), np.int32(target.pitch), target.table,
            target.sizes, target.state, firsts, self._zeros("totals", 2 * (2 + blocks)),
        ]  # fmt: skip
        permutation_arguments = _permutation_arguments(None, storage.sizes)
        return (blocks, place), self._tiles(offsets, firsts, target, False, permutation_arguments)

    @property
    def _tile(self) -> int:
        """Number of entries that a block of a defragmentation copies, called a tile."""
        return COPIES_PER_THREAD * BLOCK_SIZE[self._device.backend]

    def _firsts(self, target: Storage) -> Buffer:
        """Return memory for the first row of each tile of `target`."""
        return self._ints("first rows", -(-target.capacity // self._tile) + 1)

    def _tiles(
        self,
        offsets: Buffer,
        firsts: Buffer,
        target: Storage,
        slack: bool,
        permutation_arguments: tuple[Argument, Argument],
    ) -> tuple[int, list[Argument]]:
        """Return the number of blocks of `copy_rows`, and its arguments."""
        storage = self.storage
        return max(1, -(-target.capacity // self._tile)), [
            np.int32(storage.shape[0]), offsets, firsts, np.int32(slack), *permutation_arguments,
            np.int32(storage.pitch),
            storage.table, storage.sizes, storage.columns, storage.values, target.columns, target.values,
        ]  # fmt: skip

    def total(self, offsets: Buffer) -> Launch:
        """Return a launch that stores the last offset, the capacity that a copy needs, in the report."""
        arguments: list[Argument] = [np.int32(self.storage.shape[0]), offsets, self.storage.state]
        return self._kernels.blocks("store_total", 1, arguments, block_size=32)

    def adoption(self, offsets: Buffer) -> Launch:
        """Return a launch that writes segment table and sizes for entries that are stored as CSR with these offsets."""
        storage, rows = self.storage, self.storage.shape[0]
        return self._over(
            "segments_from_offsets", rows, np.int32(rows), np.int32(storage.segments), np.int32(storage.pitch), offsets,
            storage.table, storage.sizes, storage.state,
        )  # fmt: skip

    # parts ------------------------------------------------------------------------------------------------------------

    def _check(self, batch: EntryBatch) -> Launch:
        storage, shape = self.storage, map(np.int32, self.storage.shape)
        arguments: list[Argument] = [np.int32(batch.count), *shape, batch.rows, batch.columns, storage.state]
        return self._kernels.over("check_batch", batch.count, arguments, ENTRIES_PER_THREAD)

    @property
    def _hash_bits(self) -> int:
        """Number of bits of a column's hash in a sort key, in addition to the bits of the row."""
        row_bits = bit_count(self.storage.shape[0])
        return min(max(KEPT_BITS - row_bits, MIN_HASH_BITS), MAX_HASH_BITS, SORT_KEY_BITS - row_bits)

    def _sorter(self, count: int) -> RadixSort:
        size = 1 << max(8, (count - 1).bit_length())
        if size not in self._sorts:
            self._sorts[size] = RadixSort(self._device, self._sort, size)
        return self._sorts[size]

    def _scan(self, count: int) -> Callable[[Buffer, Buffer, int], Launch]:
        size = 1 << max(8, (count - 1).bit_length())
        if size not in self._scans:
            self._scans[size] = Scan(self._device, self._sort, size)
        return self._scans[size].bind

    def _settle(self) -> Launch:
        arguments: list[Argument] = [np.int32(self.storage.capacity), self.storage.state]
        return self._kernels.blocks("end_operation_alone", 1, arguments, block_size=32)

    def _over(self, name: str, count: int, *arguments: Argument) -> Launch:
        return self._kernels.over(name, count, arguments)

    @property
    def _chain(self) -> tuple[Argument, ...]:
        storage = self.storage
        return np.int32(storage.pitch), np.int32(storage.segments), storage.table, storage.sizes

    def _ints(self, name: str, count: int) -> Buffer:
        return self._scratch.take(name, 4 * count)

    def _zeros(self, name: str, count: int) -> Buffer:
        """Return memory that is zeroed once; later calls return it as the last launch left it."""
        buffer = self._ints(name, count)
        if all(buffer is not known_buffer for known_buffer in self._known):
            self._device.fill(buffer, 0)
            self._known.append(buffer)
        return buffer

    def release(self) -> None:
        """Release memory for sorting and scanning; the matrix and `scratch` belong to their owners."""
        self._kept.clear()
        for sort in self._sorts.values():
            sort.release()
        for scan in self._scans.values():
            scan.release()
        self._sorts.clear()
        self._scans.clear()


def _permutation_arguments(permutation: Buffer | None, placeholder: Buffer) -> tuple[Argument, Argument]:
    return (np.int32(0), placeholder) if permutation is None else (np.int32(1), permutation)
