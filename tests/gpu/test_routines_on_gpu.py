"""Operators that run cuSPARSE's routine on a GPU, and `now`, which times it beside the variants."""

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.operators.runtime import open_runtime
from repro.sparse.compound.variants import ROUTINES
from support.matrices import draw

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(importlib.util.find_spec("nvmath") is None, reason="there is no nvmath-python"),
]
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
TOLERANCE = {np.float32: 1e-4, np.complex64: 1e-4, np.float64: 1e-11, np.complex128: 1e-11}


@pytest.fixture(scope="module", autouse=True)
def runtime(gpu, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_runtime("cuda:0")


def skewed(rows, columns, dtype=np.float64):
    """A matrix whose row lengths fall by a power, the longest a good part of a row."""
    random = np.random.default_rng(1)
    lengths = np.minimum(1 + (3 * random.pareto(1.0, rows)).astype(int), columns // 2)
    row = np.repeat(np.arange(rows), lengths)
    numbers = random.uniform(0.5, 1.5, len(row)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        numbers *= 1 + 2j
    return sp.csr_array((numbers, (row, random.integers(0, columns, len(row)))), shape=(rows, columns))


def near(actual, expected, dtype):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE[dtype] * np.abs(expected).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROUTINES)
def test_products_values_and_transposes(name, dtype):
    matrix = skewed(3000, 2000, dtype)
    x, u = draw(2000, dtype), draw(3000, dtype)
    with repro.operator(matrix, name, device="cuda:0") as A:
        assert A.name == name
        on_gpu = A.vectors.put(x)
        for factor in (1, 3):
            near(A @ x, factor * (matrix @ x), dtype)
            near((A @ on_gpu).get(), factor * (matrix @ x), dtype)
            near(A.rmatvec(u), factor * (matrix.conj().T @ u), dtype)
            near(A @ np.column_stack([x, -x, 2 * x]), factor * (matrix @ np.column_stack([x, -x, 2 * x])), dtype)
            A.update(3 * matrix.data)


def test_pytorchs_tensors_on_streams_and_in_a_graph():
    torch = pytest.importorskip("torch")
    matrix = skewed(20_000, 20_000)
    x, stream = torch.rand(20_000, dtype=torch.float64, device="cuda"), torch.cuda.Stream()
    with repro.operator(matrix, "cuSPARSE CSR ALG1", device="cuda:0") as A:
        expected = matrix @ x.cpu().numpy()
        with torch.cuda.stream(stream):
            y = A @ (2 * x)
        stream.synchronize()
        near(y.cpu().numpy(), 2 * expected, np.float64)
        out, graph = torch.zeros_like(x), torch.cuda.CUDAGraph()
        A.matvec(x, out=out)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            A.matvec(x, out=out)
        for factor in (1.0, 5.0):
            out.zero_()
            x.mul_(factor)
            graph.replay()
            torch.cuda.synchronize()
            near(out.cpu().numpy(), matrix @ x.cpu().numpy(), np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_now_is_never_slower_than_the_library(dtype):
    matrix = skewed(300_000, 300_000, dtype)
    x = draw(300_000, dtype)
    with repro.operator(matrix, "now", budget=60, device="cuda:0") as A:
        assert {*ROUTINES} < {*A.timed}
        assert A.name == min(A.timed, key=A.timed.get)
        near(A @ x, matrix @ x, dtype)
