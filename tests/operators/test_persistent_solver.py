"""`repro.solve` and an operator's solvers: any library's vectors, entries, scales, and refused arguments."""

import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.bench.guards import Guards
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators.runtime import open_runtime
from repro.sparse.solvers import slices
from repro.sparse.solvers.persistent import PersistentSolver
from support.matrices import poisson
from support.persistent_solves import dominant

pytestmark = pytest.mark.medium
DEVICE = "opencl:0"
LINE = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(200, 200)).tocsr()
B = np.random.default_rng(1).normal(size=200)


def residual(matrix, x, b):
    return np.linalg.norm(b - matrix @ np.ravel(x)) / np.linalg.norm(b)


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
def test_arrays_of_numpy_in_any_shape_and_precision(method):
    x = repro.solve(LINE, B, method=method, device=DEVICE)
    assert residual(LINE, x, B) <= 1.01e-8
    column = repro.solve(LINE, B[:, None], method=method, device=DEVICE)
    assert column.shape == (200, 1)
    np.testing.assert_array_equal(column.ravel(), x)
    single = repro.solve(LINE.astype(np.float32), B.tolist(), method=method, rtol=1e-5, device=DEVICE)
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
        x = A.solve(B, rtol=1e-10)
        assert A.solver() is solver
        assert 0 < solver.iterations <= 200
        assert solver.nbytes > 0 == solver.kept  # a CPU keeps nothing in shared memory
        again = repro.solve(A, B, rtol=1e-10, x0=x)
        assert solver.iterations == 0
        np.testing.assert_array_equal(again, x)
        on_device = A.solve(put(B), rtol=1e-10, x0=put(x))
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
        with pytest.raises(ReproError, match=r"too small|broke down"):
            A.solve(put(scale * B))


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_solution_for_a_b_of_zeros_is_0_at_once_from_any_guess(method, precision, put):
    zeros, dtype = np.zeros(200), np.dtype(np.float32 if precision == "single" else np.float64)
    with repro.operator(LINE, precision=precision, device=DEVICE) as A, warnings.catch_warnings():
        warnings.simplefilter("error")
        for x0 in (B, np.full(200, 1e30), np.full(200, np.finfo(dtype).max), None):
            x = A.solve(zeros, method=method, x0=x0)
            assert x.dtype == dtype
            assert not x.any()
            assert A.solver(method).iterations == 0
            on_device = A.solve(put(zeros.astype(dtype)), method=method, x0=x0)
            assert not on_device.get().any()
        x = A.solve(B, method=method, x0=B, rtol=1e-5)
        assert residual(LINE, x, B) <= 2e-5


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize(("size", "guess"), [(1e-300, 1.0), (1e-200, 1e200), (1.0, 1e200)])
def test_a_guess_too_far_from_b_is_blamed_and_not_the_matrix(method, size, guess, put):
    b, x0 = size * B, np.full(200, guess)
    with repro.operator(LINE, device=DEVICE) as A, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ReproError, match="start from 0") as refusal:
            A.solve(b, method=method, x0=x0)
        assert refusal.value.where == "x0"
        assert "matrix" not in str(refusal.value)
        with pytest.raises(ReproError, match=r"start from 0|b(.*\n)+.*scale b") as refusal:
            A.solve(put(b), method=method, x0=put(x0))
        assert "matrix" not in str(refusal.value)
        np.testing.assert_allclose(A.solve(b, method=method) / size, A.solve(B, method=method), rtol=1e-6)


def test_a_b_too_small_to_be_squared_is_not_taken_for_0(put):
    with repro.operator(LINE, device=DEVICE) as A:
        for b, x0 in ((put(1e-200 * B), None), (put(1e-200 * B), put(B)), (1e-200 * B, put(B))):
            with pytest.raises(ReproError, match="too small to be squared"):
                A.solve(b, x0=x0)


HARD = {
    "indefinite": (np.array([[1.0, 2], [2, 1]]), [1, -1], {}, "not positive definite"),
    "no diagonal": (np.array([[0.0, 2], [2, 1]]), [1, -1], {}, "diagonal, row 0"),
    "breakdown": (np.array([[0.0, 1], [-1, 0]]), [1, 1], {"method": "bicgstab"}, "divisor is 0"),
    "zero row": (np.diag([1.0, 0, 2]), [1, 0, 1], {}, "diagonal, row 1"),
    "zero row of BiCGSTAB": (np.diag([1.0, 0, 2]), [1, 1, 1], {"method": "bicgstab"}, "divisor is 0"),
    "singular of BiCGSTAB": (np.ones((3, 3)), [1, -1, 0], {"method": "bicgstab"}, "divisor is 0"),
    "no rows": (np.empty((0, 0)), [], {}, "no entries"),
    "NaN in the matrix": (np.array([[1, np.nan], [0, 1]]), [1, 1], {}, "row 0, column 1"),
    "NaN": (np.eye(2), [1, np.nan], {}, r"b\[1\]"),
    "infinite x0": (np.eye(2), [1, 1], {"x0": [np.inf, 0]}, r"x0\[0\]"),
    "length": (np.eye(2), [1, 2, 3], {}, r"shape \(2,\), real numbers"),
    "complex b": (np.eye(2), [1j, 2], {}, r"shape \(2,\), real numbers"),
    "method as x0": (np.eye(2), [1, 2], {"x0": "cg"}, 'by name, `method="cg"`'),
    "method": (np.eye(2), [1, 2], {"method": "gmres"}, "cg or bicgstab"),
    "tolerance": (np.eye(2), [1, 2], {"rtol": -1}, "at least 0"),
    "iterations": (np.eye(2), [1, 2], {"maxiter": 1.5}, "whole number"),
    "not square": (np.ones((2, 3)), [1, 2], {}, "square"),
}


@pytest.mark.parametrize("case", HARD)
def test_what_cannot_be_solved_is_one_message(case):
    matrix, b, keys, message = HARD[case]
    with pytest.raises(ReproError, match=message):
        repro.solve(sp.csr_array(matrix), b, **keys, device=DEVICE)


def test_an_operator_is_solved_with_as_it_is() -> None:
    A = repro.operator(LINE, precision="single", device=DEVICE)
    assert repro.solve(A, B, rtol=1e-4, entry="real", precision="single").dtype == np.float32
    for words in ({"precision": "double"}, {"entry": "block3"}):
        with pytest.raises(ReproError, match="the operator has another"):
            repro.solve(A, B, **words)


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
def test_nan_on_the_device_is_one_message_and_spoils_no_later_solve(method, put):
    nothing = np.where(np.arange(200) == 150, np.nan, B)
    with repro.operator(LINE, device=DEVICE) as A:
        expected = A.solve(put(B), method=method).get()
        for b, x0 in ((nothing, B), (B, nothing)):
            with pytest.raises(ReproError, match="broke down"):
                A.solve(put(b), method=method, x0=put(x0))
        np.testing.assert_array_equal(A.solve(put(B), method=method).get(), expected)


def test_a_pattern_is_a_matrix_of_ones():
    ones = sp.csr_array(sp.eye_array(50) + sp.csr_array(([1.0] * 3, ([0, 0, 7], [10, 20, 30])), shape=(50, 50)))
    x = repro.solve(ones, B[:50], method="bicgstab", entry="pattern", device=DEVICE)
    assert residual(ones, x, B[:50]) <= 1.01e-8


@pytest.mark.parametrize("n", [1, 2, 31, 33, 65])
def test_fewer_rows_than_a_block_has_threads_and_a_few_more(n):
    b = np.arange(1.0, n + 1)
    for method in ("cg", "bicgstab"):
        assert residual(LINE[:n, :n], repro.solve(LINE[:n, :n], b, method=method, device=DEVICE), b) <= 1.01e-8


def test_solves_of_several_threads_have_their_own_solutions():
    rights = np.random.default_rng(5).normal(size=(12, 200))
    with repro.operator(LINE, device=DEVICE) as A, ThreadPoolExecutor(4) as threads:
        expected = [A.solve(b) for b in rights]
        shared = list(threads.map(A.solve, rights))
        own = list(threads.map(lambda b: repro.solve(LINE, b, device=DEVICE), rights))
    np.testing.assert_array_equal(shared, expected)
    np.testing.assert_array_equal(own, expected)


def test_a_matrix_for_which_there_is_no_room_or_number_is_one_message(monkeypatch):
    with repro.operator(LINE, device=DEVICE) as A:
        with monkeypatch.context() as patch:

            def find_no_room(*_):
                raise OutOfDeviceMemory("there is no such room")

            patch.setattr(Guards, "allocate", find_no_room)
            with pytest.raises(ReproError, match="no such room"):
                A.solve(B)
        with monkeypatch.context() as patch:
            patch.setattr(slices, "MAX_SLOTS", 600)
            with pytest.raises(ReproError, match=r"too large.*\n.*\n?.*at most 600 slots"):
                A.solve(B)
        assert residual(LINE, A.solve(B), B) <= 1.01e-8


def test_too_few_iterations_and_rounding_are_warnings():
    with pytest.warns(RuntimeWarning, match="did not converge to 1e-08 in 3 iterations"):
        repro.solve(LINE, B, maxiter=3, device=DEVICE)
    with pytest.warns(RuntimeWarning, match="rounding leaves no less"):
        x = repro.solve(LINE, B, rtol=0, device=DEVICE)
    with pytest.warns(RuntimeWarning, match="rounding leaves no less"):
        repro.solve(sp.csr_array(np.ones((3, 3))), [1, 2, 3], device=DEVICE)  # singular, and without a solution
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


def test_a_solve_from_zero_copies_only_b(monkeypatch):
    A = repro.operator(sp.csr_array(poisson((9, 9), 5)), device="opencl")
    solver, device, written = A.solver(), open_runtime("opencl").device, []
    b = np.ones(A.shape[0])
    expected = solver.solve(b, np.zeros(A.shape[0]))
    solver.solve(b, np.ones(A.shape[0]))  # x has other numbers before the solve from zero
    write = device.write
    monkeypatch.setattr(device, "write", lambda buffer, array: written.append(array.nbytes) or write(buffer, array))
    np.testing.assert_array_equal(solver.solve(b), expected)
    assert [nbytes for nbytes in written if nbytes > 8] == [b.nbytes]
