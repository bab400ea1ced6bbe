"""The SIAC filter for discontinuous Galerkin fields as a SciPy operator that maps modes to values at points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from repro.devices.base import OutOfDeviceMemory, Program
from repro.errors import ReproError, ReproErrorOfType, ReproErrorOfValue, argument_errors, brief
from repro.exact_casts import cast
from repro.filtering.grids import SortedCells, Triangulation, evaluation_points, of_field, triangulation
from repro.filtering.kernels import DEGREES, render_siac
from repro.filtering.matrix import FilterMatrix, MatrixRows, MatrixSize
from repro.filtering.matrix_free import LocalPerPoint, MatrixFree, PerPoint, Points, Stencil
from repro.filtering.spline_kernel import kernel
from repro.filtering.stencil_geometry import point_scales, predicted_pairs, scales, triangle_scales
from repro.galerkin import BASES, evaluation_rule, mode_count
from repro.operators.arrays import VectorType, host_array, is_on_device
from repro.operators.base import (
    HOST_PRODUCT,
    Closeable,
    DeviceOperator,
    LengthError,
    public,
    public_methods,
    require_choice,
    warn_caller,
    whole_number,
)
from repro.operators.device_exchange import described
from repro.operators.runtime import KERNELS, Runtime, open_runtime
from repro.problems.field import Field
from repro.sparse.device_primitives import LaunchContext

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: Value of `scale` for a local h at each point, computed from the lengths of the edges around the point.
LOCAL = "local"
#: Kinds of mesh cells that have no area and are ignored.
WITHOUT_AREA = ("vertex", "line", "line3")


def as_triangulation(mesh: Any) -> tuple[Triangulation, Flags | None]:
    """Return a mesh with counterclockwise triangles, and flags of the triangles that were given clockwise."""
    if isinstance(mesh, Field):
        return of_field(mesh), None
    if hasattr(mesh, "points") and hasattr(mesh, "cells_dict"):
        vertices, cells = _of_meshio(mesh)
    elif isinstance(mesh, (tuple, list)) and len(mesh) == 2:
        vertices, cells = _numbers(mesh[0], "the vertices"), host_array(mesh[1], "the triangles")
    else:
        raise ReproErrorOfType(
            "not a mesh",
            where="mesh",
            expected="vertices and triangles, a mesh of meshio, or a Field",
            actual=type(mesh).__name__,
        )
    mesh_triangulation = triangulation(vertices, cells)
    return mesh_triangulation, mesh_triangulation.triangles[:, 1] != cells[:, 1]


def _of_meshio(mesh: Any) -> tuple[Floats, NDArray[Any]]:
    cells, points = mesh.cells_dict, _numbers(mesh.points, "the vertices")
    if not isinstance(cells, Mapping) or points.ndim != 2 or points.shape[1] not in (2, 3):
        raise ReproErrorOfValue(
            "not a mesh of meshio",
            where="mesh",
            expected="points (v, 2) or (v, 3), and a dictionary of cells",
            actual=f"{points.shape}, and {type(cells).__name__}",
        )
    kinds = set(cells) - set(WITHOUT_AREA)
    if kinds != {"triangle"}:
        raise ReproErrorOfValue(
            "the mesh has other cells", where="mesh", expected="triangle", actual=", ".join(sorted(kinds))
        )
    if len(points) and points.shape[1] == 3 and np.ptp(points[:, 2]) != 0:
        raise ReproErrorOfValue(
            "the mesh is not in a plane", where="mesh", expected="equal z coordinates", actual=np.ptp(points[:, 2])
        )
    return points[:, :2], host_array(cells["triangle"], "the triangles")


def as_polynomials(mesh: Any, degree: int | None, basis: str | None) -> tuple[int, str]:
    """Return degree and basis of the polynomials, which a `Field` has itself."""
    if isinstance(mesh, Field):
        for attribute, argument, stated in (("degree", degree, mesh.degree), ("basis", basis, mesh.basis)):
            if argument not in (None, stated):
                raise ReproErrorOfValue(
                    f"the field has a different {attribute}", where=attribute, expected=stated, actual=argument
                )
        degree, basis = mesh.degree, mesh.basis
    elif degree is None:
        raise ReproErrorOfValue("no degree was given", where="degree", expected="that of the field's polynomials")
    basis = "dubiner" if basis is None else basis
    require_choice(basis, "basis", tuple(BASES))
    return whole_number(degree, "degree", DEGREES[0], DEGREES[-1]), basis


def as_points(points: Any, mesh: Triangulation) -> Floats:
    coordinates = np.array(_numbers(points, "points"))
    mesh.wrapped(coordinates)
    return coordinates


def as_scale(scale: Any, mesh: Triangulation, degree: int, points: Floats | None) -> Floats | None:
    """Return one scale, `()`, or one scale per point, `(n,)`; None: the longest edge.

    If `points` is None, the points are the quadrature points.
    """
    if scale is None:
        return None
    if not isinstance(scale, str):
        return _numbers(scale, "scale")
    require_choice(scale, "scale", (LOCAL,))
    return triangle_scales(mesh, evaluation_rule(degree, 2).points) if points is None else point_scales(mesh, points)


def as_orders(derivative: Any) -> tuple[int, int]:
    try:
        along_x, along_y = derivative
    except (TypeError, ValueError):
        raise ReproErrorOfValue(
            "not a derivative", where="derivative", expected="its orders along x and y", actual=brief(derivative)
        ) from None
    along = [whole_number(order, "derivative", 0, DEGREES[-1]) for order in (along_x, along_y)]
    return along[0], along[1]


def _numbers(array: Any, subject: str) -> Floats:
    numbers = host_array(array, subject)
    if numbers.dtype.kind not in "fiu":
        raise ReproErrorOfValue("not real numbers", where=subject, actual=numbers.dtype)
    return cast(numbers, np.float64, subject)


#: `matrix="auto"` makes a matrix if it takes at most this share of free device memory; fields need the remainder.
SHARE = 0.8
#: A warning is given if a stencil meets more triangles than this; without long edges it meets 119 to 642.
MANY = 20_000
#: Largest number of points, and of triangles: kernels use 32-bit indices, which need a margin for the loop stride.
MAX_COUNT = 1 << 30


@public
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
    """Return a linear operator that filters a discontinuous Galerkin field, to make it smooth and more accurate.

    The filtered value at a point is the convolution of the field with K^{2k+1,k+1}(x / h) K^{2k+1,k+1}(y / h) / h²,
    k = P, on a periodic box (King 2017, eq. 2.1 and 2.2). The integrals are exact except for rounding.

    Parameters
    ----------
    mesh
        Triangles that cover a rectangle once; the rectangle is the period of the field. A tuple of vertices `(v, 2)`
        and triangles `(t, 3)`, a mesh of meshio in a plane z = constant, or a `repro.problems.field.Field`. The modes
        of a clockwise triangle refer to its corners in the given order.
    degree
        Degree P of the field, 0 to 3; None: the degree of a `Field`.
    points
        Evaluation points, `(n, 2)`, wrapped into the period. None: the (P + 2)(P + 1) quadrature points of each
        triangle, triangle by triangle.
    scale
        h; None: the longest edge (King 2017, section 3.2). For a mesh of halved squares, the side of a square is the
        most accurate choice. An array `(n,)` gives one h per point. `local` (not in the paper): h at a vertex is
        the longest edge of the triangles around it, and h within a triangle is interpolated linearly, so h is small
        where triangles are small.
    basis
        Basis of the modes on the reference triangle with corners (0, 0), (1, 0), (0, 1): `dubiner`, `lagrange` or
        `monomial`; None: the basis of a `Field`, else `dubiner`.
    derivative
        Orders of the derivative of the filtered field along x and y, each 0 to P. If h differs between points, the
        derivative treats h as constant.
    matrix
        True: store the filter as a sparse matrix on the device, so that filtering is one product. False: compute the
        integrals at each use. `auto`: make the matrix if it fits into free memory, no triangle is wider than h, and h
        is the same at all points.
    device
        `auto` (a GPU if there is one, else the CPU through OpenCL), `cuda:N` or `opencl:N`.

    Raises
    ------
    ReproError
        The arguments are invalid or the device cannot be used. Or a requested matrix does not fit into memory, or is
        impossible because a triangle is wider than h or h differs between points.

    Warns
    -----
    RuntimeWarning
        A stencil meets so many triangles that filtering takes long, as when one long edge makes h large.
    """
    if not isinstance(matrix, bool | int | np.bool_ | str) or matrix not in (True, False, "auto"):
        raise ReproErrorOfValue("unknown value", where="matrix", expected="True, False or 'auto'", actual=brief(matrix))
    with argument_errors():
        triangles, clockwise = as_triangulation(mesh)
        degree, basis = as_polynomials(mesh, degree, basis)
        given_points = None if points is None else as_points(points, triangles)
        all_points = evaluation_points(triangles, degree) if given_points is None else given_points
    if not len(all_points):
        raise ReproErrorOfValue("no points were given", where="points", expected="(n, 2), at least one")
    for items, count in (("points", len(all_points)), ("triangles", len(triangles.triangles))):
        whole_number(count, f"number of {items}", 1, MAX_COUNT)
    with argument_errors():
        h = scales(triangles, len(all_points), kernel(degree).width, as_scale(scale, triangles, degree, given_points))
    typical = float(np.sqrt(np.mean(h**2)))  # the number of triangles grows with a stencil's area
    met = predicted_pairs(triangles, kernel(degree).width, typical)
    if met > MANY:
        warn_caller(
            f"a stencil meets {met:,.0f} triangles on average, since h = {typical:.3g} is large beside most of them: "
            "this takes long; give a smaller scale",
            RuntimeWarning,
        )
    with argument_errors():
        stencil = Stencil(triangles, degree, float(h.max()), as_orders(derivative), clockwise)
    runtime = open_runtime(device)
    return SiacFilter(runtime, stencil, all_points, basis, matrix, None if np.ptp(h) == 0 else h)


@public_methods
class SiacFilter(DeviceOperator, Closeable):
    """The SIAC filter, from modes to values at points; made by `repro.siac`. Threads of one device take turns.

    The modes of one field are `(t * m,)`, triangle by triangle, with m modes per triangle. Several fields are the
    columns of `(t * m, fields)` and are filtered at once. `close`, or the end of a `with` block, frees the device
    memory.

    Attributes
    ----------
    points
        Evaluation points, float64 `(n, 2)`.
    degree, basis, derivative
        As in `repro.siac`.
    scale
        h; if h differs between points, float64 `(n,)`.
    kind
        How values are computed: `matrix` (a product with the stored matrix), or integrals at each use, by `contours`
        or by `clipping`. Clipping is used if a triangle is wider than h, or if h differs between points.
    pairs
        Number of pairs of a point and a triangle (or periodic image of one) that meets the bounding square of the
        point's stencil.
    nbytes
        Bytes that the matrix takes on the device, whether it was made or not; 0 if h differs between points, as then
        no matrix is possible, and after `close`.
    device_name
        Name of the device.
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
        super().__init__(runtime, VectorType("real", "double"), (len(points), len(stencil.mesh.triangles) * modes))
        self.points, self.basis, self.degree = points, basis, stencil.degree
        self.scale: float | Floats = stencil.scale if local is None else local
        self.derivative = stencil.derivative
        self._filter: FilterMatrix | MatrixFree
        try:
            with ExitStack() as stack, runtime.after():
                if local is None:
                    self._filter, size = _make_filter(runtime, stencil, points, basis, matrix, stack)
                    self.pairs, self.nbytes = size.pairs, size.nbytes
                else:
                    self._filter = _made_local(runtime, stencil, points, basis, matrix, local, stack)
                    self.pairs, self.nbytes = self._filter.count(), 0
                self._stack = stack.pop_all()
        except OutOfDeviceMemory as error:
            raise runtime.out_of_memory_error(error) from None
        way = _way(stencil) if local is None else "clipping"
        self.kind = "matrix" if isinstance(self._filter, FilterMatrix) else way

    def matmat(self, X: Any) -> Any:
        """Return the filtered values of several fields, `(n, fields)`.

        X is `(t * m, fields)`: a NumPy array, or a device array that `matvec` accepts, for which the result is a
        `DeviceArray`. Other arguments raise `ReproError`.
        """
        if not is_on_device(X):
            return super().matmat(X)
        rows, columns = self.shape
        shape = described(X)[1]
        if len(shape) != 2 or shape[0] != columns:
            raise ReproErrorOfValue(
                "the modes do not match the fields", where="X", expected=f"({columns}, fields)", actual=shape
            )
        x_view = self._runtime.view(X, "X", self.dtype, columns * shape[1], self.dtype.itemsize)
        result = self._runtime.empty((rows, shape[1]), self.dtype)
        with self._ordered(x_view.stream):
            self._require_open()
            self._multiply(x_view, result, shape[1])
        return result

    def dot(self, x: Any) -> Any:
        """Return the filtered values of one field `(t * m,)`, or of several fields `(t * m, fields)`."""
        several = is_on_device(x) and len(described(x)[1]) == 2 and described(x)[1][0] == self.shape[1]
        return self.matmat(x) if several else super().dot(x)

    def to_scipy(self) -> csr_array:
        """Return the filter's matrix, `(n, t * m)`; it stores all m modes of a triangle. No matrix: `ReproError`."""
        with self._ordered():
            self._require_open()
            if not isinstance(self._filter, FilterMatrix):
                raise ReproError("the filter is not a matrix", actual=self.kind, todo="use repro.siac(matrix=True)")
            return self._filter.download()

    def close(self) -> None:
        """Free the filter's memory on the device; the filter cannot be used afterwards."""
        with self._ordered():
            if not self.closed:
                self.closed, self.nbytes = True, 0
                self._runtime.device.synchronize()
                self.__dict__.pop("_staging", None)
                self._stack.close()

    def _multiply(self, x: Any, y: Any, fields: int = 1) -> None:
        if fields:
            self._filter.bind(x.buffer, y.buffer, fields)()

    def _matmat(self, X: NDArray[Any]) -> NDArray[Any]:
        fields = X.shape[1]
        if not fields:
            return np.empty((self.shape[0], 0))
        modes = np.ascontiguousarray(cast(X, self.dtype, "modes"))
        with self._ordered(reads=HOST_PRODUCT):
            self._require_open()
            modes_array = self._runtime.put(modes)
            values = self._runtime.empty((self.shape[0], fields), self.dtype)
            self._multiply(modes_array, values, fields)
            return values.get()

    def _check(self, x: Any) -> None:
        """Raise an error for arrays that do not have the shape of modes; SciPy handles numbers and operators."""
        if is_on_device(x):
            return
        array, columns = host_array(x, "modes"), self.shape[1]
        if array.dtype.kind == "O" and not array.ndim:
            return
        if array.ndim and (array.ndim > 2 or array.shape[0] != columns):
            modes = mode_count(self.degree, 2)
            raise LengthError(
                "the modes do not match the field",
                where="modes",
                expected=f"({columns},), {modes} of each of {columns // modes} triangles, or ({columns}, fields)",
                actual=array.shape,
                todo="flatten modes (triangles, m) with `reshape(-1)`",
            )
        if array.dtype.kind not in "fiub":
            todo = "filter real and imaginary parts as two fields" if array.dtype.kind == "c" else None
            raise ReproErrorOfValue("the modes are not real numbers", where="modes", actual=array.dtype, todo=todo)

    def _require_open(self) -> None:
        if self.closed:
            raise ReproError("the filter is closed", todo="create a new one with repro.siac")

    def __repr__(self) -> str:
        size = "x".join(map(str, self.shape))
        method = f"a matrix of {self.nbytes / 1e6:.3g} MB" if self.kind == "matrix" else f"by {self.kind}"
        order = f", derivative {self.derivative}" if any(self.derivative) else ""
        smallest, largest = np.min(self.scale), np.max(self.scale)
        h = f"h = {smallest:.6g}" if smallest == largest else f"h = {smallest:.6g} to {largest:.6g}"
        place = "closed" if self.closed else f"{method} on {self.device_name}"
        details = f"degree {self.degree}{order}, {h}, {self.pairs:,} pairs, {place}"
        return f"<{size} {type(self).__name__}: {details}>"


def _make_filter(
    runtime: Runtime, stencil: Stencil, points: Floats, basis: str, matrix: bool | Literal["auto"], stack: ExitStack
) -> tuple[FilterMatrix | PerPoint, MatrixSize]:
    """Return the filter, and the size of its matrix, even if no matrix was made; `stack` frees the filter's memory."""
    load, cells = _load(runtime), SortedCells(stencil.mesh, points)
    if matrix is True:
        with argument_errors():
            stencil.for_contours()
    with ExitStack() as temporaries:
        launches = LaunchContext(runtime.device, load, temporaries)
        rows = MatrixRows(launches, stencil, Points(launches, cells), basis)
        layout = rows.count()
        size = layout.size
        if _uses_matrix(runtime, stencil, size, matrix):
            try:
                with ExitStack() as matrix_stack:
                    matrix_filter = rows.make(layout, matrix_stack)
                    runtime.device.synchronize()  # before `temporaries` frees the inputs of queued kernels
                    stack.enter_context(matrix_stack.pop_all())
                    return matrix_filter, size
            except OutOfDeviceMemory:
                if matrix is True:
                    raise
    launches = LaunchContext(runtime.device, load, stack)
    return PerPoint(launches, stencil, Points(launches, cells), basis, method=_WAYS[_way(stencil)]), size


def _made_local(
    runtime: Runtime,
    stencil: Stencil,
    points: Floats,
    basis: str,
    matrix: bool | Literal["auto"],
    scales: Floats,
    stack: ExitStack,
) -> LocalPerPoint:
    """Return the filter with one h per point; `stack` frees its memory."""
    if matrix is True:
        raise ReproErrorOfValue(
            "the filter can be a matrix only for a constant h, since its rows are contour integrals",
            where="scale",
            expected="the same h at all points",
            actual=f"{scales.min():.6g} to {scales.max():.6g}",
            todo="filter without a matrix (matrix=False), or with one h",
        )
    launches = LaunchContext(runtime.device, _load(runtime), stack)
    return LocalPerPoint(launches, stencil, Points(launches, SortedCells(stencil.mesh, points)), scales, basis)


def _uses_matrix(runtime: Runtime, stencil: Stencil, size: MatrixSize, matrix: bool | Literal["auto"]) -> bool:
    free = runtime.device.free_bytes()
    if matrix is True and size.nbytes > free:
        raise ReproError(
            "the filter's matrix does not fit on the device",
            where=runtime.device.name,
            expected=f"{free:,} bytes at most, which are free",
            actual=f"{size.nbytes:,} bytes: {size.pairs:,} triangles at {size.points:,} points",
            todo="filter without it (matrix=False), at fewer points at a time, or with a smaller scale",
        )
    if matrix == "auto":
        return stencil.fits_contours and size.nbytes <= SHARE * free
    return matrix


#: Method of `PerPoint` for each value of `SiacFilter.kind` that computes integrals.
_WAYS = {"contours": "edges", "clipping": "point"}


def _way(stencil: Stencil) -> str:
    return "contours" if stencil.fits_contours else "clipping"


@cache
def _load(runtime: Runtime) -> Callable[[str], Program]:
    """Return a function that loads a kernel module of the filter by name, through the compile cache."""

    @cache
    def load(module: str) -> Program:
        return runtime.program(render_siac(KERNELS, module, runtime.device.target, "siac"), f"siac/{module}")

    return load
