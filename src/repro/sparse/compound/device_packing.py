"""CSR matrices on the device, checked or copied there, and their packing as `packing.pack` does it on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.codegen.targets import DTYPES, INDEX_BYTES, SCALARS, Target
from repro.codegen.templates import render_template
from repro.devices.base import Argument, Buffer, Device, Program
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.sparse.compound.defaults import Rows
from repro.sparse.compound.kernels import TEMPLATES
from repro.sparse.compound.outer import Outer, get_outer, padded_to_warp
from repro.sparse.compound.packing import PackedFacts
from repro.sparse.compound.variants import TILE, WIDE_SLICES, Layout, chunks, tiled_slots
from repro.sparse.device_primitives import LOOP_BLOCKS_PER_SM, SCAN_ITEMS, Scan, keep, read_total
from repro.sparse.elementwise import BLOCK_SIZE, Kernels
from repro.sparse.ordering import WINDOW, longest_short, rows_with_blocks
from repro.sparse.pairs import STEPS, STEPS_OF_BLOCK, check_slots
from repro.sparse.spgemm.csr_arrays import CsrArrays
from repro.sparse.symmetry import adjoint_members


class CheckWord(IntEnum):
    """Index of each word that the kernels of `checked_csr.j2` write."""

    #: Whether an offset or a column is wrong.
    WRONG = 0
    #: 0 if columns ascend in each row.
    UNORDERED = 1
    #: Whether a number is infinite or NaN, and whether one does not fit into float32.
    INFINITE = 2
    LOST = 3
    ENTRIES = 4
    LONGEST = 5
    #: Slots in slices of `WIDE_SLICES`, in two words of 32 bits.
    LOW = 6
    HIGH = 7


def render_check(templates: Path, target: Target, owner: str) -> str:
    """Return the source of the module with which `DeviceCsr.checked` checks matrices; `owner` is in its title."""
    limits = {scalar: np.finfo(DTYPES[precision]) for precision, (scalar, _) in SCALARS.items()}
    return render_template(
        templates,
        f"{TEMPLATES}/checked_csr.j2",
        dialect=target.dialect,
        title=f"{owner}: checks of CSR matrices",
        block_size=BLOCK_SIZE[target.dialect],
        words={word.name: word.value for word in CheckWord},
        max_finite={scalar: float(limit.max) for scalar, limit in limits.items()},
        min_normal=float(limits["float"].tiny),
        slice_rows=get_outer(WIDE_SLICES).group_rows,
    )


class FlawedCsr(Exception):
    """A matrix that `DeviceCsr.checked` refuses; `flaw` is the first of the words that say so."""

    def __init__(self, flaw: CheckWord) -> None:
        super().__init__(flaw.name)
        self.flaw = flaw


class SharedMemory:
    """Device memory with several owners, of whom the last frees it by `release`.

    `borrowed` memory belongs to someone else, and is only read for a while.
    """

    def __init__(self, buffer: Buffer, *, borrowed: bool = False) -> None:
        self.buffer, self.borrowed, self._owners = buffer, borrowed, 1

    def retain(self) -> SharedMemory:
        """Return the memory with one more owner."""
        self._owners += 1
        return self

    def release(self) -> None:
        self._owners -= 1
        if not self._owners and not self.borrowed:
            self.buffer.release()


@dataclass(frozen=True)
class DeviceCsr:
    """A checked CSR matrix on the device: offsets ascend, and columns ascend in each row."""

    name: str
    #: Rows and columns, counted in entries.
    shape: tuple[int, int]
    nnz: int
    #: int32 `(rows + 1,)` and `(nnz,)`.
    pointers: SharedMemory
    indices: SharedMemory
    #: `(nnz, members)` of `dtype`, which is float32 or float64.
    values: SharedMemory
    dtype: np.dtype[Any]
    #: Statistics of the rows; None: not known.
    rows: Rows | None = None

    @classmethod
    def upload(cls, device: Device, matrix: Matrix, values: NDArray[np.floating]) -> DeviceCsr:
        """Copy a matrix with `values` `(nnz, members)` to the device."""
        with ExitStack() as undo:
            pointers, indices, numbers = (
                keep(undo, SharedMemory(device.upload(array))) for array in (matrix.indptr, matrix.indices, values)
            )
            undo.pop_all()
        return cls(matrix.name, matrix.shape, matrix.nnz, pointers, indices, numbers, values.dtype)

    @classmethod
    def checked(
        cls, device: Device, program: Program, name: str, arrays: CsrArrays, members: int, dtype: np.dtype[Any], *,
        narrow: bool, borrowed: bool = True,
    ) -> DeviceCsr:  # fmt: skip
        """Return another library's matrix after a check, with its columns of int32 and its values.

        If it succeeds, it owns those that are not `borrowed`. `program` is the loaded module of
        `render_check`. `arrays` has `members` numbers of `dtype` per entry, float32 or float64; with `narrow` they have
        to fit into float32. It waits for the device, and raises `FlawedCsr`.
        """
        (rows, columns), length = arrays.shape, arrays.length
        with ExitStack() as undo:
            pointers = keep(undo, SharedMemory(device.allocate(INDEX_BYTES * (rows + 1))))
            if arrays.long:
                indices = keep(undo, SharedMemory(device.allocate(INDEX_BYTES * length)))
            else:
                indices = SharedMemory(arrays.columns, borrowed=borrowed)
            words, numbers = device.allocate(INDEX_BYTES * len(CheckWord)), np.empty(len(CheckWord), np.int32)
            with ExitStack() as temporaries:
                keep(temporaries, words)
                device.fill(words, 0)
                arguments: list[Argument] = [
                    *map(np.int32, (rows, columns, length, members, narrow)), arrays.offsets, arrays.columns,
                    arrays.values, pointers.buffer, indices.buffer, words,
                ]  # fmt: skip
                block_size, sm_blocks = BLOCK_SIZE[device.backend], LOOP_BLOCKS_PER_SM[device.backend]
                blocks = min(-(-max(rows, length, 1) // block_size), sm_blocks * device.sm_count)
                kernel = f"check_{64 if arrays.long else 32}_{'float' if dtype == np.float32 else 'double'}"
                Kernels(device, program).blocks(kernel, blocks, arguments)()
                device.download(words, numbers)
            nnz = int(numbers[CheckWord.ENTRIES])
            numbers[CheckWord.WRONG] |= nnz > 0 and not rows
            for flaw in (CheckWord.WRONG, CheckWord.UNORDERED, CheckWord.INFINITE, CheckWord.LOST):
                if numbers[flaw]:
                    raise FlawedCsr(flaw)
            undo.pop_all()
        values = SharedMemory(arrays.values, borrowed=borrowed)
        statistics = Rows(rows, nnz, int(numbers[CheckWord.LONGEST]), _long(numbers, CheckWord.LOW, CheckWord.HIGH))
        return cls(name, arrays.shape, nnz, pointers, indices, values, dtype, statistics)

    def download(
        self, device: Device, members: int
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.floating]]:
        """Copy row pointers, columns and values `(nnz, members)` to the host."""
        arrays = (
            np.empty(self.shape[0] + 1, np.int32), np.empty(self.nnz, np.int32),
            np.empty((self.nnz, members), self.dtype),
        )  # fmt: skip
        for memory, array in zip((self.pointers, self.indices, self.values), arrays, strict=True):
            if array.size:
                device.download(memory.buffer, array)
        return arrays

    def release(self) -> None:
        for memory in (self.pointers, self.indices, self.values):
            memory.release()


def _long(words: NDArray[np.int32], low: int, high: int) -> int:
    """Return a number of 64 bits that kernels wrote as two words."""
    return int(words[high]) << 32 | int(words[low]) & 0xFFFFFFFF


class MeasureWord(IntEnum):
    """Index of each word that the kernels `measure` write."""

    LONGEST = 0
    #: The number of all slots, in two words of 32 bits.
    LOW = 1
    HIGH = 2


def can_pack(layout: Layout) -> bool:
    """Return whether matrices are packed into a layout on the device."""
    return not layout.stores_pairs and get_outer(layout.outer).group_rows is not None


def render_packing(templates: Path, entry: str, precision: str, inner: str, target: Target, owner: str) -> str:
    """Return the source of the module that packs matrices of an entry and precision in an inner order.

    `owner` is in its title.
    """
    scalar, scalar_bytes = SCALARS[precision]
    algebra = get_entry(entry)
    adjoint: list[tuple[int, int]] = []
    with suppress(ReproError):  # the transpose of an entry may be of another type
        adjoint = adjoint_members(entry) if algebra.members else []
    return render_template(
        templates,
        f"{TEMPLATES}/packing.j2",
        dialect=target.dialect,
        title=f"{owner}: packing, {entry}, {precision} precision, {inner}",
        entry=algebra,
        scalar=scalar,
        inner=inner,
        block_size=BLOCK_SIZE[target.dialect],
        scan_items=SCAN_ITEMS,
        tile=TILE,
        chunks=chunks(len(algebra.members), scalar_bytes),
        words={word.name: word.value for word in MeasureWord},
        window=WINDOW,
        adjoint=adjoint,
    )


@dataclass(frozen=True)
class Placing:
    """Where the entries of a matrix are in a layout, for the kernels that write and read them."""

    n: int
    inner: str
    group: int
    groups: int
    #: Number of groups at the end that are rows of their own.
    long_rows: int
    slots: int
    #: First slot of each group, int32 `(groups + 1,)`.
    offsets: Buffer
    #: The array `index`, and the place in it behind which it has the row of each stored row; 0: rows are as in CSR.
    index: Buffer
    first_row: int

    @property
    def is_in_csr_order(self) -> bool:
        """Whether slots are entries in the order of CSR, and `index` begins with its row pointers."""
        return self.group == 1 and not self.first_row

    @property
    def extent(self) -> int:
        """Number of slots including those of an incomplete tile."""
        return tiled_slots(self.slots) if self.inner == "AoSoA" else self.slots

    def arguments(self, pointers: Buffer) -> list[Argument]:
        """Return the arguments with which all kernels begin; `pointers` are those of the matrix in CSR."""
        sizes = map(np.int32, (self.n, self.group, self.groups, self.long_rows, self.slots, self.extent))
        return [*sizes, self.offsets, pointers, np.int32(self.first_row), self.index]


@dataclass(frozen=True)
class PackedOnDevice:
    """A matrix in a layout on the device."""

    #: As `Packed.arrays`; the memory belongs to the stack that `DevicePacker.pack` was given.
    arrays: dict[str, Buffer]
    facts: PackedFacts
    placing: Placing


class DevicePacker:
    """Packs matrices of an entry and precision in an inner order; `program` is the module of `render_packing`."""

    def __init__(self, device: Device, program: Program, entry: str, precision: str) -> None:
        self._device, self._program, self._kernels = device, program, Kernels(device, program)
        self._members = len(get_entry(entry).members)
        #: Dtype of packed numbers.
        self.scalar = np.dtype(DTYPES[precision])

    def pack(
        self,
        matrix: DeviceCsr,
        layout: Layout,
        stack: ExitStack,
        rows: NDArray[np.int64] | None = None,
        long_rows: int = 0,
        make_room: Callable[[int], None] = lambda nbytes: None,
    ) -> PackedOnDevice:
        """Return the matrix in a layout for which `can_pack` is true; `stack` releases the memory.

        `rows` is the row order of a clustered layout, `(n,)`, whose last `long_rows` rows are long; the order `sigma`
        is found here. It waits for the device. Arrays that equal those of the matrix are shared with it unless they are
        borrowed. More slots than 32-bit indices can address raise `Unsupported`. `make_room` is called with the bytes
        of the packed matrix before its columns and values are allocated.
        """
        device, outer = self._device, get_outer(layout.outer)
        with ExitStack() as temporaries:
            order: Buffer | None = None
            if layout.ordering == "sigma":
                order, long_rows = self._sort_rows(matrix, temporaries)
            elif rows is not None:
                order = keep(temporaries, device.upload(rows.astype(np.int32)))
            if order is not None:
                long_rows = rows_with_blocks(matrix.shape[0], long_rows, outer.group_rows or 1)
            placing, index_count = self._place(matrix, layout, outer, stack, order, long_rows)
        in_csr_order = outer.group_rows == 1 and order is None
        shares_columns = in_csr_order and not matrix.indices.borrowed
        shares_values = (
            in_csr_order and layout.inner == "AoS" and matrix.dtype == self.scalar and not matrix.values.borrowed
        )
        values_bytes = placing.extent * self._members * self.scalar.itemsize
        nbytes = (index_count + placing.slots) * INDEX_BYTES + values_bytes
        make_room(nbytes)
        columns = matrix.indices.retain() if shares_columns else device.allocate(placing.slots * INDEX_BYTES)
        keep(stack, columns)
        values = matrix.values.retain() if shares_values else device.allocate(values_bytes)
        keep(stack, values)
        arrays = {
            "index": placing.index,
            "columns": columns.buffer if isinstance(columns, SharedMemory) else columns,
            "values": values.buffer if isinstance(values, SharedMemory) else values,
        }
        if not (shares_columns and shares_values):
            n_columns = -1 if shares_columns else matrix.shape[1]
            self._write(placing, matrix.pointers.buffer, matrix.indices.buffer, matrix.values.buffer, matrix.dtype,
                        arrays, n_columns, outer.padded)  # fmt: skip
        device.synchronize()
        stride = placing.group if outer.group_rows == 0 else 0
        if order is not None:
            stride = long_rows
        return PackedOnDevice(arrays, PackedFacts(placing.slots, stride, nbytes), placing)

    def _place(
        self, matrix: DeviceCsr, layout: Layout, outer: Outer, stack: ExitStack, rows: Buffer | None, long_rows: int
    ) -> tuple[Placing, int]:
        """Return where entries are to be stored, and the number of numbers in the array `index`."""
        device, n, pointers = self._device, matrix.shape[0], matrix.pointers.buffer
        assert outer.group_rows is not None
        one_group = outer.group_rows == 0
        group = padded_to_warp(n, device.target.warp) if one_group else outer.group_rows
        groups = 1 if one_group else -(-(n - long_rows) // group) + long_rows
        steps = STEPS if rows is None else STEPS_OF_BLOCK
        if outer.group_rows == 1 and rows is None and not matrix.pointers.borrowed:
            check_slots(matrix.name, layout, matrix.nnz, group, steps)
            index = keep(stack, matrix.pointers.retain()).buffer
            return Placing(n, layout.inner, 1, n, 0, matrix.nnz, index, index, 0), n + 1
        with ExitStack() as temporaries:
            # rows of one group are measured one by one, and the last kernel is done when the words are read
            counted = n if one_group else groups
            index_count = (n if not outer.padded else 1) if one_group else groups + 1
            index_count += 0 if rows is None else n
            index = keep(stack, device.allocate(INDEX_BYTES * index_count))
            sizes = index if not one_group or not outer.padded else keep(temporaries, device.allocate(INDEX_BYTES * n))
            words = self._measure(1 if one_group else group, n, counted, pointers, sizes, rows, long_rows, temporaries)
            if one_group:
                slots = group * int(words[MeasureWord.LONGEST])
                check_slots(matrix.name, layout, slots, group, steps)
                offsets = keep(stack, device.upload(np.array([0, slots], np.int32)))
                if outer.padded:
                    device.fill(index, 0)
            else:
                slots = _long(words, MeasureWord.LOW, MeasureWord.HIGH)
                check_slots(matrix.name, layout, slots, group, steps)
                offsets = index
                keep(temporaries, Scan(device, self._program, groups)).bind(index, index, groups)()
                device.synchronize()  # the memory of the sums is released next
        return Placing(
            n, layout.inner, group, groups, long_rows, slots, offsets, index, 0 if rows is None else groups + 1
        ), index_count

    def _sort_rows(self, matrix: DeviceCsr, temporaries: ExitStack) -> tuple[Buffer, int]:
        """Return the order of `sort_rows`, int32 `(n,)`, and the number of long rows at its end; it waits for them."""
        device, n = self._device, matrix.shape[0]
        windows = -(-n // WINDOW)
        by_window, order, sums = (
            keep(temporaries, device.allocate(INDEX_BYTES * count)) for count in (n, n, windows + 1)
        )
        blocks = min(windows, device.sm_count * LOOP_BLOCKS_PER_SM[device.backend])
        longest = np.int32(longest_short(n, matrix.nnz))
        self._kernels.blocks("sort_windows", blocks, [np.int32(n), longest, matrix.pointers.buffer, by_window, sums])()
        keep(temporaries, Scan(device, self._program, windows)).bind(sums, sums, windows)()
        self._kernels.over("join_windows", n, [np.int32(n), by_window, sums, order])()
        return order, n - read_total(device, sums, windows)

    def _measure(
        self,
        group: int,
        n: int,
        groups: int,
        pointers: Buffer,
        sizes: Buffer,
        rows: Buffer | None,
        long_rows: int,
        temporaries: ExitStack,
    ) -> NDArray[np.int32]:
        """Write the slots of each group to `sizes`, and the row order behind these; return `MeasureWord`s."""
        device = self._device
        words, numbers = keep(temporaries, device.allocate(INDEX_BYTES * len(MeasureWord))), np.empty(3, np.int32)
        device.fill(words, 0)
        arguments: list[Argument] = [np.int32(n), np.int32(group), np.int32(long_rows), pointers, sizes, words]
        if rows is not None:
            arguments.append(rows)
        name = "measure" if rows is None else "measure_ordered"
        blocks = min(-(-groups // BLOCK_SIZE[device.backend]), device.sm_count * LOOP_BLOCKS_PER_SM[device.backend])
        self._kernels.blocks(name, blocks, arguments)()
        device.download(words, numbers)
        return numbers

    def fill(self, packed: PackedOnDevice, pointers: Buffer, values: Buffer, dtype: np.dtype[Any]) -> None:
        """Queue the writing of new values `(nnz, members)`, in CSR order, of float32 or float64."""
        self._write(packed.placing, pointers, pointers, values, dtype, packed.arrays, -1, False)

    def _write(
        self,
        placing: Placing,
        pointers: Buffer,
        indices: Buffer,
        numbers: Buffer,
        dtype: np.dtype[Any],
        arrays: Mapping[str, Buffer],
        n_columns: int,
        repeats: bool,
    ) -> None:
        if not placing.extent:
            return
        arguments = placing.arguments(pointers)
        arguments += [np.int32(n_columns), np.int32(repeats), indices, numbers, arrays["columns"], arrays["values"]]
        number = SCALARS["single" if (dtype if self._members else self.scalar) == np.float32 else "double"][0]
        self._kernels.over(f"pack_{number}", placing.extent, arguments)()

    def unpack(self, packed: PackedOnDevice, pointers: Buffer, indices: Buffer, values: Buffer) -> None:
        """Queue the copy of columns int32 `(nnz,)` and values `(nnz, members)` back to CSR order."""
        if packed.placing.extent:
            arguments = packed.placing.arguments(pointers)
            arguments += [packed.arrays["columns"], packed.arrays["values"], indices, values]
            self._kernels.over("unpack", packed.placing.extent, arguments)()

    def transpose_values(self, nnz: int, order: Buffer, values: Buffer, transposed: Buffer, *, adjoint: bool) -> None:
        """Queue the writing of the transpose's values, whose entry k is entry `order[k]` of the matrix.

        `adjoint`: entries are transposed too, as by `repro.sparse.symmetry.transposed` with `conjugate`.
        """
        arguments: list[Argument] = [np.int32(nnz), np.int32(adjoint), order, values, transposed]
        self._kernels.over("transpose_values", nnz, arguments)()

    def are_equal(self, nnz: int, one: Buffer, other: Buffer) -> bool:
        """Wait for the device, and return whether two matrices of one pattern have equal values."""
        found, number = self._device.allocate(INDEX_BYTES), np.empty(1, np.int32)
        try:
            self._device.fill(found, 0)
            self._kernels.over("find_difference", nnz, [np.int32(nnz), one, other, found])()
            self._device.download(found, number)
        finally:
            found.release()
        return not number[0]
