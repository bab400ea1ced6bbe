"""Matrices at the edges of what multigrid is for: each is named, and compared with the model on the host or refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.sparse.multigrid import kernels, reference
from repro.sparse.multigrid.hierarchy import set_up_hierarchy
from repro.sparse.multigrid.reference import MultigridSettings
from support.hierarchies import assert_levels, read, with_hubs
from support.matrices import poisson, to_csr
from support.sparse_modules import loader

GRID = poisson((20, 20), 5)


def neumann(*points):
    """Return a matrix that takes constants to 0: a graph's Laplacian."""
    connections = poisson(points, 5)
    connections.setdiag(0)
    connections.eliminate_zeros()
    return sp.csr_array(connections - sp.diags_array(connections.sum(axis=1)))


SET_UP = {
    "negative diagonal": (-GRID, {}),
    "disconnected parts": (sp.block_diag([poisson((14, 14), 5), poisson((9, 9), 9)]), {}),
    "isolated rows": (sp.block_diag([poisson((14, 14), 5), sp.eye_array(3), poisson((9, 9), 9)]), {}),
    "not symmetric": (GRID + 0.3 * sp.diags_array(np.ones(399), offsets=1, shape=(400, 400)), {}),
    "all Neumann": (neumann(20, 20), {}),
    "indefinite": (GRID - 0.5 * sp.eye_array(400), {}),
    "hubs": (with_hubs(20, 3), {}),
    "no more rows than the coarsest": (poisson((10, 10), 5), {}),
    "n = 1": (sp.csr_array([[3.0]]), {}),
    "level limit": (GRID, {"levels": 2, "coarsest": 10}),
    "one level": (GRID, {"levels": 1, "coarsest": 10}),
    "nothing is connected": (3.0 * sp.eye_array(300), {}),
}


@pytest.mark.medium
@pytest.mark.parametrize("name", SET_UP)
def test_edges(device, levels_of, name):
    matrix, given = SET_UP[name]
    settings = MultigridSettings(**given)
    levels = levels_of(sp.csr_array(matrix), settings=settings)
    assert_levels(device, levels, reference.set_up(sp.csr_array(matrix), settings=settings), 1e-9)
    single = name in ("no more rows than the coarsest", "n = 1", "one level", "nothing is connected")
    assert len(levels) == (1 if single else 2)


@pytest.mark.sampled(1)
def test_coarsening_that_stalls(levels_of):
    pairs = sp.csr_array(sp.kron(sp.eye_array(100), np.array([[2.0, -1.0], [-1.0, 2.0]])))
    assert len(levels_of(pairs, settings=MultigridSettings(stall=0.4))) == 1
    assert len(levels_of(pairs, settings=MultigridSettings(stall=0.9))) == 2


def test_a_strongly_anisotropic_matrix_is_made_coarser_along_what_is_strong(device, levels_of):
    line = sp.diags_array([2 * np.ones(30), -np.ones(29), -np.ones(29)], offsets=[0, 1, -1])
    matrix = sp.csr_array(sp.kron(line, sp.eye_array(30)) + 1e-3 * sp.kron(sp.eye_array(30), line))
    settings = MultigridSettings(theta=0.1, coarsest=40)
    levels, expected = levels_of(matrix, settings=settings), reference.set_up(matrix, settings=settings)
    assert_levels(device, levels, expected, 1e-10)
    columns = expected[0].aggregates.reshape(30, 30)
    assert all(not set(columns[:, i]) & set(columns[:, i + 1]) for i in range(29))  # none across what is weak


DIAGONALS = {"zero": 0.0, "NaN": np.nan, "infinity": np.inf}


@pytest.mark.wording
@pytest.mark.parametrize("name", [*DIAGONALS, "missing"])
def test_a_diagonal_that_cannot_be_divided_by(levels_of, name):
    matrix = GRID.tocoo(copy=True)
    row = (matrix.row == 5) & (matrix.col == 5)
    if name == "missing":
        matrix = sp.coo_array((matrix.data[~row], (matrix.row[~row], matrix.col[~row])), matrix.shape)
    else:
        matrix.data[row] = DIAGONALS[name]
    with pytest.raises(ReproError, match="row 5, the first of 1"):
        levels_of(sp.csr_array(matrix))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_beside_the_diagonal_that_are_not_finite(levels_of, solver_of, bad):
    matrix = GRID.copy()
    matrix[7, 8] = bad
    with pytest.raises(ReproError, match="finite numbers"):
        levels_of(matrix)
    with pytest.raises(ReproError, match="finite numbers"):
        solver_of(matrix, MultigridSettings(coarsest=400))


def test_a_matrix_that_is_not_square(levels_of):
    with pytest.raises(ReproError, match="square"):
        levels_of(GRID[:, :-1])


@pytest.mark.parametrize("k", [1, 2])
def test_vectors_that_are_zero_over_an_aggregate(device, levels_of, k):
    settings = MultigridSettings(coarsest=30)
    near = np.random.default_rng(1).uniform(0.5, 1.5, (400, k))
    near[reference.aggregate(reference.strong(GRID, 0.0)) == 3, 0] = 0
    levels, expected = levels_of(GRID, near, settings=settings), reference.set_up(GRID, near, settings=settings)
    assert_levels(device, levels, expected, 1e-10)
    row = to_csr(levels[1].a)[[3 * k]].tocoo()
    assert row.data[row.col == 3 * k] == [1] and not row.data[row.col != 3 * k].any()  # nothing meets it


@pytest.mark.sampled(1)
@pytest.mark.medium
def test_nodes_with_the_same_random_key(device, templates, built_folder, on_device, monkeypatch):
    # keys of two bits: four of them, and what is next to each other has often the same one
    for module in (reference, kernels):
        monkeypatch.setattr(module, "KEY_BITS", 2)
    keys = reference.keys_of(400)
    assert len(set(keys.tolist())) == 4 and (keys[1:] == keys[:-1]).any()
    load = loader(device, templates, built_folder / "keys of two bits")
    levels = set_up_hierarchy(device, lambda module: load(f"double/{module}"), on_device(GRID))
    assert_levels(device, levels, reference.set_up(GRID), 1e-10)
    assert len(levels) == 2
    for level in levels:
        level.release()


@pytest.mark.sampled(1)
def test_an_estimate_of_zero_for_the_spectral_radius(device, levels_of, solver_of):
    # what Arnoldi's process begins with is taken to 0
    start = reference.keys_of(400) / 2.0**reference.KEY_BITS + 0.5
    matrix = sp.csr_array(sp.diags_array(1 / start) @ neumann(20, 20) @ sp.diags_array(1 / start))
    exact = abs(np.linalg.eigvals((sp.diags_array(1 / matrix.diagonal()) @ matrix).toarray())).max()
    levels = levels_of(matrix)
    assert 0.9 * exact < levels[0].radius <= 1.01 * exact
    assert levels[0].radius == pytest.approx(reference.spectral_radius(matrix, 8), rel=0.02)
    solver = solver_of(matrix)
    x = np.random.default_rng(3).random(400)
    device.write(solver.b, matrix @ x)
    device.fill(solver.x, 0)
    assert solver.conjugate_gradients(1e-8, 60).converged


def test_all_neumann_is_solved_for_what_the_matrix_reaches(device, solver_of):
    matrix, b = neumann(20, 20), np.random.default_rng(6).random(400)
    b -= b.mean()
    solver = solver_of(matrix)
    device.write(solver.b, b)
    device.fill(solver.x, 0)
    assert solver.conjugate_gradients(1e-8, 60).converged
    assert np.linalg.norm(b - matrix @ read(device, solver.x, 400)) <= 1.1e-8 * np.linalg.norm(b)


INDEFINITE = {
    "indefinite": GRID - 0.5 * sp.eye_array(400),
    "negative definite": -GRID,
    "indefinite by one row": GRID - 9 * sp.diags_array((np.arange(400) == 17).astype(float)),
}


@pytest.mark.parametrize("name", INDEFINITE)
def test_conjugate_gradients_say_that_a_matrix_is_not_positive_definite(device, solver_of, name):
    matrix = sp.csr_array(INDEFINITE[name])
    solver, n = solver_of(matrix), matrix.shape[0]
    device.write(solver.b, np.random.default_rng(7).random(n))
    device.fill(solver.x, 0)
    with pytest.raises(ReproError, match="symmetric and positive definite"):
        solver.conjugate_gradients(1e-8, 100)
    assert np.isfinite(read(device, solver.x, n)).all()
