"""The filter of a dG field as a SciPy operator, as a user asks for it."""

import threading
from itertools import product

import meshio
import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

import repro
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.filtering.grids import evaluation_points, triangulation
from repro.filtering.reference import contour_rows
from repro.galerkin import evaluate, mode_count
from repro.operators.runtime import open_runtime
from repro.problems.field import Field
from repro.sparse.device_primitives import LaunchContext
from support.device_memory import fill_after
from support.triangulations import hexagonal, project, structured

DEVICE = "opencl:0"


def pair(mesh):
    """A mesh as a user has it."""
    return mesh.vertices, mesh.triangles


def drawn(mesh, degree, *fields, seed=3):
    """Modes that belong to nothing."""
    return np.random.default_rng(seed).standard_normal((len(mesh.triangles) * mode_count(degree, 2), *fields))


@pytest.fixture(scope="module")
def mesh():
    return hexagonal(5)


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(1).uniform(-0.3, 1.4, (60, 2))


@pytest.fixture(scope="module")
def smooth(mesh, points):
    return repro.siac(pair(mesh), 1, points, device=DEVICE)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_every_way_has_the_values_of_the_reference(mesh, points, degree):
    modes = drawn(mesh, degree)
    for scale, ways in ((None, {"matrix": True, "contours": False}), (0.1, {"clipping": "auto"})):
        expected = contour_rows(mesh, points, degree, scale=scale) @ modes
        for kind, matrix in ways.items():
            made = repro.siac(pair(mesh), degree, points, scale, matrix=matrix, device=DEVICE)
            assert made.kind == kind and made.shape == (60, modes.size) and isinstance(made, LinearOperator)
            np.testing.assert_allclose(made @ modes, expected, atol=1e-12 * np.abs(modes).max())
            assert f"degree {degree}" in repr(made) and kind in repr(made)


def test_without_points_it_filters_at_the_quadrature_points(mesh):
    made = repro.siac(pair(mesh), 1, device=DEVICE)
    np.testing.assert_array_equal(made.points, evaluation_points(mesh, 1))
    assert made.scale == mesh.longest and made.shape[0] == 6 * len(mesh.triangles)
    ones = np.zeros((len(mesh.triangles), 3))
    ones[:, 0] = np.sqrt(0.5)  # the first of Dubiner's functions is the root of 2
    np.testing.assert_allclose(made @ ones.ravel(), 1, rtol=1e-13)


@pytest.mark.parametrize("matrix", [True, False])
def test_several_fields_are_filtered_at_once(mesh, points, smooth, matrix):
    made = smooth if matrix else repro.siac(pair(mesh), 1, points, matrix=False, device=DEVICE)
    modes = drawn(mesh, 1, 7)
    expected = np.stack([smooth @ field for field in modes.T], axis=1)
    np.testing.assert_allclose(made @ modes, expected, atol=1e-13)
    np.testing.assert_allclose(made.matmat(np.asfortranarray(modes)), expected, atol=1e-13)
    np.testing.assert_allclose(made.matvec(modes[:, :1]), expected[:, :1], atol=1e-13)
    assert made.matmat(modes[:, :0]).shape == (60, 0)


@pytest.mark.parametrize("matrix", [True, False])
def test_arrays_on_the_device_are_taken_where_they_lie(mesh, points, smooth, put, matrix):
    made = smooth if matrix else repro.siac(pair(mesh), 1, points, matrix=False, device=DEVICE)
    one, several = drawn(mesh, 1), drawn(mesh, 1, 3)
    for modes in (one, several):
        result = made @ put(modes)
        assert type(result).__name__ == "DeviceArray" and result.shape == (60, *modes.shape[1:])
        np.testing.assert_allclose(result.get(), smooth @ modes, atol=1e-13)
    out = put(np.zeros(60))
    assert made.matvec(put(one), out) is out
    np.testing.assert_allclose(out.get(), smooth @ one, atol=1e-13)
    with pytest.raises(ReproError, match="do not match the fields"):
        made.matmat(put(several.T.copy()))
    with pytest.raises(ReproError, match="the wrong dtype"):
        made @ put(several.astype(np.float32))


def test_the_matrix_of_the_filter_is_one_of_scipys(mesh, points, smooth):
    matrix = smooth.to_scipy()
    assert abs(matrix - contour_rows(mesh, points, 1)).max() < 1e-13
    modes = drawn(mesh, 1)
    np.testing.assert_allclose(smooth @ modes, matrix @ modes, atol=1e-13)
    # columns are shared by the rows of a tile
    assert smooth.pairs * 3 * 8 < smooth.nbytes < smooth.pairs * (4 + 3 * 8) + 61 * 8
    assert matrix.nnz <= 3 * smooth.pairs  # images of a triangle are added up
    with pytest.raises(ReproError, match="to_scipy"):
        smooth.rmatvec(np.ones(60))
    with pytest.raises(ReproError, match="not a matrix"):
        repro.siac(pair(mesh), 1, points, matrix=False, device=DEVICE).to_scipy()


@pytest.mark.parametrize(("degree", "basis"), list(product([1, 2], ["dubiner", "lagrange", "monomial"])))
def test_clockwise_triangles_have_modes_of_their_own_numbering(degree, basis):
    """Each triangle's three corners in any order: the field stays what it is, and so do the filtered values."""
    mesh, rng = structured(5), np.random.default_rng(7)
    orders = rng.permuted(np.tile(np.arange(3), (50, 1)), axis=1)
    triangles = np.take_along_axis(mesh.triangles, orders, axis=1)
    turned = triangulation(mesh.vertices, triangles)
    assert 10 < turned.flipped < 40

    def u(x, y):
        return 1 + x - 2 * y + (degree > 1) * (x * y - 3 * y**2)

    # nodes of the reference triangle in the user's numbering, as an independent way to the modes
    nodes = np.random.default_rng(8).dirichlet(np.ones(3), 12)[:, 1:]
    corners = mesh.vertices[triangles]
    there = corners[:, :1] + nodes @ (corners[:, 1:] - corners[:, :1])
    modes = np.linalg.lstsq(evaluate(basis, nodes, degree), u(there[..., 0], there[..., 1]).T, rcond=None)[0].T
    expected = contour_rows(mesh, there[:9, 0], degree, scale=0.2) @ project(mesh, u, degree).ravel()
    for matrix in (True, False):
        made = repro.siac(
            (mesh.vertices, triangles), degree, there[:9, 0], 0.2, basis=basis, matrix=matrix, device=DEVICE
        )
        np.testing.assert_allclose(made @ modes.ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2])
def test_derivatives_of_a_polynomial_are_its_own(degree):
    """On squares cut in half, with h their side, filter and projection together keep degree 2k + 1 (facts by parts)."""
    n = 16
    mesh = structured(n)
    points = np.random.default_rng(4).uniform(0.4, 0.6, (20, 2))
    c = np.random.default_rng(5).standard_normal((2 * degree + 2, 2 * degree + 2))
    c[np.add.outer(range(len(c)), range(len(c))) > 2 * degree + 1] = 0
    power = np.polynomial.polynomial
    modes = project(mesh, lambda x, y: power.polyval2d(x - 0.5, y - 0.5, c), degree).ravel()
    for order in product(range(degree + 1), repeat=2):
        derived = power.polyder(power.polyder(c, order[0], axis=0), order[1], axis=1)
        expected = power.polyval2d(*(points - 0.5).T, derived)
        for matrix, scale in ((True, 1 / n), (False, 1 / n)):
            made = repro.siac(pair(mesh), degree, points, scale, derivative=order, matrix=matrix, device=DEVICE)
            np.testing.assert_allclose(made @ modes, expected, atol=1e-11 * n ** sum(order))


def test_derivatives_by_clipping_and_of_the_reference(mesh, points):
    modes = drawn(mesh, 2)
    for order in ((1, 0), (0, 1), (1, 1)):
        expected = contour_rows(mesh, points, 2, scale=0.1, derivative=order) @ modes
        made = repro.siac(pair(mesh), 2, points, 0.1, derivative=order, device=DEVICE)
        assert made.kind == "clipping" and made.derivative == order and f"{order}" in repr(made)
        np.testing.assert_allclose(made @ modes, expected, atol=1e-11 * np.abs(expected).max())


def test_the_highest_derivative_is_the_slope_of_the_filtered_field(mesh):
    """Of order k, where the kernel's is no longer continuous: by central differences, on a field that jumps."""
    step, modes = np.array([0, 1e-5]), drawn(mesh, 1)
    points = np.random.default_rng(6).uniform(0, 1, (20, 2))
    ends = np.concatenate([points + step, points - step])
    above, below = np.split(repro.siac(pair(mesh), 1, ends, device=DEVICE) @ modes, 2)
    slope = repro.siac(pair(mesh), 1, points, derivative=(0, 1), device=DEVICE) @ modes
    np.testing.assert_allclose(slope, (above - below) / 2e-5, atol=1e-3 * np.abs(slope).max())


def test_nan_reaches_the_points_whose_stencil_meets_the_triangle(points):
    """By clipping and contours the triangle itself, in the matrix, which keeps an entry for it, its bounding box."""
    mesh = hexagonal(9)
    modes = np.zeros((len(mesh.triangles), 3))
    modes[17, 1] = np.nan
    half, period = 2 * mesh.longest, np.array(list(product(range(-2, 3), repeat=2)))
    low, high = mesh.corners[17].min(axis=0) + period, mesh.corners[17].max(axis=0) + period
    there = np.mod(points, 1)[:, None]
    boxed = ((low < there + half) & (high > there - half)).all(axis=2).any(axis=1)
    for kind, scale in (("matrix", mesh.longest), ("contours", mesh.longest), ("clipping", mesh.longest / 2)):
        made = repro.siac(pair(mesh), 1, points, scale, matrix=kind == "matrix", device=DEVICE)
        met = np.isin(np.arange(60), contour_rows(mesh, points, 1, scale=scale)[:, [52]].nonzero()[0])
        assert made.kind == kind and 0 < met.sum() < 60
        np.testing.assert_array_equal(np.isnan(made @ modes.ravel()), boxed if kind == "matrix" else met)


# what a mesh can be ---------------------------------------------------------------------------------------------------


def test_a_mesh_of_meshio_and_a_field(mesh, points, smooth):
    modes = drawn(mesh, 1)
    flat = np.column_stack([mesh.vertices, np.full(len(mesh.vertices), 2.5)])
    read = meshio.Mesh(flat, [("line", [[0, 1]]), ("triangle", mesh.triangles)])
    np.testing.assert_allclose(repro.siac(read, 1, points, device=DEVICE) @ modes, smooth @ modes, atol=1e-13)
    functions = "lagrange"
    field = Field(
        name="mine",
        origin="drawn",
        vertices=mesh.vertices,
        cells=mesh.triangles,
        degree=1,
        basis=functions,
        modes=modes.reshape(-1, 3),
        periodic=True,
    )
    made = repro.siac(field, points=points, device=DEVICE)
    assert (made.degree, made.basis) == (1, functions)
    np.testing.assert_allclose(made @ modes, contour_rows(mesh, points, 1, functions) @ modes, atol=1e-12)
    with pytest.raises(ReproError, match="a different degree"):
        repro.siac(field, 2, points, device=DEVICE)


SQUARE = (np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]]), np.array([[0, 1, 2], [0, 2, 3]]))
TILTED = meshio.Mesh([[0, 0, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0]], [("triangle", SQUARE[1])])
QUADS = meshio.Mesh(np.column_stack([SQUARE[0], np.zeros(4)]), [("quad", [[0, 1, 2, 3]])])


def as_meshio(**changes):
    """Return what looks like a mesh of meshio, wrong in parts."""
    return type("", (), {"points": SQUARE[0], "cells_dict": {"triangle": SQUARE[1]}, **changes})


REFUSED = {
    "not a mesh": (dict(mesh=3), "not a mesh"),
    "ragged triangles": (dict(mesh=(SQUARE[0], [[0, 1, 2], [0]])), "not an array"),
    "no plane": (dict(mesh=TILTED), "not in a plane"),
    "quadrilaterals": (dict(mesh=QUADS), "the mesh has other cells"),
    "a gap": (dict(mesh=(SQUARE[0], SQUARE[1][:1])), "gaps or overlaps"),
    "points on a line": (dict(mesh=as_meshio(points=np.zeros(4))), "not a mesh of meshio"),
    "points in four dimensions": (dict(mesh=as_meshio(points=np.zeros((4, 4)))), "not a mesh of meshio"),
    "no vertices": (dict(mesh=as_meshio(points=np.zeros((0, 3)))), "do not exist"),
    "cells of no kind": (dict(mesh=as_meshio(cells_dict=None)), "not a mesh of meshio"),
    "ragged cells": (dict(mesh=as_meshio(cells_dict={"triangle": [[0, 1, 2], [0]]})), "not an array"),
    "no degree": (dict(degree=None), "no degree was given"),
    "a high degree": (dict(degree=4), "from 0 to 3"),
    "a basis": (dict(basis="legendre"), "unknown basis"),
    "points in space": (dict(points=np.zeros((3, 3))), r"\(n, 2\)"),
    "points that are none": (dict(points=np.full((2, 2), np.nan)), "not finite"),
    "no points": (dict(points=np.zeros((0, 2))), "no points were given"),
    "points past 53 bits": (dict(points=[[2**53 + 1, 0]]), r"represented in float64[\s\S]*points\[0, 0\]"),
    "points past double precision": (dict(points=np.full((2, 2), np.longdouble("1e400"))), "represented in float64"),
    "vertices past double precision": (
        dict(mesh=(SQUARE[0] * np.longdouble("1e400"), SQUARE[1])),
        "represented in float64",
    ),
    "words as points": (dict(points=[["a", "b"]]), "not real numbers"),
    "masked points": (dict(points=np.ma.masked_array([[0.2, 0.1]], [[1, 0]])), "mask"),
    "a masked scale": (dict(scale=np.ma.masked_array([0.5], [1])), "mask"),
    "masked triangles": (dict(mesh=(SQUARE[0], np.ma.masked_array(SQUARE[1], SQUARE[1] > 2))), "mask"),
    "ragged points": (dict(points=[[0, 1], [2]]), "not an array"),
    "no scale": (dict(scale=0), "positive"),
    "a wide scale": (dict(scale=99), "too many periodic images"),
    "several scales": (dict(scale=[0.5, 0.5]), r"one, or 12\n  actual: \(2,\)"),
    "a word for h": (dict(scale="longest"), "local"),
    "a small scale for a matrix": (dict(scale=0.7, matrix=True), "wider than a square"),
    "a high derivative": (dict(derivative=(2, 0)), "no derivative of this order"),
    "a negative derivative": (dict(derivative=(-1, 0)), "derivative"),
    "one derivative": (dict(derivative=1), "not a derivative"),
    "a wish": (dict(matrix="yes"), "unknown value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_one_message(name):
    change, message = REFUSED[name]
    with pytest.raises(ReproError, match=message):
        repro.siac(**{"mesh": SQUARE, "degree": 1, "device": DEVICE, **change})


def test_modes_that_do_not_fit_are_one_message(mesh, smooth):
    modes = drawn(mesh, 1)
    for use in (smooth.matvec, smooth.dot, smooth.matmat):
        with pytest.raises(ReproError, match=r"reshape\(-1\)"):
            use(modes.reshape(-1, 3))
        with pytest.raises(ReproError, match="imaginary"):
            use(modes.reshape(-1, 1) * 1j)
        with pytest.raises(ReproError, match="not real numbers"):
            use(modes.reshape(-1, 1).astype(str))
    np.testing.assert_allclose((2 * smooth) @ modes, 2 * (smooth @ modes))


def test_a_stencil_of_very_many_triangles_is_told_beforehand(mesh, monkeypatch):
    monkeypatch.setattr("repro.operators.siac_filter.MANY", 900)
    with pytest.warns(RuntimeWarning, match="this takes long") as told:
        wide = repro.siac(pair(mesh), 1, [[0.5, 0.5]], 1, device=DEVICE)
    assert told[0].filename == __file__
    assert 900 < wide.pairs < 1.3 * int(str(told[0].message).split()[3].replace(",", ""))


# memory ---------------------------------------------------------------------------------------------------------------


def test_where_the_matrix_does_not_fit_it_filters_without(mesh, points, smooth, monkeypatch):
    device, modes = open_runtime(DEVICE).device, drawn(mesh, 1)
    with monkeypatch.context() as patch:
        patch.setattr(device, "free_bytes", lambda: smooth.nbytes)
        made = repro.siac(pair(mesh), 1, points, device=DEVICE)
        assert made.kind == "contours" and (made.pairs, made.nbytes) == (smooth.pairs, smooth.nbytes)
        np.testing.assert_allclose(made @ modes, smooth @ modes, atol=1e-13)
        assert repro.siac(pair(mesh), 1, points, matrix=True, device=DEVICE).kind == "matrix"
        patch.setattr(device, "free_bytes", lambda: smooth.nbytes - 1)
        with pytest.raises(ReproError, match=f"{smooth.nbytes:,} bytes"):
            repro.siac(pair(mesh), 1, points, matrix=True, device=DEVICE)
    # where nobody knew that it would not
    allocate = device.allocate

    def refuse_values(nbytes):
        if nbytes == smooth.pairs * 24:
            raise OutOfDeviceMemory("it is full")
        return allocate(nbytes)

    monkeypatch.setattr(device, "allocate", refuse_values)
    assert repro.siac(pair(mesh), 1, points, device=DEVICE).kind == "contours"
    with pytest.raises(ReproError, match="the device is out of memory"):
        repro.siac(pair(mesh), 1, points, matrix=True, device=DEVICE)


def test_a_matrix_of_more_entries_than_31_bits_count_is_predicted(mesh, monkeypatch):
    points = np.random.default_rng(2).random((500, 2))
    with monkeypatch.context() as patch:
        patch.setattr(LaunchContext, "download", lambda self, buffer, count, dtype: np.full(count, 1 << 30, dtype))
        made = repro.siac(pair(mesh), 1, points, device=DEVICE)
        with pytest.raises(ReproError, match=f"{made.nbytes:,} bytes: {made.pairs:,} triangles at 500 points"):
            repro.siac(pair(mesh), 1, points, matrix=True, device=DEVICE)
    assert made.kind == "contours" and made.pairs % (1 << 30) == 0 and made.pairs >= 1 << 32
    assert made.nbytes > 24 * made.pairs
    np.testing.assert_allclose(made @ np.ones(made.shape[1]), contour_rows(mesh, points, 1) @ np.ones(made.shape[1]))


@pytest.mark.parametrize("nth", [0, 1, 2])
@pytest.mark.parametrize("matrix", [True, False])
def test_a_full_device_is_one_message_and_gives_all_back(mesh, points, monkeypatch, matrix, nth):
    held = fill_after(monkeypatch, open_runtime(DEVICE).device, nth)
    with pytest.raises(ReproError, match="the device is out of memory"):
        repro.siac(pair(mesh), 1, points, matrix=matrix, device=DEVICE)
    assert not held


@pytest.mark.parametrize("matrix", [True, False])
def test_closing_gives_memory_back(mesh, points, monkeypatch, matrix):
    device = open_runtime(DEVICE).device
    held = fill_after(monkeypatch, device, 1000)
    with repro.siac(pair(mesh), 1, points, matrix=matrix, device=DEVICE) as made:
        assert held
        made.matmat(drawn(mesh, 1, 2))
    made.close()
    assert not [buffer for buffer in held if buffer.nbytes > 60 * 8 * 2]
    with pytest.raises(ReproError, match="closed"):
        made @ drawn(mesh, 1)
    with pytest.raises(ReproError, match="closed"):
        made.to_scipy()


@pytest.mark.parametrize("matrix", [True, False])
def test_threads_share_it(mesh, points, smooth, matrix):
    made = repro.siac(pair(mesh), 1, points, matrix=matrix, device=DEVICE)
    fields = [drawn(mesh, 1, seed=seed) for seed in range(4)]
    wrong = []

    def work(modes):
        expected = smooth.to_scipy() @ modes
        wrong.extend(1 for _ in range(20) if np.abs(made @ modes - expected).max() > 1e-12)

    threads = [threading.Thread(target=work, args=(modes,)) for modes in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
