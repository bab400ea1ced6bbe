"""Multigrid for a SciPy matrix, as a user asks for it."""

import gc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import cg

import repro
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


FULL = [("spgemm", 0), ("spgemm", 3), ("spgemm", 9), ("amg", 1), ("amg", 20), ("amg", 60), ("amg", 80)]


@pytest.mark.parametrize(("what", "nth"), FULL)
def test_a_full_device_is_one_message_and_gives_all_back(monkeypatch, what, nth):
    device, matrix = open_runtime(DEVICE).device, poisson((20, 20), 5)
    held, allocate, first = [], device.allocate, iter(range(nth))

    def full(nbytes):
        if next(first, None) is None:
            raise OutOfDeviceMemory("it is full")
        buffer = allocate(nbytes)
        release = buffer.release
        held.append(buffer)
        monkeypatch.setattr(buffer, "release", lambda: (held.remove(buffer) if buffer in held else None, release())[1])
        return buffer

    monkeypatch.setattr(device, "allocate", full)
    with pytest.raises(ReproError, match="the device has no room"):
        _ = repro.amg(matrix, device=DEVICE) if what == "amg" else repro.spgemm(matrix, matrix, DEVICE)
    assert not held
