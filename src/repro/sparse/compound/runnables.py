"""Runnables of compound entries: variants, and streaming floors of pairs, which move fewer bytes than CSR."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Operands, Workspace
from repro.bench.yardsticks import Floor
from repro.codegen.build_cache import Module, ModuleOnDemand
from repro.codegen.templates import StreamConfig
from repro.config.models import EXTENDED, PAPER, Space
from repro.devices.base import Argument, Buffer, Device
from repro.errors import ModuleError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import kernel_name
from repro.sparse.compound.outer import get_outer
from repro.sparse.compound.packing import PackedFacts, pack, pack_pairs
from repro.sparse.compound.variants import KEPT, TILE_ROWS, Layout, VariantId
from repro.sparse.elementwise import in_order, pack_vector, padded_size
from repro.sparse.operands import CompiledProduct, ProductOperands, clusters_on, operands_of, symmetry_on, x_on, y_on
from repro.sparse.pairs import shared_bytes

#: Limit of slots per entry for our layouts.
MAX_PADDING = 4


class Variant(CompiledProduct):
    """A product by a generated kernel; the binary of `module` is relative to `folder`."""

    id: VariantId
    space: Space

    def __init__(self, id: VariantId, module: Module | ModuleOnDemand, folder: Path, space: Space = PAPER) -> None:
        super().__init__(module, folder)
        self.id, self.space = id, space
        self.layout, self.schedule = id.layout, id.schedule
        self.name = str(id)
        self.arrangement = f"{self.layout.vector}@{self.layout.unknowns}"
        self.packing = replace(self.layout, vector="")
        self.group = str(self.layout), self.schedule.kind
        self._kernel_resources: Mapping[str, int | None] = {"registers": None, "spills": None}
        self._permutation: NDArray[np.int64] | None = None

    def reordered(self, ordering: str) -> Variant:
        """Return the same layout and schedule for renumbered unknowns.

        A layout with its own row order raises `ValueError`, as its kernel depends on it.
        """
        if self.layout.ordering != "natural":
            raise ValueError(f"{self.layout} cannot be reordered")
        layout = replace(self.layout, ordering=ordering)
        return Variant(replace(self.id, layout=layout), self._module, self._folder, self.space)

    @property
    def identity(self) -> str:
        return f"{self.module.hash} {self.schedule}"

    @property
    def columns(self) -> dict[str, Any]:
        return {
            **self.id.columns,
            "space": self.space,
            "matrix_bytes": self.matrix_bytes or None,
            **self._kernel_resources,
        }

    def pack(self, workspace: Workspace) -> None:
        operands = operands_of(workspace)
        if self.module.binary is not None and self._padding(workspace) <= MAX_PADDING:
            ordering = self.layout.unknowns
            workspace.cached(("reordered", ordering), lambda: operands.reordered(ordering), lend_device=True)
            workspace.pack(self.packing, _packer(workspace, operands, self.layout))

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, and bind the kernel.

        Raises
        ------
        ModuleError
        Unsupported
            The layout does not suit the matrix, or is ours and mostly padding; the papers' layouts have no such limit.
        """
        self.bind(workspace)
        operands, x = operands_of(workspace), x_on(workspace, *self._order)
        self._y = y_on(workspace, self.layout.vector)
        self._permutation = operands.permutation(self.layout.unknowns)
        self.bytes_moved = self.matrix_bytes + 2 * x.nbytes
        self.launch = self.product(x, self._y)

    @property
    def _order(self) -> tuple[str, str]:
        return self.layout.vector, self.layout.unknowns

    def bind(self, workspace: Workspace) -> None:
        """Upload matrix and kernel for products with any vectors; errors as of `prepare`."""
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        device, operands = workspace.device, operands_of(workspace)
        if (padded := self._padding(workspace)) > MAX_PADDING:
            raise Unsupported(f"padded to {padded:.1f} times the entries, more than {MAX_PADDING}")
        packed, buffers = workspace.upload_packed(self.packing, _packer(workspace, operands, self.layout))
        shared = self._shared_bytes(packed, operands)
        self.matrix_bytes = packed.nbytes
        name = kernel_name(self.schedule, device.target)
        self._kernel_resources = self.resources(name)
        n = operands.problem.n
        long_rows = self.layout.ordering == "clustered" and not self.layout.of_pairs
        blocks = self.schedule.blocks(n, device.sm_count, packed.stride if long_rows else 0)
        matrix = [np.int32(n), np.int32(packed.slots), np.int32(packed.stride)]
        matrix += [np.int32(packed.leading)] if self.layout.of_pairs else []
        kept = self._kept_slots(packed, device)
        program = self.program(workspace)
        counter = workspace.written("counter", 4, "its counter")

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            arguments: list[Argument] = [*matrix, *buffers.values(), x, y, counter, *kept]
            run = device.bind(program.kernel(name, shared), blocks, self.schedule.block_size, arguments)
            return run if self.schedule.kind != "dynamic" else in_order([lambda: device.fill(counter, 0), run])

        self._bind = bind

    def _padding(self, workspace: Workspace) -> float:
        """Return slots per entry for our layouts; 1 for pairs, whose padding is not limited."""
        if self.space != EXTENDED or self.layout.of_pairs:
            return 1.0
        matrix, warp = operands_of(workspace).problem, workspace.device.target.warp
        return workspace.cached(("padding", self.layout.outer), lambda: padding(matrix, self.layout.outer, warp))

    def _kept_slots(self, packed: PackedFacts, device: Device) -> list[np.int32]:
        """Return the slots to keep in L2, an argument of `el` kernels; `Unsupported` if the whole matrix fits."""
        if self.schedule.load != "el":
            return []
        share = KEPT * device.l2_bytes / packed.nbytes
        if share >= 1 and device.backend == "cuda":
            raise Unsupported(
                f"the matrix takes {packed.nbytes:,} bytes, and {KEPT:.0%} of L2, which has {device.l2_bytes:,}, would "
                "be kept for it: all of it"
            )
        return [np.int32(min(1.0, share) * packed.slots)]

    def _shared_bytes(self, packed: PackedFacts, operands: ProductOperands) -> int:
        """Return the dynamic shared memory of a pair block; 0 for other formats."""
        if not self.layout.of_pairs:
            return 0
        size = operands.entry.size
        entry_bytes = (padded_size(size) if self.layout.vector == "Padded" else size) * operands.dtype.itemsize
        tile_rows = TILE_ROWS[self.layout.outer]
        return shared_bytes(packed.shared + (self.schedule.width - 1) * tile_rows, tile_rows, entry_bytes)

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring `(n, k)` members into the layout's ordering and vector order; once prepared."""
        assert self._permutation is not None
        return pack_vector(values[self._permutation], self.layout.vector)


def padding(matrix: Matrix, outer: str, warp: int) -> float:
    slots, _ = get_outer(outer).count(matrix.row_lengths, warp)
    return slots / matrix.nnz


def _packer(
    workspace: Workspace, operands: ProductOperands, layout: Layout
) -> Callable[[], tuple[PackedFacts, Mapping[str, NDArray[Any]]]]:
    clustered = layout.ordering == "clustered"
    matrix = operands.reordered(layout.unknowns)  # here, since renumbering the unknowns does not count as packing

    def packed() -> tuple[PackedFacts, Mapping[str, NDArray[Any]]]:
        values = matrix.values.astype(operands.dtype, copy=False)
        if layout.of_pairs:
            symmetry = symmetry_on(workspace, layout.unknowns)
            rows = clusters_on(workspace) if symmetry.kind and clustered else None
            stored = pack_pairs(matrix, values, symmetry, layout, rows)
        else:
            rows = clusters_on(workspace) if clustered else None
            stored = pack(matrix, values, layout, workspace.device.target.warp, rows)
        return stored.facts, stored.arrays

    return packed


#: Kind of its rows, different from the problem's floor.
OWN_FLOOR = "own floor"


class OwnFloor(Floor):
    """A streaming kernel that reads the bytes of a layout's matrix and of x, and writes those of y."""

    kind = OWN_FLOOR

    def __init__(self, stream: StreamConfig, layout: Layout, matrix_bytes: int) -> None:
        super().__init__(stream)
        self.name = f"{self.name}/{layout}"
        self._layout, self._matrix_bytes = layout, matrix_bytes

    @property
    def columns(self) -> Mapping[str, Any]:
        return {
            "layout": str(self._layout),
            "ordering": self._layout.unknowns,
            "outer": self._layout.outer,
            "matrix_bytes": self._matrix_bytes,
        }

    def streamed(self, operands: Operands) -> tuple[int, int]:
        """Return the bytes of matrix and x, and of y; x has as many bytes as y."""
        vector = operands.min_bytes[1]
        return self._matrix_bytes + vector, vector


def own_floors(sizes: Mapping[Layout, int], streams: Sequence[StreamConfig]) -> dict[Layout, list[OwnFloor]]:
    """Return floors by pair layout, one for each configuration, given the matrix bytes by layout."""
    return {
        layout: [OwnFloor(stream, layout, size) for stream in streams]
        for layout, size in sizes.items()
        if layout.of_pairs
    }
