"""Runnables of compound entries: a variant (a layout under a schedule), and the streaming floor of its format.

A format that stores each pair of a symmetric matrix once moves fewer bytes than CSR, and so has a floor of its
own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import Row
from repro.bench.runnable import Candidate, ModuleError, Operands, Unsupported, in_turn, not_prepared
from repro.bench.workspace import Workspace
from repro.bench.yardsticks import Floor
from repro.codegen.build_cache import Module
from repro.codegen.templates import Stream
from repro.devices.base import Argument, Buffer, Device
from repro.problems.matrix import Matrix
from repro.sparse.compound.ids import VariantId
from repro.sparse.compound.kernels import kernel_name
from repro.sparse.compound.layouts import TILE_ROWS, Layout
from repro.sparse.compound.outer import get_outer
from repro.sparse.compound.packing import Packed, PackedFacts, pack, pack_pairs
from repro.sparse.compound.schedules import KEPT
from repro.sparse.elementwise import pack_vector, padded_size
from repro.sparse.operands import Multiplies, ProductOperands, operands_of, symmetry_on, x_on, y_on
from repro.sparse.pairs import shared_bytes

#: Slots for each entry above which a layout of ours is not tried.
MAX_PADDING = 4


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

    def pack(self, workspace: Workspace) -> None:
        """Pack the matrix, unless it is refused."""
        operands = operands_of(workspace)
        if self.module.binary is not None and self._padding(workspace) <= MAX_PADDING:
            workspace.pack(self.packing, _packer(workspace, operands, self.layout))

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, bind the kernel to its arguments.

        Raises
        ------
        ModuleError
        Unsupported
            A layout of ours would be mostly padding, or is not for such a matrix; the papers' are timed however large
            they get.
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
        if (padded := self._padding(workspace)) > MAX_PADDING:
            raise Unsupported(f"padded to {padded:.1f} times the entries, more than {MAX_PADDING}")
        packed, buffers = workspace.upload_packed(self.packing, _packer(workspace, operands, self.layout))
        shared = self._shared_bytes(packed, operands)
        self.matrix_bytes = packed.nbytes
        name = kernel_name(self.schedule, device.target)
        self._kernel_resources = (self.module.resources or {}).get(name, {})
        n = operands.problem.n
        long_rows = self.layout.ordering == "clustered" and not self.layout.of_pairs
        blocks = self.schedule.blocks(n, device.n_s, packed.stride if long_rows else 0)
        matrix = [np.int32(n), np.int32(packed.slots), np.int32(packed.stride)]
        matrix += [np.int32(packed.leading)] if self.layout.of_pairs else []
        kept = self._kept_slots(packed, device)
        program = workspace.program(self._folder / self.module.binary)
        counter = workspace.written("counter", 4, "its counter")

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            arguments: list[Argument] = [*matrix, *buffers.values(), x, y, counter, *kept]
            run = device.bind(program.kernel(name, shared), blocks, self.schedule.n_t, arguments)
            return run if self.schedule.kind != "dynamic" else in_turn(lambda: device.fill(counter, 0), run)

        self._bind = bind

    def _padding(self, workspace: Workspace) -> float:
        """Return the slots for each entry of a layout of ours, but for pairs, which may be padded as they will be."""
        if self.space != "extended" or self.layout.of_pairs:
            return 1.0
        matrix, warp = operands_of(workspace).problem, workspace.device.target.warp
        return workspace.fact(("padding", self.layout.outer), lambda: padding(matrix, self.layout.outer, warp))

    def _kept_slots(self, packed: PackedFacts, device: Device) -> list[np.int32]:
        """Return what a kernel that keeps a share of the matrix in L2 is given beside the others: how many slots.

        Raises
        ------
        Unsupported
            L2 has room for all of them, whatever it is told.
        """
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
        """Return the bytes of shared memory that a launch gives to a block of pairs; 0 for other formats.

        Raises
        ------
        Unsupported
            A tile needs more than there is.
        """
        if not self.layout.of_pairs:
            return 0
        size = operands.entry.size
        entry_bytes = (padded_size(size) if self.layout.vector == "Padded" else size) * operands.dtype.itemsize
        tile_rows = TILE_ROWS[self.layout.outer]
        return shared_bytes(packed.shared + (self.schedule.width - 1) * tile_rows, tile_rows, entry_bytes)

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


def _packer(
    workspace: Workspace, operands: ProductOperands, layout: Layout
) -> Callable[[], tuple[PackedFacts, Mapping[str, NDArray[Any]]]]:
    """Return what packs the matrix in a layout."""
    make = _packed_pairs if layout.of_pairs else _packed

    def packed() -> tuple[PackedFacts, Mapping[str, NDArray[Any]]]:
        matrix = operands.reordered(layout.unknowns)
        held = make(workspace, operands, matrix, matrix.values.astype(operands.dtype, copy=False), layout)
        return held.facts, held.arrays

    return packed


def _packed(
    workspace: Workspace, operands: ProductOperands, matrix: Matrix, values: NDArray[np.floating], layout: Layout
) -> Packed:
    rows = _clusters(workspace, operands) if layout.ordering == "clustered" else None
    return pack(matrix, values, layout, workspace.device.target.warp, rows)


def _packed_pairs(
    workspace: Workspace, operands: ProductOperands, matrix: Matrix, values: NDArray[np.floating], layout: Layout
) -> Packed:
    symmetry = symmetry_on(workspace, layout.unknowns)
    rows = _clusters(workspace, operands) if symmetry.kind and layout.ordering == "clustered" else None
    return pack_pairs(matrix, values, symmetry, layout, rows)


def _clusters(workspace: Workspace, operands: ProductOperands) -> NDArray[np.int64]:
    def clustered() -> NDArray[np.int64]:
        begin = time.perf_counter()
        rows = operands.permutation("bisected")
        workspace.say(f"clustered {len(rows):,} rows in {time.perf_counter() - begin:.1f} s")
        return rows

    return workspace.fact("clusters", clustered)


#: The kind of its rows: what is no floor of the problem is not taken for one.
OWN_FLOOR = "own floor"


class OwnFloor(Floor):
    """A kernel that streams the bytes of a matrix in a layout, with x, and writes as many as y has.

    Parameters
    ----------
    stream
        The configuration.
    layout
        The layout, its ordering with it.
    matrix_bytes
        What the matrix takes in it.
    """

    kind = OWN_FLOOR

    def __init__(self, stream: Stream, layout: Layout, matrix_bytes: int) -> None:
        super().__init__(stream)
        self.name = f"{self.name}/{layout}"
        self._layout, self._matrix_bytes = layout, matrix_bytes

    @property
    def columns(self) -> Mapping[str, Any]:
        """The layout, and the bytes of the matrix in it."""
        return {
            "layout": str(self._layout),
            "ordering": self._layout.unknowns,
            "outer": self._layout.outer,
            "matrix_bytes": self._matrix_bytes,
        }

    def streamed(self, operands: Operands) -> tuple[int, int]:
        """Return the bytes of the matrix and of x, which has as many as y; and those of y."""
        vector = operands.least_bytes[1]
        return self._matrix_bytes + vector, vector


def own_floors(rows: Iterable[Row], streams: Sequence[Stream]) -> dict[str, list[OwnFloor]]:
    """Return the floors of the formats of pairs that rows of variants are of, by layout: one a configuration."""
    stored = {str(row["layout"]): row["matrix_bytes"] for row in rows if row["matrix_bytes"]}
    layouts = {layout: size for text, size in stored.items() if (layout := Layout.parse(text)).of_pairs}
    return {str(layout): [OwnFloor(stream, layout, size) for stream in streams] for layout, size in layouts.items()}
