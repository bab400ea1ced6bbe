"""Matrices and vectors of CuPy's as operands and as results; matrices that grow as operands, on a GPU."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from support.matrices import poisson, random

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def kernel_cache(gpu, tmp_path_factory):
    """A cache for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def bring(cupy):
    return pytest.importorskip("cupyx.scipy.sparse").csr_matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_product_is_cupys_where_an_operand_is(bring, dtype):
    a, b = sp.csr_array(random(4000, 3000, 0.01), dtype=dtype), sp.csr_array(random(3000, 2000, 0.01), dtype=dtype)
    given = bring(sp.csr_matrix(a))
    for operands in ((given, bring(sp.csr_matrix(b))), (given, b)):
        c = repro.spgemm(*operands, sort=True)
        assert isinstance(c, bring) and c.dtype == dtype and c.has_sorted_indices
        assert abs(c.get() - a @ b).max() <= 200 * np.finfo(dtype).eps
    assert abs(given.get() - a).max() == 0


def test_a_matrix_of_cupys_with_places_twice_and_int64_indices(cupy, bring):
    twice = bring((cupy.array([1.0, 2.0, 4.0]), cupy.array([1, 1, 0]), cupy.array([0, 2, 3])), shape=(2, 2))
    expected = np.array([[0.0, 3.0], [4.0, 0.0]])
    np.testing.assert_array_equal(repro.spgemm(twice, twice).get().toarray(), expected @ expected)
    assert twice.nnz == 3


def test_what_another_stream_computes_is_waited_for(cupy, bring):
    a = random(20000, 20000, 0.001)
    lying, ones = bring(sp.csr_matrix(a)), cupy.ones(a.nnz)
    with cupy.cuda.Stream(non_blocking=True):
        for _ in range(20):
            lying.data += ones
        c = repro.spgemm(lying, lying)
        row = c[17].toarray().get()
    added = sp.csr_array((a.data + 20, a.indices, a.indptr), a.shape)
    np.testing.assert_allclose(row, (added[[17]] @ added).toarray(), rtol=1e-12)


def test_the_levels_and_the_solution_are_cupys(cupy, bring):
    matrix = poisson((200, 200), 9)
    ml = repro.amg(bring(sp.csr_matrix(matrix)), refreshable=True, smoother="chebyshev")
    expected = repro.amg(matrix, device="cuda:0")
    for ours, theirs in zip(ml.levels, expected.levels, strict=True):
        assert isinstance(ours.A, bring) and abs(ours.A.get() - theirs.A).max() <= 1e-12
    assert isinstance(ml.levels[0].P, bring)
    assert abs(ml.levels[0].R.get() - ml.levels[0].P.get().T).max() == 0
    b = cupy.random.random(40000)
    for scale in (1, 2):
        x = ml.solve(b, rtol=1e-8)
        assert isinstance(x, cupy.ndarray)
        left = cupy.asnumpy(b) - scale * matrix @ cupy.asnumpy(x)
        assert np.linalg.norm(left) <= 1.1e-8 * np.linalg.norm(cupy.asnumpy(b))
        ml.refresh(bring(sp.csr_matrix(2 * matrix)))
    with pytest.raises(ReproError, match="the wrong dtype"):
        ml.solve(b.astype(np.float32))


def test_a_hierarchy_is_refreshed_by_other_values():
    matrix = poisson((32, 32, 32), 7)
    scale = sp.diags_array(np.random.default_rng(1).uniform(0.5, 2, matrix.shape[0]))
    other = sp.csr_array(scale @ matrix @ scale)
    ml, fresh = (repro.amg(a, refreshable=True, device="cuda:0") for a in (matrix, other))
    ml.refresh(other)
    for ours, theirs in zip(ml.levels, fresh.levels, strict=True):
        assert abs(ours.A - theirs.A).max() <= 1e-10 * abs(theirs.A).max()
    b = np.random.default_rng(2).random(matrix.shape[0])
    assert np.linalg.norm(b - other @ ml.solve(b, rtol=1e-8)) <= 1.1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("format", ["csr", "dynamic"])
def test_matrices_that_grow_are_multiplied_as_they_are(format):
    draw, shape = np.random.default_rng(3), (3000, 3000)
    expected = random(*shape, 0.001)
    a = repro.DynamicCSR.from_csr(expected, segments=6, slack=1, capacity=500_000, device="cuda:0")
    for _ in range(4):
        rows, columns, values = draw.integers(0, 3000, 20_000), draw.integers(0, 3000, 20_000), draw.random(20_000)
        a.insert(rows, columns, values)
        expected = sp.csr_array(expected + sp.coo_array((values, (rows, columns)), shape))
    c = repro.spgemm(a, a, format=format)
    rows = c.to_scipy() if format == "dynamic" else c
    assert abs(rows - expected @ expected).max() <= 1e-11
    if format == "dynamic":
        c.insert([5], [7], [1e3])
        assert c.to_scipy()[5, 7] == pytest.approx((expected[[5]] @ expected)[0, 7] + 1e3)
