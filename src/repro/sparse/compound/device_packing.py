"""Packing of CSR matrices on the device, as `packing.pack` does it on the host; `device_pairs` packs pairs."""

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
from repro.sparse.compound.device_csr import DeviceCsr, SharedMemory, long_of
from repro.sparse.compound.device_pairs import pair_inputs
from repro.sparse.compound.kernels import TEMPLATES
from repro.sparse.compound.outer import Outer, get_outer, padded_to_warp
from repro.sparse.compound.packing import PackedFacts
from repro.sparse.compound.variants import INNER, TILE, Layout, chunks, tiled_slots
from repro.sparse.device_primitives import LOOP_BLOCKS_PER_SM, SCAN_ITEMS, Scan, keep, read_total
from repro.sparse.elementwise import BLOCK_SIZE, Kernels
from repro.sparse.ordering import WINDOW, longest_short, rows_with_blocks
from repro.sparse.pairs import STEPS, STEPS_OF_BLOCK, check_slots
from repro.sparse.symmetry import adjoint_members


class MeasureWord(IntEnum):
    """Index of each word that the kernels `measure` write."""

    LONGEST = 0
    #: The number of all slots, in two words of 32 bits.
    LOW = 1
    HIGH = 2


#: Prefix of the names of modules that pack pairs.
PAIRS = "pairs-"
#: The names of all modules that pack matrices of an entry in a precision.
PACKINGS = (*INNER, *(f"{PAIRS}{inner}" for inner in INNER))


def packing_name(layout: Layout) -> str | None:
    """Return the name of the module that packs matrices into a layout, among those of an entry and a precision.

    None: only the host packs the outer format (`Outer.group_rows`).
    """
    if layout.stores_pairs:
        return f"{PAIRS}{layout.inner}"
    return None if get_outer(layout.outer).group_rows is None else layout.inner


def render_packing(templates: Path, entry: str, precision: str, name: str, target: Target, owner: str) -> str:
    """Return the source of the module that packs matrices of an entry and precision; `name` is from `packing_name`.

    `owner` is in its title. If pairs are packed and the transpose of an entry is of another kind, it raises
    `ReproError`.
    """
    scalar, scalar_bytes = SCALARS[precision]
    algebra, in_pairs = get_entry(entry), name.startswith(PAIRS)
    return render_template(
        templates,
        f"{TEMPLATES}/{'pair_packing' if in_pairs else 'packing'}.j2",
        dialect=target.dialect,
        title=f"{owner}: packing, {entry}, {precision} precision, {name}",
        entry=algebra,
        scalar=scalar,
        inner=name.removeprefix(PAIRS),
        block_size=BLOCK_SIZE[target.dialect],
        scan_items=SCAN_ITEMS,
        tile=TILE,
        chunks=chunks(len(algebra.members), scalar_bytes),
        **(pair_inputs(entry, target) if in_pairs else _inputs(entry)),
    )


def _inputs(entry: str) -> dict[str, Any]:
    """Return the inputs of `packing.j2` alone."""
    adjoint: list[tuple[int, int]] = []
    with suppress(ReproError):  # the transpose of an entry may be of another type
        adjoint = adjoint_members(entry) if get_entry(entry).members else []
    return {"words": {word.name: word.value for word in MeasureWord}, "window": WINDOW, "adjoint": adjoint}


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
        """Return the matrix in a layout without pairs; `stack` releases the memory.

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
                slots = long_of(words, MeasureWord.LOW, MeasureWord.HIGH)
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
