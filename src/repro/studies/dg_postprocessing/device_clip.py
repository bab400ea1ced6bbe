"""Clipping elements by stencils on the device: the list of regions is made where it is integrated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from repro.bench.runnable import Runnable, not_prepared
from repro.bench.workspace import Workspace
from repro.devices.base import Argument, Buffer, Device, Program
from repro.sparse.built import Built
from repro.sparse.kernels import in_order
from repro.sparse.scan import Scan, read_total
from repro.sparse.work import keep
from repro.studies.dg_postprocessing.region_operands import Clipped, RegionOperands, region_operands_of
from repro.studies.dg_postprocessing.region_render import CLIP_N_T
from repro.studies.dg_postprocessing.regions import NUMBERS, images_of

#: Blocks for each multiprocessor.
_BLOCKS = {"cuda": 16, "opencl": 3}


class DeviceClip:
    """The regions of all points of a list, whole stencils, in two passes: count, add up, write.

    A thread has an element and a point, so that the list comes in the order of `Regions`: by element, then by point.
    Memory for the regions is taken once they have been counted.

    Parameters
    ----------
    device
        Where to clip.
    clip, sort
        The modules `p…/clip` of the kernel's degree, and `sort`, which adds up.
    operands
        Elements, points, degree and edge of the stencil.

    Attributes
    ----------
    count
        Regions.
    rows, cells
        As in `Regions`, on the device.
    stages
        The passes by name: `count`, `scan`, `write`.

    Raises
    ------
    OutOfDeviceMemory, LaunchError
    """

    def __init__(self, device: Device, clip: Program, sort: Program, operands: RegionOperands) -> None:
        self._device = device
        regions, field = operands.regions, operands.field
        pairs = len(regions.places) * len(field.cells)
        period = np.ptp(field.vertices, axis=0)
        size: list[Argument] = [np.int32(len(regions.places)), np.int32(len(field.cells)), np.float64(regions.h)]
        size += [np.float64(length) for length in period]
        size += [np.int32(images) for images in images_of(period, regions.degree, regions.h)]
        with ExitStack() as held:

            def allocate(nbytes: int) -> Buffer:
                return keep(held, device.allocate(nbytes))

            size += [
                keep(held, device.upload(np.ascontiguousarray(array)))
                for array in (regions.places, field.vertices[field.cells])
            ]
            offsets = allocate(4 * (pairs + 1))
            scan = keep(held, Scan(device, sort, pairs))
            n_t = CLIP_N_T[device.backend]
            blocks = max(1, min(-(-pairs // n_t), device.n_s * _BLOCKS[device.backend]))
            # the sums take the place of the counts
            count = device.bind(clip.kernel("count_regions"), blocks, n_t, [*size, offsets])
            add = scan.bind(offsets, offsets, pairs)
            in_order([count, add])()
            self.count = read_total(device, offsets, pairs)
            self.rows, self.cells = allocate(8 * NUMBERS * self.count), allocate(4 * self.count)
            write = device.bind(clip.kernel("write_regions"), blocks, n_t, [*size, offsets, self.rows, self.cells])
            self.stages: dict[str, Callable[[], None]] = {"count": count, "scan": add, "write": write}
            self._held = held.pop_all()

    def clip(self) -> None:
        """Queue all passes."""
        for stage in self.stages.values():
            stage()

    def download(self) -> Clipped:
        """Wait, and return the list."""
        rows, cells = np.empty((self.count, NUMBERS)), np.empty(self.count, np.int32)
        self._device.download(self.rows, rows)
        self._device.download(self.cells, cells)
        return Clipped(rows, cells)

    def release(self) -> None:
        """Give the memory back."""
        self._held.close()


class ClipRegions(Runnable):
    """Clipping for the points of the list, whole stencils; memory for the regions is there before.

    Parameters
    ----------
    built
        The modules by key, `p1/clip` or `p2/clip` and `double/sort` among them.
    degree
        Of the kernel.
    """

    kind = "clip"

    def __init__(self, built: Mapping[str, Built], degree: int) -> None:
        self._built, self._degree = built, degree
        self.name = f"p{degree}/clip"
        self.launch: Callable[[], None] = not_prepared
        self.stages = dict.fromkeys(("count", "scan", "write"), not_prepared)
        self._clip: DeviceClip | None = None

    @property
    def identity(self) -> str:
        """The hashes of both modules."""
        return " ".join(self._built[key].module.hash for key in (self.name, "double/sort"))

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done."""
        return {"what": "clip", "kernel_degree": self._degree}

    def prepare(self, workspace: Workspace) -> None:
        """Bring elements and points to the device, and count.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory, LaunchError
        """
        operands = region_operands_of(workspace, self._degree)
        clip, sort = (self._built[key].program(workspace) for key in (self.name, "double/sort"))
        self._clip = DeviceClip(workspace.device, clip, sort, operands)
        self.launch, self.stages = self._clip.clip, self._clip.stages
        self.moved = self._clip.count * (8 * NUMBERS + 4)

    def result(self) -> Clipped:
        """Wait, and return the list."""
        assert self._clip is not None
        return self._clip.download()

    def release(self) -> None:
        """Give all memory back."""
        if self._clip is not None:
            self._clip.release()
            self._clip = None
        self.launch, self.stages = not_prepared, dict.fromkeys(self.stages, not_prepared)
