"""Meshes of cubes, clipping, and the list of regions."""

from math import factorial

import numpy as np
import pytest

from repro.errors import ReproError
from repro.filtering.spline_kernel import kernel as siac_kernel
from repro.galerkin import evaluate, evaluation_rule, exponents, mode_count, monomials, positive
from repro.problems.field import kuhn_cube
from repro.studies.dg_postprocessing.operands import expected_integrals
from repro.studies.dg_postprocessing.regions import (
    clip,
    evaluation_points,
    make_regions,
    paper_counts,
    paper_rule,
)
from support.region_lists import PAPERS_COUNT, cube_field

pytestmark = pytest.mark.medium

degrees = pytest.mark.parametrize("degree", [1, 2])


def volumes(corners):
    return np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 6


def test_the_papers_mesh_has_six_thousand_tetrahedra_that_fill_the_cube():
    vertices, cells = kuhn_cube(PAPERS_COUNT)
    assert cells.shape == (6000, 4) and vertices.shape == (11**3, 3)
    corners = vertices[cells]
    signed = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6
    np.testing.assert_allclose(signed, 1 / 6000, rtol=1e-12)


@degrees
def test_a_field_of_polynomials_is_its_own_projection(degree):
    coefficients = np.arange(1.0, 1 + mode_count(degree, 3))
    field = cube_field(2, degree, lambda points: monomials(points, degree) @ coefficients)
    rule = evaluation_rule(degree, 3)
    values = field.modes @ evaluate(field.basis, rule.points, degree).T
    expected = monomials(evaluation_points(field), degree) @ coefficients
    np.testing.assert_allclose(values.ravel(), expected, rtol=1e-12)


@degrees
def test_the_papers_rule_has_its_points_and_its_exactness(degree):
    rule = paper_rule(degree)
    assert len(rule.weights) == {1: 36, 2: 150}[degree] == np.prod(paper_counts(degree))
    powers = exponents(4 * degree, 3)
    exact = [np.prod([factorial(p) for p in row]) / factorial(sum(row) + 3) for row in powers.tolist()]
    np.testing.assert_allclose(rule.weights @ monomials(rule.points, 4 * degree), exact, rtol=1e-13)
    assert (rule.weights > 0).all() and (rule.points >= 0).all() and (rule.points.sum(axis=1) <= 1 + 1e-15).all()
    assert (rule.points[:, 2] < 1).all() and (rule.points == 0).any(axis=0).all()


def test_pieces_lie_in_their_cubes_and_fill_the_tetrahedra():
    rng = np.random.default_rng(3)
    corners = rng.random((400, 1, 3)) * 4 + 0.9 * rng.random((400, 4, 3)) - 0.5
    pieces = clip(corners, 4)
    assert (pieces.corners >= pieces.cubes[:, None]).all() and (pieces.corners <= pieces.cubes[:, None] + 1).all()
    inside = ((corners >= 0) & (corners <= 4)).all(axis=(1, 2))
    assert 100 < inside.sum() < 400
    filled = np.bincount(pieces.sources, pieces.volumes, len(corners))
    np.testing.assert_allclose(filled[inside], volumes(corners)[inside], rtol=1e-10, atol=1e-16)
    assert (filled <= volumes(corners) * (1 + 1e-10)).all()
    _, counts = np.unique(np.column_stack([pieces.sources, pieces.cubes]), axis=0, return_counts=True)
    assert 12 < counts.max() <= 3**3, "more than the paper's 12; one plane per direction makes up to three of each"


def test_corners_and_faces_on_planes_leave_no_flat_pieces_and_lose_nothing():
    vertices, cells = kuhn_cube(2)
    corners = 2 * vertices[cells]
    pieces = clip(corners, 2)
    np.testing.assert_array_equal(pieces.sources, np.arange(len(cells)))
    shifted = clip(corners * [1, 2, 1], 4)
    assert volumes(corners * [1, 2, 1])[shifted.sources].min() > 0 and shifted.volumes.min() > 1e-3
    assert shifted.volumes.sum() == pytest.approx(8 * 2)
    assert clip(corners - 7, 2).corners.shape == (0, 4, 3)


@degrees
def test_the_regions_of_a_point_fill_its_stencil(degree):
    field = cube_field(4 if degree == 1 else 3, degree)
    regions = make_regions(field, 60_000 if degree == 1 else 350_000, seed=2)
    assert regions.h == pytest.approx(1 / round(1 / regions.h)) and regions.width == 3 * degree + 1
    order, offsets = regions.by_point()
    filled = np.add.reduceat(volumes(regions.kernel_corners())[order], offsets[:-1])
    np.testing.assert_allclose(filled[:-1], regions.width**3, rtol=1e-12)
    assert filled[-1] < regions.width**3, "the list ends within a point"
    assert (np.diff(regions.cells) >= 0).all() and len(regions.cells) == len(regions.rows)
    inside = (regions.corners >= -1e-12) & (regions.corners <= 1 + 1e-12)
    assert inside.all(), "corners lie where the element does"


def test_a_stencil_meets_as_many_elements_as_the_paper_says():
    field = cube_field(PAPERS_COUNT, 1)
    regions = make_regions(field, 20_000, seed=1)
    first = regions.points == 0
    assert len(np.unique(regions.cells[first])) in range(650, 751)


@pytest.mark.sampled(1)
@degrees
def test_kernel_times_field_integrates_to_one_for_a_constant(degree):
    pieces = siac_kernel(degree).pieces
    field = cube_field(3, degree)
    regions = make_regions(field, 0, positions=evaluation_points(field)[7:8])
    rule = positive(3 * degree, 3)
    corners = regions.kernel_corners()
    places = corners[:, :1] + rule.points @ (corners[:, 1:] - corners[:, :1]) - regions.cubes[:, None]
    powers = places[..., None] ** np.arange(degree + 1)
    kernel = (pieces[regions.cubes][:, None] * powers).sum(axis=-1).prod(axis=-1)
    integrals = 6 * volumes(corners) * (kernel @ rule.weights)
    assert integrals.sum() == pytest.approx(1, rel=1e-13)


def test_lists_that_cannot_be_had_are_refused():
    field = cube_field(1, 1)
    with pytest.raises(ReproError, match="fewer regions"):
        make_regions(field, 10**7, degree=0)
    assert len(make_regions(field, 0, degree=0).positions) == 6 * 12
    for wrong in ({"h": 0.0}, {"h": -1.0}, {"h": np.nan}, {"count": -1}, {"degree": -1}):
        with pytest.raises(ReproError, match=f"no {next(iter(wrong))} of regions"):
            make_regions(field, **wrong)
    for places in ([[0.5, 0.5, 1.5]], [[0.5, np.nan, 0.5]], np.empty((0, 3))):
        with pytest.raises(ReproError, match="points are outside"):
            make_regions(field, positions=np.array(places))
    with pytest.raises(ReproError, match="the field has no regions"):
        make_regions(type(field)(**{**vars(field), "periodic": False}))


def test_the_seed_settles_the_list():
    field = cube_field(2, 1)
    one, same, other = (make_regions(field, 5000, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.rows, same.rows)
    assert not np.array_equal(one.positions, other.positions)


@pytest.mark.exhaustive
def test_slivers_may_be_wrong_by_what_their_corners_lose():
    field = cube_field(PAPERS_COUNT, 1)
    regions = make_regions(field, 1 << 20)  # so many that some are thinner than the rounding of a place in the stencil
    values, bounds = expected_integrals(regions, field, siac_kernel(1).pieces, positive(4, 3))
    here, there = volumes(regions.corners / regions.h), volumes(regions.kernel_corners())
    apart = np.abs(here - there) / there * np.abs(values)
    assert (apart[there > 0] <= bounds[there > 0]).all()
    thin = np.abs(here - there) > 1e-13 * there
    assert thin.sum() > 1000
