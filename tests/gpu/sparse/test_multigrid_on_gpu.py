"""The set-up and the cycle of multigrid on a GPU, compared with the model on the host."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

from repro.sparse.multigrid import reference
from repro.sparse.multigrid.solver import Solver
from support.matrices import poisson, to_csr
from support.reference_cycle import Cycle

pytestmark = pytest.mark.gpu
PROBLEMS = {"5": ((200, 200), 5), "9": ((200, 200), 9), "7": ((32, 32, 32), 7), "27": ((32, 32, 32), 27)}


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_levels_are_those_of_the_model(gpu, levels_of, name, precision):
    matrix = poisson(*PROBLEMS[name])
    levels, expected = levels_of(matrix, precision=precision), reference.set_up(matrix)
    tolerance = 1e-10 if precision == "double" else 5e-4
    assert [level.a.shape for level in levels] == [level.a.shape for level in expected]
    for ours, theirs in zip(levels, expected, strict=True):
        assert abs(to_csr(ours.a) - theirs.a).max() <= tolerance * abs(theirs.a).max()
        if theirs.p is not None:
            assert abs(to_csr(ours.p) - theirs.p).max() <= tolerance * abs(theirs.p).max()
            assert abs(to_csr(ours.r) - to_csr(ours.p).T).max() == 0


def test_several_vectors_and_unknowns(levels_of):
    matrix = sp.csr_array(sp.kron(poisson((60, 60), 5), np.eye(3) + 0.1))
    near = np.random.default_rng(1).random((matrix.shape[0], 6))
    levels, expected = levels_of(matrix, near, 3), reference.set_up(matrix, near, 3)
    assert [level.a.shape for level in levels] == [level.a.shape for level in expected]
    for ours, theirs in zip(levels, expected, strict=True):
        assert abs(to_csr(ours.a) - theirs.a).max() <= 1e-9 * abs(theirs.a).max()


@pytest.mark.parametrize("name", PROBLEMS)
def test_conjugate_gradients(gpu, load, levels_of, name):
    matrix = poisson(*PROBLEMS[name])
    b = np.random.default_rng(2).random(matrix.shape[0])
    solver = Solver(gpu, load("double"), levels_of(matrix))
    gpu.write(solver.b, b)
    gpu.fill(solver.x, 0)
    solved = solver.conjugate_gradients(1e-8, 100)
    x = np.empty_like(b)
    gpu.download(solver.x, x)
    solver.release()
    steps = []
    cg(matrix, b, rtol=1e-8, M=LinearOperator(matrix.shape, Cycle(reference.set_up(matrix))), callback=steps.append)
    assert solved.converged and abs(len(solved.residuals) - 1 - len(steps)) <= 1
    assert np.linalg.norm(b - matrix @ x) <= 1.1e-8 * np.linalg.norm(b)
