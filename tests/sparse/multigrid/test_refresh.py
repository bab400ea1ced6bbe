"""New values for the same pattern: a refreshed hierarchy equals a set-up with the new values."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.sparse.device_primitives import Repeated
from repro.sparse.multigrid import reference
from repro.sparse.multigrid.hierarchy import refresh_hierarchy
from repro.sparse.multigrid.reference import MultigridSettings
from repro.sparse.multigrid.solver import Solver
from support.device_memory import fill_after
from support.hierarchies import assert_levels, read
from support.matrices import PROBLEMS, poisson, to_csr

pytestmark = pytest.mark.medium


def revalued(matrix, seed=1):
    """Return a symmetric positive definite matrix with other values in the places of one."""
    scale = sp.diags_array(np.random.default_rng(seed).uniform(0.5, 2, matrix.shape[0]))
    return sp.csr_array(scale @ (matrix + sp.diags_array(np.full(matrix.shape[0], 0.5))) @ scale)


def write(device, levels, matrix):
    np.testing.assert_array_equal(levels[0].a.download().columns, matrix.indices)
    device.write(levels[0].a.values, matrix.data.astype(levels[0].a.dtype))


@pytest.fixture
def refreshed(device, load, levels_of):
    """Set up for a matrix, and refresh by another."""

    def make(matrix, other, *arguments, settings=None, precision="double"):
        levels = levels_of(matrix, *arguments, settings=settings, precision=precision, refreshable=True)
        write(device, levels, other)
        levels[:] = refresh_hierarchy(device, load(precision), levels, settings)
        return levels

    return make


@pytest.mark.sampled(4)
@pytest.mark.slow
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_refresh_is_a_set_up_of_the_new_values(device, refreshed, name, precision):
    matrix, settings = poisson(*PROBLEMS[name]), MultigridSettings(coarsest=20)
    other = revalued(matrix)
    levels, expected = (
        refreshed(matrix, other, settings=settings, precision=precision),
        reference.set_up(other, settings=settings),
    )
    assert len(levels) > 1
    assert_levels(device, levels, expected, 1e-10 if precision == "double" else 1e-3)
    radius = reference.spectral_radius(other, settings.ritz_steps)
    assert levels[0].radius == pytest.approx(radius, rel=1e-10 if precision == "double" else 1e-4)


def test_several_vectors_and_unknowns(device, refreshed):
    matrix = sp.csr_array(sp.kron(poisson((24, 24), 5), np.eye(2) + 0.1))
    near, settings = np.random.default_rng(1).random((matrix.shape[0], 3)), MultigridSettings(coarsest=60)
    other = revalued(matrix)
    levels = refreshed(matrix, other, near, 2, settings=settings)
    assert_levels(device, levels, reference.set_up(other, near, 2, settings), 1e-9)


def test_vectors_that_no_aggregate_can_tell_apart(device, refreshed):
    matrix, near, settings = poisson((20, 20), 5), np.ones((400, 2)), MultigridSettings(coarsest=30)
    other = revalued(matrix)
    levels = refreshed(matrix, other, near, settings=settings)
    assert_levels(device, levels, reference.set_up(other, near, settings=settings), 1e-10)


def test_the_same_values_leave_all_as_it_is(device, refreshed, levels_of):
    matrix, settings = poisson((30, 30), 9), MultigridSettings(coarsest=10)
    levels, fresh = refreshed(matrix, matrix, settings=settings), levels_of(matrix, settings=settings)
    for ours, theirs in zip(levels, fresh, strict=True):
        assert abs(to_csr(ours.a) - to_csr(theirs.a)).max() <= 1e-14 * abs(to_csr(theirs.a)).max()


def test_aggregates_stay_where_other_entries_are_strong(device, refreshed):
    # strong along one axis at first, and along the other later
    line = sp.diags_array([2 * np.ones(30), -np.ones(29), -np.ones(29)], offsets=[0, 1, -1])
    along, across = sp.kron(line, sp.eye_array(30)), sp.kron(sp.eye_array(30), line)
    matrix, other = sp.csr_array(along + 1e-3 * across), sp.csr_array(1e-3 * along + across)
    settings = MultigridSettings(theta=0.1, coarsest=40)
    levels = refreshed(matrix, other, settings=settings)
    first = reference.set_up(matrix, settings=settings)[0].aggregates
    assert (first != reference.set_up(other, settings=settings)[0].aggregates).any()
    np.testing.assert_array_equal(read(device, levels[0].aggregates, 900, np.int32), first)
    a, p = other, to_csr(levels[0].p)
    t, _ = reference.tentative(first, np.ones((900, 1)))
    assert abs(p - reference.prolongator(a, t, settings.omega, levels[0].radius)).max() < 1e-12
    assert abs(to_csr(levels[1].a) - p.T @ a @ p).max() < 1e-12


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dense_rows", [1024, 10])
def test_a_solver_takes_the_new_values(device, load, levels_of, monkeypatch, dense_rows):
    monkeypatch.setattr("repro.sparse.multigrid.solver.DENSE_ROWS", dense_rows)
    matrix, settings = poisson((40, 40), 5), MultigridSettings(coarsest=40)
    other, b = revalued(matrix), np.random.default_rng(2).random(1600)
    levels = levels_of(matrix, settings=settings, refreshable=True)
    solver = Solver(device, load("double"), levels)
    write(device, levels, other)
    levels[:] = refresh_hierarchy(device, load("double"), levels, settings)
    solver.renew(levels)
    fresh = levels_of(other, settings=settings)
    beside = Solver(device, load("double"), fresh)
    steps = []
    for one in (solver, beside):
        device.write(one.b, b)
        device.fill(one.x, 0)
        solved = one.conjugate_gradients(1e-8, 100)
        assert solved.converged
        steps.append(solved.residuals)
        assert np.linalg.norm(b - other @ read(device, one.x, 1600)) <= 1.1e-8 * np.linalg.norm(b)
        one.release()
    np.testing.assert_allclose(steps[0], steps[1], rtol=1e-5)


def test_refreshing_and_solving_again_and_again_takes_no_more_memory(device, load, levels_of, monkeypatch):
    matrix, settings, alive = poisson((20, 20), 5), MultigridSettings(coarsest=40), []
    levels = levels_of(matrix, settings=settings, refreshable=True)
    begin, release = Repeated.__init__, Repeated.release
    monkeypatch.setattr(
        Repeated, "__init__", lambda self, *args, **more: (begin(self, *args, **more), alive.append(self))[0]
    )
    monkeypatch.setattr(Repeated, "release", lambda self: (release(self), alive.remove(self))[0])
    levels[:] = refresh_hierarchy(device, load("double"), levels, settings)  # binds all launches
    held, of_refresh = fill_after(monkeypatch, device, 10**6), list(alive)
    solver, numbers = Solver(device, load("double"), levels), []
    for _ in range(3):
        levels[:] = refresh_hierarchy(device, load("double"), levels, settings)
        solver.renew(levels)
        solver.cycle(solver.b, solver.x)
        for solve in (solver.conjugate_gradients, solver.iterate):
            device.write(solver.b, np.ones(400))
            device.fill(solver.x, 0)
            assert solve(1e-8, 100).converged
        numbers.append((len(held), len(alive)))
    assert numbers[1:] == numbers[:-1]
    solver.release()
    assert not held and alive == of_refresh


@pytest.mark.wording
def test_a_zero_on_the_diagonal_is_refused(device, load, levels_of):
    matrix = poisson((20, 20), 5)
    levels = levels_of(matrix, refreshable=True)
    bad = matrix.copy()
    bad.setdiag(np.where(np.arange(400) == 7, 0, 4.0))
    write(device, levels, bad)
    with pytest.raises(ReproError, match="row 7, the first of 1"):
        refresh_hierarchy(device, load("double"), levels)


@pytest.mark.parametrize("nth", [0, 5, 12])
def test_a_full_device_leaks_nothing(device, load, levels_of, monkeypatch, nth):
    levels = levels_of(poisson((20, 20), 5), refreshable=True)
    held = fill_after(monkeypatch, device, nth)
    with pytest.raises(OutOfDeviceMemory):
        refresh_hierarchy(device, load("double"), levels)
    assert not held
