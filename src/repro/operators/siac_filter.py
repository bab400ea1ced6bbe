"""The filter of a discontinuous Galerkin field (SIAC) as a SciPy operator, from modes to values at points.

Meshes, points and numbers are taken as users have them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.casts import cast
from repro.devices.base import OutOfDeviceMemory, Program
from repro.errors import ReproError
from repro.filtering.grids import SortedCells
from repro.filtering.kernels import DEGREES, render_siac
from repro.filtering.matrix import FilterMatrix, MatrixRows, MatrixSize
from repro.filtering.matrix_free import LocalPerPoint, MatrixFree, PerPoint, Points, Stencil
from repro.filtering.spline_kernel import kernel
from repro.filtering.stencil_geometry import at_points, predicted_pairs, scales, within_triangles
from repro.filtering.triangulation import Triangulation, evaluation_points, of_field, triangulation
from repro.galerkin.basis import BASES, mode_count
from repro.galerkin.quadrature import evaluation_rule
from repro.operators.arrays import Kind, on_device
from repro.operators.base import Closing, StrictOperator, one_of, whole_number
from repro.operators.interchange import described
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.problems.field import Field
from repro.sparse.device_work import Launches

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: The word for an h of each point, as long as the edges around it.
LOCAL = "local"
#: Cells of a mesh that have no area, which are passed over.
WITHOUT_AREA = ("vertex", "line", "line3")


def as_triangulation(mesh: Any) -> tuple[Triangulation, Flags | None]:
    """Return a mesh counterclockwise, and which of its triangles came clockwise.

    Raises
    ------
    ReproError
    """
    if isinstance(mesh, Field):
        return of_field(mesh), None
    if hasattr(mesh, "points") and hasattr(mesh, "cells_dict"):
        vertices, cells = _of_meshio(mesh)
    elif isinstance(mesh, (tuple, list)) and len(mesh) == 2:
        vertices, cells = _numbers(mesh[0], "the vertices"), _array(mesh[1], "the triangles")
    else:
        raise ReproError(
            "this is no mesh",
            where="mesh",
            expected="vertices and triangles, a mesh of meshio, or a Field",
            actual=type(mesh).__name__,
        )
    made = triangulation(vertices, cells)
    return made, made.triangles[:, 1] != cells[:, 1]


def _of_meshio(mesh: Any) -> tuple[Floats, NDArray[Any]]:
    cells, points = mesh.cells_dict, _numbers(mesh.points, "the vertices")
    if not isinstance(cells, Mapping) or points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ReproError(
            "this is no mesh of meshio",
            where="mesh",
            expected="points (v, 2) or (v, 3), and cells by their kind",
            actual=f"{points.shape}, and {type(cells).__name__}",
        )
    kinds = set(cells) - set(WITHOUT_AREA)
    if kinds != {"triangle"}:
        raise ReproError(
            "the mesh is not of triangles alone", where="mesh", expected="triangle", actual=", ".join(sorted(kinds))
        )
    if len(points) and points.shape[1] == 3 and np.ptp(points[:, 2]) != 0:
        raise ReproError("the mesh is not in a plane", where="mesh", expected="one z", actual=np.ptp(points[:, 2]))
    return points[:, :2], _array(cells["triangle"], "the triangles")


def as_polynomials(mesh: Any, degree: int | None, basis: str | None) -> tuple[int, str]:
    """Return degree and basis, which a field has of its own.

    Raises
    ------
    ReproError
    """
    if isinstance(mesh, Field):
        for what, given, own in (("degree", degree, mesh.degree), ("basis", basis, mesh.basis)):
            if given not in (None, own):
                raise ReproError(f"the field has another {what}", where=what, expected=own, actual=given)
        degree, basis = mesh.degree, mesh.basis
    elif degree is None:
        raise ReproError("the degree is not given", where="degree", expected="that of the field's polynomials")
    basis = "dubiner" if basis is None else basis
    one_of(basis, "basis", tuple(BASES))
    return whole_number(degree, "degree", DEGREES[0], DEGREES[-1]), basis


def as_points(points: Any, mesh: Triangulation) -> Floats:
    """Return points as they were given, if they can be filtered at.

    Raises
    ------
    ReproError
    """
    there = np.array(_numbers(points, "points"))
    mesh.wrapped(there)
    return there


def as_scale(scale: Any, mesh: Triangulation, degree: int, points: Floats | None) -> Floats | None:
    """Return the scale of a filter, `()`, or those of its points, `(n,)`; None: the longest edge.

    Parameters
    ----------
    scale
        As it was given.
    mesh, degree, points
        What is filtered, and where; None: at the quadrature points.

    Raises
    ------
    ReproError
    """
    if scale is None:
        return None
    if not isinstance(scale, str):
        return _numbers(scale, "scale")
    one_of(scale, "scale", (LOCAL,))
    return within_triangles(mesh, evaluation_rule(degree, 2).points) if points is None else at_points(mesh, points)


def as_orders(derivative: Any) -> tuple[int, int]:
    """Return the orders of a derivative along x and y.

    Raises
    ------
    ReproError
    """
    try:
        along_x, along_y = (int(whole_number(order, "derivative", 0, DEGREES[-1])) for order in derivative)
    except (TypeError, ValueError):
        raise ReproError(
            "this is no derivative", where="derivative", expected="its orders along x and y", actual=repr(derivative)
        ) from None
    return along_x, along_y


def _numbers(array: Any, what: str) -> Floats:
    numbers = _array(array, what)
    if numbers.dtype.kind not in "fiu":
        raise ReproError("these are no real numbers", where=what, actual=numbers.dtype)
    return cast(numbers, np.float64, what)


def _array(array: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(array)
    except ValueError as error:
        raise ReproError("this is no array", where=what, actual=error) from None


#: Part of the device's free memory that a matrix may take unless it is asked for; the rest is for fields.
SHARE = 0.8
#: Triangles in a stencil that are worth a word before work begins: a mesh without long edges has 119 to 642.
MANY = 20_000
#: Points, and triangles, that kernels count in 32 bits, with room for the steps of their loops.
MAX_COUNT = 1 << 30


def siac(
    mesh: Any,
    degree: int | None = None,
    points: Any = None,
    scale: float | NDArray[np.floating[Any]] | Literal["local"] | None = None,
    *,
    basis: str | None = None,
    derivative: tuple[int, int] = (0, 0),
    matrix: bool | Literal["auto"] = "auto",
    device: str = "auto",
) -> SiacFilter:
    """Return the filter that makes a discontinuous Galerkin field smooth, and more accurate, as a linear operator.

    At a point it is the convolution with K^{2k+1,k+1}(x / h) K^{2k+1,k+1}(y / h) / h², k = P, on a periodic box (King
    2017, eq. 2.1 and 2.2), integrated exactly but for rounding.

    Parameters
    ----------
    mesh
        Triangles that cover a rectangle, the field's period, once: a tuple of vertices `(v, 2)` and triangles `(t, 3)`,
        a mesh of meshio in a plane z = constant, or a `repro.problems.field.Field`. Clockwise triangles may be among
        them, with the modes of their own numbering.
    degree
        P, 0 to 3, of the field; None: that of a `Field`.
    points
        Where to filter, `(n, 2)`; those outside are wrapped. None: the quadrature points of all triangles, triangle by
        triangle, (P + 2)(P + 1) of each.
    scale
        h; None: the longest edge (King 2017, section 3.2). On a mesh of squares cut in half the side of a square gives
        the most accurate result. Or `(n,)`, an h of each point. `local`: at a vertex the longest edge of the triangles
        around it, linear between the three of a triangle, so that it is small where triangles are (ours).
    basis
        Which the modes belong to, on the reference triangle with corner i at 0, (1, 0), (0, 1): `dubiner`, `lagrange`
        or `monomial`; None: that of a `Field`, else `dubiner`.
    derivative
        Which derivative of the filtered field along x and y, each 0 to P; where points have an h each, as if that of
        a point were the same everywhere.
    matrix
        Whether the filter is made a sparse matrix on the device, with which filtering takes a product; else integrals
        are computed each time. `auto`: where it fits into the memory that is free, no triangle is wider than h, and h
        is the same at all points.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Raises
    ------
    ReproError
        There is no such filter, or not on that device; a matrix was asked for and does not fit, or a triangle is wider
        than h, or points have an h each.

    Warns
    -----
    RuntimeWarning
        Stencils meet so many triangles that filtering takes long: one long edge among short ones makes h large.
    """
    if matrix not in (True, False, "auto"):
        raise ReproError("unknown wish", where="matrix", expected="True, False or 'auto'", actual=repr(matrix))
    triangles, clockwise = as_triangulation(mesh)
    degree, basis = as_polynomials(mesh, degree, basis)
    given = None if points is None else as_points(points, triangles)
    there = evaluation_points(triangles, degree) if given is None else given
    if not len(there):
        raise ReproError("there are no points to filter at", where="points", expected="(n, 2), at least one")
    for what, count in (("points", len(there)), ("triangles", len(triangles.triangles))):
        whole_number(count, f"number of {what}", 1, MAX_COUNT)
    h = scales(triangles, len(there), kernel(degree).width, as_scale(scale, triangles, degree, given))
    typical = float(np.sqrt(np.mean(h**2)))  # a stencil meets about as many triangles as its area holds
    met = predicted_pairs(triangles, kernel(degree).width, typical)
    if met > MANY:
        warnings.warn(
            f"a stencil meets {met:,.0f} triangles on average, since h = {typical:.3g} is large beside most of them: "
            "this takes long; give a smaller scale",
            RuntimeWarning,
            stacklevel=2,
        )
    stencil = Stencil(triangles, degree, float(h.max()), as_orders(derivative), clockwise)
    runtime = open_runtime(device)
    return SiacFilter(runtime, stencil, there, basis, matrix, None if np.ptp(h) == 0 else h)


class SiacFilter(StrictOperator, Closing):
    """From modes to filtered values at points; made by `repro.siac`. Threads that work with one device take turns.

    The modes of a field are `(t * m,)`, those of a triangle one after the other; several fields are columns `(t * m,
    fields)`, filtered at once. Close it, or use it in a `with`, to give its memory back before it is forgotten.

    Attributes
    ----------
    points
        float64 `(n, 2)`, where it filters.
    degree, basis, derivative
        As it was made.
    scale
        h; float64 `(n,)` where points have different ones.
    kind
        `matrix`; or, computed anew each time, `contours` or, where a triangle is wider than h or points have different
        ones, `clipping`.
    pairs
        Triangles that meet the bounding square of a point's stencil, over all points, an image each.
    nbytes
        Bytes of the matrix on the device, or what they would be; 0 where points have an h each, of which none is made.
    device_name
        What it runs on.
    """

    def __init__(
        self,
        runtime: Runtime,
        stencil: Stencil,
        points: Floats,
        basis: str,
        matrix: bool | Literal["auto"],
        local: Floats | None = None,
    ) -> None:
        modes = mode_count(stencil.degree, 2)
        super().__init__(runtime, Kind("real", "double"), (len(points), len(stencil.mesh.triangles) * modes))
        self.points, self.basis, self.degree = points, basis, stencil.degree
        self.scale: float | Floats = stencil.scale if local is None else local
        self.derivative = stencil.derivative
        self._closed = False
        self._filter: FilterMatrix | MatrixFree
        try:
            with ExitStack() as held, runtime.after():
                if local is None:
                    self._filter, size = _made(runtime, stencil, points, basis, matrix, held)
                    self.pairs, self.nbytes = size.pairs, size.nbytes
                else:
                    self._filter = _made_local(runtime, stencil, points, basis, matrix, local, held)
                    self.pairs, self.nbytes = self._filter.count(), 0
                self._held = held.pop_all()
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
        way = _way(stencil) if local is None else "clipping"
        self.kind = "matrix" if isinstance(self._filter, FilterMatrix) else way

    def matmat(self, X: Any) -> Any:
        """Return the filtered values of several fields, `(n, fields)`.

        Parameters
        ----------
        X
            `(t * m, fields)`, NumPy's; or an array on the device, as of `matvec`, which gives a `DeviceArray`.

        Raises
        ------
        ReproError
            It is no such array.
        """
        self._check(X)
        if not on_device(X):
            return super().matmat(X)
        rows, columns = self.shape
        shape = described(X)[1]
        if len(shape) != 2 or shape[0] != columns:
            raise ReproError(
                "these are no modes of the fields", where="X", expected=f"({columns}, fields)", actual=shape
            )
        seen = self._runtime.view(X, "X", self.dtype, columns * shape[1], self.dtype.itemsize)
        result = self._runtime.empty((rows, shape[1]), self.dtype)
        with self._ordered(seen.stream):
            self._require_open()
            self._multiply(seen, result, shape[1])
        return result

    def dot(self, x: Any) -> Any:
        """Return the filtered values of a field, or of several as columns."""
        several = on_device(x) and len(described(x)[1]) == 2 and described(x)[1][0] == self.shape[1]
        return self.matmat(x) if several else super().dot(x)

    def to_scipy(self) -> csr_array:
        """Return the matrix, `(n, t * m)`; a triangle that is met has all its m entries stored.

        Raises
        ------
        ReproError
            There is none.
        """
        with self._ordered():
            self._require_open()
            if not isinstance(self._filter, FilterMatrix):
                raise ReproError("the filter is no matrix", actual=self.kind, todo="make it by repro.siac(matrix=True)")
            return self._filter.download()

    def close(self) -> None:
        """Give its memory on the device back; it is of no use afterwards."""
        with self._ordered():
            if not self._closed:
                self._closed = True
                self._runtime.device.synchronize()
                self.__dict__.pop("_staging", None)
                self._held.close()

    def _multiply(self, x: Any, y: Any, fields: int = 1) -> None:
        if fields:
            self._filter.bind(x.buffer, y.buffer, fields)()

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        fields = X.shape[1]
        if not fields:
            return np.empty((self.shape[0], 0))
        modes = self._runtime.put(np.ascontiguousarray(cast(X, self.dtype, "modes")))
        values = self._runtime.empty((self.shape[0], fields), self.dtype)
        with self._ordered():
            self._require_open()
            self._multiply(modes, values, fields)
        return values.get()

    def _check(self, x: Any) -> None:
        """Refuse what are no modes; numbers and operators, which SciPy multiplies operators with, pass."""
        if on_device(x):
            return
        array, columns = np.asarray(x), self.shape[1]
        if array.dtype.kind == "O" and not array.ndim:
            return
        if array.ndim and (array.ndim > 2 or array.shape[0] != columns):
            modes = mode_count(self.degree, 2)
            raise ReproError(
                "these are no modes of the field",
                where="modes",
                expected=f"({columns},), {modes} of each of {columns // modes} triangles, or ({columns}, fields)",
                actual=array.shape,
                todo="flatten modes (triangles, m) by `reshape(-1)`",
            )
        if array.dtype.kind not in "fiub":
            todo = "filter real and imaginary parts as two fields" if array.dtype.kind == "c" else None
            raise ReproError("the modes are no real numbers", where="modes", actual=array.dtype, todo=todo)

    def _require_open(self) -> None:
        if self._closed:
            raise ReproError("the filter is closed", todo="make a new one")

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        made = f"a matrix of {self.nbytes / 1e6:.3g} MB" if self.kind == "matrix" else f"by {self.kind}"
        order = f", derivative {self.derivative}" if any(self.derivative) else ""
        least, most = np.min(self.scale), np.max(self.scale)
        h = f"h = {least:.6g}" if least == most else f"h = {least:.6g} to {most:.6g}"
        what = f"degree {self.degree}{order}, {h}, {self.pairs:,} pairs, {made} on {self.device_name}"
        return f"<{size} {type(self).__name__}: {what}>"


def _made(
    runtime: Runtime, stencil: Stencil, points: Floats, basis: str, matrix: bool | Literal["auto"], held: ExitStack
) -> tuple[FilterMatrix | PerPoint, MatrixSize]:
    """Return the filter, whose memory `held` gives back, and the size that its matrix has or would have."""
    load, there = _load(runtime), SortedCells(stencil.mesh, points)
    if matrix is True:
        stencil.for_contours()
    with ExitStack() as passing:
        launches = Launches(runtime.device, load, passing)
        rows = MatrixRows(launches, stencil, Points(launches, there), basis)
        layout = rows.count()
        size = layout.size
        if _as_matrix(runtime, stencil, size, matrix):
            try:
                with ExitStack() as own:
                    made = rows.make(layout, own)
                    runtime.device.synchronize()  # what rows are made of is given back
                    held.enter_context(own.pop_all())
                    return made, size
            except OutOfDeviceMemory:
                if matrix is True:
                    raise
    launches = Launches(runtime.device, load, held)
    return PerPoint(launches, stencil, Points(launches, there), basis, way=_WAYS[_way(stencil)]), size


def _made_local(
    runtime: Runtime,
    stencil: Stencil,
    points: Floats,
    basis: str,
    matrix: bool | Literal["auto"],
    scales: Floats,
    held: ExitStack,
) -> LocalPerPoint:
    """Return the filter with an h of each point, whose memory `held` gives back."""
    if matrix is True:
        raise ReproError(
            "the filter is made a matrix only with one h, since its rows are integrated by contours",
            where="scale",
            expected="the same h at all points",
            actual=f"{scales.min():.6g} to {scales.max():.6g}",
            todo="filter without a matrix (matrix=False), or with one h",
        )
    launches = Launches(runtime.device, _load(runtime), held)
    return LocalPerPoint(launches, stencil, Points(launches, SortedCells(stencil.mesh, points)), scales, basis)


def _as_matrix(runtime: Runtime, stencil: Stencil, size: MatrixSize, matrix: bool | Literal["auto"]) -> bool:
    free = runtime.device.free_bytes()
    if matrix is True and size.nbytes > free:
        raise ReproError(
            "the filter's matrix does not fit into the device",
            where=runtime.device.name,
            expected=f"{free:,} bytes at most, which are free",
            actual=f"{size.nbytes:,} bytes: {size.pairs:,} triangles at {size.points:,} points",
            todo="filter without it (matrix=False), at fewer points at a time, or with a smaller scale",
        )
    if matrix == "auto":
        return stencil.fits_contours and size.nbytes <= SHARE * free
    return matrix


#: The kernels per point by what they do.
_WAYS = {"contours": "edges", "clipping": "point"}


def _way(stencil: Stencil) -> str:
    return "contours" if stencil.fits_contours else "clipping"


@cache
def _load(runtime: Runtime) -> Callable[[str], Program]:
    """Return what gives the filter's modules, compiled unless the cache has them."""

    @cache
    def load(module: str) -> Program:
        return runtime.program(render_siac(KERNELS, module, runtime.device.target, "siac"), f"siac/{module}")

    return load
