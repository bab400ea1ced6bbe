"""The filter's rows, both ways: what they reproduce, how they converge, and the places where points may lie."""

from functools import partial

import numpy as np
import pytest

from repro.filtering.grids import evaluation_points, triangulation
from repro.filtering.matrix import MatrixSize
from repro.filtering.reference import contour_rows
from repro.galerkin import BASES, exponents, mode_count
from support.clipped_rows import clipped_rows
from support.triangulations import exact_modes, graded, hexagonal, one_huge, project, sliver, structured

pytestmark = pytest.mark.medium

edge_rows = partial(contour_rows, start="edge")
WAYS = {"clipped": clipped_rows, "contour": contour_rows, "edge": edge_rows}
ways = pytest.mark.parametrize("rows", WAYS.values(), ids=WAYS)
degrees = pytest.mark.parametrize("degree", [1, 2, 3])
MESHES = {
    "structured": structured(8),
    "sheared": structured(6, 0.1),
    "delaunay": hexagonal(10),
    "graded": graded(8),
    "one huge": one_huge(),
    "eight": structured(2),
    "two": structured(1),
}
meshes = pytest.mark.parametrize("name", MESHES)


def around_centre(count, reach, seed=0):
    return 0.5 + np.random.default_rng(seed).uniform(-reach, reach, (count, 2))


def anywhere(count, seed=0):
    return np.random.default_rng(seed).uniform(-0.5, 1.5, (count, 2))


@pytest.mark.sampled(8)
@ways
@degrees
@pytest.mark.parametrize(("name", "part"), [("structured", 0.9), ("sheared", 0.8), ("delaunay", 0.6)])
def test_polynomials_are_reproduced_on_any_mesh_with_any_scale(rows, degree, name, part):
    """x^a y^b for a, b up to 2k + 1, exact fields; one degree more is not."""
    mesh, highest = MESHES[name], 2 * degree + 1
    points = around_centre(3, 0.04)
    h = part / (3 * degree + 1)  # the stencils stay inside the box
    operator = rows(mesh, points, degree, "monomial", h, field_degree=2 * highest)

    def filtered(a, b):
        modes = np.zeros((len(mesh.triangles), mode_count(2 * highest, 2)))
        lower = exact_modes(mesh, a, b)  # monomials come by their degree
        modes[:, : lower.shape[1]] = lower
        return operator @ modes.ravel()

    x, y = points.T
    for a in range(highest + 1):
        for b in range(highest + 1):
            np.testing.assert_allclose(filtered(a, b), x**a * y**b, rtol=0, atol=1e-13)
    assert np.abs(filtered(highest + 1, 0) - x ** (highest + 1)).min() > 1e-9


@ways
@degrees
def test_projections_of_polynomials_are_restored_on_a_structured_mesh(rows, degree):
    """filter(project(p)) = p up to total degree 2k + 1 if h is the mesh's own spacing, and only then."""
    n = 4 * degree + 3  # the stencils stay inside the box
    mesh, points = structured(n), around_centre(4, 0.4 / n)

    def worst(h):
        operator = rows(mesh, points, degree, scale=h)
        return max(
            np.abs(
                operator @ project(mesh, lambda x, y, p=p: x ** p[0] * y ** p[1], degree).ravel()
                - points[:, 0] ** p[0] * points[:, 1] ** p[1]
            ).max()
            for p in exponents(2 * degree + 1, 2)
        )

    assert worst(1 / n) < 1e-13
    assert worst(1.3 / n) > 1e-10


@pytest.mark.sampled(36)
@ways
@meshes
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("h", [None, 0.31, 0.07])
def test_a_constant_is_kept(rows, name, degree, h):
    """With stencils wider than the box, and with scales below the longest edge."""
    mesh = MESHES[name]
    ones = project(mesh, lambda x, y: np.ones_like(x), degree, extra=0)
    np.testing.assert_allclose(rows(mesh, anywhere(5), degree, scale=h) @ ones.ravel(), 1, atol=4e-15)


@pytest.mark.sampled(16)
@meshes
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("h", [None, 0.31, 0.07])
def test_both_ways_agree(name, degree, h):
    mesh = MESHES[name]
    clipped, *contours = (rows(mesh, anywhere(5), degree, scale=h) for rows in WAYS.values())
    for contour in contours:
        np.testing.assert_array_equal(clipped.indptr, contour.indptr)
        np.testing.assert_array_equal(clipped.indices, contour.indices)
        np.testing.assert_allclose(clipped.data, contour.data, rtol=0, atol=2e-13)


@degrees
@pytest.mark.parametrize("thickness", [1e-1, 1e-2, 1e-3, 1e-6])
def test_both_ways_agree_as_far_as_thin_triangles_let_them(degree, thickness):
    mesh, points = sliver(thickness), anywhere(5)
    clipped, contour, edge = (rows(mesh, points, degree, scale=0.3) for rows in WAYS.values())
    assert np.abs(clipped - edge).max() < 1e-13
    boxes = np.ptp(mesh.corners, axis=1).prod(axis=1)
    bound = 100 * np.finfo(float).eps * (boxes / mesh.areas).max() ** degree
    assert np.abs(clipped - contour).max() < bound
    ones = project(mesh, lambda x, y: np.ones_like(x), degree, extra=0).ravel()
    np.testing.assert_allclose(contour @ ones, 1, atol=4e-15)
    np.testing.assert_allclose(edge @ ones, 1, atol=4e-15)


@pytest.mark.sampled(2)
@degrees
def test_the_filtered_error_falls_with_order_2k_plus_2(degree):
    errors = {"dG": [], "filtered": []}
    for n in (8, 16):
        mesh = structured(n)
        points = evaluation_points(mesh, degree)
        points = points[np.random.default_rng(1).choice(len(points), 300, replace=False)]

        def wave(x, y):
            return np.sin(2 * np.pi * x) * np.sin(2 * np.pi * y)

        modes = project(mesh, wave, degree).ravel()
        # with a stencil inside of one triangle, a filter of degree 0 is a mean over its surroundings: the field itself
        for name, k, h in (("dG", 0, 1e-7), ("filtered", degree, 1 / n)):
            operator = clipped_rows(mesh, points, k, scale=h, field_degree=degree)
            errors[name].append(np.sqrt(np.mean((operator @ modes - wave(*points.T)) ** 2)))
    orders = {name: np.log2(coarse / fine) for name, (coarse, fine) in errors.items()}
    assert orders["filtered"] >= 2 * degree + 1.5
    assert degree + 0.7 < orders["dG"] < degree + 1.3
    assert errors["filtered"][1] < errors["dG"][1] / 10


@ways
@degrees
@pytest.mark.parametrize("n", [1, 2])
def test_stencils_wider_than_the_box_meet_images(rows, degree, n):
    """The same as on a box of 7 × 7 copies of the field, which the stencils fit into."""
    one = structured(n)
    copies = np.stack(np.meshgrid(np.arange(7), np.arange(7)), axis=-1).reshape(-1, 1, 2)
    vertices = (one.vertices + copies).reshape(-1, 2)
    triangles = one.triangles + len(one.vertices) * np.arange(49)[:, None, None]
    many = triangulation(vertices, triangles.reshape(-1, 3))
    modes = np.random.default_rng(3).normal(size=(len(one.triangles), mode_count(degree, 2)))
    points, h = np.random.default_rng(4).random((4, 2)), 2.9 / (3 * degree + 1)
    expected = rows(many, points + 3, degree, scale=h) @ np.tile(modes, (49, 1)).ravel()
    np.testing.assert_allclose(rows(one, points, degree, scale=h) @ modes.ravel(), expected, atol=1e-12)


@ways
def test_a_box_may_lie_anywhere_and_have_any_sides(rows):
    mesh, points = MESHES["delaunay"], anywhere(4)
    larger = triangulation(mesh.vertices * 3 + np.array([-7, 2]), mesh.triangles)
    same = rows(larger, points * 3 + np.array([-7, 2]), 2, scale=0.3)
    np.testing.assert_allclose((same - rows(mesh, points, 2, scale=0.1)).data, 0, atol=1e-11)
    slope = rows(larger, points * 3 + np.array([-7, 2]), 2, scale=0.3, derivative=(0, 1))
    np.testing.assert_allclose((3 * slope - rows(mesh, points, 2, scale=0.1, derivative=(0, 1))).data, 0, atol=1e-10)
    longer = triangulation(mesh.vertices * [5, 0.5], mesh.triangles)
    ones = project(longer, lambda x, y: np.ones_like(x), 2, extra=0).ravel()
    np.testing.assert_allclose(rows(longer, points * 9, 2) @ ones, 1, atol=4e-15)


@pytest.mark.sampled(12)
@ways
@degrees
@pytest.mark.parametrize("offset", [0.0, 1e-16, 1e-15, 1e-12, -1e-16, -1e-8])
def test_points_on_vertices_edges_and_lines_of_the_lattice(rows, degree, offset):
    """Everything lies on everything there; what is filtered changes no more than the points do."""
    n = 8
    mesh = structured(n)
    modes = project(mesh, lambda x, y: np.sin(2 * np.pi * x + 1) * np.cos(2 * np.pi * y), degree).ravel()
    centre = 0.5 / n * (3 * degree + 1)  # a corner of the stencil on a vertex
    points = np.array([[3 / n, 5 / n], [3.5 / n, 5 / n], [3.5 / n, 3.5 / n], [centre, centre], [0, 0], [1, 1], [0, 1]])
    operator = rows(mesh, points + offset, degree, scale=1 / n)
    ones = project(mesh, lambda x, y: np.ones_like(x), degree, extra=0).ravel()
    np.testing.assert_allclose(operator @ ones, 1, atol=4e-15)
    near = rows(mesh, points + 1e-7 * np.sqrt(2), degree, scale=1 / n)
    np.testing.assert_allclose(operator @ modes, near @ modes, atol=1e-5)
    exact = (contour_rows if rows is clipped_rows else clipped_rows)(mesh, points + offset, degree, scale=1 / n)
    np.testing.assert_allclose(operator @ modes, exact @ modes, atol=1e-13)
    np.testing.assert_allclose((operator @ modes)[4:], (operator @ modes)[4], atol=1e-12)  # one point, wrapped


@ways
def test_equal_points_have_equal_rows_and_points_outside_those_of_their_images(rows):
    mesh, points = MESHES["delaunay"], anywhere(3)
    operator = rows(mesh, np.concatenate([points, points, points + np.array([3, -2])]), 2)
    first, again, outside = operator[:3], operator[3:6], operator[6:]
    np.testing.assert_array_equal(first.indices, again.indices)
    np.testing.assert_array_equal(first.data, again.data)
    assert np.abs(first - outside).max() < 1e-12


@ways
def test_clockwise_triangles_change_nothing(rows):
    mesh, points = MESHES["delaunay"], anywhere(3)
    turned = mesh.triangles.copy()
    turned[::3] = turned[::3, ::-1]
    flipped = triangulation(mesh.vertices, turned)
    assert flipped.flipped == len(turned[::3])

    def wave(x, y):
        return np.sin(5 * x) * y

    expected = rows(mesh, points, 2) @ project(mesh, wave, 2).ravel()
    np.testing.assert_allclose(rows(flipped, points, 2) @ project(flipped, wave, 2).ravel(), expected, atol=1e-13)


@ways
@pytest.mark.parametrize(("degree", "derivative"), [(2, (1, 0)), (2, (0, 1)), (2, (1, 1)), (3, (2, 1)), (3, (0, 2))])
def test_derivatives_of_what_is_reproduced(rows, degree, derivative):
    mesh, points = MESHES["delaunay"], around_centre(4, 0.04)
    operator = rows(
        mesh, points, degree, "monomial", 0.6 / (3 * degree + 1), field_degree=5, derivative=derivative
    )  # of x³ y²
    x, y = points.T
    along_x = {0: x**3, 1: 3 * x**2, 2: 6 * x}[derivative[0]]
    along_y = {0: y**2, 1: 2 * y, 2: np.full_like(y, 2)}[derivative[1]]
    np.testing.assert_allclose(operator @ exact_modes(mesh, 3, 2).ravel(), along_x * along_y, atol=1e-10)


@ways
def test_a_derivative_is_that_of_the_filtered_field(rows):
    """Of a field with jumps, against differences of filtered values."""
    mesh, points, step = MESHES["delaunay"], anywhere(4), 1e-5
    modes = np.random.default_rng(2).normal(size=len(mesh.triangles) * 6)
    ahead, behind = (rows(mesh, points + np.array([d, 0]), 2) @ modes for d in (step, -step))
    slope = rows(mesh, points, 2, derivative=(1, 0)) @ modes
    np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), atol=1e-6 * np.abs(slope).max())


@ways
@pytest.mark.parametrize("derivative", [(0, 0), (1, 0)])
def test_each_point_may_have_a_scale_of_its_own(rows, derivative):
    mesh, points, h = MESHES["graded"], anywhere(4), np.array([0.05, 0.2, 0.5, 0.1])
    together = rows(mesh, points, 2, scale=h, derivative=derivative)
    for i in range(4):
        alone = rows(mesh, points[i : i + 1], 2, scale=h[i], derivative=derivative)
        np.testing.assert_array_equal(together[[i]].indices, alone.indices)
        np.testing.assert_array_equal(together[[i]].data, alone.data)


@ways
@pytest.mark.parametrize("basis", BASES)
def test_the_basis_of_the_modes_does_not_matter(rows, basis):
    mesh, points = MESHES["delaunay"], anywhere(4)
    filtered = [
        rows(mesh, points, 2, name) @ project(mesh, lambda x, y: np.sin(6 * x * y), 2, name).ravel()
        for name in ("dubiner", basis)
    ]
    np.testing.assert_allclose(*filtered, atol=1e-13)


@pytest.mark.parametrize(
    ("columns", "tiles", "warps", "shares"),
    [
        (2000, 1, 100, 8),
        (400, 1, 100, 2),
        (160, 1, 100, 1),
        (512_000, 1000, 1000, 1),
        (512_000, 1000, 1001, 2),
        (0, 0, 100, 1),
    ],
)
def test_columns_are_dealt_where_there_are_fewer_tiles_than_warps(columns, tiles, warps, shares):
    assert (
        MatrixSize(points=16 * tiles, pairs=9 * columns, modes=3, columns=columns, tiles=tiles).shares(warps) == shares
    )
