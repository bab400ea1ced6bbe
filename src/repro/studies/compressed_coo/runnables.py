"""Variants of this study: one layout with one blocking.

The layouts are balanced coordinates, plain or compressed; compressed sliced ELLPACK with slices of one height;
and pairs of a symmetric matrix, each stored once, in tiles of rows.

`repro.sparse.pairs` assigns the entries of a pair format to places, in runs as long as the number of slots per thread.
Codes have 16 bits, so a thread loads the codes of a run at once, and its values in words of 16 bytes. The values of a
tile are 8-bit indices into a table of 256 values if the table has all of them, as in the chunks of compressed
coordinates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module, ModuleOnDemand
from repro.devices.base import Argument, Buffer, Program
from repro.errors import Unsupported
from repro.sparse.elementwise import in_order
from repro.sparse.operands import Bind, CompiledProduct, operands_of, row_order_on, symmetry_on, x_on, y_on
from repro.sparse.pairs import SLICE, Pairs, Tiles, cut_into_tiles, lay_out_pairs, shared_bytes
from repro.studies.compressed_coo.coordinate_format import (
    UNIT,
    UNSIGNED,
    Chunking,
    Lookup,
    balance,
    compress,
    count_slots,
    frequent_with_zero,
    interleave,
)
from repro.studies.compressed_coo.ids import HEIGHTS, SPLITS, CoordinateId
from repro.studies.compressed_coo.kernels import CLEAR_BLOCK_SIZE
from repro.studies.compressed_coo.sliced_format import make_slices, slice_up

#: Names of a tile's encodings (rows/columns/values): no row offsets, column codes of 16 bits, values plain or in a
#: table.
PLAIN, TABLED = "none/16/plain", "none/16/table"


@dataclass(frozen=True)
class SymmetricPairs:
    """A symmetric matrix of real numbers, ready to upload.

    Attributes
    ----------
    pairs
        Places of the matrix's entries.
    tiles
        int32 `(tiles, 4)`, for each tile: position of its first value, in units of 16 bytes; position of its first
        code; 1 if its values are table indices, else 0; the constant 0.
    values
        uint8 `(bytes,)`, for each tile: values of the diagonal entries, in the order of the rows' places; then values
        of the slots that have codes. The latter are in slot order, but words are interleaved: word w of the runs of
        all eight rows in a slice comes before word w + 1.
    table
        `(256,)`: zero, and the most frequent values.
    """

    pairs: Pairs
    tiles: NDArray[np.int32]
    values: NDArray[np.uint8]
    table: NDArray[np.floating]

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Arrays that a kernel reads, in the order of its arguments."""
        return {
            "index": self.pairs.index,
            "codes": self.pairs.codes,
            "columns": self.pairs.tiles.columns,
            "tiles": self.tiles,
            "values": self.values,
            "table": self.table,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def encodings(self) -> dict[str, int]:
        """Count the tiles for each encoding that occurs."""
        table_tiles = int(np.count_nonzero(self.tiles[:, 2]))
        counts = {PLAIN: len(self.tiles) - table_tiles, TABLED: table_tiles}
        return {name: count for name, count in counts.items() if count}


def store_pairs(pairs: Pairs, values: NDArray[np.floating], tile_rows: int, entries: int) -> SymmetricPairs:
    """Store each pair of a symmetric real matrix once.

    Parameters
    ----------
    pairs
        Places of the matrix's entries, in tiles of `tile_rows` rows and runs of `entries` entries.
    values
        `(nnz,)` in the working precision.
    tile_rows
        Number of rows per tile.
    entries
        Number of entries of a row that a thread loads at once.
    """
    coded_values = np.zeros(pairs.slots, values.dtype)
    coded_values[pairs.position] = values[pairs.tiles.entries]
    diagonal = np.where(pairs.tiles.diagonal < 0, 0, values[pairs.tiles.diagonal])
    count = len(diagonal) // tile_rows
    first_codes = pairs.index[: count * tile_rows // SLICE + 1 : tile_rows // SLICE]
    codes_of_tiles = np.diff(first_codes)

    bits = UNSIGNED[values.itemsize]
    lookup = Lookup(frequent_with_zero(values.view(bits)))
    missed_tiles = np.asarray(~lookup.contains(diagonal.view(bits)).reshape(count, tile_rows).all(axis=1))
    tile_of_code = np.repeat(np.arange(count), codes_of_tiles)
    missed_tiles[tile_of_code[~lookup.contains(coded_values.view(bits))]] = True

    tiles = np.zeros((count, 4), np.int32)
    tiles[:, 1], tiles[:, 2] = first_codes[:-1], ~missed_tiles
    units = -(-(tile_rows + codes_of_tiles) * np.where(missed_tiles, values.itemsize, 1) // UNIT.itemsize)
    tiles[:, 0] = np.cumsum(units) - units
    blob = np.zeros(int(units.sum()), UNIT).view(np.uint8)
    # positions in a tile: first its rows (diagonal entries), then its coded entries
    number_of_code = tile_rows + np.arange(len(coded_values)) - tiles[tile_of_code, 1]
    for tile_mask, item_bytes in ((~missed_tiles, 1), (missed_tiles, values.itemsize)):
        first = tiles[:, 0].astype(np.int64) * (UNIT.itemsize // item_bytes)
        row_mask, code_mask = np.repeat(tile_mask, tile_rows), tile_mask[tile_of_code]
        rows_of_kind, codes_of_kind = diagonal.view(bits)[row_mask], coded_values.view(bits)[code_mask]
        if item_bytes == 1:
            rows_of_kind, codes_of_kind = lookup.indices_of(rows_of_kind), lookup.indices_of(codes_of_kind)
        numbers = blob.view(UNSIGNED[item_bytes])
        numbers[np.add.outer(first, np.arange(tile_rows)).ravel()[row_mask]] = rows_of_kind
        numbers[(first[tile_of_code] + number_of_code)[code_mask]] = interleave(codes_of_kind, SLICE, entries)
    return SymmetricPairs(pairs, tiles, blob, lookup.table.view(values.dtype))


#: A variant is not tried if it needs more slots per non-zero than this.
MAX_PADDING = 2.0
#: Arrays of a matrix, plain or compressed, that kernels receive.
PLAIN_ARRAYS = ("rows", "columns", "values")
COMPRESSED_ARRAYS = ("blob", "descriptions", "table")


@dataclass(frozen=True)
class CoordinateFacts:
    """Sizes and counts of a packed matrix that are kept on the host, while its arrays are on the device.

    Attributes
    ----------
    nbytes
        Bytes of all arrays.
    chunks
        Number of chunks.
    encodings
        Number of chunks for each encoding.
    long_rows
        Number of rows whose y is computed by atomic additions only.
    """

    nbytes: int
    chunks: int
    encodings: dict[str, int]
    long_rows: int


class CoordinateVariant(CompiledProduct):
    """A product by a kernel for balanced coordinates, plain or compressed.

    Parameters
    ----------
    id
        Layout and blocking: B, K and the number of chunks per block.
    module
        Manifest of the compiled module that contains the kernel.
    folder
        Folder of the manifest; paths of binaries are relative to this folder.
    """

    id: CoordinateId

    def __init__(self, id: CoordinateId, module: Module | ModuleOnDemand, folder: Path) -> None:
        super().__init__(module, folder)
        self.id = id
        self.space = id.blocking.space(id.layout)
        self.layout, self.blocking = id.layout, id.blocking
        self.name = str(id)
        self.packing = self.layout, self.blocking.threads, self.blocking.entries
        self.group = self.layout
        self._packed: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        """Hash of the module, and the blocking."""
        return f"{self.module.hash} {self.blocking}"

    @property
    def columns(self) -> dict[str, Any]:
        """Layout and blocking, counts of encodings, and the compiler's resource figures for the kernel."""
        return {**self.id.columns, "space": self.space, "matrix_bytes": self.matrix_bytes or None, **self._packed}

    @property
    def chunking(self) -> Chunking:
        """How the matrix is cut into chunks; plain coordinates are padded like the paper's compressed coordinates."""
        split = SPLITS[self.layout]
        assert split in ("plain", "padded", "unpadded", "aligned"), "neither slices nor tiles are chunks"
        return Chunking(self.blocking.threads, self.blocking.entries, "padded" if split == "plain" else split)

    def pack(self, workspace: Workspace) -> None:
        """Pack the matrix, unless its padding is refused."""
        if self.module.binary is not None and operands_of(workspace).problem.entry == "real":
            workspace.upload_packed(self.packing, lambda: self._pack(workspace), lend_device=True)

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, and bind the kernel to its arguments.

        Raises
        ------
        ModuleError
        Unsupported
            The matrix would be padded to more than `MAX_PADDING` times its non-zeros, its entries are not real, or the
            layout is not for such a matrix.
        """
        program = self.program(workspace)
        entry = operands_of(workspace).problem.entry
        if entry != "real":
            raise Unsupported(f"{self.layout} holds real numbers, not {entry} entries")
        facts, self._bind = self._hold(workspace, program)
        self._packed = {"encodings": json.dumps(facts.encodings), **self.resources(self.blocking.kernel)}
        x, self._y = x_on(workspace, "AoS"), y_on(workspace)
        self.matrix_bytes = facts.nbytes
        self.bytes_moved = facts.nbytes + 2 * x.nbytes
        self.launch = self.product(x, self._y)

    def _hold(self, workspace: Workspace, program: Program) -> tuple[CoordinateFacts, Bind]:
        """Pack and upload the matrix; return its facts, and a function that binds the kernel to vectors."""
        facts, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace))
        device, per_block = workspace.device, self.blocking.chunks
        array_names = PLAIN_ARRAYS if self.is_plain else COMPRESSED_ARRAYS
        long_rows = buffers.get("long_rows")

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            arguments: list[Argument] = [
                np.int32(facts.chunks),
                np.int32(per_block),
                *(buffers[a] for a in array_names),
            ]
            kernel = program.kernel(self.blocking.kernel)  # one per binding: an OpenCL kernel holds its arguments
            run = device.bind(kernel, -(-facts.chunks // per_block), self.blocking.threads, [*arguments, x, y])
            if SPLITS[self.layout] != "aligned":
                return in_order([lambda: device.fill(y, 0), run])
            if long_rows is None:
                return run
            count, n_t = facts.long_rows, CLEAR_BLOCK_SIZE[device.backend]
            clear = device.bind(program.kernel("clear_rows"), -(-count // n_t), n_t, [np.int32(count), long_rows, y])
            return in_order([clear, run])

        return facts, bind

    @property
    def is_plain(self) -> bool:
        """Whether rows, columns and values are stored without compression."""
        return SPLITS[self.layout] == "plain"

    def _pack(self, workspace: Workspace) -> tuple[CoordinateFacts, Mapping[str, NDArray[Any]]]:
        """Return the packed matrix's sizes and counts for the host, and its arrays for kernels.

        Raises
        ------
        Unsupported
        """
        problem, values = operands_of(workspace).problem, operands_of(workspace).values.ravel()
        refuse_padding(count_slots(problem.row_lengths, self.chunking), problem.nnz)
        balanced = balance(problem.n, problem.indptr, problem.indices, values, self.chunking)
        if self.is_plain:
            shape = self.blocking.threads, self.blocking.entries
            return CoordinateFacts(balanced.nbytes, balanced.chunks, {"32/32/plain": balanced.chunks}, 0), {
                "rows": balanced.rows,
                "columns": interleave(balanced.columns, *shape),
                "values": interleave(balanced.values, *shape),
            }
        matrix = compress(balanced)
        arrays: dict[str, NDArray[Any]] = {"blob": matrix.blob, "descriptions": matrix.chunks, "table": matrix.table}
        if len(matrix.long_rows) and SPLITS[self.layout] == "aligned":
            arrays["long_rows"] = matrix.long_rows
        return CoordinateFacts(matrix.nbytes, len(matrix.chunks), matrix.encodings(), len(matrix.long_rows)), arrays


def refuse_padding(slots: int, nonzeros: int) -> None:
    """Raise Unsupported if the matrix would need too many slots.

    Raises
    ------
    Unsupported
    """
    padded = slots / max(nonzeros, 1)
    if padded > MAX_PADDING:
        raise Unsupported(f"padded to {padded:.1f} times the non-zeros, more than {MAX_PADDING:g}")


#: Arrays that the kernels for slices receive.
ARRAYS = ("slices", "bases", "words", "values", "table")


@dataclass(frozen=True)
class SlicedFacts(CoordinateFacts):
    """Sizes and counts of slices for the host: `chunks` is the number of slices, and `encodings` counts steps.

    Attributes
    ----------
    long_rows
        Number of rows that are summed in several parts.
    pieces
        Number of slices that are pieces of a row.
    parts_bytes
        Bytes of the partial sums, which a second launch adds up.
    """

    pieces: int
    parts_bytes: int


class SlicedVariant(CoordinateVariant):
    """A product by a kernel for slices; each warp processes as many slices in sequence as the blocking has chunks."""

    def __init__(self, id: CoordinateId, module: Module | ModuleOnDemand, folder: Path) -> None:
        super().__init__(id, module, folder)
        self.height = HEIGHTS[id.layout]
        self.packing = (self.layout,)
        self._parts_bytes = 0

    def _hold(self, workspace: Workspace, program: Program) -> tuple[SlicedFacts, Bind]:
        """Pack and upload the matrix; return its facts, and a function that binds the kernels to vectors."""
        device = workspace.device
        facts, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace))
        size = self._parts_bytes = facts.parts_bytes
        parts = workspace.written(("parts", size), size, "sums of its parts") if size else None
        threads, per_warp, warp = self.blocking.threads, self.blocking.chunks, device.target.warp
        blocks = -(-facts.chunks // (per_warp * (threads // warp)))
        sizes = np.int32(facts.chunks), np.int32(per_warp), np.int32(facts.pieces)

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            # one kernel object per binding, since OpenCL kernels hold their arguments; without parts, nothing is
            # written to parts
            kernel = program.kernel(self.blocking.kernel)
            run = device.bind(kernel, blocks, threads, [*sizes, *(buffers[a] for a in ARRAYS), parts or y, x, y])
            if parts is None:
                return run
            rows: list[Argument] = [np.int32(facts.long_rows), buffers["long_rows"], buffers["first_parts"], parts, y]
            n_t = CLEAR_BLOCK_SIZE[device.backend]
            add = device.bind(program.kernel("add_parts"), -(-facts.long_rows * warp // n_t), n_t, rows)
            return in_order([run, add])

        return facts, bind

    def prepare(self, workspace: Workspace) -> None:
        """Prepare as in the base class, and count the traffic of partial sums as well."""
        super().prepare(workspace)
        self.bytes_moved += 2 * self._parts_bytes

    def _pack(self, workspace: Workspace) -> tuple[SlicedFacts, Mapping[str, NDArray[Any]]]:
        """Return the slices' sizes and counts for the host, and their arrays for kernels."""
        problem, values = operands_of(workspace).problem, operands_of(workspace).values.ravel()
        slices = make_slices(problem.row_lengths, self.height)
        refuse_padding(slices.slots(problem.row_lengths), problem.nnz)
        sliced = slice_up(slices, problem.indptr, problem.indices, values)
        facts = SlicedFacts(
            sliced.nbytes,
            len(sliced.slices),
            sliced.steps,
            len(sliced.long_rows),
            sliced.pieces,
            sliced.parts * values.itemsize,
        )
        return facts, sliced.arrays


@dataclass(frozen=True)
class PairsFacts(CoordinateFacts):
    """Sizes and counts of pairs for the host: `chunks` counts tiles; a tile needs `shared` bytes of shared memory."""

    shared: int
    leading: int


class PairsVariant(CoordinateVariant):
    """A product by a kernel for symmetric pairs; B in the blocking is the number of rows per tile."""

    def _hold(self, workspace: Workspace, program: Program) -> tuple[PairsFacts, Bind]:
        """Pack and upload the matrix; return its facts, and a function that binds the kernel to vectors."""
        device, n, tile_rows = workspace.device, operands_of(workspace).problem.n, self.blocking.threads
        facts, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace))

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            kernel = program.kernel(self.blocking.kernel, facts.shared)  # OpenCL kernels hold arguments
            arguments: list[Argument] = [np.int32(n), np.int32(facts.leading), *buffers.values(), x, y]
            return device.bind(kernel, -(-n // tile_rows), tile_rows, arguments)

        return facts, bind

    def _pack(self, workspace: Workspace) -> tuple[PairsFacts, Mapping[str, NDArray[Any]]]:
        """Return the matrix in the form that a kernel takes.

        Raises `Unsupported`: the matrix is not symmetric, its codes exceed 16 bits, it would be mostly padding, or a
        tile exceeds the shared memory.
        """
        operands, tile_rows = operands_of(workspace), self.blocking.threads
        problem = operands.problem
        symmetry = symmetry_on(workspace)
        has_clusters = bool(symmetry.kind) and SPLITS[self.layout] == "clustered"

        def cut() -> Tiles:
            rows = row_order_on(workspace, "bisected") if has_clusters else None
            return cut_into_tiles(problem, symmetry, tile_rows, rows)

        tiles = workspace.cached(("tiles of pairs", tile_rows, has_clusters), cut)
        pairs = lay_out_pairs(tiles, self.blocking.entries)
        refuse_padding(pairs.slots, problem.nnz)  # the slots of pairs within tiles are counted once
        shared = shared_bytes(tiles.shared, tile_rows, operands.dtype.itemsize)
        packed_pairs = store_pairs(pairs, operands.values.ravel(), tile_rows, self.blocking.entries)
        return PairsFacts(
            packed_pairs.nbytes, len(packed_pairs.tiles), packed_pairs.encodings(), 0, shared, tiles.leading
        ), packed_pairs.arrays
