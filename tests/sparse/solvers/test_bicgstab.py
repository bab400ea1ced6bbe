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
        solution = solver.solve(b, tolerance=0, max_iterations=iterations)
        assert (solution.status, solution.iterations) == ("limit", iterations)
        np.testing.assert_allclose(solution.residual, np.linalg.norm(b - matrix @ x), rtol=1e-9)
    np.testing.assert_allclose(solution.x, x, rtol=1e-9, atol=1e-12)


@precisions
def test_bicgstab_converges_to_the_solution(make_solver, precision):
    problem = convection(30, reaction=0.02)
    solver = make_solver(problem, precision)
    matrix = expand(problem, problem.values).tocsc()
    b = draw(problem.n, precision)
    tolerance = {"single": 1e-5, "double": 1e-12}[precision]
    solution = solver.solve(b, tolerance, check_every=4)
    assert (solution.status, solution.reason) == ("converged", Breakdown.NONE)
    assert solution.residual <= tolerance * np.linalg.norm(b)
    assert np.linalg.norm(b - matrix @ solution.x) <= 1.1 * tolerance * np.linalg.norm(b)
    assert solution.iterations % 4 == 0
    expected = linalg.spsolve(matrix, b.astype(float))
    np.testing.assert_allclose(solution.x, expected, rtol=0, atol=100 * tolerance * np.abs(expected).max())
    # the next solve begins anew
    again = solver.solve(np.zeros(problem.n))
    assert (again.status, again.iterations, again.residual) == ("converged", 0, 0)
    assert not again.x.any()


def test_as_many_iterations_as_asked_for_are_done(make_solver):
    problem = convection()
    solution = make_solver(problem).solve(draw(problem.n), tolerance=0, max_iterations=7, check_every=3)
    assert (solution.status, solution.iterations) == ("limit", 7)


@precisions
def test_the_same_solve_gives_the_same_bits(make_solver, precision):
    problem = convection(40)
    b = draw(problem.n, precision)
    solutions = [make_solver(problem, precision).solve(b, tolerance=0, max_iterations=20) for _ in range(2)]
    solver = make_solver(problem, precision)
    solutions += [solver.solve(b, tolerance=0, max_iterations=20, check_every=every) for every in (1, 20)]
    assert len({(s.residual, s.x.tobytes()) for s in solutions}) == 1


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
    solution = solver.solve(b, tolerance=1e-3, max_iterations=30, check_every=1)
    assert (solution.status, solution.reason, solution.iterations) == ("breakdown", reason, iterations)
    np.testing.assert_array_equal(solution.x, x)
    if np.isfinite(matrix.max()):
        np.testing.assert_allclose(solution.residual, np.linalg.norm(b - matrix @ solution.x))
    solver.iterate(20)
    assert solver.state().residual == solution.residual
    np.testing.assert_array_equal(solver.x(), x)
    host = bicgstab(lambda v: matrix @ v, b, 30)
    assert (host.reason, len(host.residuals) - 1) == (reason, iterations)
    np.testing.assert_array_equal(host.x, x)


@pytest.mark.parametrize(
    ("precision", "tolerance", "status"), [("single", 1e-5, "drifted"), ("double", 1e-8, "converged")]
)
def test_what_is_left_is_that_of_x_and_not_of_the_recurrence(make_solver, precision, tolerance, status):
    line = sp.diags_array([2.0, -1.0, -1.0], offsets=[0, 1, -1], shape=(300, 300))
    b = draw(300, precision)
    solution = make_solver(real_problem(line), precision).solve(b, tolerance, max_iterations=2000, check_every=1)
    left = np.linalg.norm(b.astype(float) - line @ solution.x)
    assert solution.status == status
    assert solution.residual <= tolerance * np.linalg.norm(b)
    assert (left <= tolerance * np.linalg.norm(b)) == (status == "converged")
    assert solution.left == pytest.approx(left, rel=0.3)


def test_a_breakdown_at_the_solution_is_convergence(make_solver):
    solution = make_solver(real_problem(2 * sp.eye_array(33))).solve(draw(33))
    assert (solution.status, solution.iterations, solution.residual) == ("converged", 1, 0)
    np.testing.assert_array_equal(solution.x, draw(33) / 2)


def test_divergence_is_reported(make_solver):
    """Next to a breakdown: (b, A b) is small, but not zero, so that the first step is far too long."""
    solver = make_solver(real_problem(ROTATION + 1e-9 * sp.eye_array(100)))
    solution = solver.solve(np.ones(100), max_iterations=50, check_every=1)
    assert solution.status == "diverged"
    assert solution.iterations == 1
    assert solution.residual > on_device.DIVERGED * 10


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


@pytest.mark.parametrize(
    ("size", "keys", "message"),
    [(32, {}, "the wrong size"), (33, {"check_every": 0}, "too few"), (33, {"max_iterations": -1}, "too few")],
)
def test_what_cannot_be_solved_is_one_message(make_solver, size, keys, message):
    solver = make_solver(real_problem(2 * sp.eye_array(33)))
    with pytest.raises(ReproError, match=message):
        solver.solve(draw(size), **keys)
