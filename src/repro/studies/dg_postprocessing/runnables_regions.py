"""Kernels that integrate regions, as candidates of a search, and the clipping of elements on the device.

The paper adds integrals up in scratch memory of 8 patches. Here a kernel writes one number per region, so that results
are reproducible, and another kernel adds up the numbers of each point. Thus vector widths are compared by integration
alone, as in the paper's figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Candidate, Runnable, Workspace, not_prepared
from repro.codegen.targets import Target
from repro.devices.base import Argument, Buffer, Device, Program
from repro.errors import Unsupported
from repro.sparse.device_primitives import ModuleFile, Owner, Scan, keep, read_total
from repro.sparse.elementwise import BLOCK_SIZE, in_order
from repro.sparse.operands import NAN_BYTE
from repro.studies.dg_postprocessing.ids import (
    RegionId,
    RegionMethod,
    own_region_ids,
    paper_region_ids,
    region_module_key,
)
from repro.studies.dg_postprocessing.kernels import CLIP_BLOCK_SIZE
from repro.studies.dg_postprocessing.operands import ClippedRegions, RegionOperands, region_operands_of
from repro.studies.dg_postprocessing.regions import NUMBERS_PER_REGION, image_count, region_operations
from repro.words import EXTENDED, PAPER, Space

#: Number of blocks per multiprocessor for the kernel that adds up each point's regions.
_SUM_BLOCKS = 4


class RegionKernel(Candidate):
    """A kernel that integrates over all regions in the list.

    The list, the field and, for `matrix`, the matrix's rows are uploaded before the timed launch.
    """

    id: RegionId
    kind = "variant"

    def __init__(self, modules: Mapping[str, ModuleFile], id: RegionId) -> None:
        self._built, self.id = modules, id
        self.space, self.name = id.space, str(id)
        self.packing = "vector" if id.method == "vector" else "lane"
        self.group = id.degree, id.method, id.width
        self.launch: Callable[[], None] = not_prepared
        self._stack = ExitStack()
        self._read: Callable[[], NDArray[np.float64]] | None = None

    @property
    def identity(self) -> str:
        return self._built[self.id.module].module.hash

    @property
    def columns(self) -> Mapping[str, Any]:
        resources = (self._built[self.id.module].module.resources or {}).get(self.id.kernel, {})
        return {
            **self.id.columns,
            "space": self.space,
            "region_operations": region_operations(self.id.method, self.id.degree),
            "shared_bytes": self.id.shared_bytes,
            "registers": resources.get("registers"),
            "spills": resources.get("spills"),
        }

    def prepare(self, workspace: Workspace) -> None:
        operands = region_operands_of(workspace, self.id.degree)
        target = workspace.device.target
        if self.id.threads > target.threads_per_block or self.id.shared_bytes > target.shared_bytes:
            raise Unsupported(f"{self.id.threads} threads with {self.id.shared_bytes} bytes of shared memory")
        with ExitStack() as stack:
            result = self._bind(workspace, operands, stack)
            self._stack = stack.pop_all()
        workspace.device.fill(result, NAN_BYTE)  # fill with NaN, so that missing values are detected
        self._read = lambda: _download(workspace, result, operands.count)

    def _bind(self, workspace: Workspace, operands: RegionOperands, stack: ExitStack) -> Buffer:
        device, id, count = workspace.device, self.id, operands.count
        result = workspace.written(("integrals", count), 8 * count, "its result")
        method: RegionMethod = "vector" if id.method == "vector" else "lane"
        _, arrays = workspace.upload_packed(self.packing, lambda: (None, operands.pack(method)))
        program = self._built[id.module].program(workspace)
        modes = 8 * operands.field.modes.shape[1]
        self.bytes_moved = sum(operands.min_bytes)
        size: list[Argument] = [np.int32(count), np.float64(1 / operands.regions.h)]
        arguments: list[Argument]
        if id.method == "vector":
            names = ("rows", "cells", "maps", "field", "rule", "pieces")
            arguments = [*size, *(arrays[name] for name in names), result]
        else:
            list_arguments = [*size, *(arrays[name] for name in ("columns", "cells", "origins", "pieces"))]
            arguments = [*list_arguments, arrays["modes"], result]
        if id.method == "matrix":
            rows = workspace.guards.allocate(modes * count, "the rows of the matrix")
            stack.callback(rows.release)
            weights = rows.memory
            n_t = BLOCK_SIZE[device.backend]
            device.bind(program.kernel("matrix_rows"), device.sm_count * _SUM_BLOCKS, n_t, [*list_arguments, weights])()
            arguments = [np.int32(count), weights, arrays["cells"], arrays["modes"], result]
            self.bytes_moved = count * (modes + 4 + 8) + operands.field.modes.nbytes
        self.launch = device.bind(
            program.kernel(id.kernel, id.launched_bytes), device.sm_count * id.blocks, id.threads, arguments
        )
        return result

    def result(self) -> NDArray[np.float64]:
        assert self._read is not None
        return self._read()

    def release(self) -> None:
        self._stack, stack = ExitStack(), self._stack
        stack.close()
        self.launch, self._read = not_prepared, None

    def with_sums(self) -> RegionFilter:
        """Return this kernel followed by the sum of its integrals for each point."""
        return RegionFilter(self._built, self.id)


class RegionFilter(RegionKernel):
    """The integrals over all regions, then the sum for each point: the filtered field."""

    kind = "filter"

    def __init__(self, modules: Mapping[str, ModuleFile], id: RegionId) -> None:
        super().__init__(modules, id)
        self.name = f"{id}/filter"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, "what": "filter"}

    def prepare(self, workspace: Workspace) -> None:
        super().prepare(workspace)
        operands, device = region_operands_of(workspace, self.id.degree), workspace.device
        integrals = workspace.written(("integrals", operands.count), 8 * operands.count, "its result")
        order, offsets = operands.regions.by_point()
        count = len(operands.regions.positions)
        sums = workspace.written(("sums", count), 8 * count, "its result")
        device.fill(sums, NAN_BYTE)
        buffers = [device.upload(array) for array in (offsets, order)]
        for buffer in buffers:
            self._stack.callback(buffer.release)
        program = self._built[region_module_key(self.id.degree, "lane", 1)].program(workspace)
        arguments: list[Argument] = [np.int32(count), *buffers, integrals, sums]
        add = device.bind(
            program.kernel("sum_points"), device.sm_count * _SUM_BLOCKS, BLOCK_SIZE[device.backend], arguments
        )
        self.launch = in_order([self.launch, add])
        self.bytes_moved += operands.count * (4 + 8) + 8 * count
        self._read = lambda: _download(workspace, sums, count)


def region_kernels(modules: Mapping[str, ModuleFile], degree: int, target: Target, space: Space) -> list[RegionKernel]:
    """Return the kernels of a space that fit on the target, grouped by module."""
    ids = {PAPER: paper_region_ids, EXTENDED: own_region_ids}
    return [RegionKernel(modules, id) for id in ids[space](degree, target)] if space in ids else []


def list_bytes(count: int) -> int:
    """Return the bytes of a list with `count` regions in the paper's order."""
    return count * (8 * NUMBERS_PER_REGION + 4)


def _download(workspace: Workspace, buffer: Buffer, count: int) -> NDArray[np.float64]:
    values = np.empty(count)
    workspace.device.download(buffer, values)
    return values


#: Number of blocks per multiprocessor.
_CLIP_BLOCKS = {"cuda": 16, "opencl": 3}


class DeviceClip(Owner):
    """Clipping for all points of a list in two passes: count regions, compute offsets by a prefix sum, write regions.

    Each thread clips one element by one point's stencil; the list is in the order of `Regions`. `sort` is the module
    with the prefix sum; memory for the regions is allocated after they are counted.
    """

    def __init__(self, device: Device, clip: Program, sort: Program, operands: RegionOperands) -> None:
        self._device = device
        regions, field = operands.regions, operands.field
        pairs = len(regions.positions) * len(field.cells)
        period = np.ptp(field.vertices, axis=0)
        size: list[Argument] = [np.int32(len(regions.positions)), np.int32(len(field.cells)), np.float64(regions.h)]
        size += [np.float64(length) for length in period]
        size += [np.int32(images) for images in image_count(period, regions.degree, regions.h)]
        with ExitStack() as stack:

            def allocate(nbytes: int) -> Buffer:
                return keep(stack, device.allocate(nbytes))

            size += [
                keep(stack, device.upload(np.ascontiguousarray(array)))
                for array in (regions.positions, field.vertices[field.cells])
            ]
            offsets = allocate(4 * (pairs + 1))
            scan = keep(stack, Scan(device, sort, pairs))
            n_t = CLIP_BLOCK_SIZE[device.backend]
            blocks = max(1, min(-(-pairs // n_t), device.sm_count * _CLIP_BLOCKS[device.backend]))
            # the prefix sums replace the counts
            count = device.bind(clip.kernel("count_regions"), blocks, n_t, [*size, offsets])
            add = scan.bind(offsets, offsets, pairs)
            in_order([count, add])()
            self.count = read_total(device, offsets, pairs)
            self.rows, self.cells = allocate(8 * NUMBERS_PER_REGION * self.count), allocate(4 * self.count)
            write = device.bind(clip.kernel("write_regions"), blocks, n_t, [*size, offsets, self.rows, self.cells])
            self.stages: dict[str, Callable[[], None]] = {"count": count, "scan": add, "write": write}
            self._stack = stack.pop_all()

    def clip(self) -> None:
        for stage in self.stages.values():
            stage()

    def download(self) -> ClippedRegions:
        rows, cells = np.empty((self.count, NUMBERS_PER_REGION)), np.empty(self.count, np.int32)
        self._device.download(self.rows, rows)
        self._device.download(self.cells, cells)
        return ClippedRegions(rows, cells)


class ClipRegions(Runnable):
    """Times the clipping of all elements against the stencils of all points; `prepare` allocates memory for regions."""

    kind = "clip"

    def __init__(self, modules: Mapping[str, ModuleFile], degree: int) -> None:
        self._built, self._degree = modules, degree
        self.name = f"p{degree}/clip"
        self.launch: Callable[[], None] = not_prepared
        self.stages = dict.fromkeys(("count", "scan", "write"), not_prepared)
        self._clip: DeviceClip | None = None

    @property
    def identity(self) -> str:
        return " ".join(self._built[key].module.hash for key in (self.name, "double/sort"))

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "clip", "kernel_degree": self._degree}

    def prepare(self, workspace: Workspace) -> None:
        operands = region_operands_of(workspace, self._degree)
        clip, sort = (self._built[key].program(workspace) for key in (self.name, "double/sort"))
        self._clip = DeviceClip(workspace.device, clip, sort, operands)
        self.launch, self.stages = self._clip.clip, self._clip.stages
        self.bytes_moved = self._clip.count * (8 * NUMBERS_PER_REGION + 4)

    def result(self) -> ClippedRegions:
        assert self._clip is not None
        return self._clip.download()

    def release(self) -> None:
        if self._clip is not None:
            self._clip.release()
            self._clip = None
        self.launch, self.stages = not_prepared, dict.fromkeys(self.stages, not_prepared)
