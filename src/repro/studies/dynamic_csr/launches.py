"""Binding the kernels of the module `product` to a matrix, schedule by schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.workspace import Workspace
from repro.codegen.precisions import DTYPES, INDEX_BYTES
from repro.devices.base import Argument, Buffer, Launch
from repro.sparse.dynamic.bins import (
    LONG,
    PAPERS_LEAST,
    PAPERS_WIDTHS,
    at_least_one,
    bin_rows,
    deal_chunks,
    our_least,
    parts_of,
    spans_of,
)
from repro.sparse.dynamic.product import GetKernel, Matrix, Run, bind_bins, bind_vector, suffix_of
from repro.sparse.kernels import N_T
from repro.studies.dynamic_csr.variant_id import VariantId


def bind(workspace: Workspace, kernel: GetKernel, id: VariantId, matrix: Matrix, x: Buffer, y: Buffer) -> Run:
    """Return what queues y = A x by a variant."""
    schedules = {"vector": _vector, "mixed": _vector, "streams": _streams, "adaptive": _adaptive, "chunks": _chunks}
    return schedules[id.schedule.kind](workspace, kernel, id, matrix, (x, y))


def _format(id: VariantId) -> str:
    return "csr" if id.state is None else "exact" if id.schedule.exact else "dcsr"


def _vector(
    workspace: Workspace, kernel: GetKernel, id: VariantId, matrix: Matrix, vectors: tuple[Buffer, Buffer]
) -> Run:
    return bind_vector(workspace.device, kernel, id.schedule, matrix, vectors)


def _streams(
    workspace: Workspace, kernel: GetKernel, id: VariantId, matrix: Matrix, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind the paper's bins, each that has rows to a stream of its own, the longest rows first."""
    device = workspace.device
    n_t = N_T[device.backend]
    bins = workspace.fact("paper's bins", lambda: bin_rows(matrix.sizes(), PAPERS_LEAST))
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


def _adaptive(
    workspace: Workspace, kernel: GetKernel, id: VariantId, matrix: Matrix, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind all of our bins to one launch: parts of the longest rows, then the other rows bin by bin."""
    device, per_thread = workspace.device, id.schedule.per_thread
    key = "bins", per_thread
    bins = workspace.fact(key, lambda: bin_rows(matrix.sizes(), our_least(device.target, per_thread)))
    order = workspace.buffer(key, lambda: device.upload(bins.order))
    parts = parts_of(bins, matrix.sizes(), device.target, by_place=id.schedule.exact)
    parts_on_device = workspace.buffer(("parts", id.schedule.exact), lambda: device.upload(at_least_one(parts)))
    for_parts = [parts_on_device, *_for_parts(workspace, len(parts), "parts")]
    arguments: list[Argument] = [order]
    if id.schedule.exact:
        spans = workspace.buffer((*key, id.state), lambda: device.upload(_spans(id, matrix)[bins.order]))
        arguments += [spans, matrix.buffers["columns"], matrix.buffers["values"], *vectors]
    else:
        arguments += [*matrix.arguments(False), *vectors]
    name = f"bins_{_format(id)}_{suffix_of(id.schedule)}"
    return bind_bins(device, kernel(name), bins, (len(parts), for_parts), arguments)


def _spans(id: VariantId, matrix: Matrix) -> NDArray[np.int32]:
    """Return where each row's entries start and end, without room."""
    sizes = matrix.sizes()
    return spans_of(sizes, bin_rows(sizes, PAPERS_LEAST).order if id.state == "sorted" else None)


def _chunks(
    workspace: Workspace, kernel: GetKernel, id: VariantId, matrix: Matrix, vectors: tuple[Buffer, Buffer]
) -> Run:
    """Bind blocks of consecutive rows."""
    device = workspace.device
    n_t, length = N_T[device.backend], LONG[device.backend].part_length
    most = n_t * id.schedule.unroll
    key = "chunks", most
    chunks = workspace.fact(key, lambda: deal_chunks(matrix.sizes(), most, length))
    arguments: Sequence[Argument] = [
        np.int32(length),
        workspace.buffer(key, lambda: device.upload(chunks)),
        *_for_parts(workspace, len(chunks), key),
        *matrix.arguments(id.schedule.exact),
        *vectors,
    ]
    return device.bind(kernel(f"chunks_{_format(id)}_{suffix_of(id.schedule)}"), len(chunks), n_t, arguments)


def _for_parts(workspace: Workspace, blocks: int, key: Any) -> tuple[Buffer, Buffer]:
    """Return memory for the sums of as many parts as blocks, and for counting them, which every launch leaves zero."""
    number = DTYPES[workspace.operands.precision]().nbytes
    blocks = max(blocks, 1)  # a buffer of no bytes has one on some devices
    sums = workspace.written(("sums", key), blocks * number, "the sums of parts")
    done = workspace.written(("done", key), blocks * INDEX_BYTES, "the counts of parts")
    workspace.device.fill(done, 0)
    return sums, done
