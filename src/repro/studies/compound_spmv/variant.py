"""A variant: one layout run under one schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, ModuleError, Unsupported, in_turn, not_prepared
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module
from repro.devices.base import Buffer
from repro.problems.matrix import Matrix
from repro.sparse.operands import Multiplies, ProductOperands, operands_of, x_on, y_on
from repro.sparse.vectors import pack_vector
from repro.studies.compound_spmv.clusters import cluster_rows
from repro.studies.compound_spmv.layout import Layout
from repro.studies.compound_spmv.outer import get_outer
from repro.studies.compound_spmv.pack import Packed, pack
from repro.studies.compound_spmv.render import kernel_name
from repro.studies.compound_spmv.variant_id import VariantId

#: Slots for each entry above which a layout of ours is not tried.
MOST_PADDING = 4


class Variant(Multiplies, Candidate):
    """A product by one of our kernels.

    Parameters
    ----------
    id
        Layout and schedule.
    module
        The manifest of its module.
    folder
        Where the manifest lies; binaries are relative to it.
    space
        The space that it belongs to: `paper` or `extended`.
    """

    kind = "variant"

    def __init__(self, id: VariantId, module: Module, folder: Path, space: str = "paper") -> None:
        self.id, self.module, self.space = id, module, space
        self.layout, self.schedule = id.layout, id.schedule
        self.name = str(id)
        self.arrangement = f"{self.layout.vector}@{self.layout.unknowns}"
        self.packing = replace(self.layout, vector="")
        self.group = str(self.layout), self.schedule.kind
        self._folder = folder
        self._kernel_resources: Mapping[str, int] = {}
        self._y: Buffer | None = None
        self._permutation: NDArray[np.int64] | None = None
        self._bind: Callable[[Buffer, Buffer], Callable[[], None]] | None = None

    def reordered(self, ordering: str) -> Variant:
        """Return the same layout and schedule on the matrix with its unknowns renumbered.

        Raises
        ------
        ValueError
            The layout has an order of its own, which its kernel is compiled for.
        """
        if self.layout.ordering != "natural":
            raise ValueError(f"{self.layout} cannot be reordered")
        layout = replace(self.layout, ordering=ordering)
        return Variant(replace(self.id, layout=layout), self.module, self._folder, self.space)

    @property
    def identity(self) -> str:
        """The module's hash, and the schedule."""
        return f"{self.module.hash} {self.schedule}"

    @property
    def columns(self) -> dict[str, Any]:
        """Layout and schedule, and what the compiler said of the kernel."""
        return {
            **self.id.columns,
            "space": self.space,
            "matrix_bytes": self.matrix_bytes or None,
            "registers": self._kernel_resources.get("registers"),
            "spills": self._kernel_resources.get("spills"),
        }

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, bind the kernel to its arguments.

        Raises
        ------
        ModuleError
        Unsupported
            A layout of ours would be mostly padding; the papers' are timed however large they get.
        """
        self.bind(workspace)
        operands, x = operands_of(workspace), x_on(workspace, *self._order)
        self._y = y_on(workspace, self.layout.vector)
        self._permutation = operands.permutation(self.layout.unknowns)
        self.moved = self.matrix_bytes + 2 * x.nbytes
        self.launch = self.product(x, self._y)

    @property
    def _order(self) -> tuple[str, str]:
        return self.layout.vector, self.layout.unknowns

    def bind(self, workspace: Workspace) -> None:
        """Bring matrix and kernel to the device, with which `product` then multiplies any vectors.

        Raises
        ------
        ModuleError, Unsupported
            As `prepare`.
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        device, operands = workspace.device, operands_of(workspace)
        warp = device.target.warp
        if self.space == "extended":
            key = "padding", self.layout.outer
            padded = workspace.fact(key, lambda: padding(operands.problem, self.layout.outer, warp))
            if padded > MOST_PADDING:
                raise Unsupported(f"padded to {padded:.1f} times the entries, more than {MOST_PADDING}")
        packed, buffers = _matrix_on(workspace, operands, self.layout)
        self.matrix_bytes = packed.nbytes
        name = kernel_name(self.schedule, device.target)
        self._kernel_resources = (self.module.resources or {}).get(name, {})
        n = operands.problem.n
        blocks = self.schedule.blocks(n, device.n_s, packed.stride if self.layout.ordering == "clustered" else 0)
        matrix = [np.int32(n), np.int32(packed.slots), np.int32(packed.stride)]
        arrays = [buffers["index"], buffers["columns"], buffers["values"]]
        program = workspace.program(self._folder / self.module.binary)
        counter = workspace.written("counter", 4, "its counter")

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            run = device.bind(program.kernel(name), blocks, self.schedule.n_t, [*matrix, *arrays, x, y, counter])
            return run if self.schedule.kind != "dynamic" else in_turn(lambda: device.fill(counter, 0), run)

        self._bind = bind

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors, in the layout's ordering and vector order; once bound."""
        assert self._bind is not None
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        """Return y, in the layout's vector order."""
        return self._y

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring `(n, k)` members into the layout's ordering and vector order; once prepared."""
        assert self._permutation is not None
        return pack_vector(values[self._permutation], self.layout.vector)

    def release(self) -> None:
        """Let go of the matrix, which belongs to the workspace, as vectors and counter do."""
        self._bind = None
        self.launch = not_prepared


def padding(matrix: Matrix, outer: str, warp: int) -> float:
    """Return the slots that an outer format takes for each entry."""
    slots, _ = get_outer(outer).count(matrix.row_lengths, warp)
    return slots / matrix.nnz


def _matrix_on(workspace: Workspace, operands: ProductOperands, layout: Layout) -> tuple[Packed, dict[str, Buffer]]:
    """Return the matrix packed in a layout, with its arrays on the device."""

    def packed() -> tuple[Packed, Mapping[str, NDArray[Any]]]:
        matrix = operands.reordered(layout.unknowns)
        rows = None
        if layout.ordering == "clustered":
            rows = workspace.fact("clusters", lambda: cluster_rows(operands.problem))
        held = pack(matrix, matrix.values.astype(operands.dtype), layout, workspace.device.target.warp, rows)
        return held, held.arrays

    return workspace.hold(replace(layout, vector=""), packed)
