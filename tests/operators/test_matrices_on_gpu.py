"""Operators of matrices that lie on a GPU, which are checked and packed there: on an emulated GPU."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.devices.base import OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators import product as products
from repro.operators.runtime import open_runtime
from repro.sparse.compound.defaults import Rows
from repro.sparse.compound.device_packing import DevicePacker
from support import stand_in_cupy
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import EmulatedRuntime, csr_matrix, install_cupy, install_cupyx, ndarray
from support.matrices import draw, random

pytestmark = [pytest.mark.medium, needs_compiler]

VARIANTS = (
    "CSR-AoS-AoS/direct-64-3-w8",
    "Sl-8-AoSoA-AoS/direct-128-8-w4",
    "ELL-SoA-AoS/static-64-3",
    "Sl-32-AoSoA-AoS@sigma/direct-256-4-u4",
)
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
TOLERANCE = {np.dtype(dtype): 1e-5 if np.dtype(dtype).name in ("float32", "complex64") else 1e-12 for dtype in DTYPES}


@pytest.fixture
def runtime(monkeypatch, built_folder):
    runtime = EmulatedRuntime(monkeypatch, built_folder / "emulated")
    monkeypatch.setattr(products, "open_runtime", lambda device: runtime)
    return runtime


@pytest.fixture
def bring_array(monkeypatch, runtime):
    return install_cupy(monkeypatch, runtime)


@pytest.fixture
def bring(monkeypatch, bring_array):
    return install_cupyx(monkeypatch, bring_array)


def drawn(dtype, rows=40, columns=30):
    matrix = random(rows, columns, 0.2).astype(dtype)
    matrix.data[:] = draw(matrix.nnz, dtype)
    matrix.sort_indices()
    return matrix


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tuned", [*VARIANTS, "default"])
@pytest.mark.parametrize(("dtype", "index"), [*zip(DTYPES, 2 * [np.int32, np.int64], strict=True)])
def test_a_matrix_is_packed_where_it_lies(bring, bring_array, monkeypatch, dtype, index, tuned):
    matrix = drawn(dtype)
    given, x = bring(matrix, index), draw(30, dtype)
    with monkeypatch.context() as patch:
        for kind in (csr_matrix, ndarray):
            patch.setattr(kind, "get", lambda self: pytest.fail("copied to the host"))
        A = repro.operator(given, tuned)
        y = A @ bring_array(x)
        assert not A._matrix.is_on_host
    assert A.dtype == dtype and A.shape == (40, 30)
    np.testing.assert_allclose(y.get(), matrix @ x, atol=TOLERANCE[np.dtype(dtype)])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "tuned", [*VARIANTS, "Sl-8-AoSoA-AoS@clustered/chunk-512-2-w4", "Sl-4-SoA-AoS@rcm/static-64-3"]
)
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_it_is_read_back_where_the_host_needs_it(bring, bring_array, dtype, precision, tuned):
    matrix = drawn(dtype, 40, 40)
    A = repro.operator(bring(matrix), tuned, precision=precision)
    x = draw(40, A.dtype)
    np.testing.assert_allclose((A @ bring_array(x)).get(), matrix @ x, atol=1e-5)
    np.testing.assert_allclose((A.H @ bring_array(x)).get(), matrix.conj().T @ x, atol=1e-5)
    problem = A._problem
    assert problem.validate() and problem.shape == matrix.shape
    members = problem.values.view(np.complex128 if A.dtype.kind == "c" else float)[:, 0]
    back = sp.csr_array((members, problem.indices, problem.indptr), problem.shape)
    assert abs(back.astype(A.dtype) - matrix.astype(A.dtype)).max() == 0


def test_where_two_copies_do_not_fit_the_host_packs(bring, bring_array, monkeypatch):
    def full(*_):
        raise OutOfDeviceMemory("it is full")

    monkeypatch.setattr(DevicePacker, "pack", full)
    matrix, x = drawn(float), draw(30, float)
    A = repro.operator(bring(matrix, np.int64), VARIANTS[1])
    np.testing.assert_allclose((A @ bring_array(x)).get(), matrix @ x, atol=1e-12)


def test_an_operator_has_a_copy(bring, bring_array):
    matrix = drawn(float)
    given, x = bring(matrix), draw(30, float)
    A = repro.operator(given, VARIANTS[0])
    for array in (given.data, given.indices, given.indptr):
        array.memory.bytes[:] = 0
    np.testing.assert_allclose((A @ bring_array(x)).get(), matrix @ x, atol=1e-12)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("tuned", [VARIANTS[0], "default"])
@pytest.mark.parametrize(("dtype", "index"), [*zip(DTYPES, 2 * [np.int32, np.int64], strict=True)])
def test_csr_of_scipy_is_copied_and_checked_on_the_gpu(runtime, monkeypatch, kind, dtype, index, tuned):
    given, x = kind(drawn(dtype, 70)), draw(30, dtype)
    given.indptr, given.indices = given.indptr.astype(index), given.indices.astype(index)
    expected = given @ x
    with monkeypatch.context() as patch:
        patch.setattr(products, "as_problem", lambda *_: pytest.fail("checked on the host"))
        A = repro.operator(given, tuned)
    given.data[:] = 0
    np.testing.assert_allclose(A @ x, expected, atol=TOLERANCE[np.dtype(dtype)])


def test_csr_of_scipy_stays_on_the_host_where_it_is_needed_there(runtime, monkeypatch):
    monkeypatch.setattr(products, "_take_copied", lambda *_: pytest.fail("copied to the GPU"))
    with products.take_matrix(drawn(float), None, None, "auto", on_host=True)[0] as taken:
        assert taken.is_on_host


@pytest.mark.parametrize("lengths", [[3, 0, 5], [0] * 31 + [7], [1] * 32 + [2, 9], [4] * 700, [0, 0]])
def test_rows_are_measured_on_the_gpu(runtime, lengths):
    columns = np.concatenate([np.arange(length, dtype=np.int32) for length in [*lengths, 1]])
    pointers = np.cumsum([0, *lengths, 1], dtype=np.int32)
    matrix = sp.csr_array((np.ones(len(columns)), columns, pointers), shape=(len(lengths) + 1, 10))
    with products.take_matrix(matrix, None, None, "auto")[0] as taken:
        assert taken.rows == Rows.of(np.diff(pointers))
        assert not taken.is_on_host


def test_csr_of_scipy_that_is_unordered_or_longer_than_it_says_is_right(runtime):
    matrix, x = drawn(float), draw(30, float)
    longer = sp.csr_array((40, 30))
    longer.data, longer.indices = np.append(matrix.data, np.nan), np.append(matrix.indices, -1).astype(np.int32)
    longer.indptr = matrix.indptr
    twice = sp.csr_array((np.tile(matrix.data, 1), matrix.indices, matrix.indptr), matrix.shape)
    twice.indices = twice.indices[::-1].copy()
    for given in (longer, twice):
        np.testing.assert_allclose(repro.operator(given) @ x, given @ x, atol=1e-12)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("indptr", 0, 1),
        ("indptr", 3, -1),
        ("indptr", 3, 10**6),
        ("indptr", -1, 10**6),
        ("indices", 0, -1),
        ("indices", -1, 30),
    ],
)
def test_a_damaged_matrix_is_refused(bring, monkeypatch, name, place, value, index):
    def check(matrix, subject):
        raise ReproError("the matrix is damaged", where=subject)

    monkeypatch.setattr(products, "check_cupys", check)
    matrix = sp.csr_array(np.triu(np.ones((30, 30)))[:20])
    getattr(matrix, name)[place] = value
    with pytest.raises(ReproError, match="damaged"):
        repro.operator(bring(matrix, index))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bring, dtype, value):
    matrix = drawn(dtype)
    matrix.data[-1] = value if matrix.dtype.kind == "f" else complex(1, value)
    with pytest.raises(ReproError, match="NaN or infinite"):
        repro.operator(bring(matrix))


@pytest.mark.parametrize("value", [1e39, -1e39, 1e-40, -3e-46])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_numbers_that_the_precision_does_not_hold_are_refused(bring, dtype, value):
    matrix = drawn(dtype)
    matrix.data[3] = value
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        repro.operator(bring(matrix), precision="single")
    with pytest.raises(ReproError, match="cannot be represented in float32"):
        repro.operator(matrix, precision="single")
    repro.operator(bring(matrix), VARIANTS[0])


def test_numbers_that_are_rounded_or_exact_are_taken(bring):
    matrix = drawn(float)
    matrix.data[:4] = 0, 1 / 3, float(np.float32(1e-40)), np.finfo(np.float32).max
    A = repro.operator(bring(matrix), VARIANTS[0], precision="single")
    np.testing.assert_array_equal(A._problem.values[:, 0], matrix.data.astype(np.float32))


def test_columns_are_sorted_and_duplicates_added_up_in_a_copy(bring, bring_array, monkeypatch):
    twice = sp.csr_array(
        (np.array([1.0, 2.0, 4.0]), np.array([1, 0, 0], np.int32), np.array([0, 3, 3], np.int32)), (2, 2)
    )

    def ordered(matrix):
        host = matrix.get()
        host.sum_duplicates()
        return csr_matrix(*map(bring_array, (host.data, host.indices, host.indptr)), matrix.shape)

    monkeypatch.setattr(products, "sorted_cupys", ordered)
    given, x = bring(twice), np.array([1.0, 10.0])
    A = repro.operator(given, VARIANTS[0])
    np.testing.assert_array_equal((A @ bring_array(x)).get(), twice @ x)
    assert given.nnz == 3 and A._problem.nnz == 2


def test_what_lies_behind_the_last_offset_is_no_entry(bring, bring_array):
    matrix = drawn(float)
    longer = sp.csr_array(matrix.shape)
    longer.data, longer.indices = np.append(matrix.data, np.nan), np.append(matrix.indices, 999).astype(np.int32)
    longer.indptr = matrix.indptr
    x = draw(30, float)
    A = repro.operator(bring(longer), VARIANTS[1])
    np.testing.assert_allclose((A @ bring_array(x)).get(), matrix @ x, atol=1e-12)


def test_other_entries_are_folded_on_the_host(bring, bring_array, monkeypatch):
    monkeypatch.setattr(products, "check_cupys", lambda *_: None)
    matrix = sp.csr_array(sp.kron(random(10, 10, 0.3), np.ones((3, 3))))
    A = repro.operator(bring(matrix), "CSR-AoS-AoS/direct-64-3", entry="block3")
    x = draw(30, float)
    assert A.entry == "block3"
    np.testing.assert_allclose((A @ bring_array(x)).get(), matrix @ x, atol=1e-12)


def test_an_empty_matrix_and_one_on_another_device_are_refused(bring, monkeypatch):
    monkeypatch.setattr(products, "check_cupys", lambda *_: None)
    with pytest.raises(ReproError, match="no entries"):
        repro.operator(bring(sp.csr_array((3, 4))))
    for device in ("cuda:1", "opencl:0"):
        with pytest.raises(ReproError, match="on a different device"):
            repro.operator(bring(drawn(float)), device=device)
    with pytest.raises(ReproError, match="unknown precision"):
        repro.operator(bring(drawn(float)), precision="half")


def test_a_matrix_of_cupy_that_lies_on_no_gpu_is_converted(monkeypatch):
    bring = stand_in_cupy.install(monkeypatch, open_runtime("opencl:0"))
    for dtype in DTYPES:
        matrix = drawn(dtype)
        x = draw(30, dtype)
        A = repro.operator(bring(matrix), device="opencl:0")
        np.testing.assert_allclose(A @ x, matrix @ x, atol=TOLERANCE[np.dtype(dtype)])
    matrix.indices[0] = 30
    with pytest.raises(ReproError, match=r"damaged[\s\S]*matrix: indices\[0\]"):
        repro.operator(bring(matrix), device="opencl:0")


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_on_the_host_are_taken(dtype, layout):
    torch = pytest.importorskip("torch")
    matrix = sp.csr_array(sp.kron(random(10, 8, 0.3).astype(dtype), np.ones((3, 3))))
    dense = torch.from_numpy(matrix.toarray())
    tensor = {
        "csr": dense.to_sparse_csr, "csc": dense.to_sparse_csc, "coo": dense.to_sparse_coo,
        "bsr": lambda: dense.to_sparse_bsr((3, 3)),
    }[layout]()  # fmt: skip
    if layout == "bsr" and np.dtype(dtype).kind == "c":
        pytest.skip("complex numbers in blocks are taken as numbers")
    x = draw(24, dtype)
    A = repro.operator(tensor, device="opencl:0")
    assert A.entry == ("block3" if layout == "bsr" else "complex" if matrix.dtype.kind == "c" else "real")
    np.testing.assert_allclose(A @ x, matrix @ x, atol=10 * TOLERANCE[np.dtype(dtype)])
    with pytest.raises(ReproError, match="not a sparse matrix"):
        repro.operator(dense, device="opencl:0")
    if matrix.dtype.kind != "c":  # PyTorch has no sparse matrices of complex numbers that record a gradient
        with pytest.raises(ReproError, match="gradient"):
            repro.operator(dense.requires_grad_().to_sparse_csr(), device="opencl:0")
