"""The recurrence on the host against SciPy's."""

import numpy as np
import pytest
from scipy.sparse import linalg

from repro.sparse.operands import expand
from repro.sparse.solvers.bicgstab import bicgstab
from repro.sparse.solvers.kernels import Breakdown
from support.matrices import convection


@pytest.mark.parametrize("wind", [0.0, 0.7, 5.0])
def test_the_residuals_are_those_of_scipy(wind):
    problem = convection(21, wind)
    matrix = expand(problem, problem.values).tocsr()
    b = np.random.default_rng(1).uniform(-1, 1, problem.n)
    course = bicgstab(lambda x: matrix @ x, b, 12)
    assert course.reason == Breakdown.NONE
    for iterations in range(1, 13):
        x, _ = linalg.bicgstab(matrix, b, rtol=0, atol=0, maxiter=iterations)
        np.testing.assert_allclose(course.residuals[iterations], np.linalg.norm(b - matrix @ x), rtol=1e-9)
    np.testing.assert_allclose(course.x, x, rtol=1e-9, atol=1e-12)


def test_fewer_iterations_are_the_beginning_of_more():
    problem = convection()
    matrix = expand(problem, problem.values)
    b = np.ones(problem.n)
    long, short = (bicgstab(lambda x: matrix @ x, b, count) for count in (9, 4))
    assert (len(long.residuals), len(short.residuals)) == (10, 5)
    np.testing.assert_array_equal(long.residuals[:5], short.residuals)
