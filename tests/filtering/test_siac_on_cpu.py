"""Every way to filter, on the CPU by OpenCL, and CUDA's text in an emulator, against rows computed by NumPy."""

from contextlib import ExitStack
from functools import cache

import numpy as np
import pytest

from repro.errors import ReproError, Unsupported
from repro.filtering.grids import bisected, evaluation_points, grid_of_points, parts_of, patches_of
from repro.filtering.kernels import CONTOUR_BLOCK_SIZES
from repro.filtering.matrix import MatrixRows
from repro.filtering.matrix_free import Stencil
from repro.filtering.reference import contour_rows
from repro.galerkin import BASES, mode_count, to_monomials
from support.clipped_rows import clipped_rows
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.siac_on_devices import (
    WAYS,
    bound_of,
    filtered,
    matrix_and_products,
    random_modes,
    siac_loader,
    stencil_on,
)
from support.triangulations import graded, hexagonal, one_huge, structured

pytestmark = pytest.mark.medium

MESHES = {
    "structured": structured(6),
    "sheared": structured(5, 0.1),
    "delaunay": hexagonal(8),
    "graded": graded(6),
    "one huge": one_huge(),
    "two": structured(1),
}
degrees = pytest.mark.parametrize("degree", [1, 2, 3])
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module", params=["cpu", pytest.param("emulated", marks=needs_compiler)])
def any_device(request):
    return EmulatedCuda() if request.param == "emulated" else request.getfixturevalue("cpu_device")


@pytest.fixture(scope="module")
def load(any_device, templates, built_folder):
    return siac_loader(any_device, templates, built_folder / "siac")


def anywhere(count, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 1.5, (count, 2))


@cache  # up to a second, for each way on each device
def rows_of(name, degree, count):
    return contour_rows(MESHES[name], anywhere(count), degree)


@pytest.mark.sampled(10)
@pytest.mark.slow
@degrees
@ways
@pytest.mark.parametrize("name", MESHES)
def test_a_field_is_filtered_as_by_numpy(any_device, load, way, degree, name):
    mesh, points = MESHES[name], anywhere(40)
    rows, modes = rows_of(name, degree, len(points)), random_modes(mesh, degree)
    result = filtered(any_device, load, way, mesh, points, degree, modes)
    assert (np.abs(result - rows @ modes.ravel()) <= bound_of(rows, modes, mesh, degree)).all()


@pytest.mark.sampled(4)
@pytest.mark.slow
@degrees
@pytest.mark.parametrize("name", MESHES)
def test_the_matrix_is_that_of_numpy(any_device, load, degree, name):
    mesh, points = MESHES[name], anywhere(40)
    rows, modes = rows_of(name, degree, len(points)), random_modes(mesh, degree, 7)
    matrix, products = matrix_and_products(any_device, load, mesh, points, degree, modes)
    assert abs(matrix - rows).max() <= 1e-12
    difference = np.abs(products - rows @ modes.reshape(-1, 7))
    for field in range(7):
        assert (difference[:, field] <= bound_of(rows, modes[:, :, field], mesh, degree)).all()


@pytest.mark.slow
@degrees
@pytest.mark.parametrize("basis", BASES)
def test_rows_add_up_to_one_in_any_basis(any_device, load, degree, basis):
    mesh, points = MESHES["graded"], anywhere(30)
    ones = constant_modes(degree, basis)
    modes = np.broadcast_to(ones[None, :, None], (len(mesh.triangles), len(ones), 1))
    _, products = matrix_and_products(any_device, load, mesh, points, degree, modes, basis=basis)
    np.testing.assert_allclose(products, 1, rtol=0, atol=1e-12)


def constant_modes(degree, basis):
    """Return the modes of the function that is one."""
    wanted = np.zeros(mode_count(degree, 2))
    wanted[0] = 1
    return np.linalg.solve(to_monomials(basis, degree, 2).T, wanted)


@pytest.mark.slow
@ways
@pytest.mark.parametrize("cell", [0.3, 2.0])
def test_cells_of_any_size_find_the_same(any_device, load, way, cell):
    mesh, points = MESHES["delaunay"], anywhere(30)
    modes = random_modes(mesh, 2)
    rows = rows_of("delaunay", 2, len(points))
    result = filtered(any_device, load, way, mesh, points, 2, modes, cell=cell)
    assert (np.abs(result - rows @ modes.ravel()) <= bound_of(rows, modes, mesh, 2)).all()


@pytest.mark.parametrize("way", ["point", "element"])
def test_a_stencil_finer_than_the_triangles_is_clipped(any_device, load, way):
    mesh, points = MESHES["delaunay"], anywhere(30)
    scale, modes = 0.3 * mesh.longest, random_modes(mesh, 2)
    rows = clipped_rows(mesh, points, 2, scale=scale)
    result = filtered(any_device, load, way, mesh, points, 2, modes, scale=scale)
    assert (np.abs(result - rows @ modes.ravel()) <= bound_of(rows, modes, mesh, 2)).all()


@pytest.mark.wording
def test_contours_refuse_a_stencil_finer_than_the_triangles(any_device, load):
    mesh, points = MESHES["delaunay"], anywhere(3)
    with pytest.raises(ReproError, match="wider than a square of the stencil"):
        filtered(any_device, load, "edges", mesh, points, 1, random_modes(mesh, 1), scale=0.3 * mesh.longest)
    with stencil_on(any_device, load, mesh, points, 1, 0.3 * mesh.longest) as given, ExitStack() as held:
        rows = MatrixRows(*given)
        starts = rows.count()  # how large it would be is known
        with pytest.raises(ReproError, match="filter per point or per element"):
            rows.make(starts, held)


def test_nan_in_one_of_many_fields_reaches_its_values_alone(any_device, load):
    mesh, points = MESHES["delaunay"], anywhere(60)
    modes = random_modes(mesh, 1, 9)
    modes[5, 1, 3] = np.nan
    matrix, products = matrix_and_products(any_device, load, mesh, points, 1, modes)
    meets = np.diff(matrix[:, 15:18].indptr) > 0
    assert 0 < meets.sum() < len(points)
    np.testing.assert_array_equal(np.isnan(products[:, 3]), meets)
    assert np.isfinite(np.delete(products, 3, axis=1)).all()


@pytest.mark.sampled(6)
@ways
def test_points_on_vertices_edges_and_knot_lines(any_device, load, way):
    mesh = MESHES["structured"]
    middles = mesh.corners.mean(axis=1)
    points = np.concatenate([mesh.vertices, (mesh.corners[:, 0] + mesh.corners[:, 1]) / 2, middles, middles[:2]])
    rows, modes = contour_rows(mesh, points, 2, scale=1 / 6), random_modes(mesh, 2)
    result = filtered(any_device, load, way, mesh, points, 2, modes, scale=1 / 6)
    assert (np.abs(result - rows @ modes.ravel()) <= bound_of(rows, modes, mesh, 2)).all()
    # equal points: their parts are added up by other threads
    np.testing.assert_allclose(result[-1], result[-1 - len(middles)], rtol=1e-13)


@pytest.mark.sampled(4)
@pytest.mark.slow
@ways
def test_a_mode_that_is_no_number_reaches_the_points_whose_stencil_meets_it(any_device, load, way):
    mesh, points = MESHES["delaunay"], evaluation_points(MESHES["delaunay"], 1)[::7]
    modes = random_modes(mesh, 1)
    modes[5] = np.nan
    rows = contour_rows(mesh, points, 1, scale=mesh.longest)
    meets = abs(rows[:, 15:18]).sum(axis=1) > 1e-14
    result = filtered(any_device, load, way, mesh, points, 1, modes)
    assert np.isnan(result[meets]).all()
    assert meets.any()
    far = abs(rows[:, 15:18]).sum(axis=1) == 0
    assert far.any() and np.isfinite(result[far]).all()


@degrees
def test_a_smaller_table_of_threads_changes_nothing_but_the_order_of_sums(any_device, load, degree):
    mesh, points = MESHES["graded"], anywhere(20)
    modes = random_modes(mesh, degree)
    threads = CONTOUR_BLOCK_SIZES[any_device.backend]
    results = [filtered(any_device, load, "edges", mesh, points, degree, modes, threads=n_t) for n_t in threads]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_device_without_atomic_sums_is_told(cpu_device, load, monkeypatch):
    mesh = MESHES["two"]
    monkeypatch.setattr(cpu_device, "extensions", frozenset({"cl_khr_fp64"}))
    with pytest.raises(Unsupported, match="lacks cl_khr_int64_base_atomics"):
        filtered(cpu_device, load, "atomic", mesh, anywhere(3), 1, random_modes(mesh, 1))


# patches


@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_patches_have_each_triangle_once_and_about_as_many(count):
    mesh = MESHES["delaunay"]
    parts = bisected(mesh.corners.mean(axis=1), count)
    assert len(parts) == count
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(mesh.triangles)))
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1 + count.bit_length()


def test_patches_are_cut_by_weight():
    positions = np.stack([np.linspace(0, 1, 100), np.zeros(100)], axis=1)
    weights = np.where(positions[:, 0] < 0.1, 9.0, 1.0)
    light, heavy = sorted(bisected(positions, 2, weights), key=len, reverse=True)
    assert abs(weights[light].sum() - weights[heavy].sum()) <= 10


def test_there_are_no_more_patches_than_triangles_and_copies_cover_the_points():
    mesh = MESHES["two"]
    points = anywhere(9)
    grid = grid_of_points(mesh, points)
    patches = patches_of(mesh, grid, Stencil(mesh, 1, mesh.longest).half, parts_of(mesh, 100))
    assert len(patches.starts) == 3
    assert patches.copies >= 2 * len(points)
    assert patches.overhead(len(points)) == patches.copies / len(points) - 1
