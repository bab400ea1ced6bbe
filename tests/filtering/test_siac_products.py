"""Products with many fields, whose small products take modes of several triangles, by the warps of an emulated GPU."""

from contextlib import ExitStack

import numpy as np
import pytest

from repro.filtering.grids import SortedCells
from repro.filtering.kernels import DEGREES
from repro.filtering.matrix import MatrixRows
from repro.filtering.matrix_free import Points, Stencil
from repro.galerkin import mode_count
from repro.sparse.device_primitives import LaunchContext
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.siac_on_devices import check_shares, siac_loader
from support.triangulations import hexagonal

pytestmark = [needs_compiler, pytest.mark.medium]
POINTS = 21


@pytest.fixture(scope="module")
def load(templates, built_folder):
    return siac_loader(EmulatedCuda(), templates, built_folder / "siac")


@pytest.fixture(scope="module", params=[*DEGREES[:-1], pytest.param(DEGREES[-1], marks=pytest.mark.exhaustive)])
def case(request, load):
    """The matrix of a degree, and its mesh."""
    degree, mesh = request.param, hexagonal(7 if request.param == 1 else 4)
    points = np.random.default_rng(3).uniform(-0.2, 1.2, (POINTS, 2))
    with ExitStack() as held:
        launches = LaunchContext(EmulatedCuda(), load, held)
        rows = MatrixRows(launches, Stencil(mesh, degree, mesh.longest), Points(launches, SortedCells(mesh, points)))
        yield rows.make(rows.count(), held), mesh


def products(matrix, modes, fields, shares):
    launches = matrix.launches
    result = launches.numbers(POINTS * fields, np.float64)
    launches.device.fill(result, 0xFF)
    matrix.bind(launches.upload(modes), result, fields, shares)()
    return launches.download(result, POINTS * fields, np.float64).reshape(POINTS, fields)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fields", [8, 16, 29])
@pytest.mark.parametrize("shares", [1, 2])
def test_products_are_those_of_the_matrix(case, fields, shares):
    matrix, mesh = case
    modes = np.random.default_rng(fields).standard_normal(
        (len(mesh.triangles), mode_count(matrix.degree, 2), fields)
    )  # fmt: skip
    expected = matrix.download() @ modes.reshape(-1, fields)
    np.testing.assert_allclose(products(matrix, modes, fields, shares), expected, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("case", [0, 1], indirect=True)  # of higher degrees every row has all of so few triangles
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_rows_with_an_entry(case, number):
    matrix, mesh = case
    modes = np.random.default_rng(1).standard_normal((len(mesh.triangles), mode_count(matrix.degree, 2), 8))
    rows = np.bincount(matrix.download().indices // modes.shape[1], minlength=len(modes)) / modes.shape[1]
    for field, triangle in enumerate(np.argsort(abs(rows - POINTS / 3))[:8]):  # some rows of a tile have it
        modes[triangle, triangle % modes.shape[1], field] = number
    expected = matrix.download() @ modes.reshape(-1, 8)
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    values = products(matrix, modes, 8, 1)
    np.testing.assert_array_equal(np.isnan(values), np.isnan(expected))
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.sampled(2)
def test_warps_that_share_tiles_make_the_product_of_one_warp(case):
    matrix, mesh = case
    modes = np.random.default_rng(5).standard_normal((len(mesh.triangles), mode_count(matrix.degree, 2), 16))
    check_shares(matrix.launches, matrix, matrix.launches.upload(modes), POINTS, 16)
