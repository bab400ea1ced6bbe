"""The grid behind a stencil, and the order of its rows by boxes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from repro.problems.matrix import Matrix
from repro.sparse import ordering
from repro.sparse.ordering import CLUSTER, Grid, adjacency, bisect, cluster_rows, find_grid, order_by_boxes, reorder

pytestmark = pytest.mark.medium


def real(pattern: sp.sparray) -> Matrix:
    """Return the real matrix of a square pattern."""
    rows = sp.csr_array(pattern)
    rows.sort_indices()
    values = np.ones((rows.nnz, 1))
    return Matrix("made", "real", rows.shape[0], rows.indptr.astype(np.int32), rows.indices.astype(np.int32), values)


def line(points: int, reach: int = 1) -> sp.sparray:
    """Return the pattern of points on a line that read the next `reach` on both sides."""
    distances = range(-reach, reach + 1)
    ones = np.ones(2 * reach + 1)
    return sp.diags_array(ones, offsets=list(distances), shape=(points, points), dtype=np.float64)


def star(*points: int, reach: int = 1) -> Matrix:
    """Return the stencil that steps in one direction at a time; the first direction is the slowest."""
    total = sp.csr_array((int(np.prod(points)),) * 2)
    for axis in range(len(points)):
        term = sp.eye_array(1)
        for other, count in enumerate(points):
            term = sp.kron(term, line(count, reach) if other == axis else sp.eye_array(count))
        total = total + term
    return real(total)


def box(*points: int) -> Matrix:
    """Return the stencil of all neighbours, diagonal ones too."""
    pattern = sp.eye_array(1)
    for count in points:
        pattern = sp.kron(pattern, line(count))
    return real(pattern)


def tetrahedra(*points: int) -> Matrix:
    """Return the pattern of linear elements on a box whose cells are cut into tetrahedra along one diagonal."""
    upper = sp.eye_array(1)
    for count in points:
        upper = sp.kron(upper, sp.diags_array([1.0, 1.0], offsets=[0, 1], shape=(count, count)))
    return real(upper + upper.T)


def lower(problem: Matrix) -> Matrix:
    rows = sp.csr_array((np.ones(problem.nnz), problem.indices, problem.indptr), shape=(problem.n, problem.n))
    return real(sp.tril(rows))


def banded(n: int = 140_000, width: int = 60) -> Matrix:
    """Return a matrix whose rows have nine entries, each anywhere within the band."""
    random = np.random.default_rng(4)
    rows = np.repeat(np.arange(n), 9)
    columns = np.clip(rows + random.integers(-width, width + 1, len(rows)), 0, n - 1)
    return real(sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)))


def grid_of(problem: Matrix) -> Grid | None:
    return find_grid(problem, np.arange(problem.n))


def read_per_row(problem: Matrix, order: np.ndarray, size: int = CLUSTER) -> float:
    """Return how many distinct columns each `size` successive rows read, over all rows."""
    run = np.empty(problem.n, np.int64)
    run[order] = np.arange(problem.n) // size
    return len(np.unique(np.repeat(run, problem.row_lengths) * problem.n + problem.indices)) / problem.n


GRIDS = {
    "line": (star(5000), (1,), (1,)),
    "line, three steps": (star(5000, reach=3), (1,), (3,)),
    "plane, 5 points": (star(90, 70), (1, 70), (1, 1)),
    "plane, 9 points": (box(90, 70), (1, 70), (1, 1)),
    "plane, 13 points": (star(90, 70, reach=3), (1, 70), (3, 3)),
    "plane, lower triangle": (lower(box(90, 70)), (1, 70), (1, 1)),
    "space, 7 points": (star(20, 24, 28), (1, 28, 28 * 24), (1, 1, 1)),
    "space, 27 points": (box(20, 24, 28), (1, 28, 28 * 24), (1, 1, 1)),
    "tetrahedra": (tetrahedra(20, 24, 28), (1, 28, 28 * 24), (1, 1, 1)),
    "four directions": (box(9, 9, 10, 11), (1, 11, 110, 990), (1, 1, 1, 1)),
    "a thin plate": (box(6, 30, 40), (1, 40, 40 * 30), (1, 1, 1)),
}


@pytest.mark.parametrize("name", GRIDS)
def test_strides_and_reach_are_those_of_the_stencil(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, strides, reach = GRIDS[name]
    assert grid_of(problem) is None  # too small
    monkeypatch.setattr(ordering, "SMALLEST", 0)
    grid = grid_of(problem)
    assert grid is not None
    assert (grid.strides, grid.reach) == (strides, reach)
    order = cluster_rows(problem)
    np.testing.assert_array_equal(np.sort(order), np.arange(problem.n))
    np.testing.assert_array_equal(order, cluster_rows(problem))


LARGE = {
    "plane, 5 points": star(400, 360),
    "plane, 9 points": box(400, 360),
    "space, 27 points": box(50, 54, 58),
    "tetrahedra": tetrahedra(50, 54, 58),
    "a thin plate": box(6, 160, 170),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", LARGE)
def test_boxes_read_as_little_of_x_as_parts_of_the_bisected_graph(name: str) -> None:
    problem = LARGE[name]
    assert grid_of(problem) is not None
    boxes, parts = cluster_rows(problem), bisect(adjacency(problem.indptr, problem.indices), CLUSTER)
    shares = [read_per_row(problem, boxes, size) / read_per_row(problem, parts, size) for size in (64, 128, 256)]
    assert (np.array(shares) < [1.03, 1.07, 1.1]).all(), shares


def test_boxes_are_cubes_where_the_grid_has_room() -> None:
    """4 × 4 × 4 points read 6 × 6 × 6: 3.4 a row."""
    problem = box(64, 64, 64)
    grid = grid_of(problem)
    assert grid is not None
    assert read_per_row(problem, order_by_boxes(grid, np.arange(problem.n), CLUSTER)) < 216 / 64


def test_boxes_are_longer_where_the_stencil_reaches_further() -> None:
    problem = real(sp.kron(sp.eye_array(400), line(360, 4)) + sp.kron(line(400), sp.eye_array(360)))
    grid = grid_of(problem)
    assert grid is not None
    assert grid.reach == (4, 1)
    assert read_per_row(problem, cluster_rows(problem)) < 2.1  # 4 × 16 points: 1 + 8/16 + 2/4; squares read 2.25


NO_GRIDS = {
    "no entries": real(sp.csr_array((200_000, 200_000))),
    "diagonal": real(sp.eye_array(200_000)),
    "a band filled in part": banded(),
    "a plane whose rows are shuffled": reorder(LARGE["plane, 5 points"], np.random.default_rng(1).permutation(144_000)),
}


@pytest.mark.parametrize("name", NO_GRIDS)
def test_other_matrices_have_no_grid(name: str) -> None:
    assert grid_of(NO_GRIDS[name]) is None


def test_a_long_row_leaves_the_grid_as_it_is() -> None:
    problem = LARGE["plane, 5 points"]
    hub = sp.coo_array((np.ones(problem.n), (np.full(problem.n, 100), np.arange(problem.n))), shape=(problem.n,) * 2)
    rows = sp.csr_array((np.ones(problem.nnz), problem.indices, problem.indptr), shape=hub.shape)
    with_hub = real(rows + hub)
    grid = find_grid(with_hub, np.delete(np.arange(problem.n), 100))
    assert grid is not None
    assert grid.strides == (1, 360)
    order = cluster_rows(with_hub)
    assert order[-1] == 100
    np.testing.assert_array_equal(np.sort(order), np.arange(problem.n))
    assert read_per_row(problem, order) < 1.03 * read_per_row(problem, cluster_rows(problem))
