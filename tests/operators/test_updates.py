"""New values in the pattern of an operator: products of it and of its transposes afterwards."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.devices.base import OutOfDeviceMemory
from repro.entries import entries
from repro.errors import ReproError
from repro.operators import product as products
from repro.operators.runtime import open_runtime
from repro.problems.matrix import Matrix
from repro.sparse.compound.device_packing import DevicePacker
from repro.sparse.operands import expand
from support.device_memory import fill_after
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import CAPTURED_STREAM, CURRENT_STREAM, EmulatedRuntime, install_cupy
from support.matrices import draw, poisson, random

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
ENTRIES = sorted(name for name, entry in entries().items() if entry.members)
VARIANTS = (
    "default",
    "CSR-AoSoA-AoS@clustered/direct-64-3-w2",
    "Sl-8-AoSoA-SoA/direct-64-3-w2-u2",
    "ELL-SoA-AoS/static-64-3",
    "ELLPACK-AoS-Padded/static-64-3",
    "Sl-4-SoA-AoS@rcm/static-64-3",
)


def with_values(problem: Matrix, seed: int, dtype: type) -> tuple[Matrix, np.ndarray]:
    """Return a matrix with other values, and these as a user has them."""
    members = np.random.default_rng(seed).uniform(-1, 1, problem.values.shape).astype(dtype)
    changed = Matrix(
        "m", problem.entry, problem.n, problem.indptr, problem.indices, members.astype(float), problem.columns
    )
    values = members.view(np.result_type(dtype, np.complex64))[:, 0] if problem.entry == "complex" else members
    return changed, values


def as_numbers(problem: Matrix) -> sp.csr_array:
    if problem.entry == "complex":
        values = problem.values[:, 0] + 1j * problem.values[:, 1]
        return sp.csr_array((values, problem.indices, problem.indptr), shape=problem.shape)
    return sp.csr_array(expand(problem, problem.values))


def check(A, matrix, atol=1e-12):
    for operator, expected in ((A, matrix), (A.T, matrix.T), (A.H, matrix.conj().T), (A.T.H, matrix.conj())):
        x = draw(expected.shape[1], A.dtype)
        np.testing.assert_allclose(operator @ x, expected @ x, atol=atol)
    X = draw(3 * matrix.shape[1], A.dtype).reshape(-1, 3)
    np.testing.assert_allclose(A @ X, matrix @ X, atol=atol)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("place", ["host", "device"])
@pytest.mark.parametrize("tuned", VARIANTS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_products_are_of_the_new_values(small_problem, put, entry, tuned, place):
    problem = small_problem(entry)
    A = repro.operator(problem, tuned, device=DEVICE)
    T, H, back, nbytes = A.T, A.H, A.T.H, A.nbytes
    for seed in range(2):
        changed, values = with_values(problem, seed, float)
        A.update(put(values) if place == "device" else values)
        check(A, as_numbers(changed))
        assert (A.T is T) and (A.H is H) and (A.T.H is back) and A.nbytes == nbytes
    np.testing.assert_array_equal(A._problem.values, changed.values)
    changed, values = with_values(problem, 7, float)
    check(pickle.loads(pickle.dumps(A)), as_numbers(with_values(problem, 1, float)[0]))
    # by way of the transpose
    transposed = as_numbers(changed).T
    order = sp.csr_array((np.arange(problem.nnz), problem.indices, problem.indptr), shape=problem.shape).tocsc().data
    if entry == "complex":
        T.update(values[order])
    elif entry == "real":
        T.update(values[order].ravel())
    else:
        return
    check(T, transposed)
    check(A, transposed.T)


@pytest.mark.parametrize("entry", ENTRIES)
def test_in_single_precision(small_problem, put, entry):
    problem = small_problem(entry)
    A = repro.operator(problem, precision="single", device=DEVICE)
    changed, values = with_values(problem, 1, np.float32)
    A.update(put(values))
    check(A, as_numbers(changed), 1e-4)
    changed, values = with_values(problem, 2, float)
    A.update(values)  # rounded
    check(A, as_numbers(changed), 1e-4)
    with pytest.raises(ReproError, match="the wrong dtype"):
        A.update(put(values))


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
def test_of_rectangular_matrices(put, shape):
    matrix = random(*shape, 0.2)
    A = repro.operator(matrix, device=DEVICE)
    transpose = A.T
    matrix.data[:] = draw(matrix.nnz, float)
    A.update(put(matrix.data))
    check(A, matrix)
    assert A.T is transpose


@pytest.mark.parametrize("place", ["host", "device"])
@pytest.mark.parametrize("tuned", ["default", "Sl-4-SoA-AoS@rcm/static-64-3"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_symmetric_matrix_may_become_unsymmetric(small_problem, as_scipy, put, entry, tuned, place):
    whole = sp.csr_array(as_scipy(small_problem(entry)))
    whole = whole + whole.T
    bring = put if place == "device" else np.asarray
    A = repro.operator(whole, tuned, entry=entry, device=DEVICE)
    T = A.T if entry == "complex" else A.H
    assert T._product is A._product and T is not A
    nbytes = A.nbytes
    problem = A._problem
    twice = 2 * problem.values  # symmetric still
    A.update(bring(twice.view(complex)[:, 0] if entry == "complex" else twice))
    assert T._product is A._product
    check(A, 2 * whole)
    for first in (A, T):
        changed, values = with_values(problem, 3, float)
        first.update(bring(values))
        assert T._product is not A._product
        check(first, as_numbers(changed))
        assert (A.T if entry == "complex" else A.H) is T and A.nbytes == T.nbytes == nbytes
    A.close()
    with pytest.raises(ReproError, match="closed"):
        T @ draw(T.shape[1], T.dtype)


def test_the_transpose_of_a_symmetric_matrix_may_be_updated_first():
    matrix = sp.csr_array(poisson((6, 6), 5))
    A = repro.operator(matrix, device=DEVICE)
    T, changed = A.T, matrix.copy()
    changed.data[:] = draw(matrix.nnz, float)
    T.update(changed.data)
    check(T, changed)
    check(A, changed.T)
    with T:
        pass
    check(A, changed.T)
    assert A.T is not T


@pytest.mark.parametrize("place", ["host", "device"])
def test_pairs_stay_symmetric(put, place):
    matrix = sp.csr_array(poisson((12, 12), 5))
    A = repro.operator(matrix, "Pairs-64-AoSoA-AoS/direct-64-3", device=DEVICE)
    T = A.T
    bring = put if place == "device" else np.asarray
    A.update(bring(3 * matrix.data))
    check(A, 3 * matrix)
    check(T, 3 * matrix)
    with pytest.raises(ReproError, match="cannot hold the matrix"):
        A.update(bring(draw(matrix.nnz, float)))
    check(A, 3 * matrix)
    assert T._product is A._product


def test_solvers_are_closed_and_made_anew():
    matrix = sp.csr_array(poisson((8, 8), 5))
    A, b = repro.operator(matrix, device=DEVICE), np.ones(64)
    solver = A.solver()
    A.update(2 * matrix.data)
    with pytest.raises(ReproError, match="solver is closed"):
        solver.solve(b)
    np.testing.assert_allclose(2 * matrix @ A.solve(b), b, atol=1e-6)


def test_blocks_as_scipy_stores_them():
    blocks = np.random.default_rng(1).random((7, 3, 3))
    matrix = sp.bsr_array((blocks, np.array([0, 2, 1, 0, 1, 2, 3]), np.array([0, 2, 3, 6, 7])), shape=(12, 12))
    A = repro.operator(matrix, device=DEVICE)
    A.update(-blocks)
    check(A, -sp.csr_array(matrix))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(5), r"the number of values is wrong[\s\S]*expected: 4"),
        (np.ones(0), "the number of values is wrong"),
        (1.0, "the number of values is wrong"),
        (np.array([1.0, np.nan, 1, 1]), r"NaN or infinite[\s\S]*values\[1\]"),
        ([1, 2, 3, np.inf], r"NaN or infinite[\s\S]*values\[3\]"),
        (np.full(4, 1j), r"cannot be represented in float64[\s\S]*values\[0\][\s\S]*real part"),
        (np.array(["a"] * 4), "not numbers"),
        (np.ma.masked_less([1.0, 2, 3, 4], 2), "mask"),
    ],
    ids=str,
)
def test_other_arrays_are_refused_and_change_nothing(values, message):
    matrix = sp.csr_array(np.diag([1.0, 2, 3, 4]))
    A = repro.operator(matrix, device=DEVICE)
    with pytest.raises(ReproError, match=message):
        A.update(values)
    np.testing.assert_array_equal(A @ np.ones(4), [1, 2, 3, 4])
    A.update([4, 3, 2, 1])  # whole numbers, exactly
    np.testing.assert_array_equal(A @ np.ones(4), [4, 3, 2, 1])


def test_device_arrays_of_another_size_or_dtype_are_refused(put):
    A = repro.operator(sp.csr_array(np.diag([1.0, 2, 3, 4])), device=DEVICE)
    for array, message in (
        (np.ones(5), "the wrong size"),
        (np.ones(4, np.float32), "the wrong dtype"),
        (1j * np.ones(4), "dtype"),
    ):
        with pytest.raises(ReproError, match=message):
            A.update(put(array))


def test_closed_operators_and_those_without_values_are_refused(small_problem):
    A = repro.operator(small_problem("pattern"), device=DEVICE)
    with pytest.raises(ReproError, match="stores no values"):
        A.update(np.ones(A._matrix.nnz))
    B = repro.operator(sp.csr_array(np.eye(3)), device=DEVICE)
    B.close()
    with pytest.raises(ReproError, match="closed"):
        B.update(np.ones(3))


@pytest.mark.parametrize("nth", range(2))
def test_a_full_device_is_one_message_and_changes_nothing(monkeypatch, nth):
    matrix = random(40, 40, 0.2)
    A = repro.operator(matrix, "Sl-8-AoSoA-AoS/direct-64-3-w2", device=DEVICE)
    check(A, matrix)
    fill_after(monkeypatch, open_runtime(DEVICE).device, nth)
    with pytest.raises(ReproError, match="the device is out of memory"):
        A.update(2 * matrix.data)
    monkeypatch.undo()
    check(A, matrix)
    A.update(2 * matrix.data)
    check(A, 2 * matrix)


def test_where_two_copies_do_not_fit_the_host_packs(monkeypatch, put):
    matrix = random(40, 40, 0.2)

    def full(*_):
        raise OutOfDeviceMemory("it is full")

    monkeypatch.setattr(DevicePacker, "pack", full)
    A = repro.operator(matrix, "Sl-8-AoSoA-AoS@clustered/direct-64-3-w2", device=DEVICE)
    check(A, matrix)
    A.update(put(2 * matrix.data))
    check(A, 2 * matrix)


@pytest.fixture
def emulated(monkeypatch, built_folder):
    runtime = EmulatedRuntime(monkeypatch, built_folder / "emulated")
    monkeypatch.setattr(products, "open_runtime", lambda device: runtime)
    return runtime


@needs_compiler
@pytest.mark.parametrize("tuned", ["CSR-AoS-AoS/direct-64-3-w8", "Sl-8-AoSoA-AoS/direct-128-8-w4"])
def test_on_a_gpu_it_is_ordered_with_the_current_stream(emulated, monkeypatch, tuned):
    bring = install_cupy(monkeypatch, emulated)
    matrix = random(50, 50, 0.2)
    A, x = repro.operator(matrix, tuned), draw(50, float)
    np.testing.assert_allclose((A @ bring(x)).get(), matrix @ x, atol=1e-12)
    waited = emulated._streams.waited
    waited.clear()
    A.update(bring(3 * matrix.data))
    assert len(waited) == 1 and CURRENT_STREAM in waited[0]
    np.testing.assert_allclose((A @ bring(x)).get(), 3 * matrix @ x, atol=1e-12)
    waited.clear()
    A.update(4 * matrix.data, stream=17)
    assert {17} in waited
    np.testing.assert_allclose((A @ bring(x)).get(), 4 * matrix @ x, atol=1e-12)
    A.T  # noqa: B018
    A.update(bring(5 * matrix.data))
    np.testing.assert_allclose((A.T @ bring(x)).get(), 5 * matrix.T @ x, atol=1e-12)
    given = bring(6 * matrix.data)
    with pytest.raises(ReproError, match="a CUDA graph cannot contain"):  # transposes are compared on the host
        A.update(given, stream=CAPTURED_STREAM)
    A.T.close()
    A.update(given, stream=CAPTURED_STREAM)
    with pytest.raises(ReproError, match="a CUDA graph cannot contain"):
        A.update(7 * matrix.data, stream=CAPTURED_STREAM)
    np.testing.assert_allclose((A @ bring(x)).get(), 6 * matrix @ x, atol=1e-12)
