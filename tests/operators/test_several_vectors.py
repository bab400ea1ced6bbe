"""Products of several vectors at once, on the host and on the device, row-major and column-major."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.codegen.targets import CPU, get_target
from repro.entries import entries, get_entry
from repro.errors import ReproError
from repro.operators.base import LengthError
from repro.operators.runtime import open_runtime
from repro.problems.matrix import Matrix
from repro.sparse.compound.kernels import MAX_COLUMNS, columns_schedule, split_columns
from repro.sparse.compound.variants import Schedule
from repro.sparse.operands import expand

pytestmark = pytest.mark.medium

DEVICE = "opencl:0"
ENTRIES = sorted(entries())
#: Numbers of vectors: they need few kernels, and launches that overlap and that do not.
COUNTS = [2, 8, 15, 16, 40, 64]
VARIANTS = [
    "default",
    "Sl-8-AoSoA-Padded@clustered/direct-64-3-w2-u2-p",
    "Sl-16-SoA-SoA/dynamic-32-2",
    "ELLPACK-AoSoA-AoS/chunk-64-3-w4-cs",
    "ELL-AoS-AoS/static-64-3-rolled",
    "CSR-AoSoA-AoS/split-64-3-u4",
]
CASES = 300 // len(VARIANTS)


def make_matrix(rng, entry, square):
    rows, columns = (int(size) for size in rng.integers(1, 90, 2))
    shape = rows, rows if square else columns
    present = rng.random(shape) < rng.choice([0.03, 0.3, 0.8])
    present[rng.random(shape[0]) < 0.2] = False
    present[0, -1] = True
    pattern = sp.csr_array(present)
    values = rng.uniform(-1, 1, (pattern.nnz, len(get_entry(entry).members)))
    arrays = pattern.indptr.astype(np.int32), pattern.indices.astype(np.int32)
    return Matrix("drawn", entry, shape[0], *arrays, values, None if square else shape[1])


def in_scipy(matrix):
    if matrix.entry != "complex":
        return sp.csr_array(expand(matrix, matrix.values))
    values = matrix.values[:, 0] + 1j * matrix.values[:, 1]
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def draw(rng, shape, dtype):
    X = rng.uniform(-1, 1, shape)
    return (X + 1j * rng.uniform(-1, 1, shape)).astype(dtype) if np.dtype(dtype).kind == "c" else X.astype(dtype)


def on_device(X):
    return open_runtime(DEVICE).put(np.ascontiguousarray(X))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tuned", VARIANTS)
def test_several_vectors_are_multiplied_as_scipy_does(tuned):
    rng = np.random.default_rng(VARIANTS.index(tuned))
    for case in range(CASES):
        entry = ENTRIES[case % len(ENTRIES)]
        # kernels with vectors in SoA order are for square matrices, for one vector
        square = "SoA-SoA" in tuned or case % 2 == 0
        exact = in_scipy(matrix := make_matrix(rng, entry, square))
        count = int(rng.choice(COUNTS))
        with repro.operator(matrix, tuned, device=DEVICE) as A:
            X, Y = draw(rng, (A.shape[1], count), A.dtype), draw(rng, (A.shape[0], count), A.dtype)
            out = on_device(np.full((A.shape[0], count), np.nan, A.dtype))
            assert A.matmat(on_device(X), out) is out
            for actual, expected in (
                (A @ X, exact @ X),
                (A.matmat(np.asfortranarray(X)), exact @ X),
                (A @ np.repeat(X, 2, axis=1)[:, ::2], exact @ X),
                (A.H @ Y, exact.conj().T @ Y),
                (A.rmatmat(Y), exact.conj().T @ Y),
                ((A @ on_device(X)).get(), exact @ X),
                ((A * on_device(X)).get(), exact @ X),
                (A.rmatmat(on_device(Y)).get(), exact.conj().T @ Y),
                (out.get(), exact @ X),
            ):
                message = f"{entry} {matrix.shape}, {count} vectors, case {case}"
                np.testing.assert_allclose(actual, expected, atol=1e-12, err_msg=message)


@pytest.mark.parametrize("count", range(2, 65))
def test_every_column_is_multiplied_once_or_more_by_launches_of_one_width(count):
    for size in range(1, 20):
        width, starts = split_columns(count, size)
        assert 2 <= width <= MAX_COLUMNS
        assert {start + column for start in starts for column in range(width)} == {*range(count)}
        assert len(starts) * width < count + len(starts)


@pytest.mark.parametrize("count", range(2, 20))
def test_any_number_of_vectors_is_multiplied(count):
    matrix = sp.random_array((50, 30), density=0.2, rng=np.random.default_rng(1), format="csr")
    A = repro.operator(matrix, device=DEVICE)
    X = draw(np.random.default_rng(count), (30, count), float)
    np.testing.assert_allclose(A @ X, matrix @ X, atol=1e-13)


def test_a_column_is_the_same_whatever_is_beside_it():
    matrix = sp.random_array((50, 50), density=0.3, rng=np.random.default_rng(1), format="csr")
    A = repro.operator(matrix, device=DEVICE)
    X = draw(np.random.default_rng(2), (50, 16), float)
    others = np.full_like(X, np.nan)
    others[:, 3] = X[:, 3]
    np.testing.assert_array_equal((A @ others)[:, 3], (A @ X)[:, 3])


def test_several_vectors_take_one_launch_for_several_columns(monkeypatch):
    matrix = sp.random_array((50, 50), density=0.3, rng=np.random.default_rng(1), format="csr")
    A = repro.operator(matrix, device=DEVICE)
    A @ np.ones((50, 16))  # compiles
    bound = []
    bind = A._runtime.device.bind
    monkeypatch.setattr(A._runtime.device, "bind", lambda *arguments: bound.append(1) or bind(*arguments))
    A @ np.ones((50, 16))
    assert len(bound) == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128, int, bool])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
def test_dtypes_are_those_of_a_column(dtype, kind):
    matrix = sp.csr_array(np.array([[1, 2, 0], [0, 3, 4]], kind))
    A = repro.operator(matrix, device=DEVICE)
    X = (np.arange(6).reshape(3, 2) * (1 + 1j if np.dtype(dtype).kind == "c" else 1)).astype(dtype)
    one = [A @ column for column in X.T]
    np.testing.assert_array_equal(A @ X, np.stack(one, axis=1))
    assert (A @ X).dtype == one[0].dtype


def test_numbers_that_a_column_loses_are_refused():
    A = repro.operator(sp.eye_array(2, dtype=np.float32, format="csr"), device=DEVICE)
    for column in ([1e-300, 1e-300], [1e300, 1]):
        with pytest.raises(ReproError):
            A @ np.array(column)
        with pytest.raises(ReproError, match="X"):
            A @ np.stack([[1.0, 1.0], column], axis=1)


def test_no_and_one_vector():
    matrix = sp.csr_array(np.arange(1.0, 7).reshape(2, 3))
    A = repro.operator(matrix, device=DEVICE)
    assert (A @ np.ones((3, 0))).shape == (2, 0)
    assert (A @ on_device(np.ones((3, 0)))).shape == (2, 0)
    for y in (A @ np.ones((3, 1)), A.matmat(np.ones((3, 1))), A @ on_device(np.ones((3, 1)))):
        np.testing.assert_array_equal(np.asarray(y), [[6], [15]])


def test_what_does_not_fit_is_refused():
    A = repro.operator(sp.csr_array(np.ones((4, 3))), device=DEVICE)
    X = on_device(np.ones((3, 2)))
    for wrong in (np.ones((4, 2)), np.ones((2, 3)), on_device(np.ones((4, 2)))):
        with pytest.raises(ReproError, match=r"the wrong (shape|length|size)"):
            A @ wrong
        with pytest.raises(LengthError):
            A.matmat(wrong)
    for out in (on_device(np.ones((3, 2))), on_device(np.ones((4, 3))), np.ones((4, 2))):
        with pytest.raises(LengthError, match="out"):
            A.matmat(X, out)
    with pytest.raises(ReproError, match="dtype"):
        A @ on_device(np.ones((3, 2), np.float32))
    with pytest.raises(ReproError, match="out"):
        A.matmat(np.ones((3, 2)), np.ones((4, 2)))
    square = repro.operator(sp.eye_array(3, format="csr"), device=DEVICE)
    with pytest.raises(ReproError, match="overlap"):
        square.matmat(X, X)
    square.close()
    for closed in (np.ones((3, 2)), X):
        with pytest.raises(ReproError, match="closed"):
            square @ closed


@pytest.mark.parametrize("tuned", ["Pairs-64-AoSoA-AoS/direct-64-2", "CSR-AoS-AoS@rcm/static-64-3"])
def test_other_layouts_multiply_on_the_host_and_say_what_to_do_on_the_device(tuned):
    matrix = sp.csr_array(np.ones((5, 5)) + np.eye(5))
    A = repro.operator(matrix, tuned, device=DEVICE)
    X = draw(np.random.default_rng(2), (5, 7), float)
    np.testing.assert_allclose(A @ X, matrix @ X, atol=1e-13)
    with pytest.raises(ReproError, match=r"cannot multiply several vectors[\s\S]*to do: [\s\S]*default"):
        A @ on_device(X)


@pytest.mark.parametrize("target", [CPU, get_target("sm_90")])
def test_schedules_for_several_columns_fit_their_target(target):
    for block_size in (32, 64, 512):
        schedule = columns_schedule(Schedule("direct", block_size, 16, 8, 4, "cs", "p"), target, 1)
        assert 1 <= schedule.blocks_per_sm * block_size <= max(block_size, target.threads_per_sm // 4)
        assert (schedule.in_flight, schedule.prefetch, schedule.width) == (1, "", 8)


def test_gradients_of_several_vectors():
    torch = pytest.importorskip("torch")
    dense = np.random.default_rng(1).uniform(-1, 1, (4, 6))
    A = repro.operator(sp.csr_array(dense), device=DEVICE)
    X = torch.rand((6, 3), dtype=torch.float64, requires_grad=True)
    assert torch.allclose((A @ X).detach(), torch.from_numpy(dense) @ X.detach())
    assert torch.autograd.gradcheck(lambda X: A @ X, (X,))
