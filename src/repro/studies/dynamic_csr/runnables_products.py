"""Products y = A x with the grown matrix by kernels for segments and for CSR, and how each schedule is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module
from repro.codegen.targets import DTYPES, INDEX_BYTES
from repro.devices.base import Argument, Buffer, Device, LaunchSpec
from repro.sparse.dynamic.host_layout import SEGMENTS, Arrays
from repro.sparse.dynamic.matrix import GetKernel, Run, StoredRows, bind_bins, bind_vector, schedule_suffix
from repro.sparse.dynamic.schedules import (
    LONG_ROWS,
    PAPERS_MIN_LENGTHS,
    PAPERS_WIDTHS,
    RowBins,
    Schedule,
    bin_rows,
    deal_chunks,
    nonempty_parts,
    our_min_lengths,
    parts_of,
    row_spans,
)
from repro.sparse.elementwise import BLOCK_SIZE
from repro.sparse.operands import CompiledProduct
from repro.studies.dynamic_csr.ids import ProductId
from repro.studies.dynamic_csr.operands import GraphOperands, operands_of, slack_of, state_in


def bind_product(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, x: Buffer, y: Buffer
) -> Run:
    """Return a launch of y = A x by the variant with the given id."""
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
    device = workspace.device
    bins = workspace.cached("paper's bins", lambda: bin_rows(matrix.sizes(), PAPERS_MIN_LENGTHS))
    order = workspace.buffer("paper's bins", lambda: device.upload(bins.order))
    return bind_streams(device, kernel, id.schedule, bins, [order, *matrix.arguments(False), *vectors])


def bind_streams(
    device: Device, kernel: GetKernel, schedule: Schedule, bins: RowBins, arguments: Sequence[Argument]
) -> Run:
    """Bind the paper's bins, each non-empty bin to its own stream, the longest rows first.

    `arguments` are those of a bin's kernel from `order` on.
    """
    n_t = BLOCK_SIZE[device.backend]
    launches: list[LaunchSpec] = []
    for width, (first, last_row) in zip((0, *reversed(PAPERS_WIDTHS)), bins.spans, strict=True):
        if first == last_row:
            continue
        if not width:
            bin_arguments = [np.int32(first), *arguments]
            launches.append(
                LaunchSpec(kernel(f"bin_block_{schedule_suffix(schedule)}"), last_row - first, n_t, bin_arguments)
            )
            continue
        threads = min(width, device.target.warp)
        blocks = -(-(last_row - first) * threads // n_t)
        bin_arguments = [np.int32(first), np.int32(last_row), *arguments]
        launches.append(LaunchSpec(kernel(f"bin_w{threads}_{schedule_suffix(schedule)}"), blocks, n_t, bin_arguments))
    return device.bind_concurrent(launches)


def _bind_adaptive(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind all our bins to one launch: parts of the longest rows first, then the other rows bin by bin."""
    device, per_thread = workspace.device, id.schedule.per_thread
    key = "bins", per_thread
    bins = workspace.cached(key, lambda: bin_rows(matrix.sizes(), our_min_lengths(device.target, per_thread)))
    order = workspace.buffer(key, lambda: device.upload(bins.order))
    parts = parts_of(bins, matrix.sizes(), device.target, by_place=id.schedule.exact)
    parts_on_device = workspace.buffer(("parts", id.schedule.exact), lambda: device.upload(nonempty_parts(parts)))
    part_arguments = [parts_on_device, *_part_memory(workspace, len(parts), "parts")]
    arguments: list[Argument] = [order]
    if id.schedule.exact:
        spans = workspace.buffer((*key, id.state), lambda: device.upload(_row_spans(id, matrix)[bins.order]))
        arguments += [spans, matrix.buffers["columns"], matrix.buffers["values"], *vectors]
    else:
        arguments += [*matrix.arguments(False), *vectors]
    name = f"bins_{_kernel_format(id)}_{schedule_suffix(id.schedule)}"
    return bind_bins(device, kernel(name), bins, (len(parts), part_arguments), arguments)


def _row_spans(id: ProductId, matrix: StoredRows) -> NDArray[np.int32]:
    """Return the start and end of each row's entries, without free space."""
    sizes = matrix.sizes()
    return row_spans(sizes, bin_rows(sizes, PAPERS_MIN_LENGTHS).order if id.state == "sorted" else None)


def _bind_chunks(
    workspace: Workspace, kernel: GetKernel, id: ProductId, matrix: StoredRows, vectors: tuple[Buffer, Buffer]
) -> Run:
    device = workspace.device
    n_t, length = BLOCK_SIZE[device.backend], LONG_ROWS[device.backend].part_length
    capacity = n_t * id.schedule.in_flight
    key = "chunks", capacity
    chunks = workspace.cached(key, lambda: deal_chunks(matrix.sizes(), capacity, length))
    arguments: Sequence[Argument] = [
        np.int32(length),
        workspace.buffer(key, lambda: device.upload(chunks)),
        *_part_memory(workspace, len(chunks), key),
        *matrix.arguments(id.schedule.exact),
        *vectors,
    ]
    return device.bind(
        kernel(f"chunks_{_kernel_format(id)}_{schedule_suffix(id.schedule)}"), len(chunks), n_t, arguments
    )


def _part_memory(workspace: Workspace, blocks: int, key: Any) -> tuple[Buffer, Buffer]:
    """Return memory for partial sums and for counters of finished parts; each launch resets the counters to zero."""
    number = DTYPES[workspace.operands.precision]().nbytes
    blocks = max(blocks, 1)  # some devices cannot allocate empty buffers
    sums = workspace.written(("sums", key), blocks * number, "the sums of parts")
    part_counts = workspace.written(("done", key), blocks * INDEX_BYTES, "the counts of parts")
    workspace.device.fill(part_counts, 0)
    return sums, part_counts


@dataclass(frozen=True)
class PackedMatrix:
    """Sizes and counts of a packed matrix that are kept on the host, while its arrays are on the device."""

    nbytes: int
    #: Maximum length of a row's chain; 0 in CSR.
    segments: int
    #: Number of segments of all rows; in CSR the number of offsets.
    pairs: int
    #: Number of free entries in a new segment.
    slack: int


class ProductVariant(CompiledProduct):
    """A product y = A x with the grown matrix by a kernel of the module `product`; y is `(rows,)`."""

    id: ProductId

    def __init__(self, id: ProductId, module: Module, folder: Path, segments: int = SEGMENTS) -> None:
        super().__init__(module, folder)
        self.id, self.space = id, id.space
        self.name = str(id)
        self.packing = id.format, id.state, segments
        self.group = id.format, id.state, id.schedule.kind
        self._segments = segments
        self._columns: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        return f"{self.module.hash} {self._segments}"

    @property
    def columns(self) -> dict[str, Any]:
        """Format, state and schedule, the matrix's facts, and the compiler's resource figures for the kernels."""
        return {**self.id.columns, "space": self.space, "matrix_bytes": self.matrix_bytes or None, **self._columns}

    def prepare(self, workspace: Workspace) -> None:
        program, operands = self.program(workspace), operands_of(workspace)
        facts, buffers = workspace.upload_packed(self.packing, lambda: self._pack(workspace, operands))
        rows = operands.grown.shape[0]
        matrix = StoredRows(
            rows, facts.segments, buffers, lambda: np.diff(operands.grown.indptr).astype(np.int32, copy=False)
        )
        # all products share x, and write the same y in turn
        x = workspace.buffer(("x", "AoS", "natural"), lambda: workspace.device.upload(operands.x))
        nbytes = len(operands.reference) * operands.x.itemsize
        self._y = workspace.written(("y", nbytes), nbytes, "its result")
        kernels: set[str] = set()

        def get(name: str) -> Any:
            kernels.add(name)
            return program.kernel(name)  # one kernel per binding: an OpenCL kernel holds its arguments

        self._bind = lambda x, y: bind_product(workspace, get, self.id, matrix, x, y)
        self.launch = self._bind(x, self._y)
        self.matrix_bytes = facts.nbytes
        self.bytes_moved = self._bytes_to_move(operands, facts)
        self._columns = self._resources(kernels)
        if facts.segments:
            self._columns |= {"segments": facts.segments, "slack": facts.slack}

    def _bytes_to_move(self, operands: GraphOperands, facts: PackedMatrix) -> int:
        """Return the bytes of entries, x and y, and of the tables that locate each row's entries."""
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
        """Return the maximum registers and the maximum spills over all kernels."""
        kernel_resources = [self.resources(kernel) for kernel in kernels]
        resource_columns: dict[str, Any] = {}
        for resource in ("registers", "spills"):
            numbers = [number for resources in kernel_resources if (number := resources.get(resource)) is not None]
            resource_columns[resource] = max(numbers, default=None)
        return resource_columns

    def _pack(self, workspace: Workspace, operands: GraphOperands) -> tuple[PackedMatrix, Mapping[str, NDArray[Any]]]:
        if self.id.state is None:
            grown_matrix = operands.grown
            arrays = {
                "offsets": grown_matrix.indptr.astype(np.int32, copy=False),
                "columns": grown_matrix.indices.astype(np.int32, copy=False),
                "values": grown_matrix.data,
            }
            return PackedMatrix(sum(array.nbytes for array in arrays.values()), 0, len(grown_matrix.indptr), 0), arrays
        state = state_in(workspace, operands, self.id.state, self._segments)
        arrays = matrix_arrays(state)
        slack = slack_of(operands) if self.id.state == "fragmented" else 0
        nbytes = sum(array.nbytes for array in arrays.values())
        return PackedMatrix(nbytes, self._segments, int(state.fragments.sum()), slack), arrays


def matrix_arrays(arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {"columns": arrays.columns, "values": arrays.values, "table": arrays.table, "sizes": arrays.sizes}
