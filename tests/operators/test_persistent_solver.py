"""`repro.solve` and an operator's solvers: any library's vectors, entries, scales, and what is refused."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.sparse.solvers.persistent import PersistentSolver
from support.persistent_solves import dominant

pytestmark = pytest.mark.medium
DEVICE = "opencl:0"
LINE = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(200, 200)).tocsr()
B = np.random.default_rng(1).normal(size=200)


def residual(matrix, x, b):
    return np.linalg.norm(b - matrix @ np.ravel(x)) / np.linalg.norm(b)


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
def test_arrays_of_numpy_in_any_shape_and_precision(method):
    x = repro.solve(LINE, B, method, device=DEVICE)
    assert residual(LINE, x, B) <= 1.01e-8
    column = repro.solve(LINE, B[:, None], method, device=DEVICE)
    assert column.shape == (200, 1)
    np.testing.assert_array_equal(column.ravel(), x)
    single = repro.solve(LINE.astype(np.float32), B.tolist(), method, 1e-5, device=DEVICE)
    assert single.dtype == np.float32
    assert residual(LINE, single, B) <= 1.1e-5


@pytest.mark.parametrize(("entry", "kind"), [("complex", "hermitian"), ("block3", "symmetric")])
def test_entries_as_scipy_has_them(as_scipy, entry, kind):
    matrix = as_scipy(dominant(entry, kind, 60))
    b = np.random.default_rng(2).normal(size=matrix.shape[0]).astype(matrix.dtype)
    b = b * (1 + 2j) if entry == "complex" else b
    x = repro.solve(matrix, b, device=DEVICE)
    assert x.dtype == matrix.dtype
    assert residual(matrix, x, b) <= 1.01e-8


def test_an_operator_keeps_its_solver_and_starts_where_it_is_told(put):
    with repro.operator(LINE, device=DEVICE) as A:
        solver = A.solver()
        x = A.solve(B, tol=1e-10)
        assert A.solver() is solver
        assert 0 < solver.iterations <= 200
        assert solver.nbytes > 0 == solver.kept  # a CPU keeps nothing in shared memory
        again = repro.solve(A, B, tol=1e-10, x0=x)
        assert solver.iterations == 0
        np.testing.assert_array_equal(again, x)
        on_device = A.solve(put(B), tol=1e-10, x0=put(x))
        assert on_device.shape == (200,)
        np.testing.assert_array_equal(on_device.get(), x)
    with pytest.raises(ReproError, match="closed"):
        solver.solve(B)


def test_a_solution_is_of_the_library_that_b_is_of(monkeypatch):
    class Tensor:
        def __init__(self, numbers, device="cpu"):
            self.numbers, self.device, self.shape = np.asarray(numbers), device, np.shape(numbers)

        def __array__(self, dtype=None, copy=None):
            return self.numbers

    def as_tensor(x, device):
        return Tensor(x, device)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, as_tensor=as_tensor))
    x = repro.solve(LINE, Tensor(B), device=DEVICE)
    assert isinstance(x, Tensor)
    assert residual(LINE, x.numbers, B) <= 1.01e-8


@pytest.mark.parametrize("scale", [1e-200, 1e-300, 1e200])
def test_b_may_be_as_small_or_large_as_numbers_are(scale, put):
    with repro.operator(LINE, device=DEVICE) as A:
        np.testing.assert_allclose(A.solve(scale * B) / scale, A.solve(B), rtol=1e-6)
        with pytest.raises(ReproError, match=r"too small|no solution"):
            A.solve(put(scale * B))


HARD = {
    "indefinite": (np.array([[1.0, 2], [2, 1]]), [1, -1], {}, "not positive definite"),
    "no diagonal": (np.array([[0.0, 2], [2, 1]]), [1, -1], {}, "diagonal, row 0"),
    "breakdown": (np.array([[0.0, 1], [-1, 0]]), [1, 1], {"method": "bicgstab"}, "divisor is 0"),
    "NaN": (np.eye(2), [1, np.nan], {}, r"b\[1\]"),
    "infinite x0": (np.eye(2), [1, 1], {"x0": [np.inf, 0]}, r"x0\[0\]"),
    "length": (np.eye(2), [1, 2, 3], {}, "2 real numbers"),
    "complex b": (np.eye(2), [1j, 2], {}, "2 real numbers"),
    "method": (np.eye(2), [1, 2], {"method": "gmres"}, "cg or bicgstab"),
    "tolerance": (np.eye(2), [1, 2], {"tol": -1}, "at least 0"),
    "iterations": (np.eye(2), [1, 2], {"maxiter": 1.5}, "whole number"),
    "not square": (np.ones((2, 3)), [1, 2], {}, "square"),
}


@pytest.mark.parametrize("case", HARD)
def test_what_cannot_be_solved_is_one_message(case):
    matrix, b, keys, message = HARD[case]
    with pytest.raises(ReproError, match=message):
        repro.solve(sp.csr_array(matrix), b, **keys, device=DEVICE)


def test_too_few_iterations_and_rounding_are_warnings():
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-08 in 3 iterations"):
        repro.solve(LINE, B, maxiter=3, device=DEVICE)
    with pytest.warns(RuntimeWarning, match="rounding leaves no less"):
        x = repro.solve(LINE, B, tol=0, device=DEVICE)
    assert residual(LINE, x, B) < 1e-14


def test_an_interrupted_solve_leaves_a_solver_that_works(monkeypatch):
    with repro.operator(LINE, device=DEVICE) as A:
        expected = A.solve(B)
        with monkeypatch.context() as patch:

            def interrupt(*_):
                raise KeyboardInterrupt

            patch.setattr(PersistentSolver, "iterate", interrupt)
            with pytest.raises(KeyboardInterrupt):
                A.solve(B)
        np.testing.assert_array_equal(A.solve(B), expected)
