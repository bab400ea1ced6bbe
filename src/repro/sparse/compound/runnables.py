"""Runnables of compound entries.

Variants, variants in chains of dependent launches, and streaming floors of pair formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Operands, Workspace
from repro.bench.yardsticks import Floor
from repro.codegen.build_cache import Module, ModuleOnDemand
from repro.codegen.templates import StreamConfig
from repro.devices.base import Buffer
from repro.errors import IncorrectError, ModuleError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.compound.device_csr import DeviceCsr
from repro.sparse.compound.device_packing import DevicePacker
from repro.sparse.compound.device_pairs import PairPacker
from repro.sparse.compound.kernels import kernel_name
from repro.sparse.compound.packing import PackedFacts
from repro.sparse.compound.product import (
    MAX_PADDING,
    CompoundProduct,
    pack_layout,
    padding,
    require_suitable,
    suits,
    vector_entry_bytes,
)
from repro.sparse.compound.variants import STORED_ORDERS, Layout, VariantId
from repro.sparse.device_primitives import ModuleFile
from repro.sparse.elementwise import in_order, pack_vector
from repro.sparse.operands import (
    NAN_BYTE,
    CompiledProduct,
    operands_of,
    row_order_on,
    symmetry_on,
    x_on,
    y_on,
)
from repro.sparse.ordering import long_rows
from repro.words import EXTENDED, PAPER, Space

#: Column `kind` in the result rows of dependent variants.
DEPENDENT = "dependent"


class Variant(CompiledProduct):
    """A product by a generated kernel; the binary of `module` is relative to `folder`.

    `packer` is the module of `render_packing` for the layout; None: the host packs.
    """

    id: VariantId
    space: Space

    def __init__(
        self, id: VariantId, module: Module | ModuleOnDemand, folder: Path, space: Space = PAPER,
        packer: ModuleFile | None = None,
    ) -> None:  # fmt: skip
        super().__init__(module, folder)
        self.id, self.space = id, space
        self.layout, self.schedule = id.layout, id.schedule
        self.packer = packer
        self.name = f"{DEPENDENT}/{id}" if self.kind == DEPENDENT else str(id)
        self.arrangement = f"{self.layout.vector}@{self.layout.unknowns}"
        self.packing = replace(self.layout, vector="")
        self.group = str(self.layout), self.schedule.kind
        self._kernel_resources: Mapping[str, int | None] = {"registers": None, "spills": None}
        self._permutation: NDArray[np.int64] | None = None

    def reordered(self, ordering: str) -> Variant:
        """Return the variant with the same layout and schedule for renumbered unknowns.

        A layout with its own row order raises `ValueError`, as its kernel depends on it.
        """
        if self.layout.ordering != "natural":
            raise ValueError(f"{self.layout} cannot be reordered")
        layout = replace(self.layout, ordering=ordering)
        return Variant(replace(self.id, layout=layout), self._module, self._folder, self.space, self.packer)

    @property
    def identity(self) -> str:
        packer = f" {self.packer.module.hash}" if self.packer else ""
        return f"{self.module.hash} {self.schedule}{packer}"

    @property
    def columns(self) -> dict[str, Any]:
        return {
            **self.id.columns,
            "space": self.space,
            "matrix_bytes": self.matrix_bytes or None,
            **self._kernel_resources,
        }

    def pack(self, workspace: Workspace) -> None:
        operands, layout = operands_of(workspace), self.layout
        if self.module.binary is None or not suits(operands.problem, layout) or self._padding(workspace) > MAX_PADDING:
            return
        ordering = layout.unknowns
        workspace.cached(("reordered", ordering), lambda: operands.reordered(ordering), lend_device=True)
        if self.packer is None:
            self.packed(workspace, lend_device=True)
        elif layout.ordering == "clustered":
            row_order_on(workspace, STORED_ORDERS["clustered"], lend_device=True)

    def packed(self, workspace: Workspace, *, lend_device: bool = False) -> tuple[PackedFacts, Mapping[str, Buffer]]:
        """Return the packed matrix on the device: its sizes, and its arrays in the order of `Packed.arrays`."""
        if self.packer is None:
            return workspace.upload_packed(self.packing, lambda: self._pack_on_host(workspace), lend_device=lend_device)
        return workspace.packed_on_device(self.packing, partial(self._pack_on_device, workspace, self.packer))

    def _matrix(self, workspace: Workspace) -> tuple[Matrix, NDArray[np.floating]]:
        operands = operands_of(workspace)
        matrix = operands.reordered(self.layout.unknowns)
        return matrix, matrix.values.astype(operands.dtype, copy=False)

    def _pack_on_host(self, workspace: Workspace) -> tuple[PackedFacts, Mapping[str, NDArray[Any]]]:
        packed = pack_layout(
            *self._matrix(workspace), self.layout, workspace.device.target.warp,
            lambda: symmetry_on(workspace, self.layout.unknowns), partial(row_order_on, workspace),
        )  # fmt: skip
        return packed.facts, packed.arrays

    def _pack_on_device(
        self, workspace: Workspace, packer: ModuleFile, stack: ExitStack
    ) -> tuple[PackedFacts, Mapping[str, Buffer]]:
        operands, device, layout = operands_of(workspace), workspace.device, self.layout
        csr = workspace.buffer(("CSR", layout.unknowns), lambda: DeviceCsr.upload(device, *self._matrix(workspace)))
        module = device, packer.program(workspace), operands.problem.entry, operands.precision
        row_order = partial(row_order_on, workspace, STORED_ORDERS["clustered"])
        is_clustered = layout.ordering == "clustered"
        with workspace.packing_noted(self.packing):
            if layout.stores_pairs:
                order = row_order if is_clustered else None
                return PairPacker(*module).pack(csr, layout, stack, order, workspace.make_room)
            rows, last = (row_order(), int(long_rows(operands.problem).sum())) if is_clustered else (None, 0)
            packed = DevicePacker(*module).pack(csr, layout, stack, rows, last, workspace.make_room)
        return packed.facts, packed.arrays

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, and bind the kernel.

        Raises
        ------
        ModuleError
        Unsupported
            The layout does not suit the matrix, or is one of ours and mostly padding (the papers' are not limited).
        """
        self.bind(workspace)
        operands, x = operands_of(workspace), x_on(workspace, *self._order)
        self._y = y_on(workspace, self.layout.vector)
        self._permutation = operands.permutation(self.layout.unknowns)
        self.bytes_moved = self.matrix_bytes + x.nbytes + self._y.nbytes
        self.launch = self.product(x, self._y)

    @property
    def _order(self) -> tuple[str, str]:
        return self.layout.vector, self.layout.unknowns

    def bind(self, workspace: Workspace) -> None:
        """Upload the matrix and load the kernel, for products with any vectors; errors are those of `prepare`."""
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        device, operands = workspace.device, operands_of(workspace)
        # not while packing: layouts that differ only in vectors share a packing, and its refusal
        require_suitable(operands.problem.shape, operands.problem.entry, self.layout)
        if (fill_ratio := self._padding(workspace)) > MAX_PADDING:
            raise Unsupported(f"padded to {fill_ratio:.1f} times the entries, more than {MAX_PADDING}")
        facts, buffers = self.packed(workspace)
        entry_bytes = vector_entry_bytes(self.layout, operands.entry.size, operands.dtype.itemsize)
        product = CompoundProduct(
            device, self.program(workspace), self.id, facts, buffers, operands.problem.n, entry_bytes,
            lambda nbytes: workspace.written(
                ("scratch", self.layout.unknowns, nbytes), nbytes, "its scratch memory"
            ),
        )  # fmt: skip
        self.matrix_bytes = product.nbytes
        self._kernel_resources = self.resources(kernel_name(self.schedule, device.target))
        self._bind = partial(product.bind, dependent=self.kind == DEPENDENT)

    def _padding(self, workspace: Workspace) -> float:
        """Return the number of slots per entry for our layouts.

        It is 1 for pair formats, whose padding is not limited, and for rows that are ordered by length, which have
        little.
        """
        if self.space != EXTENDED or self.layout.stores_pairs or self.layout.permutes_rows:
            return 1.0
        matrix, warp = operands_of(workspace).problem, workspace.device.target.warp
        return workspace.cached(
            ("padding", self.layout.outer), lambda: padding(matrix.row_lengths, self.layout.outer, warp)
        )

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return members `(n, k)` as a flat array in the layout's ordering and vector order; needs `prepare` first."""
        assert self._permutation is not None
        return pack_vector(values[self._permutation], self.layout.vector)


#: Number of repetitions of the three products of a chain when the chain is verified.
CHAIN_REPEATS = 8


class DependentVariant(Variant):
    """A variant in a chain of launches, each of which may load the matrix before the previous launch has ended.

    Its module is rendered as `dependent`. A single launch gains nothing by it; launches in a graph do. Preparation
    compares a chain of products with a chain of ordinary launches of the same kernel.
    """

    kind = DEPENDENT

    @property
    def columns(self) -> dict[str, Any]:
        return {**super().columns, "product": str(self.id)}

    def prepare(self, workspace: Workspace) -> None:
        """Prepare as a variant; raise `IncorrectError` if a dependent chain and an ordinary chain differ in any bit.

        A rectangular matrix, whose y cannot be the next x, raises `Unsupported`.
        """
        if not operands_of(workspace).problem.square:
            raise Unsupported("the matrix is not square, so there is no chain of its products")
        super().prepare(workspace)
        ordinary = Variant(self.id, self._module, self._folder, self.space, self.packer)
        ordinary.bind(workspace)
        expected, chained_result = (self._chain(workspace, variant) for variant in (ordinary, self))
        if wrong := int((expected != chained_result).sum()):
            raise IncorrectError(
                f"in a chain of dependent launches {wrong} of {expected.size} words differ from that of ordinary ones",
                np.inf,
            )

    def _chain(self, workspace: Workspace, product: Variant) -> NDArray[np.uint32]:
        """Return the bits of z and y after y = A x and repetitions of z = A y, y = A z, in one graph.

        Both are filled with NaN before, so that values that are read too early are noticed.
        """
        device, x, y = workspace.device, x_on(workspace, *self._order), self._y
        assert y is not None
        z = workspace.written(("chain", y.nbytes), y.nbytes, "the result of a chain")
        launches = in_order([product.product(x, y), product.product(y, z), product.product(z, y)] * CHAIN_REPEATS)
        for buffer in (y, z):
            device.fill(buffer, NAN_BYTE)
        launches()  # a launch before capture
        chain = device.capture(launches)
        try:
            for buffer in (y, z):
                device.fill(buffer, NAN_BYTE)
            chain.replay()
            words = np.empty((2, y.nbytes // 4), np.uint32)
            for buffer, row in zip((z, y), words, strict=True):
                device.download(buffer, row)
        finally:
            chain.release()
        return words


#: Column `kind` in the result rows of own floors: these stream the bytes of a layout, other floors the minimum bytes.
OWN_FLOOR = "own floor"


class OwnFloor(Floor):
    """A streaming kernel that reads as many bytes as a layout's matrix and x have, and writes as many as y has."""

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
        """Return the bytes to read, of matrix and x, and the bytes to write, of y; x has as many bytes as y."""
        vector = operands.min_bytes[1]
        return self._matrix_bytes + vector, vector


def own_floors(sizes: Mapping[Layout, int], streams: Sequence[StreamConfig]) -> dict[Layout, list[OwnFloor]]:
    """Return floors by pair layout, one per streaming configuration; `sizes` are the matrix bytes of each layout."""
    return {
        layout: [OwnFloor(stream, layout, size) for stream in streams]
        for layout, size in sizes.items()
        if layout.stores_pairs
    }
