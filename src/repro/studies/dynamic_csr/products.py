"""Products y = A x with the grown matrix: what all of them are, and those by kernels for segments and for CSR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, ModuleError, not_prepared
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module
from repro.devices.base import Buffer
from repro.sparse.dynamic.layout import SEGMENTS, Arrays
from repro.sparse.dynamic.product import Matrix
from repro.sparse.operands import Multiplies
from repro.studies.dynamic_csr.launches import bind
from repro.studies.dynamic_csr.operands import GraphOperands, operands_of
from repro.studies.dynamic_csr.states import slack_of, state_in
from repro.studies.dynamic_csr.variant_id import VariantId


class Product(Multiplies, Candidate):
    """What leaves y = A x with the grown matrix: `(rows,)` in the working precision."""

    kind = "variant"
    arrangement = "AoS@natural"

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers as they are: one to a row."""
        return values.ravel()


def x_on(workspace: Workspace) -> Buffer:
    """Return x on the device, `(columns,)`; all products read the same."""
    return workspace.buffer(("x", "AoS", "natural"), lambda: workspace.device.upload(operands_of(workspace).x))


def y_on(workspace: Workspace) -> Buffer:
    """Return memory for y on the device, `(rows,)`, between guard zones; products use it one after the other."""
    operands = operands_of(workspace)
    nbytes = len(operands.reference) * operands.x.itemsize
    return workspace.written(("y", nbytes), nbytes, "its result")


@dataclass(frozen=True)
class Facts:
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

    def __init__(self, id: VariantId, module: Module, folder: Path, segments: int = SEGMENTS) -> None:
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
        facts, buffers = workspace.hold(self.packing, lambda: self._pack(workspace, operands))
        program = workspace.program(self._folder / self.module.binary)
        rows = operands.grown.shape[0]
        matrix = Matrix(rows, facts.segments, buffers, lambda: sizes_of(operands))
        x, self._y = x_on(workspace), y_on(workspace)
        kernels: set[str] = set()

        def get(name: str) -> Any:
            kernels.add(name)
            return program.kernel(name)  # one each: in OpenCL the arguments are part of it

        self._bind = lambda x, y: bind(workspace, get, self.id, matrix, x, y)
        self.launch = self._bind(x, self._y)
        self.matrix_bytes = facts.nbytes
        self.moved = self._bytes_to_move(operands, facts)
        self._said = self._resources(kernels)
        if facts.segments:
            self._said |= {"segments": facts.segments, "slack": facts.slack}

    def _bytes_to_move(self, operands: GraphOperands, facts: Facts) -> int:
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

    def _pack(self, workspace: Workspace, operands: GraphOperands) -> tuple[Facts, Mapping[str, NDArray[Any]]]:
        if self.id.state is None:
            grown = operands.grown
            arrays = {
                "offsets": grown.indptr.astype(np.int32, copy=False),
                "columns": grown.indices.astype(np.int32, copy=False),
                "values": grown.data,
            }
            return Facts(sum(array.nbytes for array in arrays.values()), 0, len(grown.indptr), 0), arrays
        laid_out = state_in(workspace, operands, self.id.state, self._segments)
        arrays = matrix_arrays(laid_out)
        slack = slack_of(operands) if self.id.state == "fragmented" else 0
        nbytes = sum(array.nbytes for array in arrays.values())
        return Facts(nbytes, self._segments, int(laid_out.fragments.sum()), slack), arrays

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


def sizes_of(operands: GraphOperands) -> NDArray[np.int32]:
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
