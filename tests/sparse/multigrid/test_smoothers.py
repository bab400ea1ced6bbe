"""What smooths in a cycle: its polynomial, the device's cycle beside the host's, and the steps that it takes."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

from repro.errors import ReproError
from repro.sparse.multigrid import reference
from repro.sparse.multigrid.reference import MultigridSettings, Smoother
from support.hierarchies import read
from support.matrices import PROBLEMS, poisson
from support.reference_cycle import Cycle

SETTINGS = MultigridSettings(coarsest=20)


@pytest.mark.parametrize("degree", [1, 2, 3, 6])
def test_what_it_leaves_is_chebyshevs_polynomial(degree):
    radius = 1.7
    weights = Smoother("chebyshev", degree).weights(radius)
    low, high = radius / 10, 1.1 * radius
    t = np.polynomial.chebyshev.Chebyshev.basis(degree)
    points = np.linspace(0, high, 50)
    expected = t((high + low - 2 * points) / (high - low)) / t((high + low) / (high - low))
    np.testing.assert_allclose(np.prod(1 - points * weights[:, None], axis=0), expected, atol=1e-12)


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_polynomial_is_pyamgs(degree):
    chebyshev = pytest.importorskip("pyamg.relaxation.chebyshev")
    theirs = chebyshev.chebyshev_polynomial_coefficients(0.2, 2.2, degree)  # of the residual polynomial
    ours = np.poly(1 / Smoother("chebyshev", degree).weights(2.0))
    np.testing.assert_allclose(ours / ours[-1], theirs / theirs[-1], rtol=1e-12)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_cycle_is_that_of_the_host(device, solver_of, name, degree):
    matrix, smoother = poisson(*PROBLEMS[name]), Smoother("chebyshev", degree)
    b = np.random.default_rng(1).random(matrix.shape[0])
    solver = solver_of(matrix, SETTINGS, smoother=smoother)
    device.write(solver.b, b)
    for _ in range(2):
        solver.cycle(solver.b, solver.x)()
    expected = Cycle(reference.set_up(matrix, settings=SETTINGS), SETTINGS.ritz_steps, smoother)(b)
    np.testing.assert_allclose(read(device, solver.x, len(b)), expected, rtol=1e-9, atol=1e-9 * abs(expected).max())


@pytest.mark.parametrize("name", ["jacobi", "chebyshev"])
def test_the_cycle_is_symmetric_and_positive_definite(name):
    matrix = poisson((15, 15), 9)
    cycle = Cycle(reference.set_up(matrix, settings=SETTINGS), smoother=Smoother(name))
    dense = np.column_stack([cycle(column) for column in np.eye(225)])
    assert abs(dense - dense.T).max() < 1e-13 * abs(dense).max()
    assert np.linalg.eigvalsh((dense + dense.T) / 2).min() > 0


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_chebyshev_takes_fewer_steps_than_jacobis_method(device, solver_of, name):
    matrix = poisson(*PROBLEMS[name])
    b = np.random.default_rng(2).random(matrix.shape[0])
    steps = {}
    for smoother in (Smoother(), Smoother("chebyshev", 2), Smoother("chebyshev", 3)):
        solver = solver_of(matrix, SETTINGS, smoother=smoother)
        device.write(solver.b, b)
        device.fill(solver.x, 0)
        solved = solver.conjugate_gradients(1e-8, 60)
        assert solved.converged
        assert np.linalg.norm(b - matrix @ read(device, solver.x, len(b))) <= 1.1e-8 * np.linalg.norm(b)
        on_host = []
        preconditioner = LinearOperator(matrix.shape, Cycle(reference.set_up(matrix, settings=SETTINGS), 8, smoother))
        cg(matrix, b, rtol=1e-8, M=preconditioner, callback=on_host.append)
        steps[smoother.kind, smoother.degree] = len(solved.residuals) - 1
        assert abs(steps[smoother.kind, smoother.degree] - len(on_host)) <= 1
    assert steps["chebyshev", 3] <= steps["chebyshev", 2] < steps["jacobi", 2]


@pytest.mark.parametrize(("given", "where"), [(("gauss_seidel", 3), "smoother"), (("chebyshev", 0), "degree")])
def test_smoothers_that_make_no_sense_are_refused(given, where):
    with pytest.raises(ReproError, match=where):
        Smoother(*given)
