"""Every way to filter on a GPU, with every number of threads, against rows computed by NumPy."""

import numpy as np
import pytest

from repro.filtering.kernels import BLOCK_SIZES, CONTOUR_BLOCK_SIZES
from repro.filtering.reference import contour_rows
from repro.filtering.stencil_geometry import point_scales
from support.siac_on_devices import (
    WAYS,
    bound_of,
    filtered,
    filtered_locally,
    matrix_and_products,
    random_modes,
    siac_loader,
)
from support.triangulations import graded, hexagonal, one_huge, structured

pytestmark = pytest.mark.gpu

MESHES = {
    "structured": structured(6),
    "delaunay": hexagonal(20),
    "graded": graded(8),
    "one huge": one_huge(),
    "two": structured(1),
}
degrees = pytest.mark.parametrize("degree", [1, 2, 3])


@pytest.fixture(scope="module")
def load(gpu, templates, tmp_path_factory):
    return siac_loader(gpu, templates, tmp_path_factory.mktemp("siac"))


def anywhere(count, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 1.5, (count, 2))


@degrees
@pytest.mark.parametrize(
    "way, threads",
    [(way, n_t) for way in WAYS for n_t in (CONTOUR_BLOCK_SIZES if way == "edges" else BLOCK_SIZES)["cuda"]],
)
@pytest.mark.parametrize("name", MESHES)
def test_a_field_is_filtered_as_by_numpy(gpu, load, way, degree, threads, name):
    mesh, points = MESHES[name], anywhere(300)
    rows, modes = contour_rows(mesh, points, degree), random_modes(mesh, degree)
    result = filtered(gpu, load, way, mesh, points, degree, modes, threads=threads)
    assert (np.abs(result - rows @ modes.ravel()) <= bound_of(rows, modes, mesh, degree)).all()


@degrees
@pytest.mark.parametrize("threads", CONTOUR_BLOCK_SIZES["cuda"])
@pytest.mark.parametrize("name", MESHES)
def test_the_matrix_is_that_of_numpy(gpu, load, degree, threads, name):
    mesh, points = MESHES[name], anywhere(300)
    rows, modes = contour_rows(mesh, points, degree), random_modes(mesh, degree, 7)
    matrix, products = matrix_and_products(gpu, load, mesh, points, degree, modes, threads=threads)
    assert abs(matrix - rows).max() <= 1e-12
    difference = np.abs(products - rows @ modes.reshape(-1, 7))
    for field in range(7):
        assert (difference[:, field] <= bound_of(rows, modes[:, :, field], mesh, degree)).all()


@degrees
@pytest.mark.parametrize("threads", BLOCK_SIZES["cuda"])
@pytest.mark.parametrize("name", MESHES)
def test_points_with_an_h_of_their_own_are_filtered_as_by_numpy(gpu, load, degree, threads, name):
    mesh, points = MESHES[name], anywhere(300)
    scales, modes = point_scales(mesh, points), random_modes(mesh, degree)
    rows = contour_rows(mesh, points, degree, scale=scales)
    result, _ = filtered_locally(gpu, load, mesh, points, degree, modes, scales, threads=threads)
    assert (np.abs(result - rows @ modes.ravel()) <= bound_of(rows, modes, mesh, degree)).all()
