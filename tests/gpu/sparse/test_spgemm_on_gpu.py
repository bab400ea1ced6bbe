"""Products of sparse matrices on a GPU, held against SciPy's."""

import numpy as np
import pytest
import scipy.sparse as sp

from repro.sparse.dynamic.layout import lay_out
from repro.sparse.dynamic.storage import Storage
from repro.sparse.spgemm.kernels import BINS
from repro.sparse.spgemm.multiplication import CoordinateMultiplication, Multiplication
from repro.sparse.spgemm.rows import Factors, papers_plan, plan_products
from support.matrices import around_edges, assert_product, doubled, fragmented, of_sizes, random

pytestmark = pytest.mark.gpu
DTYPES = {"single": np.float32, "double": np.float64}


def multiply(gpu, load, way, precision, factors):
    plans = {"sorted": papers_plan, "crowded": lambda *given: plan_products(*given, (64,) * BINS)}
    plan = plans[way](gpu.target, DTYPES[precision]().nbytes) if way in plans else None
    if way == "coordinates":
        return CoordinateMultiplication(gpu, load(precision), 1 << 18).multiply(factors)
    products = Multiplication(gpu, load(precision), DTYPES[precision], plan)
    return products.in_two_phases(factors) if way == "two" else products.in_one_phase(factors)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("way", ["one", "two", "sorted", "crowded", "coordinates"])
@pytest.mark.parametrize("what", ["limits", "short rows", "many rows", "long rows", "chains"])
def test_every_way(gpu, load, way, precision, what):
    dtype = DTYPES[precision]
    a, b = {
        "limits": around_edges,
        "short rows": lambda: (random(30_000, 500, 0.01), random(500, 700, 0.01, 2)),
        "many rows": lambda: (random(40_000, 300, 0.05), random(300, 900, 0.05, 2)),
        "long rows": lambda: (sp.csr_array(np.ones((300, 8))), of_sizes([2500] * 8, 3000)),
        "chains": lambda: (random(500, 400, 0.05), random(400, 900, 0.05)),
    }[what]()
    if what == "chains":
        a32, b32 = sp.csr_array(a, dtype=dtype), sp.csr_array(b, dtype=dtype)
        stored = [Storage.upload(gpu, fragmented(matrix, 3)) for matrix in (a32, doubled(b32))]
        factors, a, b = Factors(*stored, "chain"), a32, sp.csr_array(2 * b32)
    else:
        a, b = sp.csr_array(a, dtype=dtype), sp.csr_array(b, dtype=dtype)
        stored = [Storage.upload(gpu, lay_out(matrix, 4)) for matrix in (a, b)]
        factors = Factors(*stored)
    c = multiply(gpu, load, way, precision, factors)
    assert_product(c, a, b, dtype)
    for storage in (*stored, c):
        storage.release()


@pytest.mark.parametrize("way", ["one", "two"])
def test_the_same_each_time_bit_for_bit(gpu, load, way):
    a, b = random(20_000, 400, 0.05), random(400, 400, 0.3, 2)
    factors = Factors(*(Storage.upload(gpu, lay_out(matrix, 4)) for matrix in (a, b)))
    results = set()
    for _ in range(20):
        c = multiply(gpu, load, way, "double", factors)
        csr = c.download().to_csr()
        csr.sort_indices()
        results.add(csr.data.tobytes())
        c.release()
    assert len(results) == 1
