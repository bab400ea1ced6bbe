"""Matrix-free filtering of a field on a device: point by point, triangle by triangle, and by contours.

Per point there is the paper's way, which clips triangles, with one h for all points or with an h of each. Per
element there are the paper's, in which each patch has a copy of the solution, and one with a single copy and
atomic sums. What these share, stencil, cells, points and field on the device, the filter's matrix is made with as
well.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.devices.base import Argument, Buffer, Device
from repro.devices.opencl import OpenClDevice
from repro.errors import ReproError
from repro.filtering.grids import Grid, Patches, SortedCells, begins_of
from repro.filtering.kernels import LOCAL, SUM_ROWS
from repro.filtering.spline_kernel import kernel
from repro.filtering.triangulation import Triangulation
from repro.galerkin.basis import exponents, mode_count, to_monomials
from repro.sparse.device_work import Launches
from repro.sparse.elementwise import Kernels, in_order

Floats = NDArray[np.float64]
#: By what part a triangle may be wider than a square, by rounding: what the pieces of the kernel are extended by.
ROUNDING = 1e-11
#: Blocks for each multiprocessor: points are taken in steps of the grid.
BLOCKS_PER_SM = {"cuda": 16, "opencl": 4}
#: Warps for each multiprocessor that are given something to do, tiles permitting.
WARPS = 24


@dataclass(frozen=True, eq=False)
class Stencil:
    """What all kernels of a filter are told.

    Attributes
    ----------
    mesh
        The triangulation.
    degree
        k, of the kernel and of the field.
    scale
        h, the width of a square of the stencil's lattice.
    derivative
        Which derivative of the filtered field along x and y, each 0 to k. K is k - 1 times differentiable, and its
        derivative of order k is bounded, so that the filtered field's is continuous.
    clockwise
        bool `(t,)`, triangles whose modes are those of the numbering with the last two corners exchanged; None: none.

    Raises
    ------
    ReproError
        The kernel has no such derivative.
    """

    mesh: Triangulation
    degree: int
    scale: float
    derivative: tuple[int, int] = (0, 0)
    clockwise: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if not all(0 <= order <= self.degree for order in self.derivative):
            raise ReproError(
                "the filtered field has no such derivative",
                where="derivative",
                expected=f"orders 0 to {self.degree}, the degree of the kernel's B-splines",
                actual=self.derivative,
            )

    @property
    def half(self) -> float:
        """Half of the support's width."""
        return kernel(self.degree).width * self.scale / 2

    @property
    def arguments(self) -> list[Argument]:
        """The box, and 1 / h."""
        lower, period = self.mesh.lower, self.mesh.period
        return [*map(float, lower), *map(float, period), 1.0 / self.scale]

    @property
    def pieces(self) -> Floats:
        """float64 `(2, 2, 3k + 1, k + 1)`: pieces in powers of the distance from their left and right end, along x, y.

        Of the kernel, or of its derivatives with respect to the point: dξ/dx = -1 / h.
        """
        whole = kernel(self.degree)
        left = np.stack([(-1.0 / self.scale) ** order * whole.derivative(order).pieces for order in self.derivative])
        shift = np.array([[comb(b, a) for a in range(self.degree + 1)] for b in range(self.degree + 1)], np.float64)
        return np.stack([left, left @ shift])

    def functions(self, basis: str) -> Floats:
        """Return a basis in monomials, and that with its reference coordinates exchanged, float64 `(2, m, m)`."""
        plain = to_monomials(basis, self.degree, 2)
        powers = exponents(self.degree, 2).tolist()
        return np.stack([plain, plain[:, [powers.index([b, a]) for a, b in powers]]])

    @property
    def exchanged(self) -> NDArray[np.int32]:
        """int32 `(t,)`, 1 for triangles that came clockwise."""
        none = np.zeros(len(self.mesh.triangles), np.int32)
        return none if self.clockwise is None else self.clockwise.astype(np.int32)

    def geometry(self, order: NDArray[np.integer]) -> Floats:
        """Return what kernels are told of triangles in some order, float64 `(16, t)`.

        x and y of three corners. For each edge, from one corner to the next, h over what x falls by along it, 0 where
        it does not change, and the same of y: times how far the first corner is beyond a line, in kernel coordinates,
        it is the share of the edge on that side. The middle of the bounding box, x and y, and half of its sides.
        """
        return np.ascontiguousarray(self._geometry[order].T)

    @cached_property
    def _geometry(self) -> Floats:
        """The same in the mesh's order, `(t, 16)`: all ways to filter have it in orders of their own."""
        corners = self.mesh.corners
        falls = corners - np.roll(corners, -1, axis=1)
        shares = np.divide(self.scale, falls, out=np.zeros_like(falls), where=falls != 0)
        low, high = corners.min(axis=1), corners.max(axis=1)
        box = np.stack([(high + low) / 2, (high - low) / 2], axis=1)
        return np.concatenate([part.reshape(len(corners), -1) for part in (corners, shares, box)], axis=1)

    @cached_property
    def _widest(self) -> float:
        """The longest side of a triangle's bounding box."""
        return float(np.ptp(self.mesh.corners, axis=1).max())

    @property
    def fits_contours(self) -> bool:
        """Whether no triangle is wider than a square of the lattice, as contours on a device need it."""
        return self._widest <= self.scale * (1 + ROUNDING)

    @cached_property
    def loss(self) -> float:
        """By how much contours are less exact than clipping: they follow u out of a triangle as far as its box goes.

        A thin triangle is a small part of its box, and polynomials grow beyond it by its degree.
        """
        sides = np.ptp(self.mesh.corners, axis=1).prod(axis=1)
        return float((sides / (2 * self.mesh.areas)).max()) ** self.degree

    def for_contours(self) -> Stencil:
        """Return itself where contours can integrate with this scale.

        Raises
        ------
        ReproError
            A triangle is wider than a square of the lattice.
        """
        if not self.fits_contours:
            raise ReproError(
                "a triangle is wider than a square of the stencil, which contours on a device cannot integrate over",
                where="the scale",
                expected=f"{self._widest:.6g} or more",
                actual=f"{self.scale:.6g}",
                todo="take a larger scale, or a way that clips: per point or per element, without a matrix",
            )
        return self


def rows_of_tiles(points: int, device: Device) -> int:
    """Return how many points a warp takes at a time: the more the fuller its queues, but no warp without any."""
    return min(max(points // (device.n_s * WARPS), 1), SUM_ROWS)


class Cells:
    """A grid on a device, with the positions or triangles that it has.

    Attributes
    ----------
    grid
        The same on the host.
    arguments
        What kernels are told.
    """

    def __init__(self, launches: Launches, grid: Grid) -> None:
        self.grid = grid
        self.starts = launches.upload(grid.starts)
        self.arguments: list[Argument] = [
            *(np.int32(n) for n in grid.shape), *map(float, grid.inverse), self.starts,
        ]  # fmt: skip


class Points:
    """Points on a device, cell by cell.

    Parameters
    ----------
    launches
        Keeps their memory.
    host
        The points and their mesh, sorted on the host.
    size
        Of a cell; None: as the paper's.

    Attributes
    ----------
    host, size
        As given.
    cells
        Their grid.
    order
        `(n,)`, the point at each place.
    x, y
        float64 `(n,)`, in that order.
    """

    def __init__(self, launches: Launches, host: SortedCells, size: float | None = None) -> None:
        self.host, self.size, self.count = host, size, host.count
        self.cells = Cells(launches, host.points(size))
        self.order = self.cells.grid.members
        self.x, self.y = map(launches.upload, host.positions(size))
        self._launches = launches

    def tiles(self, rows: int) -> list[Argument]:
        """Return what kernels are told of tiles of so many points: how many there are, and where they begin."""
        starts = self.host.tiles(rows, self.size)
        return [np.int32(len(starts) - 1), self._launches.upload(starts)]


class Field:
    """Triangles with their polynomials on a device, in some order.

    Parameters
    ----------
    launches
        Keeps the memory; its module `rows-p…` turns modes into coefficients.
    stencil
        The filter.
    order
        int32 `(t,)`, the triangle at each place.
    basis
        The basis of the modes.

    Attributes
    ----------
    order
        As given.
    count
        How many there are.
    geometry
        float64 `(16, count)`, `Stencil.geometry` in that order.
    coefficients
        float64 `(m, count)`, of the polynomials in powers of the distance from corner 0, in kernel coordinates.
    """

    def __init__(self, launches: Launches, stencil: Stencil, order: NDArray[np.integer], basis: str) -> None:
        self._launches, self._inverse, self.order = launches, 1.0 / stencil.scale, order
        self.count, self._triangles = len(order), len(stencil.mesh.triangles)
        self._modes = mode_count(stencil.degree, 2)
        self.geometry = launches.upload(stencil.geometry(order))
        self._members = launches.upload(np.asarray(order, np.int32))
        self._clockwise = launches.upload(stencil.exchanged)
        self._basis = launches.upload(stencil.functions(basis))
        self.coefficients = launches.numbers(self._modes * self.count, np.float64)
        self._kernels = Kernels(launches.device, launches.load(f"rows-p{stencil.degree}"))

    @cached_property
    def _given(self) -> Buffer:
        return self._launches.numbers(self._modes * self._triangles, np.float64)

    def set(self, modes: Floats) -> None:
        """Take the modes of all triangles, float64 `(t, m)`, in the mesh's order."""
        self._launches.device.write(self._given, np.ascontiguousarray(modes, np.float64))
        self.bind(self._given)()

    def bind(self, modes: Buffer, fields: int = 1, field: int = 0) -> Callable[[], None]:
        """Return what queues that one of several fields is taken.

        Parameters
        ----------
        modes
            float64 `(t, m, fields)`, in the mesh's order.
        fields, field
            How many there are, and which.
        """
        arguments: list[Argument] = [
            np.int32(self.count), self._inverse, self.geometry, self._members, self._clockwise, self._basis,
            np.int32(fields), np.int32(field), modes, self.coefficients,
        ]  # fmt: skip
        return self._kernels.over("expand_modes", self.count, arguments)

    def place(self, count: int, arguments: list[Argument]) -> Callable[[], None]:
        """Return what queues that values, cell by cell, are put where they belong."""
        return self._kernels.over("place", count, arguments)


class MatrixFree:
    """A way to filter a field at points on a device.

    Attributes
    ----------
    launch
        Queues it.
    field
        What it filters.
    """

    launch: Callable[[], None]
    field: Field

    def __init__(self, launches: Launches, points: Points) -> None:
        # not the points themselves: what is sorted of them on the host may go
        self._launches, self._count, self._places = launches, points.count, points.order
        self.values = launches.numbers(points.count, np.float64)

    @cached_property
    def _order(self) -> Buffer:
        return self._launches.upload(np.asarray(self._places, np.int32))

    def bind(self, modes: Buffer, result: Buffer, fields: int = 1) -> Callable[[], None]:
        """Return what queues the filtering of several fields, one after the other.

        Parameters
        ----------
        modes
            float64 `(t, m, fields)`, in the mesh's order.
        result
            float64 `(n, fields)`, in the points' order.
        fields
            How many there are.
        """
        count = self._count
        runs = []
        for field in range(fields):
            where: list[Argument] = [np.int32(count), self._order, np.int32(fields), np.int32(field)]
            place = self.field.place(count, [*where, self.values, result])
            runs += [self.field.bind(modes, fields, field), self.launch, place]
        return in_order(runs)

    def result(self) -> Floats:
        """Wait, and return the filtered field at the points, float64 `(n,)`, in their order."""
        values = np.empty(self._count)
        values[self._places] = self._launches.download(self.values, self._count, np.float64)
        return values


class PerPoint(MatrixFree):
    """A block has a point, its threads a triangle each: the paper's (`point`), or a warp by contours (`edges`).

    Parameters
    ----------
    way
        `point` or `edges`.
    threads
        Of a block.
    size
        Of a cell; None: s.
    blocks
        Of the grid; None: as many as keep the device busy.
    """

    def __init__(
        self,
        launches: Launches,
        stencil: Stencil,
        points: Points,
        basis: str = "dubiner",
        *,
        way: str = "edges",
        threads: int = 64,
        size: float | None = None,
        blocks: int | None = None,
    ) -> None:
        super().__init__(launches, points)
        if way == "edges":
            stencil.for_contours()
        cells = Cells(launches, points.host.triangles(size))
        self.field = Field(launches, stencil, cells.grid.members, basis)
        kernels = Kernels(launches.device, launches.load(f"{way}-p{stencil.degree}"))
        blocks = blocks or launches.device.n_s * BLOCKS_PER_SM[launches.device.backend]
        points_or_tiles: list[Argument] = [np.int32(points.count)]
        if way == "edges":
            points_or_tiles = points.tiles(rows_of_tiles(points.count, launches.device))
        self.launch = kernels.blocks(
            f"{way}_t{threads}",
            blocks,
            [
                *points_or_tiles, points.x, points.y, *stencil.arguments, *cells.arguments,
                *map(float, cells.grid.reach), np.int32(self.field.count), self.field.geometry,
                self.field.coefficients, launches.upload(stencil.pieces), self.values,
            ],
            threads,
        )  # fmt: skip


class LocalPerPoint(MatrixFree):
    """A block has a point with its own h, its threads a triangle each.

    Any h will do, since each triangle is clipped to all squares that it meets. A derivative is that of the filter with
    each point's h, as if that were the same everywhere.

    Parameters
    ----------
    launches, points, basis
        As of `repro.filtering.matrix_free.PerPoint`.
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
        self._blocks = launches.device.n_s * BLOCKS_PER_SM[launches.device.backend]
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


#: What an OpenCL device needs for sums that several threads add to.
ATOMICS = "cl_khr_int64_base_atomics"


class PerElement(MatrixFree):
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


class PerElementAtomic(MatrixFree):
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
