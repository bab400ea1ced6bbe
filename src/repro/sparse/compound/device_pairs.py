"""Packing of symmetric CSR matrices on the device into pair storage, as `packing.pack_pairs` does it on the host."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, INDEX_BYTES, SCALARS, Target
from repro.devices.base import Argument, Buffer, Device, Program
from repro.entries import get_entry
from repro.errors import Unsupported
from repro.sparse.compound.device_csr import DeviceCsr, long_of
from repro.sparse.compound.packing import PackedFacts
from repro.sparse.compound.variants import TILE_ROWS, Layout, tiled_slots
from repro.sparse.device_primitives import MOST_ELEMENTS, RADIX, SORT_BLOCK_SIZE, SORT_ITEMS, LaunchContext, keep
from repro.sparse.pairs import NO_PAIR, ROUNDS, SIGNS, SLICE, check_slots, leading_columns
from repro.sparse.symmetry import (
    CODE_BYTES,
    adjoint_members,
    kept_on_diagonal,
    kinds_of,
    not_square,
    unlike_values,
    without_pair,
)


class PairWord(IntEnum):
    """Index of each word that the kernels of `pair_packing.j2` write."""

    #: Number of entries from the first one without a partner to the end; 0: each entry has a partner. Counted from the
    #: end so that `atomicMax` finds the first entry and 0 is the initial value.
    UNPAIRED = 0
    #: The same for the first entry that breaks the first, or the second kind of symmetry.
    FIRST = 1
    SECOND = 2
    #: Row and column of the entry that `locate` is asked for.
    ROW = 3
    COLUMN = 4
    #: Largest number of products that a row receives, and of foreign columns of a tile; foreign columns of all tiles.
    MOST_RECEIVED = 5
    MOST_COLUMNS = 6
    COLUMNS = 7
    #: Number of slots, in two words of 32 bits.
    LOW = 8
    HIGH = 9
    #: Largest number of products and overflow columns of a tile.
    KEPT = 10


def pair_inputs(entry: str, target: Target) -> dict[str, Any]:
    """Return the inputs of `pair_packing.j2` that `packing.j2` does not have.

    If the transpose of an entry is of another kind, it raises `ReproError`.
    """
    adjoint = adjoint_members(entry)
    as_it_is = [(member, 1) for member, _ in enumerate(adjoint)]
    return {
        "sort_block_size": SORT_BLOCK_SIZE[target.dialect],
        "sort_items": SORT_ITEMS[target.dialect],
        "radix": RADIX,
        "words": {word.name: word.value for word in PairWord},
        "kinds": [(PairWord.FIRST.value, adjoint), (PairWord.SECOND.value, as_it_is)][: len(kinds_of(entry))],
        "on_diagonal": kept_on_diagonal(entry),
        "most_rows": max(TILE_ROWS.values()),
        "slice_rows": SLICE,
        "no_pair": NO_PAIR,
        "rounds": ROUNDS,
    }


class PairPacker:
    """Packs pairs of an entry and precision in an inner order; `program` is their module of `render_packing`."""

    def __init__(self, device: Device, program: Program, entry: str, precision: str) -> None:
        self._device, self._program, self._entry = device, program, entry
        #: Dtype of packed numbers.
        self.scalar = np.dtype(DTYPES[precision])

    def pack(
        self,
        matrix: DeviceCsr,
        layout: Layout,
        stack: ExitStack,
        row_order: Callable[[], NDArray[np.int64]] | None = None,
        make_room: Callable[[int], None] = lambda nbytes: None,
    ) -> tuple[PackedFacts, dict[str, Buffer]]:
        """Return a matrix with entries in a layout of pairs: its sizes, and arrays as `Packed.arrays`.

        `stack` releases the memory. `row_order` returns the order before cutting into tiles, `(n,)`; it is called for
        symmetric matrices only. It waits for the device, and needs about 40 bytes per entry for a while. `make_room` is
        called with the bytes of the packed matrix before its arrays are allocated.

        Raises
        ------
        Unsupported
            The matrix is not symmetric, or too large for codes or indices.
        """
        if matrix.shape[0] != matrix.shape[1]:
            raise Unsupported(not_square(*matrix.shape))
        with ExitStack() as temporaries:
            launches = LaunchContext(self._device, lambda module: self._program, temporaries)
            packing = _Packing(launches, matrix, layout, self._entry, self.scalar)
            sign = SIGNS[packing.find_symmetry()]
            packing.split(row_order() if row_order else None, stack)
            leading, slots = packing.size_arrays()
            arrays, nbytes = packing.write(leading, slots, stack, make_room)
            kept = int(packing.read_words()[PairWord.KEPT])
        return PackedFacts(slots, sign, nbytes, TILE_ROWS[layout.outer] + leading + kept, leading), arrays


class _Packing:
    """The steps of one packing, each after the one before it; `launches` owns the memory that they need for a while."""

    def __init__(
        self, launches: LaunchContext, matrix: DeviceCsr, layout: Layout, entry: str, scalar: np.dtype[Any]
    ) -> None:
        self._launches, self._matrix, self._layout, self._scalar = launches, matrix, layout, scalar
        self._entry, self._members = entry, len(get_entry(entry).members)
        self._n, self._nnz, self._tile_rows = matrix.shape[0], matrix.nnz, TILE_ROWS[layout.outer]
        if self._nnz > MOST_ELEMENTS:
            raise Unsupported(f"too large for 32-bit indices: {matrix.name} has {self._nnz} entries to be sorted")
        self._tiles = -(-self._n // self._tile_rows)
        self._pointers, self._indices = matrix.pointers.buffer, matrix.indices.buffer
        dtype = matrix.dtype if self._members else scalar
        self._number = SCALARS["single" if dtype == np.float32 else "double"][0]
        self._words = launches.zeros(len(PairWord), np.int32)

    def _over(self, kernel: str, count: int, *arguments: Argument) -> None:
        self._launches.over("pairs", kernel, count, *arguments)

    def _ints(self, count: int) -> Buffer:
        return self._launches.numbers(count, np.int32)

    def read_words(self) -> NDArray[np.int32]:
        return self._launches.download(self._words, len(PairWord), np.int32)

    def find_symmetry(self) -> str:
        """Find the entry across from each, and return the kind of symmetry; raise `Unsupported` if there is none."""
        n, nnz, kinds = self._n, self._nnz, kinds_of(self._entry)
        self._rows, self._across = self._ints(nnz), self._ints(nnz)
        self._over(
            f"find_across_{self._number}", nnz, n, nnz, self._pointers, self._indices, self._matrix.values.buffer,
            self._rows, self._across, self._words,
        )  # fmt: skip
        words = self.read_words()
        unpaired, differences = words[PairWord.UNPAIRED], words[PairWord.FIRST :][: len(kinds)]
        if not unpaired and not differences.all():
            return kinds[int(differences.argmin())]
        # values break all kinds of symmetry only at the last of the first differences
        first = nnz - int(unpaired or differences.min())
        self._over("locate", 1, n, first, self._pointers, self._indices, self._words)
        words = self.read_words()
        place = int(words[PairWord.ROW]), int(words[PairWord.COLUMN])
        raise Unsupported(without_pair(*place) if unpaired else unlike_values(*place))

    def split(self, rows: NDArray[np.int64] | None, stack: ExitStack) -> None:
        """Choose the owners of pairs, sort the rows of each tile by length, and sort foreign entries by tile.

        `rows` is the order of rows before that; None: the matrix's. `stack` releases the array `index`.
        """
        launches, n, nnz, tiles = self._launches, self._n, self._nnz, self._tiles
        self._order, self._places, order = self._ints(n), self._ints(n), self._pointers
        self._diagonal, self._products = launches.zeros(n, np.int32), self._ints(tiles)
        self._owned, self._received, self._keys = (self._ints(nnz + 1) for _ in range(3))
        if rows is not None:
            order = launches.upload(rows.astype(np.int32))
            self._over("find_places", n, n, order, self._places)
        self._ordered = int(rows is not None)
        sizes = n, self._tile_rows, tiles, self._ordered
        launches.blocks(
            "pairs", "split_pairs", tiles, *sizes, order, self._places, self._pointers, self._indices, self._across,
            self._owned, self._received, self._keys, self._diagonal,
        )  # fmt: skip
        for marks in (self._owned, self._received):
            launches.offsets(marks, marks, nnz)
        self._slices = tiles * self._tile_rows // SLICE
        index_count = self._slices + tiles + 2 + tiles * self._tile_rows + self._ordered * n
        self._index = keep(stack, launches.device.allocate(INDEX_BYTES * index_count))
        launches.blocks(
            "pairs", "place_rows", tiles, *sizes, order, self._pointers, self._owned, self._received, self._order,
            self._places, self._index, self._products, self._words,
        )  # fmt: skip
        self._sorted = launches.sort(self._keys, nnz, tiles + 1)
        self._columns_before, self._firsts = self._ints(nnz + 1), self._ints(tiles + 1)
        keys = nnz, tiles, self._sorted.keys
        self._over("mark_columns", nnz, *keys, self._sorted.order, self._rows, self._columns_before)
        launches.offsets(self._columns_before, self._columns_before, nnz)
        self._over("count_columns", tiles + 1, *keys, self._columns_before, self._firsts, self._words)

    def size_arrays(self) -> tuple[int, int]:
        """Return the number of leading columns and the number of slots; raise `Unsupported` if there are too many."""
        words, name = self.read_words(), self._matrix.name
        self._columns, most = int(words[PairWord.COLUMNS]), int(words[PairWord.MOST_COLUMNS])
        received = int(words[PairWord.MOST_RECEIVED])
        leading = leading_columns(name, self._tile_rows, received, most, self._columns, self._tiles)
        slots = long_of(words, PairWord.LOW, PairWord.HIGH)
        check_slots(name, f"pairs within {self._tile_rows} rows", slots, SLICE)
        return leading, slots

    def write(
        self, leading: int, slots: int, stack: ExitStack, make_room: Callable[[int], None]
    ) -> tuple[dict[str, Buffer], int]:
        """Write the packed arrays, which `stack` releases; return them and their bytes."""
        launches, device, nnz, tiles, tile_rows = (
            self._launches, self._launches.device, self._nnz, self._tiles, self._tile_rows
        )  # fmt: skip
        overflow = self._ints(tiles + 1)
        self._over("count_overflow", tiles, tiles, leading, self._firsts, overflow)
        overflow_columns = launches.offsets(overflow, overflow, tiles)
        launches.offsets(self._index, self._index, self._slices)
        self._over(
            "place_overflow", tiles + 1, tile_rows, tiles, leading, overflow, self._products, self._index, self._words
        )
        extent = tiled_slots(slots) if self._layout.inner == "AoSoA" else slots
        members_of_diagonal = len(kept_on_diagonal(self._entry))
        bytes_of = {
            "codes": CODE_BYTES * slots,
            "columns": INDEX_BYTES * (tiles * leading + overflow_columns),
            "diagonal": self._scalar.itemsize * tiles * tile_rows * members_of_diagonal,
            "values": self._scalar.itemsize * extent * self._members,
        }
        nbytes = self._index.nbytes + sum(bytes_of.values())
        make_room(nbytes)
        arrays = {"index": self._index}
        arrays |= {name: keep(stack, device.allocate(size)) for name, size in bytes_of.items()}
        device.fill(arrays["columns"], 0xFF)  # NO_COLUMN
        device.fill(arrays["values"], 0)
        numbers = self._keys  # of foreign columns; the keys were sorted to another place
        self._over(
            "write_columns", nnz, nnz, tiles, leading, self._sorted.keys, self._sorted.order, self._rows, self._across,
            self._columns_before, self._firsts, overflow, arrays["columns"], numbers,
        )  # fmt: skip
        self._over("write_padding", slots, slots, tile_rows, tiles, self._index, arrays["codes"])
        values = self._matrix.values.buffer
        self._over(
            f"write_entries_{self._number}", nnz, nnz, slots, tile_rows, self._ordered, self._pointers, self._indices,
            values, self._rows, self._across, self._owned, self._received, self._places, numbers, self._index,
            arrays["codes"], arrays["values"],
        )  # fmt: skip
        if members_of_diagonal:
            self._over(
                f"write_diagonal_{self._number}", tiles * tile_rows, self._n, tile_rows, tiles, self._order,
                self._diagonal, values, arrays["diagonal"],
            )  # fmt: skip
        return arrays, nbytes
