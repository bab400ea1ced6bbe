"""Products y = A x with the grown matrix, by kernels for segments and for CSR, bound schedule by schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, ModuleError, not_prepared
from repro.bench.workspace import Workspace
from repro.codegen.build_cache import Module
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.devices.base import Argument, Buffer, Launch
from repro.sparse.dynamic.layout import SEGMENTS, Arrays
from repro.sparse.dynamic.matrix import GetKernel, Run, StoredRows, bind_bins, bind_vector, suffix_of
from repro.sparse.dynamic.schedules import (
    LONG_ROWS,
    PAPERS_MIN_LENGTHS,
    PAPERS_WIDTHS,
    at_least_one,
    bin_rows,
    deal_chunks,
    our_min_lengths,
    parts_of,
    spans_of,
)
from repro.sparse.elementwise import BLOCK_SIZE
from repro.sparse.operands import Multiplies
from repro.studies.dynamic_csr.ids import ProductId
from repro.studies.dynamic_csr.operands import GraphOperands, operands_of, slack_of, state_in


def bind_product(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, x: Buffer, y: Buffer
) -> Run:
    """Return what queues y = A x by a variant."""
    schedules = {
        "vector": _bind_vectors,
        "mixed": _bind_vectors,
        "streams": _bind_streams,
        "adaptive": _bind_adaptive,
        "chunks": _bind_chunks,
    }
    return schedules[id.schedule.kind](workspace, kernel, id, matrix, (x, y))


def _kernel_format(id: ProductId) -> str:
    return "csr" if id.state is None else "exact" if id.schedule.exact else "dcsr"


def _bind_vectors(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    return bind_vector(workspace.device, kernel, id.schedule, matrix, vectors)


def _bind_streams(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind the paper's bins, each that has rows to a stream of its own, the longest rows first."""
    device = workspace.device
    n_t = BLOCK_SIZE[device.backend]
    bins = workspace.fact("paper's bins", lambda: bin_rows(matrix.sizes(), PAPERS_MIN_LENGTHS))
    order = workspace.buffer("paper's bins", lambda: device.upload(bins.order))
    rest = [order, *matrix.arguments(False), *vectors]
    launches: list[Launch] = []
    for width, (first, last) in zip((0, *reversed(PAPERS_WIDTHS)), bins.spans, strict=True):
        if first == last:
            continue
        if not width:
            arguments = [np.int32(first), *rest]
            launches.append(Launch(kernel(f"bin_block_{suffix_of(id.schedule)}"), last - first, n_t, arguments))
            continue
        threads = min(width, device.target.warp)
        blocks = -(-(last - first) * threads // n_t)
        arguments = [np.int32(first), np.int32(last), *rest]
        launches.append(Launch(kernel(f"bin_w{threads}_{suffix_of(id.schedule)}"), blocks, n_t, arguments))
    return device.bind_concurrent(launches)


def _bind_adaptive(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind all of our bins to one launch: parts of the longest rows, then the other rows bin by bin."""
    device, per_thread = workspace.device, id.schedule.per_thread
    key = "bins", per_thread
    bins = workspace.fact(key, lambda: bin_rows(matrix.sizes(), our_min_lengths(device.target, per_thread)))
    order = workspace.buffer(key, lambda: device.upload(bins.order))
    parts = parts_of(bins, matrix.sizes(), device.target, by_place=id.schedule.exact)
    parts_on_device = workspace.buffer(("parts", id.schedule.exact), lambda: device.upload(at_least_one(parts)))
    for_parts = [parts_on_device, *_part_memory(workspace, len(parts), "parts")]
    arguments: list[Argument] = [order]
    if id.schedule.exact:
        spans = workspace.buffer((*key, id.state), lambda: device.upload(_row_spans(id, matrix)[bins.order]))
        arguments += [spans, matrix.buffers["columns"], matrix.buffers["values"], *vectors]
    else:
        arguments += [*matrix.arguments(False), *vectors]
    name = f"bins_{_kernel_format(id)}_{suffix_of(id.schedule)}"
    return bind_bins(device, kernel(name), bins, (len(parts), for_parts), arguments)


def _row_spans(id: ProductId, matrix: StoredRows) -> NDArray[np.int32]:
    """Return where each row's entries start and end, without room."""
    sizes = matrix.sizes()
    return spans_of(sizes, bin_rows(sizes, PAPERS_MIN_LENGTHS).order if id.state == "sorted" else None)


def _bind_chunks(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind blocks of consecutive rows."""
    device = workspace.device
    n_t, length = BLOCK_SIZE[device.backend], LONG_ROWS[device.backend].part_length
    most = n_t * id.schedule.unroll
    key = "chunks", most
    chunks = workspace.fact(key, lambda: deal_chunks(matrix.sizes(), most, length))
    arguments: Sequence[Argument] = [
        np.int32(length),
        workspace.buffer(key, lambda: device.upload(chunks)),
        *_part_memory(workspace, len(chunks), key),
        *matrix.arguments(id.schedule.exact),
        *vectors,
    ]
    return device.bind(kernel(f"chunks_{_kernel_format(id)}_{suffix_of(id.schedule)}"), len(chunks), n_t, arguments)


def _part_memory(workspace: Workspace, blocks: int, key: Any) -> tuple[Buffer, Buffer]:
    """Return memory for the sums of as many parts as blocks, and for counting them, which every launch leaves zero."""
    number = DTYPES[workspace.operands.precision]().nbytes
    blocks = max(blocks, 1)  # a buffer of no bytes has one on some devices
    sums = workspace.written(("sums", key), blocks * number, "the sums of parts")
    done = workspace.written(("done", key), blocks * INDEX_BYTES, "the counts of parts")
    workspace.device.fill(done, 0)
    return sums, done


class Product(Multiplies, Candidate):
    """What leaves y = A x with the grown matrix: `(rows,)` in the working precision."""

    kind = "variant"
    arrangement = "AoS@natural"

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers as they are: one to a row."""
        return values.ravel()


def product_x(workspace: Workspace) -> Buffer:
    """Return x on the device, `(columns,)`; all products read the same."""
    return workspace.buffer(("x", "AoS", "natural"), lambda: workspace.device.upload(operands_of(workspace).x))


def product_y(workspace: Workspace) -> Buffer:
    """Return memory for y on the device, `(rows,)`, between guard zones; products use it one after the other."""
    operands = operands_of(workspace)
    nbytes = len(operands.reference) * operands.x.itemsize
    return workspace.written(("y", nbytes), nbytes, "its result")


@dataclass(frozen=True)
class PackedMatrix:
    """What is kept on the host of a matrix: its arrays are on the device.

    Attributes
    ----------
    nbytes
        Of all arrays.
    segments
        The most that a row's chain can have; 0 in CSR.
    pairs
        Segments of all rows; in CSR the offsets.
    slack
        The room that a new segment was made with.
    """

    nbytes: int
    segments: int
    pairs: int
    slack: int


class ProductVariant(Product):
    """A product by a kernel of the module `product`.

    Parameters
    ----------
    id
        Format, state and schedule.
    module
        The manifest of its module.
    folder
        Where the manifest lies; binaries are relative to it.
    segments
        The most that a row's chain can have.
    """

    def __init__(self, id: ProductId, module: Module, folder: Path, segments: int = SEGMENTS) -> None:
        self.id, self.module, self.space = id, module, id.space
        self.name = str(id)
        self.packing = id.format, id.state, segments
        self.group = id.format, id.state, id.schedule.kind
        self._folder = folder
        self._segments = segments
        self._said: dict[str, Any] = {}
        self._y: Buffer | None = None
        self._bind: Callable[[Buffer, Buffer], Callable[[], None]] | None = None

    @property
    def identity(self) -> str:
        """The module's hash, and the segments of a chain."""
        return f"{self.module.hash} {self._segments}"

    @property
    def columns(self) -> dict[str, Any]:
        """Format, state and schedule, the matrix, and what the compiler said of the kernels."""
        return {**self.id.columns, "space": self.space, "matrix_bytes": self.matrix_bytes or None, **self._said}

    def prepare(self, workspace: Workspace) -> None:
        """Lay the matrix out and upload it, load the module, bind the kernels to their arguments.

        Raises
        ------
        ModuleError
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        operands = operands_of(workspace)
        facts, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace, operands))
        program = workspace.program(self._folder / self.module.binary)
        rows = operands.grown.shape[0]
        matrix = StoredRows(rows, facts.segments, buffers, lambda: row_sizes(operands))
        x, self._y = product_x(workspace), product_y(workspace)
        kernels: set[str] = set()

        def get(name: str) -> Any:
            kernels.add(name)
            return program.kernel(name)  # one each: in OpenCL the arguments are part of it

        self._bind = lambda x, y: bind_product(workspace, get, self.id, matrix, x, y)
        self.launch = self._bind(x, self._y)
        self.matrix_bytes = facts.nbytes
        self.moved = self._bytes_to_move(operands, facts)
        self._said = self._resources(kernels)
        if facts.segments:
            self._said |= {"segments": facts.segments, "slack": facts.slack}

    def _bytes_to_move(self, operands: GraphOperands, facts: PackedMatrix) -> int:
        """Return the bytes of entries, x and y, and of what says where each row's entries are."""
        rows, number = len(operands.reference), operands.x.itemsize
        if not facts.segments:
            tables = 4 * facts.pairs
        elif self.id.schedule.exact:
            tables = 8 * rows
        else:
            tables = 8 * max(facts.pairs, rows) + 4 * rows
        order = 4 * rows if self.id.schedule.kind in ("streams", "adaptive") else 0
        return int(operands.grown.nnz) * (4 + number) + tables + order + operands.x.nbytes + rows * number

    def _resources(self, kernels: set[str]) -> dict[str, Any]:
        """Return the most registers and spills of any kernel, as the compiler said."""
        of_kernels = [(self.module.resources or {}).get(kernel, {}) for kernel in kernels]
        said: dict[str, Any] = {}
        for what in ("registers", "spills"):
            numbers = [number for resources in of_kernels if (number := resources.get(what)) is not None]
            said[what] = max(numbers, default=None)
        return said

    def _pack(self, workspace: Workspace, operands: GraphOperands) -> tuple[PackedMatrix, Mapping[str, NDArray[Any]]]:
        if self.id.state is None:
            grown = operands.grown
            arrays = {
                "offsets": grown.indptr.astype(np.int32, copy=False),
                "columns": grown.indices.astype(np.int32, copy=False),
                "values": grown.data,
            }
            return PackedMatrix(sum(array.nbytes for array in arrays.values()), 0, len(grown.indptr), 0), arrays
        laid_out = state_in(workspace, operands, self.id.state, self._segments)
        arrays = matrix_arrays(laid_out)
        slack = slack_of(operands) if self.id.state == "fragmented" else 0
        nbytes = sum(array.nbytes for array in arrays.values())
        return PackedMatrix(nbytes, self._segments, int(laid_out.fragments.sum()), slack), arrays

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors; valid until `release`."""
        assert self._bind is not None, "prepared first"
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        """Return y."""
        return self._y

    def release(self) -> None:
        """Let go of matrix and vectors, which belong to the workspace."""
        self._y = self._bind = None
        self.launch = not_prepared


def row_sizes(operands: GraphOperands) -> NDArray[np.int32]:
    """Return the entries of each row of the grown matrix, int32 `(rows,)`."""
    sizes: NDArray[np.int32] = np.diff(operands.grown.indptr).astype(np.int32)
    return sizes


def matrix_arrays(arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return the arrays of a matrix by their names, as a device has them."""
    return {
        "columns": arrays.columns,
        "values": arrays.values,
        "table": arrays.table,
        "sizes": arrays.sizes,
    }
