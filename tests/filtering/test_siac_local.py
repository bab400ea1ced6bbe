"""The filter with an h of each point, on the CPU by OpenCL, and CUDA's text in an emulator, against rows by NumPy."""

from functools import cache

import numpy as np
import pytest

from repro.filtering.reference import contour_rows, count_work
from repro.filtering.stencil_geometry import point_scales
from repro.galerkin import BASES
from support.clipped_rows import clipped_rows
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.siac_on_devices import bound_of, filtered, filtered_locally, random_modes, siac_loader
from support.triangulations import graded, hexagonal, one_huge, structured

pytestmark = pytest.mark.medium

MESHES = {"delaunay": hexagonal(8), "graded": graded(6), "one huge": one_huge(), "two": structured(1)}
degrees = pytest.mark.parametrize("degree", [0, 1, 2, 3])


@pytest.fixture(scope="module", params=["cpu", pytest.param("emulated", marks=needs_compiler)])
def any_device(request):
    return EmulatedCuda() if request.param == "emulated" else request.getfixturevalue("cpu_device")


@pytest.fixture(scope="module")
def load(any_device, templates, built_folder):
    return siac_loader(any_device, templates, built_folder / "siac")


def anywhere(count, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 1.5, (count, 2))


@cache  # seconds, on each device
def rows_of(name, degree):
    """Return the rows by contours and by clipping, of an h of each point."""
    mesh, points = MESHES[name], anywhere(30)
    scales = point_scales(mesh, points)
    return [made(mesh, points, degree, scale=scales) for made in (contour_rows, clipped_rows)]


@pytest.mark.sampled(4)
@degrees
@pytest.mark.parametrize("name", MESHES)
def test_local_scales_give_what_numpy_gives(any_device, load, degree, name):
    mesh, points = MESHES[name], anywhere(30)
    scales, modes = point_scales(mesh, points), random_modes(mesh, degree)
    result, count = filtered_locally(any_device, load, mesh, points, degree, modes, scales)
    bound = bound_of(rows_of(name, degree)[0], modes, mesh, degree)
    for expected in rows_of(name, degree):
        assert (np.abs(result - expected @ modes.ravel()) <= bound).all()
    # a square is met by the box around a triangle where the triangle itself may miss it
    met = count_work(mesh, points, degree, scales).pairs.sum()
    assert met <= count <= 1.5 * met


@pytest.mark.parametrize("basis", BASES)
def test_scales_of_all_sizes_are_taken_in_any_basis(any_device, load, basis):
    """Far smaller than a triangle and many times as wide, whatever the neighbours have."""
    mesh, points = MESHES["delaunay"], anywhere(30)
    scales = mesh.longest * np.geomspace(0.02, 2.0, 30)
    modes = random_modes(mesh, 2)
    rows = clipped_rows(mesh, points, 2, basis, scales)
    result, _ = filtered_locally(any_device, load, mesh, points, 2, modes, scales, basis=basis)
    assert (np.abs(result - rows @ modes.ravel()) <= 4 * bound_of(rows, modes, mesh, 2)).all()


@pytest.mark.parametrize("derivative", [(1, 0), (1, 1), (0, 2)])
def test_derivatives_are_those_of_each_points_filter(any_device, load, derivative):
    mesh, points = MESHES["graded"], anywhere(20)
    scales, modes = point_scales(mesh, points), random_modes(mesh, 3)
    expected = contour_rows(mesh, points, 3, scale=scales, derivative=derivative) @ modes.ravel()
    result, _ = filtered_locally(any_device, load, mesh, points, 3, modes, scales, derivative=derivative)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_one_scale_for_all_points_is_the_papers_way_to_the_bit(any_device, load):
    mesh, points = MESHES["graded"], anywhere(20)
    modes, scales = random_modes(mesh, 2), np.full(20, mesh.longest)
    result, _ = filtered_locally(any_device, load, mesh, points, 2, modes, scales)
    papers = filtered(any_device, load, "point", mesh, points, 2, modes)
    np.testing.assert_array_equal(result, papers)


def test_threads_change_nothing_but_the_order_of_sums(any_device, load):
    mesh, points = MESHES["graded"], anywhere(20)
    modes, scales = random_modes(mesh, 2), point_scales(mesh, points)
    threads = (32, 64, 128, 256) if any_device.backend == "cuda" else (16, 64)
    results = [filtered_locally(any_device, load, mesh, points, 2, modes, scales, threads=n_t)[0] for n_t in threads]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-13)
