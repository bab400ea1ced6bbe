"""Filtering a field triangle by triangle on a device: with copies of the solution, the paper's, and with one alone."""

from __future__ import annotations

import numpy as np

from repro.bench.runnable import Unsupported
from repro.devices.base import Argument, Device
from repro.devices.opencl import OpenClDevice
from repro.filtering.direct import Direct, Field, Points, Stencil
from repro.filtering.patches import Patches, begins_of
from repro.sparse.kernels import Kernels
from repro.sparse.launches import Launches

#: What an OpenCL device needs for sums that several threads add to.
ATOMICS = "cl_khr_int64_base_atomics"


class PerElement(Direct):
    """A block has a patch of triangles, its threads a point each, in the patch's own copy of the solution: the paper's.

    Parameters
    ----------
    patches
        How many; None: a multiprocessor has one.
    threads
        Of a block.
    share
        Which of how many shares of the patches are its own, each about as many: the first of one.

    Attributes
    ----------
    patches
        How triangles and copies lie.
    """

    def __init__(
        self,
        launches: Launches,
        stencil: Stencil,
        points: Points,
        basis: str = "dubiner",
        *,
        patches: int | None = None,
        threads: int = 64,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(launches, points)
        device = launches.device
        self.patches: Patches = points.host.patches(stencil.half, patches or device.n_s, points.size, share)
        self.field = Field(launches, stencil, self.patches.order, basis)
        copies = launches.numbers(self.patches.copies, np.float64)
        count = len(self.patches.starts) - 1
        kernels = Kernels(device, launches.load(f"element-p{stencil.degree}"))
        add = kernels.blocks(
            f"element_t{threads}",
            count,
            [
                np.int32(count), launches.upload(self.patches.starts), launches.upload(self.patches.tiles),
                launches.upload(self.patches.offsets), points.x, points.y, *stencil.arguments,
                *points.cells.arguments, np.int32(self.field.count), self.field.geometry, self.field.coefficients,
                launches.upload(stencil.pieces), copies,
            ],
            threads,
        )  # fmt: skip
        reduce = kernels.over(
            "reduce",
            points.count,
            [
                np.int32(points.count), launches.upload(points.cells.grid.cell_of_member), points.cells.starts,
                launches.upload(self.patches.copy_starts), launches.upload(self.patches.copy_offsets), copies,
                self.values,
            ],
        )  # fmt: skip

        def launch() -> None:
            device.fill(copies, 0)
            add()
            reduce()

        self.launch = launch


class PerElementAtomic(Direct):
    """As `PerElement`, with one solution that all threads add to by atomic operations: no copies, and no bits twice.

    Sums come in the order in which threads happen to add, so that the last bits of values differ from launch to launch.

    Parameters
    ----------
    patches
        How many; None: a multiprocessor has one.
    threads
        Of a block.

    Raises
    ------
    Unsupported
        The device adds no numbers of 64 bits atomically.
    """

    def __init__(
        self,
        launches: Launches,
        stencil: Stencil,
        points: Points,
        basis: str = "dubiner",
        *,
        patches: int | None = None,
        threads: int = 64,
    ) -> None:
        device = launches.device
        _refuse_without_atomics(device)
        super().__init__(launches, points)
        parts = points.host.parts(patches or device.n_s)
        self.field = Field(launches, stencil, np.concatenate(parts), basis)
        arguments: list[Argument] = [
            np.int32(len(parts)), launches.upload(begins_of(parts)), points.x, points.y, *stencil.arguments,
            *points.cells.arguments, np.int32(self.field.count), self.field.geometry, self.field.coefficients,
            launches.upload(stencil.pieces), self.values,
        ]  # fmt: skip
        kernels = Kernels(device, launches.load(f"element-p{stencil.degree}"))
        add = kernels.blocks(f"atomic_t{threads}", len(parts), arguments, threads)

        def launch() -> None:
            device.fill(self.values, 0)
            add()

        self.launch = launch


def _refuse_without_atomics(device: Device) -> None:
    if isinstance(device, OpenClDevice) and ATOMICS not in device.extensions:
        raise Unsupported(f"{device.name} adds no numbers of 64 bits atomically: it lacks {ATOMICS}")
