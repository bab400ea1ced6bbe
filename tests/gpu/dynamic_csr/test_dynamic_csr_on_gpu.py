"""A matrix that grows on a GPU, with arrays of other libraries taken where they lie, and on streams of theirs."""

import importlib.util
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.codegen.build_cache import compile_module
from repro.errors import ReproError
from repro.operators.arrays import INTERFACE
from repro.operators.runtime import open_runtime
from repro.sparse.dynamic.kernels import MAX_MEDIUM_BATCH, MAX_SMALL_BATCH
from repro.sparse.dynamic.matrix import DynamicMatrix
from repro.studies.dynamic_csr.kernels import render_key
from support.insertion_batches import (
    COLUMNS,
    COUNTS,
    GROUPED_COUNTS,
    KINDS,
    ROWS,
    assert_all_inserted,
    assert_inserted,
    assert_refused,
    drawn_batch,
    few_rows,
    grouped_batch,
    grown,
    half_in_one_row,
    half_inserted,
    one_part_of_many_rows,
    one_row,
    skewed,
    two_windows_of_a_part,
    uniform,
)
from support.matrices import batch_of, of_whole_numbers

pytestmark = pytest.mark.gpu

TYPES = [np.float32, np.float64]


@pytest.fixture(scope="module", autouse=True)
def runtime(gpu, tmp_path_factory):
    """The operators' own opening of the GPU, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_runtime("cuda:0")


@pytest.fixture(scope="module")
def modules(gpu, templates, tmp_path_factory):
    """The modules of a matrix in double precision, loaded."""
    folder, programs = tmp_path_factory.mktemp("dynamic"), []
    for name in ("matrix", "sort"):
        module = compile_module(
            render_key(templates, f"double/{name}", gpu.target), gpu.target, folder / f"{name}.json"
        )
        assert module.binary, module.message
        programs.append(gpu.load(folder / module.binary))
    return programs


@pytest.fixture
def on_gpu(gpu, modules):
    """Bring a matrix to the GPU."""
    held = []

    def bring(arrays, slack=2):
        held.append(DynamicMatrix(gpu, *modules, arrays, slack))
        return held[-1]

    yield bring
    for matrix in held:
        matrix.release()


class Foreign:
    """Another library's array: it shows the interface and nothing else."""

    def __init__(self, array, **changes):
        self.array = array
        setattr(self, INTERFACE, {**getattr(array, INTERFACE), **changes})


def drawn(dtype=np.float64, rows=3000, columns=2000, seed=1):
    return of_whole_numbers(rows, columns, 0.005, dtype, seed)


def assert_same(A, expected):
    """Expect SciPy's entries and product; sums of small whole numbers are exact."""
    assert abs(A.to_scipy() - expected).max() == 0
    x = np.random.default_rng(3).integers(-4, 4, A.shape[1]).astype(A.dtype)
    for multiplies in (A, A.reader()):
        np.testing.assert_array_equal(multiplies @ x, expected @ x)


# batches of all sizes and kinds, entry for entry as on the host


@pytest.mark.parametrize("m", [*COUNTS, 9000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_inserted_entry_for_entry_as_on_the_host(on_gpu, kind, m):
    dynamic = on_gpu(grown(KINDS[kind], segments=2, capacity=200_000))
    assert len(assert_inserted(dynamic, drawn_batch(kind, m), slack=2)) == 0


@pytest.mark.parametrize("m", GROUPED_COUNTS)
@pytest.mark.parametrize("kind", [uniform, half_in_one_row, skewed])
def test_a_grouped_batch_is_inserted_as_any_other(on_gpu, kind, m):
    dynamic = on_gpu(grown(ROWS, segments=2, capacity=200_000))
    assert len(assert_inserted(dynamic, grouped_batch(kind, m), slack=2, grouped=True)) == 0


@pytest.mark.parametrize("kind", [uniform, half_in_one_row, skewed, few_rows])
def test_batches_follow_each_other_until_chains_are_full(on_gpu, kind):
    dynamic, lefts = on_gpu(grown(ROWS, segments=3, capacity=1_000_000)), []
    for turn, m in enumerate((9000, 100, MAX_MEDIUM_BATCH, 9000, MAX_SMALL_BATCH + 1)):
        lefts.append(len(assert_inserted(dynamic, drawn_batch(kind, m, turn), slack=1)))
    assert lefts[-1] > 0


@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize("kind", [uniform, one_row, half_in_one_row, one_part_of_many_rows])
def test_rows_whose_chain_is_full_take_nothing(on_gpu, kind, m):
    batch = drawn_batch(kind, m)
    assert len(assert_inserted(on_gpu(half_inserted(kind, batch)), batch, slack=2)) >= m // 2


@pytest.mark.parametrize("m", [MAX_SMALL_BATCH + 1, 9000, MAX_MEDIUM_BATCH])
@pytest.mark.parametrize("kind", [uniform, half_in_one_row, skewed, one_part_of_many_rows, two_windows_of_a_part])
def test_a_buffer_without_room_for_all_takes_rows_whole_or_not(on_gpu, kind, m):
    dynamic = on_gpu(grown(KINDS[kind], segments=4, capacity=m // 3))
    assert 0 < len(assert_inserted(dynamic, drawn_batch(kind, m), slack=0)) <= m


@pytest.mark.parametrize("kind", [uniform, one_row, half_in_one_row, skewed])
def test_what_was_left_is_inserted_in_the_order_of_the_batch(on_gpu, kind):
    before = grown(ROWS, segments=1, capacity=3000)
    assert_all_inserted(on_gpu(before), before, drawn_batch(kind, 9000))


@pytest.mark.parametrize("m", COUNTS)
@pytest.mark.parametrize("bad", [(-1, 0), (ROWS, 0), (0, -1), (0, COLUMNS)])
def test_a_bad_entry_at_the_end_refuses_the_batch(on_gpu, m, bad):
    rows, columns, values = drawn_batch(uniform, m)
    dynamic = on_gpu(grown(ROWS, segments=2, capacity=200_000))
    good = rows[-1], columns[-1]
    rows[-1], columns[-1] = bad
    assert_refused(dynamic, (rows, columns, values))
    rows[-1], columns[-1] = good
    assert_inserted(dynamic, (rows, columns, values), slack=2)


# arrays of others


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("count", [1, 2000, 20_000, 100_000])
def test_arrays_of_others_are_inserted_where_they_lie(runtime, monkeypatch, dtype, count):
    base = drawn(dtype)
    rows, columns, values = batch_of(base.shape, count)
    expected = sp.csr_array(base + sp.coo_array((values, (rows, columns)), shape=base.shape))
    A = repro.DynamicCSR.from_csr(base, device="cuda:0")
    own = [runtime.put(array) for array in (rows.astype(np.int32), columns.astype(np.int32), values.astype(dtype))]

    def copied(*_):
        raise AssertionError("an array was copied")

    with monkeypatch.context() as patch:
        patch.setattr(runtime.device, "write", copied)
        patch.setattr(A._batches, "convert", copied)
        A.insert(*map(Foreign, own))
    assert_same(A, expected)
    wide = [runtime.put(array) for array in (rows, columns, values)]
    A.insert(*map(Foreign, wide), mode="unique")
    A.delete(*map(Foreign, wide[:2]))
    left = expected.tolil()
    left[rows, columns] = 0
    assert_same(A, left.tocsr())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("indices", [np.int32, np.int64])
def test_arrays_of_csr_stay_on_the_gpu(runtime, dtype, indices):
    matrix = drawn(dtype)
    parts = matrix.data, matrix.indices.astype(indices), matrix.indptr.astype(indices)
    A = repro.DynamicCSR.from_csr(tuple(Foreign(runtime.put(part)) for part in parts), matrix.shape, device="cuda:0")
    assert_same(A, matrix)


def test_what_does_not_fit_is_refused(runtime):
    A = repro.DynamicCSR.from_csr(drawn(), device="cuda:0")
    rows = runtime.put(np.array([0, 3000], np.int32))
    with pytest.raises(ReproError, match="outside"):
        A.insert(Foreign(rows), 0, 1.0)
    with pytest.raises(ReproError, match="a different device"):
        A.insert(Foreign(rows, data=(np.zeros(2, np.int32).ctypes.data, False)), 0, 1.0)
    with pytest.raises(ReproError, match="contiguous"):
        A.insert(Foreign(rows, strides=(8,)), 0, 1.0)
    x = runtime.put(np.zeros(2000))
    with pytest.raises(ReproError, match="the wrong size"):
        A.matvec(Foreign(x), out=Foreign(x))
    assert_same(A, drawn())


@pytest.mark.parametrize(
    ("dtype", "lost", "held"),
    [
        ("float32", np.float64([1e300, -1e39, 1e-60, 1e-45]), np.float64([0.1, np.inf, np.nan, 2.0**-149, 3.4e38])),
        ("float32", np.int64([2**24 + 1, 2**63 - 1, 2**62 + 1]), np.int64([2**24, -(2**63), 2**62])),
        ("float32", np.int32([2**24 + 1, 2**31 - 1]), np.int32([2**24, -(2**31)])),
        ("float64", np.int64([2**53 + 1, 2**63 - 1]), np.int64([2**53, -(2**63)])),
    ],
)
def test_values_that_the_matrix_does_not_hold_are_found_there(runtime, dtype, lost, held):
    A = repro.DynamicCSR((1, 10), dtype, device="cuda:0")
    for value in lost:
        with pytest.raises(ReproError, match=rf"cannot be represented in {dtype}; nothing was changed[\s\S]*1 others"):
            A.insert(0, np.arange(2), Foreign(runtime.put(np.array([1, value], lost.dtype))))
    assert A.nnz == 0
    A.insert(0, np.arange(len(held)), Foreign(runtime.put(held)))
    np.testing.assert_array_equal(A.to_scipy().data, held.astype(dtype))


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_matrices_of_cupys_are_looked_at_before_they_are_converted():
    import cupy
    import cupyx.scipy.sparse

    good = cupyx.scipy.sparse.csr_matrix(sp.csr_matrix(np.eye(3)))
    for format, name, numbers in (
        ("csr", "indices", [0, 10**8, 2]),
        ("csr", "indptr", [0, 10**8, 2, 3]),
        ("csc", "indices", [0, -1, 2]),
        ("csc", "indptr", [0, 2, 1, 3]),
        ("coo", "row", [0, 10**8, 2]),
        ("coo", "col", [0, 1, -3]),
    ):
        wrong = good.asformat(format).copy()
        setattr(wrong, name, cupy.asarray(numbers, cupy.int32))
        for call in (lambda other: repro.spgemm(good, other), repro.amg):
            with pytest.raises(ReproError, match="the matrix is damaged"):
                call(wrong)
    twice = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 0]), np.array([0, 3, 3])), (2, 2))
    lying = cupyx.scipy.sparse.csr_matrix(twice)
    lying.has_canonical_format = True
    assert (repro.spgemm(lying, lying).get().toarray() == twice.toarray() @ twice.toarray()).all()


def test_streams_of_others_are_waited_for(runtime):
    """Rows that are still being written on another stream when they are given are those that are inserted."""
    from cuda.bindings import driver

    A = repro.DynamicCSR((100, 100), device="cuda:0")
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    large = runtime.device.allocate(1 << 30)
    rows, columns = (runtime.put(np.full(64, 99, np.int32)) for _ in range(2))
    for _ in range(50):
        driver.cuMemsetD8Async(large.pointer, 0, 1 << 30, stream)
    for array in (rows, columns):
        driver.cuMemsetD8Async(array.buffer.pointer, 0, array.nbytes, stream)
    A.insert(Foreign(rows, stream=int(stream)), Foreign(columns, stream=int(stream)), 1.0)
    assert (A.nnz, A.to_scipy()[0, 0]) == (64, 64)
    driver.cuStreamDestroy(stream)


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_cupys_arrays():
    import cupy

    A = repro.DynamicCSR((50, 40), np.float32, device="cuda:0")
    rows = cupy.arange(40, dtype=cupy.int32)
    A.insert(rows, rows, cupy.ones(40, cupy.float32))
    A.insert(cupy.arange(10), cupy.zeros(10, int), 2.0, mode="unique", existing="add")
    x, y = cupy.ones(40, cupy.float32), cupy.empty(50, cupy.float32)
    A.matvec(x, out=y)
    expected = np.array([3.0] * 10 + [1.0] * 30 + [0.0] * 10)
    cupy.testing.assert_array_equal(y, cupy.asarray(expected))
    cupy.testing.assert_array_equal(cupy.asarray(A.reader() @ x), cupy.asarray(expected))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorchs_arrays():
    import torch

    A = repro.DynamicCSR((50, 40), device="cuda:0")
    rows = torch.arange(40, device="cuda")
    A.insert(rows, rows, torch.ones(40, device="cuda"))
    x = torch.ones(40, dtype=torch.float64, device="cuda")
    y = torch.as_tensor(A @ x, device="cuda")
    assert y.sum().item() == 40


def test_readers_of_several_threads_see_whole_rows(runtime):
    length = 40
    A = repro.DynamicCSR.from_csr(sp.csr_array(np.ones((5000, length))), segments=2, device="cuda:0")
    torn, errors, stop = [], [], threading.Event()

    def read(reader, x):
        try:
            while not stop.is_set():
                sums = np.asarray(reader @ x)
                torn.extend(sums[sums % length != 0])
        except BaseException as error:
            errors.append(error)

    readers = [A.reader() for _ in range(3)]
    threads = [threading.Thread(target=read, args=(reader, np.ones(length))) for reader in readers]
    for thread in threads:
        thread.start()
    places = np.repeat(np.arange(5000), length), np.tile(np.arange(length), 5000)
    for n in range(2, 20):
        A.insert(*places, 1.0)
        A.insert(*places, float(n), mode="unique")
        A.delete(*places)
        A.insert(*places, float(n))
        A.defragment()
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert not torn
    np.testing.assert_array_equal(A.reader() @ np.ones(length), np.full(5000, 19.0 * length))
