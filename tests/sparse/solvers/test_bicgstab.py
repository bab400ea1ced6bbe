"""The solver on the device, through OpenCL, against the same recurrence on the host."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse import linalg

from repro.errors import ReproError
from repro.sparse.operands import expand
from repro.sparse.solvers import bicgstab as on_device
from repro.sparse.solvers.bicgstab import bicgstab
from repro.sparse.solvers.kernels import Breakdown
from support.matrices import convection, real_problem

DTYPES = {"single": np.float32, "double": np.float64}
precisions = pytest.mark.parametrize("precision", DTYPES)


def draw(n, precision="double"):
    return np.random.default_rng(3).uniform(-1, 1, n).astype(DTYPES[precision])


def run(solver, b, iterations):
    """Run a number of iterations from x = 0; return the state and x."""
    solver.load(b)
    solver.begin()
    solver.iterate(iterations)
    return solver.state(), solver.x()


@precisions
@pytest.mark.parametrize("points", [21, 20, 64])  # words that are and are not full; more words than threads
def test_the_residual_of_every_iteration_is_that_of_the_host(make_solver, precision, points):
    problem = convection(points)
    solver, b = make_solver(problem, precision), draw(problem.n, precision)
    matrix = expand(problem, problem.values.astype(DTYPES[precision]))
    course = bicgstab(lambda x: matrix @ x, b.astype(float), 12)
    solver.load(b)
    solver.begin()
    found = [solver.state()]
    for _ in range(12):
        solver.iterate()
        found.append(solver.state())
    tolerance = {"single": 1e-4, "double": 1e-11}[precision]
    np.testing.assert_allclose([at.residual for at in found], course.residuals, rtol=tolerance)
    assert [at.iterations for at in found] == list(range(13))
    assert all(at.reason == Breakdown.NONE for at in found)
    # the recurrence's residual is that of its x
    np.testing.assert_allclose(found[-1].residual, np.linalg.norm(b - matrix @ solver.x()), rtol=tolerance)


def test_the_residuals_are_those_of_scipy(make_solver):
    problem = convection()
    solver, b = make_solver(problem), draw(problem.n)
    matrix = expand(problem, problem.values).tocsr()
    for iterations in range(1, 11):
        x, _ = linalg.bicgstab(matrix, b, rtol=0, atol=0, maxiter=iterations)
        state, found = run(solver, b, iterations)
        assert state.iterations == iterations
        np.testing.assert_allclose(state.residual, np.linalg.norm(b - matrix @ x), rtol=1e-9)
    np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-12)


@precisions
def test_the_same_solve_gives_the_same_bits(make_solver, precision):
    problem = convection(40)
    b = draw(problem.n, precision)
    solver = make_solver(problem, precision)
    solutions = [run(each, b, 20) for each in (make_solver(problem, precision), solver, solver)]
    assert len({(state.residual, x.tobytes()) for state, x in solutions}) == 1


ROTATION = sp.kron(sp.eye_array(50), np.array([[0, 1], [-1, 0]]))
#: Matrix, right-hand side, the number that is zero, finished iterations, x
BREAKDOWNS = {
    "skew": (ROTATION, np.ones(100), Breakdown.PROJECTION, 0, np.zeros(100)),
    # A e1 = e1 - e2, and s = e2 with (A s, s) = 0
    "omega": (np.array([[1, 1], [-1, 0]]), [1, 0], Breakdown.OMEGA, 1, [1, 0]),
    # A e1 = e1 + e2 and A e2 = e2 + e3: after one iteration r lies in the plane of e2 and e3
    "rho": (np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]]), [1, 0, 0], Breakdown.RHO, 1, [1, -0.5, 0]),
    "nan": (np.array([[np.nan, 1], [1, 2]]), [1, 1], Breakdown.PROJECTION, 0, [0, 0]),
    "infinite": (np.array([[1, 0], [1, np.inf]]), [1, 0], Breakdown.PROJECTION, 0, [0, 0]),
}


@precisions
@pytest.mark.parametrize("case", BREAKDOWNS)
def test_a_breakdown_is_reported_and_freezes_x(make_solver, precision, case):
    matrix, b, reason, iterations, x = BREAKDOWNS[case]
    solver, b = make_solver(real_problem(matrix), precision), np.asarray(b, DTYPES[precision])
    state, found = run(solver, b, 30)
    assert (state.reason, state.iterations) == (reason, iterations)
    np.testing.assert_array_equal(found, x)
    if np.isfinite(matrix.max()):
        np.testing.assert_allclose(state.residual, np.linalg.norm(b - matrix @ found))
    host = bicgstab(lambda v: matrix @ v, b, 30)
    assert (host.reason, len(host.residuals) - 1) == (reason, iterations)
    np.testing.assert_array_equal(host.x, x)


def test_a_breakdown_at_the_solution_leaves_it(make_solver):
    state, x = run(make_solver(real_problem(2 * sp.eye_array(33))), draw(33), 30)
    assert (state.iterations, state.residual) == (1, 0)
    np.testing.assert_array_equal(x, draw(33) / 2)


def test_memory_comes_back_where_there_is_not_enough(make_solver, cpu_device, monkeypatch):
    problem, made = convection(), []
    allocate = cpu_device.allocate

    def few(nbytes):
        if len(made) == 4:
            raise MemoryError
        made.append(allocate(nbytes))
        return made[-1]

    monkeypatch.setattr(cpu_device, "allocate", few)
    with pytest.raises(MemoryError):
        on_device.BiCGSTAB(cpu_device, None, None, problem.n, np.dtype(float))
    for buffer in made:
        with pytest.raises(Exception, match="released"):
            buffer.handle.release()


def test_a_right_hand_side_of_another_size_is_refused(make_solver):
    with pytest.raises(ReproError, match="the wrong size"):
        make_solver(real_problem(2 * sp.eye_array(33))).load(draw(32))
