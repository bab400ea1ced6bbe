"""Values that a precision cannot represent, and inputs that are no numbers or no matrix, are refused everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators.scipy_matrices import as_problem, as_rows, checked_csr

DEVICE = "opencl:0"


def ints(*numbers):
    return np.array(numbers, np.int32)


def eye(value, dtype=None):
    return sp.csr_array((np.array([value], dtype), ints(0), ints(0, 1)), shape=(1, 1))


@pytest.mark.wording
@pytest.mark.parametrize(
    ("matrix", "precision"),
    [
        (eye(1e300), "single"),
        (eye(-1e39), "single"),
        (eye(1e-60), "single"),
        (eye(1e-45), "single"),
        (eye(2**24 + 1), "single"),
        (eye(2**53 + 1), "double"),
        (eye(2**64 - 1, np.uint64), "double"),
        (eye("1e400", np.longdouble), "double"),
        (eye("1e-400", np.longdouble), "double"),
        (eye(1 + 1e300j), "single"),
        (eye(1e-60 + 1j), "single"),
        (sp.csr_array((np.full(2, 3e38, np.float32), ints(0, 0), ints(0, 2)), shape=(1, 1)), "single"),  # its sum
        (sp.bsr_array(np.diag([1.0, 2, 1e300]), blocksize=(3, 3)), "single"),
        (sp.bsr_array(1e300 * np.eye(4), blocksize=(4, 4)), "single"),
    ],
)
def test_values_that_a_precision_does_not_hold_are_refused(matrix, precision):
    with pytest.raises(ReproError, match=r"cannot be represented in (float|complex)[\s\S]*what to do"):
        as_problem(matrix, None, precision)
    if matrix.dtype.kind != "c" and matrix.nnz < 2:
        with pytest.raises(ReproError, match=r"cannot be represented in float[\s\S]*a: data\[0\]"):
            as_rows(matrix, np.float32 if precision == "single" else np.float64, "a")


@pytest.mark.wording
def test_values_of_a_problem_are_looked_at_as_well():
    problem, _ = as_problem(eye(1e300), None, None)
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        repro.operator(problem, precision="single", device=DEVICE)


@pytest.mark.parametrize(
    "matrix", [eye(1e300), eye(0.1), eye(2**24 + 1), eye(2**53), eye(7, np.float16), eye(True), eye(3 + 0.5j)]
)
def test_values_that_fit_are_taken_as_they_are(matrix):
    problem, _ = as_problem(matrix, None, "double")
    assert complex(*problem.values[0].tolist()) == complex(matrix.data[0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite(bad):
    with pytest.raises(ReproError, match="NaN or infinite"):
        repro.operator(eye(bad), precision="single", device=DEVICE)
    c = repro.spgemm(eye(bad), eye(1.0, np.float32), DEVICE)
    np.testing.assert_array_equal(c.data, [bad])


@pytest.mark.parametrize("what", [eye(1j), eye(1 + 0j)])
def test_complex_numbers_are_no_real_ones(what):
    for call in (lambda: repro.spgemm(what, what), lambda: repro.amg(what), lambda: repro.DynamicCSR.from_csr(what)):
        with pytest.raises(ReproError, match="not real"):
            call()


@pytest.mark.parametrize("what", [np.array(["a"]), np.array([None]), np.array([1.0], object), np.array([b"x"])])
def test_what_are_no_numbers_is_refused(what):
    damaged = eye(1.0)
    damaged.data = what
    with pytest.raises(ReproError, match=r"not numbers[\s\S]*a: data"):
        as_rows(damaged, subject="a")


@pytest.mark.parametrize("what", [np.eye(3), None, 3, "a", [[1.0]]])
def test_what_is_no_matrix_is_refused(what):
    message = "a file name, not a matrix" if isinstance(what, str) else "not a sparse matrix"
    with pytest.raises(ReproError, match=message):
        as_rows(what)
    with pytest.raises(ReproError, match=message):
        as_problem(what, None, None)


def test_other_numbers_of_axes_are_refused():
    with pytest.raises(ReproError, match="not a matrix"):
        as_problem(sp.coo_array(np.ones(3)), None, None)
    with pytest.raises(ReproError, match=r"no entries[\s\S]*2 x 3"):
        as_problem(sp.csr_array((2, 3)), None, None)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        (([1.0], [0.5], [0, 1]), "whole numbers"),
        (([1.0], [0.0], [0, 1]), "whole numbers"),
        (([1.0], [0], [0.0, 1.0]), "whole numbers"),
        (([1.0], [True], [0, 1]), "whole numbers"),
        (([1.0], [1 << 70], [0, 1]), "whole numbers"),
        (([1.0], [0], [0, 2]), "from 0 to 1 at most"),
        (([1.0], [0], [0]), "2, one more"),
        (([1.0], [3], [0, 1]), "0 to 2"),
        (([1.0], [-1], [0, 1]), "0 to 2"),
        (([[1.0]], [0], [0, 1]), "1 axis"),
        (([[1.0], [1.0, 2.0]], [0], [0, 1]), "not an array of numbers\n  where: matrix: data"),
        ((["a"], [0], [0, 1]), "not numbers"),
    ],
)
def test_arrays_of_csr_are_looked_at(arrays, said):
    with pytest.raises(ReproError, match=said):
        repro.DynamicCSR.from_csr(arrays, (1, 3), device=DEVICE)
    assert checked_csr(([], [], [0, 0]), (1, 3), "a").nnz == 0
