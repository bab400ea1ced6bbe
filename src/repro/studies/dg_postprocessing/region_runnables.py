"""Kernels that integrate regions, as candidates of a search.

The paper adds integrals up in a scratch memory of each of 8 patches, and these afterwards. Here a kernel leaves one
number a region, without atomics and always the same, and another kernel adds up those of a point: what is compared by
widths is integration alone, as in the paper's figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, Unsupported, in_turn, not_prepared
from repro.bench.workspace import Workspace
from repro.codegen.targets import Target
from repro.devices.base import Argument, Buffer
from repro.sparse.built import Built
from repro.sparse.kernels import N_T
from repro.sparse.verify import NAN_BYTE
from repro.studies.dg_postprocessing.region_operands import RegionOperands, region_operands_of
from repro.studies.dg_postprocessing.region_space import SPACES, Method, RegionId, module_key, our_space, papers_space
from repro.studies.dg_postprocessing.region_work import operations
from repro.studies.dg_postprocessing.regions import NUMBERS

#: Blocks for each multiprocessor of the kernel that adds up the regions of points.
_BLOCKS = 4


class RegionKernel(Candidate):
    """The integrals of all regions of the list, one result a region.

    The list and the field are on the device before; so are the rows of the matrix, of that method.

    Parameters
    ----------
    built
        The modules by key; see `repro.studies.dg_postprocessing.region_space.module_keys`.
    id
        Which kernel.
    """

    kind = "variant"

    def __init__(self, built: Mapping[str, Built], id: RegionId) -> None:
        self._built, self.id = built, id
        self.space, self.name = id.space, str(id)
        self.packing = "vector" if id.method == "vector" else "lane"
        self.group = id.degree, id.method, id.width
        self.launch: Callable[[], None] = not_prepared
        self._held = ExitStack()
        self._read: Callable[[], NDArray[np.float64]] | None = None

    @property
    def identity(self) -> str:
        """The hash of its module."""
        return self._built[self.id.module].module.hash

    @property
    def columns(self) -> Mapping[str, Any]:
        """What the name says, and what the compiler and the formula of `operations` say of the kernel."""
        resources = (self._built[self.id.module].module.resources or {}).get(self.id.kernel, {})
        return {
            **self.id.columns,
            "space": self.space,
            "region_operations": operations(self.id.method, self.id.degree),
            "shared_bytes": self.id.shared_bytes,
            "registers": resources.get("registers"),
            "spills": resources.get("spills"),
        }

    def prepare(self, workspace: Workspace) -> None:
        """Bring list and field to the device, and bind the kernel.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory, LaunchError
        """
        operands = region_operands_of(workspace, self.id.degree)
        target = workspace.device.target
        if self.id.threads > target.threads_per_block or self.id.shared_bytes > target.shared_bytes:
            raise Unsupported(f"{self.id.threads} threads with {self.id.shared_bytes} bytes of shared memory")
        with ExitStack() as held:
            result = self._bind(workspace, operands, held)
            self._held = held.pop_all()
        workspace.device.fill(result, NAN_BYTE)  # so that what is left out is seen
        self._read = lambda: _download(workspace, result, operands.count)

    def _bind(self, workspace: Workspace, operands: RegionOperands, held: ExitStack) -> Buffer:
        device, id, count = workspace.device, self.id, operands.count
        result = workspace.written(("integrals", count), 8 * count, "its result")
        method: Method = "vector" if id.method == "vector" else "lane"
        _, arrays = workspace.hold(self.packing, lambda: (None, operands.pack(method)))
        program = self._built[id.module].program(workspace)
        modes = 8 * operands.field.modes.shape[1]
        self.moved = sum(operands.least_bytes)
        size: list[Argument] = [np.int32(count), np.float64(1 / operands.regions.h)]
        arguments: list[Argument]
        if id.method == "vector":
            names = ("rows", "cells", "maps", "field", "rule", "pieces")
            arguments = [*size, *(arrays[name] for name in names), result]
        else:
            listed = [*size, *(arrays[name] for name in ("columns", "cells", "origins", "pieces"))]
            arguments = [*listed, arrays["modes"], result]
        if id.method == "matrix":
            guarded = workspace.guards.allocate(modes * count, "the rows of the matrix")
            held.callback(guarded.release)
            weights = guarded.memory
            n_t = N_T[device.backend]
            device.bind(program.kernel("matrix_rows"), device.n_s * _BLOCKS, n_t, [*listed, weights])()
            arguments = [np.int32(count), weights, arrays["cells"], arrays["modes"], result]
            self.moved = count * (modes + 4 + 8) + operands.field.modes.nbytes
        self.launch = device.bind(
            program.kernel(id.kernel, id.launched_bytes), device.n_s * id.blocks, id.threads, arguments
        )
        return result

    def result(self) -> NDArray[np.float64]:
        """Wait, and return the integral over each region, `(n,)`."""
        assert self._read is not None
        return self._read()

    def release(self) -> None:
        """Give back what is the kernel's own."""
        self._held, held = ExitStack(), self._held
        held.close()
        self.launch, self._read = not_prepared, None


class RegionFilter(RegionKernel):
    """The integrals of all regions, and after them their sums for each point: the filtered field.

    Parameters
    ----------
    built, id
        As of `RegionKernel`; the module of our kernels has to be among the built ones.
    """

    kind = "filter"

    def __init__(self, built: Mapping[str, Built], id: RegionId) -> None:
        super().__init__(built, id)
        self.name = f"{id}/filter"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What the name says."""
        return {**super().columns, "what": "filter"}

    def prepare(self, workspace: Workspace) -> None:
        """Bring the regions of each point to the device as well, and bind both kernels.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory, LaunchError
        """
        super().prepare(workspace)
        operands, device = region_operands_of(workspace, self.id.degree), workspace.device
        integrals = workspace.written(("integrals", operands.count), 8 * operands.count, "its result")
        order, offsets = operands.regions.by_point()
        count = len(operands.regions.places)
        sums = workspace.written(("sums", count), 8 * count, "its result")
        device.fill(sums, NAN_BYTE)
        buffers = [device.upload(array) for array in (offsets, order)]
        for buffer in buffers:
            self._held.callback(buffer.release)
        program = self._built[module_key(self.id.degree, "lane", 1)].program(workspace)
        arguments: list[Argument] = [np.int32(count), *buffers, integrals, sums]
        add = device.bind(program.kernel("sum_points"), device.n_s * _BLOCKS, N_T[device.backend], arguments)
        self.launch = in_turn(self.launch, add)
        self.moved += operands.count * (4 + 8) + 8 * count
        self._read = lambda: _download(workspace, sums, count)


def kernels_of(built: Mapping[str, Built], degree: int, target: Target, space: str) -> list[RegionKernel]:
    """Return the kernels of a space, `paper` or `extended`, that fit; those of a module follow each other."""
    ids = papers_space(degree, target) if space == SPACES[0] else our_space(degree, target)
    return [RegionKernel(built, id) for id in ids]


def bytes_of_list(count: int) -> int:
    """Return the memory of a list of so many regions, in the paper's order."""
    return count * (8 * NUMBERS + 4)


def _download(workspace: Workspace, buffer: Buffer, count: int) -> NDArray[np.float64]:
    values = np.empty(count)
    workspace.device.download(buffer, values)
    return values
