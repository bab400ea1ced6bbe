"""Variants of compressed sliced ELLPACK: slices of one height under one blocking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import in_turn
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module
from repro.devices.base import Argument, Buffer, Program
from repro.sparse.operands import operands_of
from repro.studies.compressed_coo.blocking import HEIGHTS
from repro.studies.compressed_coo.render import CLEAR_N_T
from repro.studies.compressed_coo.sliced import slice_up
from repro.studies.compressed_coo.slices import make_slices
from repro.studies.compressed_coo.variant import Bind, CoordinateVariant, Facts, refuse_padding
from repro.studies.compressed_coo.variant_id import VariantId

#: What the kernels are given of a matrix.
ARRAYS = ("slices", "bases", "words", "values", "table")


@dataclass(frozen=True)
class SlicedFacts(Facts):
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

    def __init__(self, id: VariantId, module: Module, folder: Path, space: str) -> None:
        super().__init__(id, module, folder, space)
        self.height = HEIGHTS[id.layout]
        self.packing = (self.layout,)
        self._parts_bytes = 0

    def _hold(self, workspace: Workspace, program: Program) -> tuple[SlicedFacts, Bind]:
        """Pack and upload the matrix; return what is known of it, and what binds the kernels to vectors."""
        device = workspace.device
        matrix, buffers = workspace.hold(self.packing, lambda: self._pack(workspace))
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
