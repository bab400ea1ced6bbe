"""Variants of this study: one layout under one blocking.

The layouts are balanced coordinates, plain or compressed; compressed sliced ELLPACK with slices of one height;
and pairs of a symmetric matrix, each stored once, in tiles of rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, ModuleError, Unsupported, in_turn, not_prepared
from repro.bench.workspace import Workspace
from repro.codegen.build_cache import Module
from repro.devices.base import Argument, Buffer, Program
from repro.sparse.operands import Multiplies, operands_of, symmetry_on, x_on, y_on
from repro.sparse.pairs import Tiles, cut_into_tiles, lay_out_pairs, shared_bytes
from repro.studies.compressed_coo.coordinate_format import Chunking, balance, compress, count_slots, interleave
from repro.studies.compressed_coo.ids import HEIGHTS, SPLITS, CoordinateId
from repro.studies.compressed_coo.kernels import CLEAR_N_T
from repro.studies.compressed_coo.pair_format import store_pairs
from repro.studies.compressed_coo.sliced_format import make_slices, slice_up

#: Returns what queues y = A x for some x and y.
Bind = Callable[[Buffer, Buffer], Callable[[], None]]
#: Slots for each non-zero above which a variant is not tried.
MAX_PADDING = 2.0
#: What kernels are given of a matrix, plain or compressed.
PLAIN_ARRAYS = ("rows", "columns", "values")
COMPRESSED_ARRAYS = ("blob", "descriptions", "table")


@dataclass(frozen=True)
class CoordinateFacts:
    """What is kept on the host of a packed matrix: its arrays are on the device.

    Attributes
    ----------
    nbytes
        Of all arrays.
    chunks
        How many there are.
    encodings
        How many of them have which encoding.
    long_rows
        How many rows are added to by atomics alone.
    """

    nbytes: int
    chunks: int
    encodings: dict[str, int]
    long_rows: int


class CoordinateVariant(Multiplies, Candidate):
    """A product by a kernel for balanced coordinates, plain or compressed.

    Parameters
    ----------
    id
        Layout and blocking: B, K and the chunks of a block.
    module
        The manifest of its module.
    folder
        Where the manifest lies; binaries are relative to it.
    space
        The space that it belongs to: `paper` or `extended`.
    """

    kind = "variant"
    arrangement = "AoS@natural"

    def __init__(self, id: CoordinateId, module: Module, folder: Path, space: str) -> None:
        self.id, self.module, self.space = id, module, space
        self.layout, self.blocking = id.layout, id.blocking
        self.name = str(id)
        self.packing = self.layout, self.blocking.threads, self.blocking.entries
        self.group = self.layout
        self._folder = folder
        self._packed: dict[str, Any] = {}
        self._y: Buffer | None = None
        self._bind: Bind | None = None

    @property
    def identity(self) -> str:
        """The module's hash, and the blocking."""
        return f"{self.module.hash} {self.blocking}"

    @property
    def columns(self) -> dict[str, Any]:
        """Layout and blocking, encodings, and what the compiler said of the kernel."""
        return {
            **self.id.columns,
            "space": self.space,
            "matrix_bytes": self.matrix_bytes or None,
            **self._packed,
        }

    @property
    def chunking(self) -> Chunking:
        """How the matrix is cut into chunks; plain coordinates are padded as the paper's compressed ones are."""
        split = SPLITS[self.layout]
        assert split in ("plain", "padded", "unpadded", "aligned"), "neither slices nor tiles are chunks"
        return Chunking(self.blocking.threads, self.blocking.entries, "padded" if split == "plain" else split)

    def pack(self, workspace: Workspace) -> None:
        """Pack the matrix, unless it is refused."""
        if self.module.binary is not None and operands_of(workspace).problem.entry == "real":
            workspace.pack(self.packing, lambda: self._pack(workspace))

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, bind the kernel to its arguments.

        Raises
        ------
        ModuleError
        Unsupported
            The matrix would be padded to more than `MOST_PADDING` times its non-zeros, its entries are not real, or the
            layout is not for such a matrix.
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        entry = operands_of(workspace).problem.entry
        if entry != "real":
            raise Unsupported(f"{self.layout} holds real numbers, not {entry} entries")
        facts, self._bind = self._hold(workspace, workspace.program(self._folder / self.module.binary))
        resources = (self.module.resources or {}).get(self.blocking.kernel, {})
        self._packed = {
            "encodings": json.dumps(facts.encodings),
            "registers": resources.get("registers"),
            "spills": resources.get("spills"),
        }
        x, self._y = x_on(workspace, "AoS"), y_on(workspace)
        self.matrix_bytes = facts.nbytes
        self.moved = facts.nbytes + 2 * x.nbytes
        self.launch = self.product(x, self._y)

    def _hold(self, workspace: Workspace, program: Program) -> tuple[CoordinateFacts, Bind]:
        """Pack and upload the matrix; return what is known of it, and what binds the kernel to vectors."""
        matrix, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace))
        device, per_block = workspace.device, self.blocking.chunks
        taken = PLAIN_ARRAYS if self.plain else COMPRESSED_ARRAYS
        long_rows = buffers.get("long_rows")

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            arguments: list[Argument] = [np.int32(matrix.chunks), np.int32(per_block), *(buffers[a] for a in taken)]
            kernel = program.kernel(self.blocking.kernel)  # one each: in OpenCL the arguments are part of it
            run = device.bind(kernel, -(-matrix.chunks // per_block), self.blocking.threads, [*arguments, x, y])
            if SPLITS[self.layout] != "aligned":
                return in_turn(lambda: device.fill(y, 0), run)
            if long_rows is None:
                return run
            count, n_t = matrix.long_rows, CLEAR_N_T[device.backend]
            clear = device.bind(program.kernel("clear_rows"), -(-count // n_t), n_t, [np.int32(count), long_rows, y])
            return in_turn(clear, run)

        return matrix, bind

    @property
    def plain(self) -> bool:
        """Whether rows, columns and values are stored as they are."""
        return SPLITS[self.layout] == "plain"

    def _pack(self, workspace: Workspace) -> tuple[CoordinateFacts, Mapping[str, NDArray[Any]]]:
        """Return what is kept on the host of the packed matrix, and what kernels take of it.

        Raises
        ------
        Unsupported
        """
        problem, values = operands_of(workspace).problem, operands_of(workspace).values.ravel()
        refuse_padding(count_slots(problem.row_lengths, self.chunking), problem.nnz)
        balanced = balance(problem.n, problem.indptr, problem.indices, values, self.chunking)
        if self.plain:
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
        """Let go of matrix and vectors, which belong to the workspace."""
        self._y = self._bind = None
        self.launch = not_prepared


def refuse_padding(slots: int, nonzeros: int) -> None:
    """Refuse a matrix for which so many slots are too many.

    Raises
    ------
    Unsupported
    """
    padded = slots / max(nonzeros, 1)
    if padded > MAX_PADDING:
        raise Unsupported(f"padded to {padded:.1f} times the non-zeros, more than {MAX_PADDING:g}")


#: What the kernels are given of a matrix.
ARRAYS = ("slices", "bases", "words", "values", "table")


@dataclass(frozen=True)
class SlicedFacts(CoordinateFacts):
    """What is kept on the host of slices; a slice is a chunk, encodings are those of steps.

    Attributes
    ----------
    long_rows
        How many rows are summed in parts.
    pieces
        How many slices are pieces of one row.
    parts_bytes
        Bytes of the sums that are added up after all.
    """

    pieces: int
    parts_bytes: int


class SlicedVariant(CoordinateVariant):
    """A product by a kernel for slices; a warp takes as many, one after the other, as its blocking has chunks."""

    def __init__(self, id: CoordinateId, module: Module, folder: Path, space: str) -> None:
        super().__init__(id, module, folder, space)
        self.height = HEIGHTS[id.layout]
        self.packing = (self.layout,)
        self._parts_bytes = 0

    def _hold(self, workspace: Workspace, program: Program) -> tuple[SlicedFacts, Bind]:
        """Pack and upload the matrix; return what is known of it, and what binds the kernels to vectors."""
        device = workspace.device
        matrix, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace))
        size = self._parts_bytes = matrix.parts_bytes
        parts = workspace.written(("parts", size), size, "sums of its parts") if size else None
        threads, per_warp, warp = self.blocking.threads, self.blocking.chunks, device.target.warp
        blocks = -(-matrix.chunks // (per_warp * (threads // warp)))
        sizes = np.int32(matrix.chunks), np.int32(per_warp), np.int32(matrix.pieces)

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            # one each: in OpenCL the arguments are part of it; without parts nothing is written to them
            kernel = program.kernel(self.blocking.kernel)
            run = device.bind(kernel, blocks, threads, [*sizes, *(buffers[a] for a in ARRAYS), parts or y, x, y])
            if parts is None:
                return run
            rows: list[Argument] = [np.int32(matrix.long_rows), buffers["long_rows"], buffers["first_parts"], parts, y]
            n_t = CLEAR_N_T[device.backend]
            return in_turn(run, device.bind(program.kernel("add_parts"), -(-matrix.long_rows * warp // n_t), n_t, rows))

        return matrix, bind

    def prepare(self, workspace: Workspace) -> None:
        """Do as all others; parts are written and read besides what they move."""
        super().prepare(workspace)
        self.moved += 2 * self._parts_bytes

    def _pack(self, workspace: Workspace) -> tuple[SlicedFacts, Mapping[str, NDArray[Any]]]:
        """Return what is kept on the host of the slices, and what kernels take of them."""
        problem, values = operands_of(workspace).problem, operands_of(workspace).values.ravel()
        slices = make_slices(problem.row_lengths, self.height)
        refuse_padding(slices.slots(problem.row_lengths), problem.nnz)
        held = slice_up(slices, problem.indptr, problem.indices, values)
        facts = SlicedFacts(
            held.nbytes,
            len(held.slices),
            held.steps,
            len(held.long_rows),
            held.pieces,
            held.parts * values.itemsize,
        )
        return facts, held.arrays


@dataclass(frozen=True)
class PairsFacts(CoordinateFacts):
    """What is kept on the host of pairs; a tile is a chunk, and the launch is given `shared` bytes for each."""

    shared: int
    leading: int


class PairsVariant(CoordinateVariant):
    """A product by a kernel for symmetric pairs; B of its blocking is the rows of a tile."""

    def _hold(self, workspace: Workspace, program: Program) -> tuple[PairsFacts, Bind]:
        """Pack and upload the matrix; return what is known of it, and what binds the kernel to vectors."""
        device, n, tile_rows = workspace.device, operands_of(workspace).problem.n, self.blocking.threads
        matrix, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace))

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            kernel = program.kernel(self.blocking.kernel, matrix.shared)  # one each: OpenCL's hold their arguments
            arguments: list[Argument] = [np.int32(n), np.int32(matrix.leading), *buffers.values(), x, y]
            return device.bind(kernel, -(-n // tile_rows), tile_rows, arguments)

        return matrix, bind

    def _pack(self, workspace: Workspace) -> tuple[PairsFacts, Mapping[str, NDArray[Any]]]:
        """Return the matrix as a kernel takes it.

        Raises
        ------
        Unsupported
            It is not symmetric, beyond what codes can say, mostly padding, or needs more shared memory than there is.
        """
        operands, tile_rows = operands_of(workspace), self.blocking.threads
        problem = operands.problem
        symmetry = symmetry_on(workspace)
        of_clusters = bool(symmetry.kind) and SPLITS[self.layout] == "clustered"

        def cut() -> Tiles:
            rows = operands.permutation("bisected") if of_clusters else None
            return cut_into_tiles(problem, symmetry, tile_rows, rows)

        tiles = workspace.fact(("tiles of pairs", tile_rows, of_clusters), cut)
        pairs = lay_out_pairs(tiles, self.blocking.entries)
        refuse_padding(pairs.slots, problem.nnz)  # those within tiles are stored once for two
        shared = shared_bytes(tiles.shared, tile_rows, operands.dtype.itemsize)
        held = store_pairs(pairs, operands.values.ravel(), tile_rows, self.blocking.entries)
        return PairsFacts(held.nbytes, len(held.tiles), held.encodings(), 0, shared, tiles.leading), held.arrays
