"""The text of the filter's kernels that a GPU runs, with its warps, on the CPU: against the rows in NumPy."""

from contextlib import ExitStack

import numpy as np
import pytest

from repro.filtering.grids import SortedCells
from repro.filtering.kernels import FIELDS as FIELD_COUNTS
from repro.filtering.matrix import MatrixRows
from repro.filtering.matrix_free import PerElement, PerElementAtomic, PerPoint, Points, Stencil
from repro.filtering.reference import contour_rows
from repro.galerkin import evaluate
from repro.sparse.device_primitives import LaunchContext
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.siac_on_devices import check_shares, siac_loader
from support.triangulations import hexagonal

pytestmark = pytest.mark.medium

DEGREE, FIELDS = 2, 29
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.5], [0.5, 0.0]])


@pytest.fixture(scope="module")
def load(templates, built_folder):
    """Modules by their names, compiled at first use."""
    return siac_loader(EmulatedCuda(), templates, built_folder / "siac")


@pytest.fixture(scope="module")
def case():
    """A mesh, points, the triangles that came clockwise, modes of several fields, and what becomes of these."""
    rng, mesh = np.random.default_rng(2), hexagonal(4)
    points, clockwise = rng.uniform(-0.2, 1.2, (9, 2)), rng.random(len(mesh.triangles)) < 0.5
    modes = rng.standard_normal((len(mesh.triangles), 6, FIELDS))
    # a polynomial of degree 2 is what it is at six points, which lie elsewhere where corners are exchanged
    plain, exchanged = (evaluate("dubiner", nodes, DEGREE) for nodes in (CORNERS, CORNERS[:, ::-1]))
    turned = np.where(clockwise[:, None, None], np.linalg.solve(plain, exchanged) @ modes, modes)
    return mesh, points, clockwise, modes, turned.reshape(-1, FIELDS)


@pytest.mark.sampled(2)
@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", ["edges", "point", "element", "atomic", "matrix"])
@pytest.mark.parametrize("derivative", [(0, 0), (1, 0), (0, 1)])
def test_values_are_those_of_the_rows(load, case, way, derivative):
    mesh, points, clockwise, modes, turned = case
    expected = contour_rows(mesh, points, DEGREE, derivative=derivative) @ turned
    stencil = Stencil(mesh, DEGREE, mesh.longest, derivative, clockwise)
    with ExitStack() as held:
        launches = LaunchContext(EmulatedCuda(), load, held)
        there = Points(launches, SortedCells(mesh, points))
        if way == "matrix":
            rows = MatrixRows(launches, stencil, there, threads=32)
            made = rows.make(rows.count(), held)
        elif way in ("element", "atomic"):
            made = (PerElement if way == "element" else PerElementAtomic)(launches, stencil, there, threads=32)
        else:
            made = PerPoint(launches, stencil, there, method=way, threads=32, blocks=2)
        for fields in (FIELDS, 3):  # all numbers that are taken at a time: 16, 8, 4 and 1; 2 and 1
            there, wanted = np.ascontiguousarray(modes[..., :fields]), expected[:, :fields]
            result = launches.numbers(wanted.size, np.float64)
            made.bind(launches.upload(there), result, fields)()
            values = launches.download(result, wanted.size, np.float64).reshape(wanted.shape)
            np.testing.assert_allclose(values, wanted, atol=1e-12 * np.abs(wanted).max())


@needs_compiler
@pytest.mark.parametrize("fields", FIELD_COUNTS)
def test_warps_that_share_tiles_make_the_product_of_one_warp(load, case, fields):
    mesh, points, _, modes, _ = case
    with ExitStack() as held:
        launches = LaunchContext(EmulatedCuda(), load, held)
        rows = MatrixRows(
            launches, Stencil(mesh, DEGREE, mesh.longest), Points(launches, SortedCells(mesh, points)), threads=32
        )
        matrix = rows.make(rows.count(), held)
        assert matrix.size.columns > 128 * matrix.size.tiles  # of 32 columns at the least, each share
        modes = launches.upload(np.ascontiguousarray(modes[..., :fields]))
        check_shares(launches, matrix, modes, len(points), fields)
