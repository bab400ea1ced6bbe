"""The cycle of multigrid and what solves with it, on the CPU and by a GPU's emulator."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from repro.sparse.multigrid import reference
from repro.sparse.multigrid import solver as solve
from repro.sparse.multigrid.reference import MultigridSettings
from support.hierarchies import read
from support.matrices import PROBLEMS, poisson
from support.reference_cycle import Cycle

pytestmark = pytest.mark.medium


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_cycle_is_that_of_the_host(device, solver_of, name):
    matrix, settings = poisson(*PROBLEMS[name]), MultigridSettings(coarsest=20)
    b = np.random.default_rng(1).random(matrix.shape[0])
    solver = solver_of(matrix, settings)
    device.write(solver.b, b)
    solver.cycle(solver.b, solver.x)()
    expected = Cycle(reference.set_up(matrix, settings=settings), settings.ritz_steps)(b)
    np.testing.assert_allclose(read(device, solver.x, len(b)), expected, rtol=1e-9, atol=1e-9 * abs(expected).max())
    np.testing.assert_array_equal(read(device, solver.b, len(b)), b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROBLEMS)
def test_conjugate_gradients_take_as_many_steps_as_on_the_host(device, solver_of, name):
    matrix, settings = poisson(*PROBLEMS[name]), MultigridSettings(coarsest=20)
    b = np.random.default_rng(2).random(matrix.shape[0])
    solver = solver_of(matrix, settings)
    device.write(solver.b, b)
    device.fill(solver.x, 0)
    solved = solver.conjugate_gradients(1e-8, 100)
    steps = []
    preconditioner = LinearOperator(matrix.shape, Cycle(reference.set_up(matrix, settings=settings)))
    cg(matrix, b, rtol=1e-8, M=preconditioner, callback=steps.append)
    assert solved.converged and abs(len(solved.residuals) - 1 - len(steps)) <= 1
    x = read(device, solver.x, len(b))
    left = np.linalg.norm(b - matrix @ x)
    assert left <= 1.1e-8 * np.linalg.norm(b)
    assert solved.residuals[-1] == pytest.approx(left, rel=1e-3)


def test_a_solve_goes_on_from_where_x_is(device, solver_of):
    matrix = poisson((40, 40), 5)
    b = np.random.default_rng(3).random(1600)
    solver = solver_of(matrix)
    device.write(solver.b, b)
    device.fill(solver.x, 0)
    first = solver.conjugate_gradients(1e-4, 100)
    again = solver.conjugate_gradients(1e-4, 100)
    assert first.converged and len(again.residuals) == 1
    few = solver.conjugate_gradients(1e-12, 2)
    assert not few.converged and len(few.residuals) == 3


@pytest.mark.parametrize("precision", ["single", "double"])
def test_cycles_alone_converge(device, solver_of, precision):
    matrix, dtype = poisson((12, 12, 12), 7), np.float32 if precision == "single" else np.float64
    b = np.random.default_rng(4).random(1728).astype(dtype)
    solver = solver_of(matrix, precision=precision)
    device.write(solver.b, b)
    device.fill(solver.x, 0)
    solved = solver.iterate(1e-4, 60)
    assert solved.converged and len(solved.residuals) < 40
    x = read(device, solver.x, 1728, dtype)
    assert np.linalg.norm(b - matrix @ x) <= 2e-4 * np.linalg.norm(b)


def test_a_large_coarsest_level_is_relaxed(device, solver_of, monkeypatch):
    monkeypatch.setattr(solve, "DENSE_ROWS", 10)
    monkeypatch.setattr("support.reference_cycle.DENSE_ROWS", 10)
    matrix, settings = poisson((30, 30), 5), MultigridSettings(coarsest=40)
    b = np.random.default_rng(5).random(900)
    solver = solver_of(matrix, settings)
    device.write(solver.b, b)
    solver.cycle(solver.b, solver.x)()
    expected = Cycle(reference.set_up(matrix, settings=settings))(b)
    np.testing.assert_allclose(read(device, solver.x, 900), expected, rtol=1e-8, atol=1e-8 * abs(expected).max())


def test_one_level_is_solved_at_once(device, solver_of):
    matrix = sp.csr_array(np.diag([1.0, 2.0, 4.0]))
    solver = solver_of(matrix)
    device.write(solver.b, np.array([1.0, 1.0, 1.0]))
    device.fill(solver.x, 0)
    assert len(solver.conjugate_gradients(1e-12, 5).residuals) == 2
    np.testing.assert_allclose(read(device, solver.x, 3), [1, 0.5, 0.25])
