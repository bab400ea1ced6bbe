"""Matrix-free filtering of a field on a device: per point, per element, or by contours.

The methods per point and per element are those of King 2017, chapter 3. The code that makes the filter's matrix also
uses `Stencil`, `Cells`, `Points` and `DeviceField`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Argument, Buffer
from repro.devices.opencl import OpenClDevice
from repro.errors import ReproError, Unsupported
from repro.filtering.grids import Grid, Patches, SortedCells, Triangulation, part_begins
from repro.filtering.kernels import LOCAL, SUM_ROWS
from repro.filtering.spline_kernel import kernel
from repro.galerkin import exponents, mode_count, to_monomials
from repro.sparse.device_primitives import LaunchContext
from repro.sparse.elementwise import in_order

Floats = NDArray[np.float64]
#: A triangle may be wider than a lattice square by this relative tolerance; kernels extend polynomial pieces by it.
ROUNDING = 1e-11
#: Blocks per multiprocessor, for grid-stride loops over points.
FILTER_BLOCKS_PER_SM = {"cuda": 16, "opencl": 4}
#: Maximum number of copies of points of all patches: kernels have 32-bit offsets.
MAX_COPIES = 2**31 - 1
#: Number of warps per multiprocessor that should each have a tile of points.
WARPS_PER_SM = 24


@dataclass(frozen=True, eq=False)
class Stencil:
    """A filter on a mesh, and the parameters for its GPU kernels; an impossible derivative raises `ReproError`."""

    mesh: Triangulation
    #: Degree k of the convolution kernel's B-splines and of the field.
    degree: int
    #: h, the width of one square of the stencil's lattice.
    scale: float
    #: Orders of the filtered field's derivative along x and y, each 0 to k. The derivative of order k is still
    #: continuous, since the k-th derivative of the convolution kernel is bounded.
    derivative: tuple[int, int] = (0, 0)
    #: `(t,)`, flags of triangles whose modes refer to the last two corners in exchanged order; None: no such triangle.
    clockwise: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if not all(0 <= order <= self.degree for order in self.derivative):
            raise ReproError(
                "the filtered field has no derivative of this order",
                where="derivative",
                expected=f"orders 0 to {self.degree}, the degree of the kernel's B-splines",
                actual=self.derivative,
            )

    @property
    def half(self) -> float:
        """Half of the width of the stencil."""
        return kernel(self.degree).width * self.scale / 2

    @property
    def arguments(self) -> list[Argument]:
        """Kernel arguments: lower corner and size of the periodic box, and 1 / h."""
        lower, period = self.mesh.lower, self.mesh.period
        return [*map(float, lower), *map(float, period), 1.0 / self.scale]

    @property
    def pieces(self) -> Floats:
        """Coefficients of the convolution kernel's piecewise polynomials, `(2, 2, 3k + 1, k + 1)`.

        The first index is the end of the piece about which a polynomial is expanded (left, right), the second the axis
        (x, y). Derivatives are with respect to the point: dξ/dx = -1 / h.
        """
        whole = kernel(self.degree)
        left_pieces = np.stack(
            [(-1.0 / self.scale) ** order * whole.derivative(order).pieces for order in self.derivative]
        )
        shift = np.array([[comb(b, a) for a in range(self.degree + 1)] for b in range(self.degree + 1)], np.float64)
        return np.stack([left_pieces, left_pieces @ shift])

    def functions(self, basis: str) -> Floats:
        """Return the basis functions as monomial coefficients, `(2, m, m)`: as they are, and with x and y exchanged."""
        plain = to_monomials(basis, self.degree, 2)
        powers = exponents(self.degree, 2).tolist()
        return np.stack([plain, plain[:, [powers.index([b, a]) for a, b in powers]]])

    @property
    def exchanged(self) -> NDArray[np.int32]:
        no_exchange = np.zeros(len(self.mesh.triangles), np.int32)
        return no_exchange if self.clockwise is None else self.clockwise.astype(np.int32)

    def geometry(self, order: NDArray[np.integer]) -> Floats:
        """Return the data of triangles for GPU kernels, in the given order, float64 `(16, t)`.

        Six numbers: x and y of the three corners. Six: h / (decrease of x) and h / (decrease of y) along each edge, or
        0 if the coordinate is constant; times the distance of a corner beyond a lattice line it gives the share of the
        edge beyond the line. Four: centre and half sides of the bounding box.
        """
        return np.ascontiguousarray(self._geometry[order].T)

    @cached_property
    def _geometry(self) -> Floats:
        corners = self.mesh.corners
        falls = corners - np.roll(corners, -1, axis=1)
        shares = np.divide(self.scale, falls, out=np.zeros_like(falls), where=falls != 0)
        low, high = corners.min(axis=1), corners.max(axis=1)
        box = np.stack([(high + low) / 2, (high - low) / 2], axis=1)
        return np.concatenate([part.reshape(len(corners), -1) for part in (corners, shares, box)], axis=1)

    @cached_property
    def _widest(self) -> float:
        return float(np.ptp(self.mesh.corners, axis=1).max())

    @property
    def fits_contours(self) -> bool:
        """Whether no triangle is wider than a lattice square, which contour kernels require."""
        return self._widest <= self.scale * (1 + ROUNDING)

    @cached_property
    def loss(self) -> float:
        """Ratio of the rounding error of integration by contours to that of clipping.

        Contours lose accuracy as they evaluate the field's polynomial outside its triangle, within the bounding box.
        """
        sides = np.ptp(self.mesh.corners, axis=1).prod(axis=1)
        return float((sides / (2 * self.mesh.areas)).max()) ** self.degree

    def for_contours(self) -> Stencil:
        """Return this stencil; raise `ReproError` if a triangle is wider than a lattice square."""
        if not self.fits_contours:
            raise ReproError(
                "a triangle is wider than a square of the stencil, which contours on a device cannot integrate over",
                where="the scale",
                expected=f"{self._widest:.6g} or more",
                actual=f"{self.scale:.6g}",
                todo="use a larger scale, or filter per point or per element without a matrix",
            )
        return self


class Cells:
    """A grid of cells on a device, and the kernel arguments that describe it."""

    def __init__(self, launches: LaunchContext, grid: Grid) -> None:
        self.grid = grid
        self.starts = launches.upload(grid.starts)
        self.arguments: list[Argument] = [
            *(np.int32(n) for n in grid.shape), *map(float, grid.inverse), self.starts,
        ]  # fmt: skip


class Points:
    """Points on a device, sorted by cell; `size` is the cell width; None: the width in King 2017."""

    def __init__(self, launches: LaunchContext, host: SortedCells, size: float | None = None) -> None:
        self.host, self.size, self.count = host, size, host.count
        self.cells = Cells(launches, host.points(size))
        self.order = self.cells.grid.members
        self.x, self.y = map(launches.upload, host.positions(size))
        self._launches = launches

    def tiles(self, n_rows: int) -> list[Argument]:
        """Return the kernel arguments for tiles of at most `n_rows` points: number of tiles, and their starts."""
        starts = self.host.tiles(n_rows, self.size)
        return [np.int32(len(starts) - 1), self._launches.upload(starts)]


class DeviceField:
    """A field on a device: m polynomial coefficients per triangle, `(m, t)`, triangles in the given order.

    Polynomials are expanded about corner 0, in coordinates divided by h. GPU kernels come from the module `rows-p…`.
    """

    def __init__(self, launches: LaunchContext, stencil: Stencil, order: NDArray[np.integer], basis: str) -> None:
        self._launches, self._inverse, self.order = launches, 1.0 / stencil.scale, order
        self.count, self._triangles = len(order), len(stencil.mesh.triangles)
        self._modes = mode_count(stencil.degree, 2)
        self.geometry = launches.upload(stencil.geometry(order))
        self._members = launches.upload(np.asarray(order, np.int32))
        self._clockwise = launches.upload(stencil.exchanged)
        self._basis = launches.upload(stencil.functions(basis))
        self.coefficients = launches.numbers(self._modes * self.count, np.float64)
        self._kernels = launches.kernels(f"rows-p{stencil.degree}")

    @cached_property
    def _mode_values(self) -> Buffer:
        return self._launches.numbers(self._modes * self._triangles, np.float64)

    def set(self, modes: Floats) -> None:
        """Write the modes of all triangles, `(t, m)`, in the order of the mesh."""
        self._launches.device.write(self._mode_values, np.ascontiguousarray(modes, np.float64))
        self.bind(self._mode_values)()

    def bind(self, modes: Buffer, fields: int = 1, field: int = 0) -> Callable[[], None]:
        """Return a launch that converts modes of one field to polynomials; `modes` is `(t, m, fields)`."""
        arguments: list[Argument] = [
            np.int32(self.count), self._inverse, self.geometry, self._members, self._clockwise, self._basis,
            np.int32(fields), np.int32(field), modes, self.coefficients,
        ]  # fmt: skip
        return self._kernels.over("expand_modes", self.count, arguments)

    def place(self, count: int, arguments: list[Argument]) -> Callable[[], None]:
        """Return a launch that copies `count` values from the order by cells to the original order of the points."""
        return self._kernels.over("place", count, arguments)


class MatrixFree:
    """Base class of the methods to filter a field at points; a subclass sets `field` and `launch`."""

    launch: Callable[[], None]
    field: DeviceField

    def __init__(self, launches: LaunchContext, points: Points) -> None:
        # no reference to `points`, so that its sorted host arrays can be freed
        self._launches, self._count, self._places = launches, points.count, points.order
        self.values = launches.numbers(points.count, np.float64)

    @cached_property
    def _order(self) -> Buffer:
        return self._launches.upload(np.asarray(self._places, np.int32))

    def bind(self, modes: Buffer, result: Buffer, fields: int = 1) -> Callable[[], None]:
        """Return a launch that filters fields one by one, from modes `(t, m, fields)` to result `(n, fields)`."""
        count = self._count
        runs = []
        for field in range(fields):
            row_arguments: list[Argument] = [np.int32(count), self._order, np.int32(fields), np.int32(field)]
            place = self.field.place(count, [*row_arguments, self.values, result])
            runs += [self.field.bind(modes, fields, field), self.launch, place]
        return in_order(runs)

    def result(self) -> Floats:
        """Return the filtered field, `(n,)`, in the original order of the points."""
        values = np.empty(self._count)
        values[self._places] = self._launches.download(self.values, self._count, np.float64)
        return values


class PerPoint(MatrixFree):
    """Filtering per point.

    `point` (King 2017): one block for each point, one thread for each triangle. `edges`: one warp for each tile of
    points.
    """

    def __init__(
        self,
        launches: LaunchContext,
        stencil: Stencil,
        points: Points,
        basis: str = "dubiner",
        *,
        method: str = "edges",
        threads: int = 64,
        size: float | None = None,
        blocks: int | None = None,
    ) -> None:
        super().__init__(launches, points)
        device = launches.device
        points_or_tiles: list[Argument] = [np.int32(points.count)]
        if method == "edges":
            stencil.for_contours()
            # larger tiles fill a warp's queues better, as long as each warp has one
            points_or_tiles = points.tiles(min(max(points.count // (device.sm_count * WARPS_PER_SM), 1), SUM_ROWS))
        cells = Cells(launches, points.host.triangles(size))
        self.field = DeviceField(launches, stencil, cells.grid.members, basis)
        kernels = launches.kernels(f"{method}-p{stencil.degree}")
        blocks = blocks or device.sm_count * FILTER_BLOCKS_PER_SM[device.backend]
        self.launch = kernels.blocks(
            f"{method}_t{threads}",
            blocks,
            [
                *points_or_tiles, points.x, points.y, *stencil.arguments, *cells.arguments,
                *map(float, cells.grid.reach), np.int32(self.field.count), self.field.geometry,
                self.field.coefficients, launches.upload(stencil.pieces), self.values,
            ],
            threads,
        )  # fmt: skip


class LocalPerPoint(MatrixFree):
    """Filtering with one h per point, from `scales` `(n,)`: one block for each point, one thread for each triangle.

    Integration by clipping allows any h. Derivatives treat h as constant around a point. The field's coefficients are
    scaled by the stencil's h, so the h of a point should not be many times larger. Cells are as wide as the mean h:
    with the longest edge as width (King 2017), most stencils would search many triangles that they do not meet.
    """

    def __init__(
        self,
        launches: LaunchContext,
        stencil: Stencil,
        points: Points,
        scales: Floats,
        basis: str = "dubiner",
        *,
        threads: int = 64,
    ) -> None:
        super().__init__(launches, points)
        cells = Cells(launches, points.host.triangles(float(scales.mean())))
        self.field = DeviceField(launches, stencil, cells.grid.members, basis)
        self._kernels = launches.kernels(f"{LOCAL}-p{stencil.degree}")
        self._blocks = launches.device.sm_count * FILTER_BLOCKS_PER_SM[launches.device.backend]
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
        """Return the number of pairs of a point and a periodic image of a triangle that meets the point's stencil."""
        with ExitStack() as stack:
            launches = LaunchContext(self._launches.device, self._launches.load, stack)
            counts = launches.numbers(self._count, np.int32)
            self._kernels.blocks("count", self._blocks, [*self._search, counts])()
            return int(launches.download(counts, self._count, np.int32).sum(dtype=np.int64))


#: OpenCL extension for 64-bit atomics.
ATOMICS = "cl_khr_int64_base_atomics"


class PerElement(MatrixFree):
    """Filtering per element (King 2017): one block for each patch of triangles, one thread for each point.

    Each patch adds to its own copy of the solution near it; a second kernel sums the copies. `patches` None: one patch
    per multiprocessor. `share`: see `patches_of`.
    """

    def __init__(
        self,
        launches: LaunchContext,
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
        self.patches: Patches = points.host.patches(stencil.half, patches or device.sm_count, points.size, share)
        if self.patches.copies > MAX_COPIES:
            raise Unsupported(f"{self.patches.copies:,} copies of points, and 32-bit offsets count {MAX_COPIES:,}")
        self.field = DeviceField(launches, stencil, self.patches.order, basis)
        copies = launches.numbers(self.patches.copies, np.float64)
        count = len(self.patches.starts) - 1
        kernels = launches.kernels(f"element-p{stencil.degree}")
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


class PerElementAtomic(MatrixFree):
    """Filtering per element as in `PerElement`, but all blocks add to one solution by atomic additions.

    The order of additions varies, so the last bits of results differ between launches. On a device without 64-bit
    atomics it raises `Unsupported`.
    """

    def __init__(
        self,
        launches: LaunchContext,
        stencil: Stencil,
        points: Points,
        basis: str = "dubiner",
        *,
        patches: int | None = None,
        threads: int = 64,
    ) -> None:
        device = launches.device
        if isinstance(device, OpenClDevice) and ATOMICS not in device.extensions:
            raise Unsupported(f"{device.name} adds no numbers of 64 bits atomically: it lacks {ATOMICS}")
        super().__init__(launches, points)
        parts = points.host.parts(patches or device.sm_count)
        self.field = DeviceField(launches, stencil, np.concatenate(parts), basis)
        arguments: list[Argument] = [
            np.int32(len(parts)), launches.upload(part_begins(parts)), points.x, points.y, *stencil.arguments,
            *points.cells.arguments, np.int32(self.field.count), self.field.geometry, self.field.coefficients,
            launches.upload(stencil.pieces), self.values,
        ]  # fmt: skip
        kernels = launches.kernels(f"element-p{stencil.degree}")
        add = kernels.blocks(f"atomic_t{threads}", len(parts), arguments, threads)

        def launch() -> None:
            device.fill(self.values, 0)
            add()

        self.launch = launch
