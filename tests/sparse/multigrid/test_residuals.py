"""Residuals that multigrid reports, compared with b - A x in double precision by SciPy, at the limits of rounding."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.sparse.multigrid.solver import COMPUTED_EVERY, MAX_IDLE, ConvergenceMonitor
from support.hierarchies import read
from support.matrices import poisson

DTYPES = {"single": np.float32, "double": np.float64}
METHODS = ("conjugate_gradients", "iterate")
GRID = poisson((11, 11), 5)
methods = pytest.mark.parametrize("method", METHODS)
precisions = pytest.mark.parametrize("precision", DTYPES)
on_the_cpu = pytest.mark.parametrize("device", ["opencl"], indirect=True)  # an emulator has nothing to add


def line(n):
    return sp.csr_array(sp.diags_array([2 * np.ones(n), -np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1, -1]))


def left_of(matrix, b, x):
    return np.linalg.norm(b.astype(float) - matrix @ x.astype(float))


@pytest.fixture
def solve(device, solver_of):
    """Solve once, and return what it came to with x and b as they are afterwards."""

    def run(matrix, b, method, tolerance=1e-8, most=1000, x=None, precision="double"):
        solver, dtype = solver_of(matrix, precision=precision), DTYPES[precision]
        return again(solver, b.astype(dtype), method, tolerance, most, x)

    def again(solver, b, method, tolerance, most, x=None):
        device.write(solver.b, b)
        device.write(solver.x, np.zeros_like(b) if x is None else x.astype(b.dtype))
        solved = getattr(solver, method)(tolerance, most)
        np.testing.assert_array_equal(read(device, solver.b, len(b), b.dtype), b)
        return solved, read(device, solver.x, len(b), b.dtype)

    run.again = again
    return run


ROUNDED = {"single": (300, 1e-8), "double": (300, 1e-17)}


@pytest.mark.sampled(2)
@methods
@precisions
def test_what_cannot_be_reached_is_not_claimed(solve, precision, method):
    n, tolerance = ROUNDED[precision]
    b = np.random.default_rng(4).random(n).astype(DTYPES[precision])
    solved, x = solve(line(n), b, method, tolerance, precision=precision)
    true = left_of(line(n), b, x)
    assert true > 10 * tolerance * np.linalg.norm(b) and not solved.converged
    assert solved.residuals[-1] == pytest.approx(true, rel=1e-2)
    assert solved.reached == pytest.approx(true / np.linalg.norm(b), rel=1e-2)
    assert solved.reached < solved.rounding < 1000 * solved.reached
    assert len(solved.residuals) < 300  # it ends where it comes no further


@pytest.mark.parametrize("precision", ["single", "double"])
def test_no_residual_of_conjugate_gradients_is_below_a_third_of_the_true_one(solver_of, solve, precision):
    n, tolerance = ROUNDED[precision]
    matrix, b = line(n), np.ones(n, DTYPES[precision])
    solver = solver_of(matrix, precision=precision)
    residuals = solve.again(solver, b, "conjugate_gradients", tolerance, 1000)[0].residuals
    for steps in range(0, len(residuals), 3):
        _, x = solve.again(solver, b, "conjugate_gradients", tolerance, steps)
        assert left_of(matrix, b, x) <= 3 * residuals[steps]


@on_the_cpu
def test_a_residual_that_drifts_is_reached_after_all(solve):
    # by updates alone 2.8e-8 of b are left where 5e-9 are claimed; rounding leaves less
    b = np.ones(20_000)
    solved, x = solve(line(20_000), b, "conjugate_gradients", 1e-8)
    assert solved.converged and left_of(line(20_000), b, x) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("tolerance", [0, 1e-300])
@methods
@on_the_cpu
def test_no_tolerance_is_too_small_to_end(solve, method, tolerance):
    solved, x = solve(GRID, np.ones(121), method, tolerance)
    assert not solved.converged and len(solved.residuals) < 300
    assert left_of(GRID, np.ones(121), x) <= 1e-12 * 11


@on_the_cpu
def test_where_all_goes_well_one_residual_is_computed(solver_of, solve, monkeypatch):
    solver, computed = solver_of(GRID), []
    take = ConvergenceMonitor.take_computed
    monkeypatch.setattr(
        ConvergenceMonitor, "take_computed", lambda self, residual: computed.append(residual) or take(self, residual)
    )
    solved, _ = solve.again(solver, np.ones(121), "conjugate_gradients", 1e-8, 100)
    assert solved.converged and computed == [solved.residuals[-1]]


# ----------------------------------------------------------------------------------------------------------------------

POWERS = {"single": (-125, -100, 90, 110), "double": (-1010, -600, 500, 1005)}
RANGES = [(precision, power) for precision, powers in POWERS.items() for power in powers]


@methods
@pytest.mark.parametrize(("precision", "power"), RANGES)
@on_the_cpu
def test_a_power_of_two_times_b_is_solved_by_as_much_times_x(solver_of, solve, precision, power, method):
    solver, b = solver_of(GRID, precision=precision), np.random.default_rng(1).uniform(1, 2, 121)
    b = b.astype(DTYPES[precision])
    solved, x = solve.again(solver, b, method, 1e-4, 100)
    scaled, y = solve.again(solver, np.ldexp(b, power), method, 1e-4, 100)
    assert solved.converged and scaled.converged
    np.testing.assert_array_equal(y, np.ldexp(x, power))
    np.testing.assert_array_equal(scaled.residuals, np.ldexp(solved.residuals, power))


@methods
@pytest.mark.parametrize(("precision", "power"), [("single", -145), ("double", -1070)])
@on_the_cpu
def test_a_solution_that_has_too_few_digits_is_not_claimed(solve, precision, power, method):
    b = np.ldexp(np.ones(121, DTYPES[precision]), power)
    solved, x = solve(GRID, b, method, 1e-4, precision=precision)
    left = np.linalg.norm(np.ldexp(b.astype(float), -power) - GRID @ np.ldexp(x.astype(float), -power))
    assert not solved.converged and solved.reached == pytest.approx(left / 11, rel=1e-3) and solved.reached > 1e-3


@pytest.mark.wording
@methods
@pytest.mark.parametrize(("precision", "power"), [("single", 126), ("double", 1022)])
@on_the_cpu
def test_a_solution_beyond_the_precision_is_refused(solve, precision, power, method):
    with pytest.raises(ReproError, match="the solution is out of range for float"):
        solve(GRID, np.ldexp(np.ones(121, DTYPES[precision]), power), method, 1e-4, precision=precision)


@methods
@on_the_cpu
def test_a_norm_beyond_double_is_infinite_and_the_solution_is_not(solve, method):
    solved, x = solve(sp.csr_array(4.0 * sp.eye_array(121)), np.full(121, 1.7e308), method, 1e-8)
    assert solved.residuals[0] == np.inf and solved.converged
    np.testing.assert_array_equal(x, 1.7e308 / 4)


@methods
@pytest.mark.parametrize("size", [0, 1, 1e-300, 1e300])
@on_the_cpu
def test_of_a_right_side_of_zeros_the_solution_is_zero(solve, size, method):
    start = size * np.random.default_rng(2).random(121)
    solved, x = solve(GRID, np.zeros(121), method, x=start)
    assert solved.converged and not x.any()
    if size:
        scale = np.abs(start).max()
        assert solved.residuals == [pytest.approx(scale * np.linalg.norm(GRID @ (start / scale))), 0]
    else:
        assert solved.residuals == [0]


@methods
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["b", "x0", "x0 beside zeros"])
@on_the_cpu
def test_numbers_that_are_not_finite_are_named(solve, method, bad, what):
    damaged = np.where(np.arange(121) == 7, bad, 1.0)
    b, x = (damaged, None) if what == "b" else (np.ones(121) if what == "x0" else np.zeros(121), damaged)
    with pytest.raises(ReproError, match=rf"finite numbers\n  where: {what[:2].strip()}\[7\], the first of 1"):
        solve(GRID, b, method, x=x)


@pytest.mark.wording
@methods
@pytest.mark.parametrize(("size", "start"), [(1, 1e200), (1e-200, 1e150)])
@on_the_cpu
def test_a_start_that_cannot_be_held_against_b_is_refused(solve, method, size, start):
    with pytest.raises(ReproError, match=r"too large to start from\n  where: x0"):
        solve(GRID, np.full(121, size), method, x=np.full(121, start))


@on_the_cpu
def test_a_start_that_is_far_away_is_left(solve):
    solved, x = solve(GRID, np.ones(121), "conjugate_gradients", x=np.full(121, 1e20))
    assert solved.converged and left_of(GRID, np.ones(121), x) <= 1.1e-8 * 11


@methods
@pytest.mark.parametrize(("size", "of_b"), [(1e250, 1), (1e-250, 1), (1e300, 1e300), (1e-300, 1e-300)])
@on_the_cpu
def test_a_matrix_at_the_ends_of_the_range(solve, method, size, of_b):
    solved, x = solve(sp.csr_array(size * GRID), np.full(121, of_b), method)
    assert solved.converged
    assert left_of(GRID, np.ones(121), x * (size / of_b)) <= 1.1e-8 * 11


@on_the_cpu
def test_a_cycle_that_takes_what_is_left_to_zero_ends_without_a_claim(solve):
    # the pseudo-inverse leaves out what is so small
    matrix, b = sp.csr_array(sp.diags_array(np.logspace(-150, 150, 200))), np.ones(200)
    solved, x = solve(matrix, b, "conjugate_gradients")
    assert not solved.converged and len(solved.residuals) < 50
    assert solved.residuals[-1] == pytest.approx(left_of(matrix, b, x))


@on_the_cpu
def test_contrasts_that_leave_nothing_but_rounding_end_soon(solve):
    # beside the shift that makes it positive definite the weights of the graph are up to 1e12
    weights = 10 ** np.random.default_rng(1).uniform(-6, 6, 999)
    graph = sp.diags_array([-weights, -weights], offsets=[1, -1], shape=(1000, 1000))
    matrix = sp.csr_array(graph - sp.diags_array(graph.sum(axis=1)) + 1e-6 * sp.eye_array(1000))
    solved, x = solve(matrix, np.ones(1000), "conjugate_gradients", 1e-12, 1000)
    assert not solved.converged and len(solved.residuals) < 500
    assert solved.residuals[-1] == pytest.approx(left_of(matrix, np.ones(1000), x), rel=0.5)


@on_the_cpu
def test_a_singular_matrix_whose_right_side_cannot_be_reached(solve):
    ring = sp.csr_array(line(121) + sp.coo_array(([-1, -1], ([0, 120], [120, 0])), (121, 121)))
    for method in METHODS:
        try:
            solved, x = solve(ring, np.random.default_rng(3).random(121), method, most=60)
        except ReproError as error:
            assert "positive definite" in str(error)
        else:
            assert not solved.converged and np.isfinite(x).all()
            assert solved.residuals[-1] == pytest.approx(
                left_of(ring, np.random.default_rng(3).random(121), x), rel=1e-6
            )


# ----------------------------------------------------------------------------------------------------------------------


def updated(course, *residuals):
    for residual in residuals:
        course.take_updated(residual)


def test_the_course_raises_what_drifted_and_only_that():
    course = ConvergenceMonitor(100.0, target=1e-3, floor=0.0)
    updated(course, 10.0, 0.9, 0.1, 1e-2)
    assert not course.is_due(1000)
    updated(course, 1e-3)
    assert course.is_due(1000) and not course.has_converged
    assert course.take_computed(0.5)
    assert course.residuals == [100, 10, 0.9, 0.5, 0.5, 0.5]
    assert course.drifted and not course.stalled and course.goes_on(1000)


def test_the_course_ends_where_it_comes_no_further():
    course = ConvergenceMonitor(1.0, target=1e-6, floor=0.0)
    for residual in (0.5, 0.4, 0.2, *[0.15] * MAX_IDLE):
        updated(course, 1e-7)
        assert course.goes_on(1000)
        course.take_computed(residual)
    assert course.stalled and not course.goes_on(1000)


def test_the_course_computes_now_and_then_and_at_the_end():
    course = ConvergenceMonitor(1.0, target=1e-6, floor=0.0)
    updated(course, *[0.5] * (COMPUTED_EVERY - 1))
    assert not course.is_due(1000) and course.is_due(COMPUTED_EVERY - 1)
    updated(course, 0.5)
    assert course.is_due(1000)
    assert not course.take_computed(0.6) and not course.drifted and course.residuals[-1] == 0.6
    assert not course.is_due(1000)


def test_the_course_says_where_many_steps_came_no_further():
    course = ConvergenceMonitor(1.0, target=1e-6, floor=0.0)
    for residual, hovers in ((0.6, True), (0.29, False), (0.2, True)):
        updated(course, *[0.5] * COMPUTED_EVERY)
        course.take_computed(residual)
        assert course.hovers == hovers and course.goes_on(1000)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_course_ends_at_what_is_no_number(bad):
    course = ConvergenceMonitor(1.0, target=1e-6, floor=0.0)
    updated(course, bad)
    assert course.is_due(1000)
    course.take_computed(bad)
    assert not course.has_converged and not course.goes_on(1000)
