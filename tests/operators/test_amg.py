"""Multigrid for a SciPy matrix, as a user asks for it."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import cg

import repro
from full_device import fill_after
from grids import poisson
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators.runtime import open_runtime

DEVICE = "opencl:0"


@pytest.fixture(scope="module")
def hierarchy():
    matrix = poisson((40, 40), 9)
    return matrix, repro.amg(matrix, max_coarse=20, device=DEVICE)


def test_the_levels_are_matrices_of_scipy(hierarchy):
    matrix, ml = hierarchy
    assert len(ml.levels) == 3 and abs(ml.levels[0].A - matrix).max() == 0
    for level, coarser in zip(ml.levels[:-1], ml.levels[1:], strict=True):
        assert level.P.shape == (level.shape[0], coarser.shape[0])
        assert abs(level.R - level.P.T).max() == 0
        expected = level.R @ level.A @ level.P
        assert abs(coarser.A - expected).max() <= 1e-12 * abs(expected).max()
        assert level.aggregates.max() + 1 == coarser.shape[0]
    with pytest.raises(AttributeError, match="coarsest"):
        _ = ml.levels[-1].P
    nnz = [level.A.nnz for level in ml.levels]
    assert ml.operator_complexity() == pytest.approx(sum(nnz) / nnz[0])
    assert 1 < ml.grid_complexity() < 1.3
    assert "1600 > " in repr(ml)


def test_a_level_outlives_its_hierarchy(hierarchy):
    coarse = repro.amg(hierarchy[0], max_coarse=20, device=DEVICE).levels[1]
    gc.collect()
    assert abs(coarse.A - hierarchy[1].levels[1].A).max() == 0


@pytest.mark.parametrize("accel", ["cg", None])
def test_a_system_is_solved(hierarchy, accel):
    matrix, ml = hierarchy
    b, residuals = np.random.default_rng(1).random(1600), []
    x = ml.solve(b, tol=1e-8, accel=accel, residuals=residuals)
    assert np.linalg.norm(b - matrix @ x) <= 1.1e-8 * np.linalg.norm(b)
    assert residuals[0] == pytest.approx(np.linalg.norm(b)) and residuals[-1] <= 1e-8 * residuals[0]
    again = []
    ml.solve(b, x0=x, tol=1e-7, accel=accel, residuals=again)
    assert len(again) == 1


def test_it_preconditions_scipys_solvers(hierarchy):
    matrix, ml = hierarchy
    b = np.random.default_rng(2).random(1600)
    steps = []
    _, failed = cg(matrix, b, rtol=1e-8, M=ml.aspreconditioner(), callback=steps.append)
    assert not failed and len(steps) < 20
    plain = []
    cg(matrix, b, rtol=1e-8, callback=plain.append)
    assert len(plain) > 2 * len(steps)


def test_single_precision():
    matrix = sp.csr_array(poisson((12, 12, 12), 7), dtype=np.float32)
    ml = repro.amg(matrix, device=DEVICE)
    b = np.ones(1728)
    x = ml.solve(b, tol=1e-4)
    assert x.dtype == np.float32 and ml.levels[1].A.dtype == np.float32
    assert np.linalg.norm(b - matrix @ x) < 2e-4 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"A": np.eye(3)}, "no sparse matrix"),
        ({"A": sp.csr_array((3, 4))}, "square"),
        ({"A": sp.csr_array((3, 3))}, "row 0, the first of 3"),
        ({"B": np.ones((5, 1))}, "no vectors of the matrix"),
        ({"unknowns": 7}, "unknowns of a node"),
        ({"theta": 2.0}, "theta"),
        ({"smoother": "sor"}, "smoother"),
        ({"smoother": "chebyshev", "degree": 0}, "degree"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    given = {"A": poisson((6, 6), 5), **change}
    with pytest.raises(ReproError, match=message):
        repro.amg(**given, device=DEVICE)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"b": np.ones(3)}, "no vector"), ({"b": 1j * np.ones(1600)}, "no vector"), ({"accel": "gmres"}, "acceleration")],
)
def test_a_system_that_makes_no_sense_is_refused(hierarchy, change, message):
    with pytest.raises(ReproError, match=message):
        hierarchy[1].solve(**{"b": np.ones(1600), **change})


def test_chebyshevs_smoother_takes_fewer_steps(hierarchy):
    matrix, ml = hierarchy
    other, b, jacobi, chebyshev = (
        repro.amg(matrix, smoother="chebyshev", degree=2, device=DEVICE),
        np.ones(1600),
        [],
        [],
    )
    ml.solve(b, tol=1e-8, residuals=jacobi)
    x = other.solve(b, tol=1e-8, residuals=chebyshev)
    assert np.linalg.norm(b - matrix @ x) <= 1.1e-8 * np.linalg.norm(b)
    assert len(chebyshev) < len(jacobi)


def test_entries_of_one_place_are_added_up():
    matrix = poisson((20, 20), 5).tocoo()
    halves = sp.coo_array((np.tile(matrix.data / 2, 2), (np.tile(matrix.row, 2), np.tile(matrix.col, 2))), matrix.shape)
    rows = sp.csr_array(
        (np.repeat(matrix.data / 2, 2), np.repeat(matrix.col, 2), 2 * matrix.tocsr().indptr), matrix.shape
    )
    expected = repro.amg(matrix, device=DEVICE).levels[1].A
    for twice in (halves, rows):
        assert twice.nnz == 2 * matrix.nnz
        assert abs(repro.amg(twice, device=DEVICE).levels[1].A - expected).max() == 0


def test_an_indefinite_matrix_is_refused_by_conjugate_gradients_and_not_solved_silently_by_cycles():
    matrix = sp.csr_array(poisson((20, 20), 5) - 0.5 * sp.eye_array(400))
    ml = repro.amg(matrix, device=DEVICE)
    with pytest.raises(ReproError, match="symmetric and positive definite"):
        ml.solve(np.ones(400), tol=1e-10)
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-10 in 3 steps"):
        ml.solve(np.ones(400), tol=1e-10, maxiter=3, accel=None)


@pytest.mark.parametrize("accel", ["cg", None])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_right_side_that_is_not_finite_is_no_solution(hierarchy, accel, bad):
    with pytest.raises(ReproError, match="came to no solution"):
        hierarchy[1].solve(np.full(1600, bad), accel=accel)


def test_few_steps_are_a_warning(hierarchy):
    residuals = []
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-10 in 2 steps"):
        hierarchy[1].solve(np.ones(1600), tol=1e-10, maxiter=2, residuals=residuals)
    assert len(residuals) == 3


def test_a_hierarchy_is_refreshed_by_other_values():
    matrix = poisson((40, 40), 9)
    scale = sp.diags_array(np.random.default_rng(1).uniform(0.5, 2, 1600))
    other = sp.csr_array(scale @ matrix @ scale)
    ml, fresh = (repro.amg(a, max_coarse=20, refreshable=True, device=DEVICE) for a in (matrix, other))
    before = ml.levels[1].A
    ml.refresh(other.tocoo())
    for ours, theirs in zip(ml.levels, fresh.levels, strict=True):
        assert abs(ours.A - theirs.A).max() <= 1e-12 * abs(theirs.A).max()
    assert abs(ml.levels[1].A - before).max() > 0.1
    b, one, two = np.random.default_rng(2).random(1600), [], []
    x = ml.solve(b, tol=1e-8, residuals=one)
    fresh.solve(b, tol=1e-8, residuals=two)
    assert np.linalg.norm(b - other @ x) <= 1.1e-8 * np.linalg.norm(b)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    np.testing.assert_allclose(ml.aspreconditioner() @ b, fresh.aspreconditioner() @ b, rtol=1e-9)


def with_values(matrix, values):
    return sp.csr_array((values, matrix.indices, matrix.indptr), matrix.shape)


REFUSED = {
    "fewer entries": (lambda a: sp.csr_array(sp.tril(a)), "another pattern"),
    "as many entries elsewhere": (lambda a: sp.csr_array(a[:, np.roll(np.arange(36), 1)]), "another pattern"),
    "another shape": (lambda _: poisson((5, 5), 5), "another pattern"),
    "a zero on the diagonal": (lambda a: with_values(a, np.where(a.data == 4, 0, a.data)), "diagonal without zeros"),
    "no finite number": (lambda a: with_values(a, np.where(a.data == 4, 4, np.nan)), "finite numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_refresh_a_hierarchy_is_refused_and_changes_nothing(name):
    matrix = poisson((6, 6), 5)
    change, message = REFUSED[name]
    ml, b = repro.amg(matrix, max_coarse=5, refreshable=True, device=DEVICE), np.ones(36)
    expected = ml.solve(b, tol=1e-8)
    with pytest.raises(ReproError, match=message):
        ml.refresh(change(matrix))
    assert ml.solve(b, tol=1e-8).tobytes() == expected.tobytes()


def test_a_hierarchy_that_is_not_to_be_refreshed_says_so(hierarchy):
    with pytest.raises(ReproError, match="refreshable=True"):
        hierarchy[1].refresh(hierarchy[0])


def test_a_hierarchy_left_in_the_middle_of_a_refresh_is_of_no_use_until_the_next(monkeypatch):
    matrix = poisson((20, 20), 5)
    ml, b = repro.amg(matrix, refreshable=True, device=DEVICE), np.ones(400)

    def full(_):
        raise OutOfDeviceMemory("it is full")

    with monkeypatch.context() as patch:
        patch.setattr(open_runtime(DEVICE).device, "allocate", full)
        with pytest.raises(ReproError, match="the device has no room"):
            ml.refresh(2 * matrix)
    for use in (ml.solve, ml.aspreconditioner().matvec):
        with pytest.raises(ReproError, match="middle of a refresh"):
            use(b)
    ml.refresh(2 * matrix)
    assert np.linalg.norm(b - 2 * matrix @ ml.solve(b, tol=1e-8)) <= 1.1e-8 * np.linalg.norm(b)


FULL = [("spgemm", 0), ("spgemm", 3), ("spgemm", 9), ("amg", 1), ("amg", 20), ("amg", 60), ("amg", 80)]


@pytest.mark.parametrize(("what", "nth"), FULL)
def test_a_full_device_is_one_message_and_gives_all_back(monkeypatch, what, nth):
    device, matrix = open_runtime(DEVICE).device, poisson((20, 20), 5)
    held = fill_after(monkeypatch, device, nth)
    with pytest.raises(ReproError, match="the device has no room"):
        _ = repro.amg(matrix, device=DEVICE) if what == "amg" else repro.spgemm(matrix, matrix, DEVICE)
    assert not held


@pytest.mark.parametrize("accel", ["cg", None])
def test_a_solution_that_there_is_no_room_for_is_one_message_and_can_be_tried_again(monkeypatch, accel):
    matrix = poisson((20, 20), 5)
    ml, b = repro.amg(matrix, max_coarse=20, refreshable=True, device=DEVICE), np.ones(400)
    ml.refresh(matrix)
    for nth in (0, 1):
        with monkeypatch.context() as patch:
            fill_after(patch, open_runtime(DEVICE).device, nth)
            with pytest.raises(ReproError, match="the device has no room"):
                ml.solve(b, accel=accel)
    assert np.linalg.norm(b - matrix @ ml.solve(b, tol=1e-8, accel=accel)) <= 1.1e-8 * np.linalg.norm(b)
