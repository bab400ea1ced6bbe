"""Products of matrices that lie on a GPU, whose arrays are read there: on an emulated GPU."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.devices.base import LaunchError
from repro.errors import ReproError
from repro.operators import products_in_place, sparse_products
from repro.operators.device_exchange import load_products
from repro.operators.products_in_place import multiply_in_place, product_tools
from repro.sparse.spgemm.csr_arrays import CsrArrays, CsrReader, UnsuitableCsr
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import CURRENT_STREAM, EmulatedRuntime, csr_matrix, install_cupy, install_cupyx
from support.matrices import poisson, random

pytestmark = [pytest.mark.slow, needs_compiler]  # the emulator takes long to compile these modules


@pytest.fixture
def runtime(monkeypatch, built_folder):
    runtime = EmulatedRuntime(monkeypatch, built_folder / "emulated")
    monkeypatch.setattr(products_in_place, "_gpu_runtime", lambda ordinal: runtime)
    return runtime


@pytest.fixture
def bring(monkeypatch, runtime):
    return install_cupyx(monkeypatch, install_cupy(monkeypatch, runtime))


@pytest.fixture
def in_place(monkeypatch):
    """Refuse conversions."""

    def convert(*arguments):
        raise LaunchError("converted")

    monkeypatch.setattr(sparse_products, "_operand", convert)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_two_matrices_are_multiplied_where_they_lie(bring, in_place, dtype, index):
    a, b = (sp.csr_array(m.astype(dtype)) for m in (random(40, 60, 0.1), random(60, 30, 0.2)))
    c = repro.spgemm(bring(a, index), bring(b, index))
    assert type(c) is csr_matrix and c.indices.dtype == c.indptr.dtype == index
    assert c.dtype == dtype and c.shape == (40, 30)
    assert abs(c.get() - a @ b).max() <= 50 * np.finfo(dtype).eps


@pytest.mark.exhaustive
def test_a_square_is_read_once(bring, in_place, runtime, monkeypatch):
    matrix = sp.csr_array(poisson((12, 12), 5))
    reads = []
    read = CsrReader.read
    monkeypatch.setattr(CsrReader, "read", lambda self, matrices: reads.append(len(matrices)) or read(self, matrices))
    a = bring(matrix)
    c = repro.spgemm(a, a)
    assert reads == [1] and abs(c.get() - matrix @ matrix).max() < 1e-12
    assert (a.get() != matrix).nnz == 0


def test_nothing_is_rendered_in_a_second_product(bring, in_place, runtime, monkeypatch):
    a = bring(sp.csr_array(random(40, 40, 0.1)))
    repro.spgemm(a, a)

    def program(source, name):
        raise AssertionError(f"{name} is rendered again")

    monkeypatch.setattr(runtime, "program", program)
    repro.spgemm(a, a)


def changed(matrix, name, index, value):
    """Return a matrix with one number of an array changed."""
    arrays = {part: getattr(matrix, part).copy() for part in ("data", "indices", "indptr")}
    arrays[name][index] = value
    copy = sp.csr_array(matrix.shape)
    copy.data, copy.indices, copy.indptr = arrays["data"], arrays["indices"], arrays["indptr"]
    return copy


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("name", "place", "value", "damaged"),
    [
        ("indptr", 0, 1, True),
        ("indptr", 3, -1, True),
        ("indptr", 3, 10**6, True),
        ("indptr", -1, 10**6, True),
        ("indices", 0, -1, True),
        ("indices", -1, 30, True),
        ("indices", 5, 2**31 - 1, True),
        ("indices", 1, 0, False),
    ],
)
def test_damaged_and_unordered_matrices_are_not_read(runtime, name, place, value, damaged, index):
    matrix = sp.csr_array(np.triu(np.ones((30, 30)))[:20])
    tools = product_tools(runtime, "double")

    def read(m):
        upload = runtime.device.upload
        offsets, columns = (upload(array.astype(index)) for array in (m.indptr, m.indices))
        return tools.reader.read([CsrArrays(m.shape, len(m.data), offsets, columns, upload(m.data), index == np.int64)])

    with pytest.raises(UnsuitableCsr) as raised:
        read(changed(matrix, name, place, value))
    assert raised.value.damaged == damaged
    assert read(matrix)[0].entries == matrix.nnz  # nothing of it is left in the counters


def test_columns_that_fall_from_one_row_to_the_next_are_in_order(runtime):
    matrix = sp.csr_array(random(50, 40, 0.1))
    matrix.sort_indices()
    upload = runtime.device.upload
    arrays = CsrArrays(
        matrix.shape, matrix.nnz, *(upload(array) for array in (matrix.indptr, matrix.indices, matrix.data))
    )
    (storage,) = product_tools(runtime, "double").reader.read([arrays])
    assert (storage.entries, storage.longest) == (matrix.nnz, np.diff(matrix.indptr).max())


def test_other_operands_are_converted(bring, monkeypatch):
    a = bring(sp.csr_array(random(20, 20, 0.2)))
    single = bring(sp.csr_array(random(20, 20, 0.2).astype(np.float32)))
    for operands in ((a, single), (a, random(20, 20, 0.2)), (a, bring(sp.csr_array(random(21, 20, 0.2))))):
        assert multiply_in_place(*operands, "auto", False) is None
    assert multiply_in_place(a, a, "cuda:1", False) is None


@pytest.fixture
def planned(runtime, bring):
    """A product with its plan, whose matrices are of the emulated CuPy, and the matrices on the host."""
    a, b = (sp.csr_array(matrix) for matrix in (random(40, 60, 0.1), random(60, 30, 0.2)))
    for matrix in (a, b):
        matrix.sort_indices()
    load = load_products(runtime, "double")
    storages = [sparse_products.matrix_on_device(runtime, matrix, np.dtype(np.float64)) for matrix in (a, b)]
    factors = sparse_products.Factors(*storages)
    product = product_tools(runtime, "double").multiplication.multiply_in_two_phases(factors)
    c = product.download().to_csr()
    return a, b, c, sparse_products.ProductPlan(runtime, load, factors, product, bring(c))


@pytest.mark.exhaustive
def test_a_refill_is_queued_on_the_stream_of_its_values(planned, runtime, monkeypatch):
    a, b, c, plan = planned
    put = install_cupy(monkeypatch, runtime)
    new_a, new_b = (np.random.default_rng(seed).random(len(m.data)) for seed, m in ((1, a), (2, b)))
    expected = sp.csr_array((new_a, a.indices, a.indptr), a.shape) @ sp.csr_array((new_b, b.indices, b.indptr), b.shape)
    out = put(np.zeros(c.nnz))
    runtime.device.streams.clear()
    runtime._streams.waited.clear()
    assert plan.refill(put(new_a), put(new_b), out=out) is out
    assert abs(sp.csr_array((out.get(), c.indices, c.indptr), c.shape) - expected).max() < 1e-12
    refilled = plan.refill(put(new_a), put(new_b))
    assert type(refilled) is csr_matrix and abs(refilled.get() - expected).max() < 1e-12
    plan.refill(b_values=put(new_b), out=out)  # the values of A stay
    expected = a @ sp.csr_array((new_b, b.indices, b.indptr), b.shape)
    assert abs(sp.csr_array((out.get(), c.indices, c.indptr), c.shape) - expected).max() < 1e-12
    assert set(runtime.device.streams) == {CURRENT_STREAM} and not runtime._streams.waited


def test_a_refill_that_does_not_fit_ends_in_a_message(planned, runtime, monkeypatch):
    a, _, c, plan = planned
    put = install_cupy(monkeypatch, runtime)
    out = put(np.zeros(c.nnz))
    for values, target in (
        (np.zeros(a.nnz + 1), out),
        (np.zeros(a.nnz, np.float32), out),
        (np.zeros(a.nnz), put(np.zeros(c.nnz - 1))),
    ):
        with pytest.raises(ReproError, match="the wrong"):
            plan.refill(put(values), out=target)
    plan.close()
    with pytest.raises(ReproError, match="closed"):
        plan.refill(put(np.zeros(a.nnz)), out=out)
