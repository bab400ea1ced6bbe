"""Filtering a field on a device with an h of each point: the paper's per-point way, which clips, on other squares."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument
from repro.filtering.direct import BLOCKS, Cells, Direct, Field, Points, Stencil
from repro.filtering.render import LOCAL
from repro.sparse.kernels import Kernels
from repro.sparse.launches import Launches

Floats = NDArray[np.float64]


class LocalPerPoint(Direct):
    """A block has a point with its own h, its threads a triangle each.

    Any h will do, since each triangle is clipped to all squares that it meets. A derivative is that of the filter with
    each point's h, as if that were the same everywhere.

    Parameters
    ----------
    launches, points, basis
        As of `repro.filtering.direct.PerPoint`.
    stencil
        Its h is that of the triangles' coefficients, so that no h of a point should be many times larger.
    scales
        float64 `(n,)`: h of each point, in the order that these were given in.
    threads
        Of a block.

    Notes
    -----
    Triangles lie in cells as wide as the mean h: in the paper's, as wide as the longest edge, most stencils would go
    over many triangles that they do not meet.
    """

    def __init__(
        self,
        launches: Launches,
        stencil: Stencil,
        points: Points,
        scales: Floats,
        basis: str = "dubiner",
        *,
        threads: int = 64,
    ) -> None:
        super().__init__(launches, points)
        cells = Cells(launches, points.host.triangles(float(scales.mean())))
        self.field = Field(launches, stencil, cells.grid.members, basis)
        self._kernels = Kernels(launches.device, launches.load(f"{LOCAL}-p{stencil.degree}"))
        self._blocks = launches.device.n_s * BLOCKS[launches.device.backend]
        relative = launches.upload(scales[points.order] / stencil.scale)
        self._search: list[Argument] = [
            np.int32(points.count), points.x, points.y, relative, *stencil.arguments, *cells.arguments,
            *map(float, cells.grid.reach), np.int32(self.field.count), self.field.geometry,
        ]  # fmt: skip
        self.launch = self._kernels.blocks(
            f"{LOCAL}_t{threads}",
            self._blocks,
            [
                *self._search, self.field.coefficients, launches.upload(stencil.pieces),
                np.int32(sum(stencil.derivative)), self.values,
            ],
            threads,
        )  # fmt: skip

    def count(self) -> int:
        """Return how many triangles meet the squares of all points' stencils, an image each."""
        with ExitStack() as held:
            launches = Launches(self._launches.device, self._launches.load, held)
            counts = launches.numbers(self._count, np.int32)
            self._kernels.blocks("count", self._blocks, [*self._search, counts])()
            return int(launches.download(counts, self._count, np.int32).sum(dtype=np.int64))
