"""cuSPARSE's products of two sparse matrices on a GPU, compared with SciPy's."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import OutOfDeviceMemory
from repro.errors import Unsupported
from repro.sparse.library.cusparse_bindings import load
from repro.sparse.library.cusparse_csr import SPGEMM_ALGORITHMS, Gemm, GemmReuse, GpuCsr
from support.matrices import assert_csr_product, of_sizes, random

pytestmark = pytest.mark.gpu
WAYS = [*SPGEMM_ALGORITHMS, "reuse"]


@pytest.fixture(scope="module", autouse=True)
def library(gpu):
    """cuSPARSE; where it is missing the tests are skipped."""
    try:
        return load()
    except Unsupported as error:
        pytest.skip(str(error))


@pytest.fixture
def product(gpu):
    """Give what uploads two matrices and has their product made by an algorithm or by reuse; released at the end."""
    held = []

    def make(way, a, b):
        operands = []
        for matrix in (a, b):
            operands.append(GpuCsr.upload(gpu, matrix))
            held.append(operands[-1])
        held.append(GemmReuse(gpu, *operands) if way == "reuse" else Gemm(gpu, *operands, way))
        return held[-1], *operands

    yield make
    for thing in reversed(held):
        thing.release()


def two(shapes, density, dtype):
    return [random(*shape, density, seed).astype(dtype) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", ["square", "rectangular", "empty rows", "long rows"])
def test_every_algorithm(product, what, way, dtype):
    if what == "empty rows":
        a, b = (of_sizes([0, 7, 0, 0, 3, 40] * 50, 300, seed).astype(dtype) for seed in (1, 2))
    elif what == "long rows":
        a, b = of_sizes([3] * 200, 8).astype(dtype), of_sizes([2500] * 8, 3000, 2).astype(dtype)
    else:
        a, b = two({"square": [(900, 900)] * 2, "rectangular": [(900, 200), (200, 1700)]}[what], 0.02, dtype)
    gemm, *_ = product(way, a, b)
    for _ in range(2):
        c = gemm.multiply()
        assert (c.shape, c.dtype) == ((a.shape[0], b.shape[1]), dtype)
        assert_csr_product(c.download(), a, b, dtype)
        c.release()
    assert gemm.workspace_bytes > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pattern_serves_other_values(gpu, product, dtype):
    a, b = two([(2000, 300), (300, 1000)], 0.02, dtype)
    reuse, *operands = product("reuse", a, b)
    c = reuse.multiply()
    launch = reuse.bind()
    for seed in range(3):
        generator = np.random.default_rng(seed)
        for matrix, operand in zip((a, b), operands, strict=True):
            matrix.data = generator.uniform(-1, 1, matrix.nnz).astype(dtype)
            gpu.write(operand.values, matrix.data)
        launch()
        assert_csr_product(c.download(), a, b, dtype)
    c.release()


def test_a_bound_product_is_timed_by_events(gpu, product):
    a, b = two([(2000, 2000)] * 2, 0.01, np.float64)
    reuse, *_ = product("reuse", a, b)
    c = reuse.multiply()
    assert (gpu.time_events(reuse.bind(), 5) > 0).all()
    assert_csr_product(c.download(), a, b)
    c.release()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "shapes", [((50, 60), (60, 70)), ((0, 5), (5, 4)), ((5, 4), (4, 0)), ((5, 0), (0, 4))], ids=str
)
def test_a_product_without_entries_is_empty_or_refused(product, way, shapes):
    a, b = (sp.csr_array(shape) for shape in shapes)
    try:
        gemm, *_ = product(way, a, b)
        c = gemm.multiply()
    except Unsupported as error:
        pytest.skip(f"{way}: {error}")
    assert c.nnz == 0
    np.testing.assert_array_equal(c.download().indptr, np.zeros(a.shape[0] + 1))
    c.release()


@pytest.mark.parametrize("way", WAYS)
def test_rows_and_columns_that_do_not_meet(product, way):
    a = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 0, 1])), (4, 5))
    b = sp.csr_array((np.ones(2), ([3, 4], [0, 1])), (5, 6))
    gemm, *_ = product(way, a, b)
    try:
        c = gemm.multiply()
    except Unsupported as error:
        pytest.skip(f"{way}: {error}")
    assert c.nnz == 0
    np.testing.assert_array_equal(c.download().indptr, np.zeros(5))
    c.release()


@pytest.mark.parametrize("way", WAYS)
def test_a_full_device_gets_all_back(gpu, product, taken, monkeypatch, way):
    a, b = two([(3000, 3000)] * 2, 0.01, np.float64)
    gemm, *_ = product(way, a, b)
    gemm.multiply().release()  # kernels are loaded with their first call
    allocate, held = gpu.allocate, taken()
    for room in range(20):
        left = iter(range(room))

        def full(nbytes, left=left):
            if next(left, None) is None:
                raise OutOfDeviceMemory("it is full")
            return allocate(nbytes)

        monkeypatch.setattr(gpu, "allocate", full)
        try:
            c = gemm.multiply()
        except OutOfDeviceMemory:
            assert taken() <= held
        else:
            c.release()
            break
    assert room >= 5  # working memory, and the three arrays of C


@pytest.mark.parametrize("way", WAYS)
def test_repeated_products_leave_nothing(product, taken, way):
    a, b = two([(3000, 3000)] * 2, 0.01, np.float64)
    gemm, *_ = product(way, a, b)
    gemm.multiply().release()
    held = taken()
    for _ in range(5):
        gemm.multiply().release()
    assert taken() <= held
