"""Smoothed aggregation on the host: its parts against their definitions, and the whole against PyAMG."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from repro.errors import ReproError
from repro.sparse.multigrid.reference import (
    MultigridSettings,
    aggregate,
    coarse_matrix,
    independent_set,
    keys_of,
    operator_complexity,
    prolongator,
    set_up,
    spectral_radius,
    strong,
    tentative,
)
from support.matrices import PROBLEMS, poisson
from support.reference_cycle import Cycle


@pytest.fixture(params=PROBLEMS)
def matrix(request):
    return poisson(*PROBLEMS[request.param])


def within_two(connections):
    pattern = connections + sp.eye_array(connections.shape[0])
    return (pattern @ pattern).toarray() > 0


def test_the_set_is_independent_and_maximal(matrix):
    roots = independent_set(strong(matrix, 0.0))
    near = within_two(strong(matrix, 0.0))
    assert (near[np.ix_(roots, roots)].sum(axis=1) == 1).all()
    assert near[:, roots].any(axis=1).all()


def test_every_node_is_in_the_aggregate_of_a_root_within_two_steps(matrix):
    connections = strong(matrix, 0.0)
    aggregates, roots = aggregate(connections), independent_set(connections)
    assert aggregates.min() == 0 and aggregates.max() + 1 == roots.sum()
    root_of = np.flatnonzero(roots)[aggregates]
    assert within_two(connections)[np.arange(len(root_of)), root_of].all()


def test_nodes_without_connections_have_no_aggregate():
    blocks = sp.csr_array(sp.block_diag([poisson((6, 6), 5), sp.eye_array(3), poisson((4, 4), 5)]))
    aggregates = aggregate(strong(blocks, 0.0))
    assert (aggregates[36:39] == -1).all() and (np.delete(aggregates, [36, 37, 38]) >= 0).all()
    assert not set(aggregates[:36]) & set(aggregates[39:])


def test_ties_of_keys_are_broken_by_number():
    assert len(set(keys_of(1000).tolist())) > 990
    connections = sp.csr_array(np.ones((5, 5)) - np.eye(5))
    assert independent_set(connections).sum() == 1


def test_strength_by_the_threshold():
    a = sp.csr_array([[4.0, -1.0, -0.1], [-1.0, 4.0, 0.0], [-0.1, 0.0, 1.0]])
    assert strong(a, 0.0).nnz == 4
    assert strong(a, 0.1).toarray().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert strong(a, 0.25).nnz == 0  # |a_01| = 1 is not above 0.25 * 4
    assert strong(poisson((8, 8), 5), 0.0, unknowns=4).shape == (16, 16)


@pytest.mark.parametrize(("unknowns", "k"), [(1, 1), (1, 2), (3, 6)])
def test_the_tentative_prolongator_keeps_the_near_null_space(matrix, unknowns, k):
    aggregates = aggregate(strong(matrix, 0.0))
    near = np.random.default_rng(1).random((len(aggregates) * unknowns, k))
    t, coarse = tentative(aggregates, near)
    np.testing.assert_allclose(t @ coarse, near, atol=1e-12)
    np.testing.assert_allclose((t.T @ t).toarray(), np.eye(t.shape[1]), atol=1e-12)


def test_vectors_that_an_aggregate_cannot_tell_apart_are_left_out():
    t, coarse = tentative(np.array([0, 0], np.int32), np.array([[1.0, 2.0], [1.0, 2.0]]))
    np.testing.assert_allclose(t @ coarse, [[1, 2], [1, 2]])
    assert (t.toarray()[:, 1] == 0).all()
    a = sp.csr_array([[2.0, -1.0], [-1.0, 2.0]])
    np.testing.assert_allclose(coarse_matrix(a, t, t.T.tocsr()).toarray(), np.eye(2), atol=1e-15)


@pytest.mark.sampled(2)
@pytest.mark.medium
def test_the_spectral_radius_is_near(matrix):
    scale = sp.diags_array(matrix.diagonal() ** -0.5)  # similar to the matrix over its diagonal, and symmetric
    exact = np.abs(np.linalg.eigvalsh((scale @ matrix @ scale).toarray())).max()
    assert 0.9 * exact < spectral_radius(matrix, 8) <= exact * (1 + 1e-12)
    assert spectral_radius(sp.csr_array(3.0 * sp.eye_array(5)), 8) == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 5])
def test_no_coarser_level_than_is_asked_for(n):
    assert len(set_up(sp.csr_array(sp.eye_array(n)))) == 1
    assert len(set_up(poisson((20, 20), 5), settings=MultigridSettings(levels=2))) == 2
    assert len(set_up(poisson((20, 20), 5), settings=MultigridSettings(coarsest=1000))) == 1
    assert len(set_up(sp.csr_array(sp.eye_array(200)))) == 1  # nothing is connected


@pytest.mark.wording
@pytest.mark.parametrize("bad", [0.0, np.nan])
def test_a_diagonal_with_zeros_is_refused(bad):
    a = poisson((11, 11), 5)
    a.setdiag(np.where(np.arange(121) == 7, bad, a.diagonal()))
    with pytest.raises(ReproError, match="row 7, the first of 1"):
        set_up(a)


@pytest.mark.parametrize("setting", ["theta=1", "omega=2", "coarsest=0", "levels=0", "ritz_steps=0", "stall=0"])
def test_settings_that_make_no_sense_are_refused(setting):
    name, value = setting.split("=")
    with pytest.raises(ReproError, match=name):
        MultigridSettings(**{name: int(value)})


def iterations(a, b, preconditioner):
    count = 0

    def counted(_):
        nonlocal count
        count += 1

    x, failed = cg(a, b, rtol=1e-8, M=preconditioner, callback=counted)
    assert not failed and np.linalg.norm(b - a @ x) <= 1.1e-8 * np.linalg.norm(b)
    return count


def test_beside_pyamg_with_the_same_aggregates(matrix):
    pyamg = pytest.importorskip("pyamg")
    levels = set_up(matrix, settings=MultigridSettings(coarsest=20))
    tentatives = [tentative(level.aggregates, np.ones((level.a.shape[0], 1)))[0] for level in levels[:-1]]
    theirs = pyamg.smoothed_aggregation_solver(
        sp.csr_matrix(matrix),
        aggregate=[("predefined", {"AggOp": sp.csr_matrix(t != 0, dtype=np.int32)}) for t in tentatives],
        smooth=("jacobi", {"omega": 4 / 3, "degree": 1}),
        presmoother=("jacobi", {"omega": 4 / 3}),
        postsmoother=("jacobi", {"omega": 4 / 3}),
        improve_candidates=None,
        max_coarse=20,
        max_levels=len(levels),
    )
    assert [level.A.shape for level in theirs.levels] == [level.a.shape for level in levels]
    assert operator_complexity(levels) == pytest.approx(theirs.operator_complexity(), rel=0.01)
    ours, n = Cycle(levels), matrix.shape[0]
    b = np.random.default_rng(2).random(n)
    own = iterations(matrix, b, LinearOperator(matrix.shape, ours))
    others = iterations(matrix, b, theirs.aspreconditioner())
    assert abs(own - others) <= max(1, 0.1 * others)


def test_the_smoothed_prolongator_keeps_constants_inside():
    a = poisson((30, 30), 5)
    t, coarse = tentative(aggregate(strong(a, 0.0)), np.ones((900, 1)))
    p = prolongator(a, t, 4 / 3, spectral_radius(a, 8))
    inside = np.asarray(abs(a @ np.ones(900)) < 1e-14)
    np.testing.assert_allclose((p @ coarse[:, 0])[inside], 1, atol=1e-12)
