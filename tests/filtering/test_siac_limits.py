"""What the filter refuses, and what memory and numbers of points do not change."""

import numpy as np
import pytest

from repro.errors import ReproError
from repro.filtering import reference, stencil_geometry
from repro.filtering.reference import contour_rows, count_work
from support.clipped_rows import clipped_rows
from support.triangulations import hexagonal, structured

ways = pytest.mark.parametrize("rows", [clipped_rows, contour_rows])
POINTS = np.random.default_rng(0).random((6, 2))


@ways
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"degree": 8}, "no kernel has this degree"),
        ({"degree": -1}, "no kernel has this degree"),
        ({"basis": "hermite"}, r"unknown basis\n  expected: one of dubiner, lagrange, monomial\n  actual: hermite"),
        ({"scale": 0.0}, "positive"),
        ({"scale": -1.0}, "positive"),
        ({"scale": np.nan}, "positive"),
        ({"scale": np.ones(5)}, r"expected: one, or 6\n  actual: \(5,\)"),
        ({"scale": 17.0}, "too many periodic images"),
        ({"field_degree": -1}, "negative"),
        ({"derivative": (1, 0)}, "orders 0 to 0: the kernel of degree 1"),
        ({"degree": 3, "derivative": (0, 3)}, "orders 0 to 2"),
        ({"degree": 3, "derivative": (-1, 0)}, "orders 0 to 2"),
        ({"points": np.full((2, 2), np.nan)}, "not finite"),
        ({"points": np.zeros((2, 3))}, "the points do not fit"),
    ],
)
def test_what_is_refused(rows, changes, message):
    with pytest.raises(ReproError, match=message):
        rows(**{"mesh": structured(2), "points": POINTS, "degree": 1, **changes})


@pytest.mark.wording
def test_another_start_of_a_contour_is_refused():
    with pytest.raises(ReproError, match=r"expected: line or edge\n  actual: corner"):
        contour_rows(structured(2), POINTS, 1, start="corner")


@ways
def test_no_points_have_no_rows(rows):
    operator = rows(structured(2), np.empty((0, 2)), 1)
    assert operator.shape == (0, 24) and operator.nnz == 0
    assert all(len(count) == 0 for count in count_work(structured(2), np.empty((0, 2)), 1))


@ways
def test_rows_have_whole_blocks_in_the_order_of_columns(rows):
    mesh = hexagonal(6)
    operator = rows(mesh, POINTS, 2)
    assert operator.shape == (6, 6 * len(mesh.triangles)) and operator.dtype == np.float64
    blocks = operator.indices.reshape(-1, 6)
    np.testing.assert_array_equal(blocks, blocks[:, :1] // 6 * 6 + np.arange(6))
    assert operator.has_sorted_indices


@ways
def test_sizes_of_chunks_change_nothing(rows, monkeypatch):
    """Neither of candidates nor of pairs: points are taken one by one, their pairs seven by seven."""
    mesh = hexagonal(6)
    whole, counts = rows(mesh, POINTS, 2), count_work(mesh, POINTS, 2)
    monkeypatch.setattr(stencil_geometry, "CHUNK_PAIRS", 1)
    monkeypatch.setattr(reference, "CHUNK", 7)
    width = 7
    runs = list(stencil_geometry.stencil_pairs(mesh, POINTS, width, stencil_geometry.scales(mesh, 6, width, None)))
    assert [len(np.unique(run.point)) for run in runs] == [1] * 6
    again = rows(mesh, POINTS, 2)
    np.testing.assert_array_equal(again.indptr, whole.indptr)
    np.testing.assert_array_equal(again.indices, whole.indices)
    np.testing.assert_allclose(again.data, whole.data, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(np.stack(count_work(mesh, POINTS, 2)), np.stack(counts))
