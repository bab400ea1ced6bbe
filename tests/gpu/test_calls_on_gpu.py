"""Calls with arrays of other libraries: their streams, graphs, threads, gradients, and what comes out."""

import importlib.util
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.errors import ReproError
from repro.operators.arrays import DeviceArray
from repro.operators.runtime import open_runtime
from support.matrices import draw, poisson

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def runtime(gpu, tmp_path_factory):
    """The operator's own opening of the GPU, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_runtime("cuda:0")


@pytest.fixture(scope="module")
def matrix():
    return sp.csr_array(poisson((40, 40), 5))


@pytest.fixture(scope="module")
def A(runtime, matrix):  # noqa: N802
    return repro.operator(matrix, device="cuda:0")


@pytest.fixture(scope="module")
def cupy(gpu):
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def torch(gpu):
    return pytest.importorskip("torch")


@pytest.mark.parametrize("library", ["cupy", "torch", "jax", "numba", "own"])
def test_what_comes_in_goes_out(A, matrix, library):
    x = draw(A.shape[1], float)
    if library == "own":
        given, kind, read = A.vectors.put(x), DeviceArray, np.asarray
    elif importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    elif library == "cupy":
        import cupy

        given, kind, read = cupy.asarray(x), cupy.ndarray, cupy.asnumpy
    elif library == "torch":
        import torch

        given, kind, read = torch.as_tensor(x, device="cuda"), torch.Tensor, lambda y: y.cpu().numpy()
    elif library == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        given, kind, read = jax.numpy.asarray(x), jax.Array, np.asarray
    else:
        from numba import cuda

        given = cuda.to_device(x)
        kind, read = type(given), lambda y: y.copy_to_host()
    y = A @ given
    assert isinstance(y, kind)
    np.testing.assert_allclose(read(y), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(read(A @ y), matrix @ (matrix @ x), atol=1e-12)


def test_the_callers_stream_orders_a_chain_of_calls(A, matrix, cupy, torch):
    x = draw(A.shape[1], float)
    expected = x
    for _ in range(6):
        expected = matrix @ expected / 8
    for stream in (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.ptds, cupy.cuda.Stream.null):
        with stream:
            y = cupy.asarray(x)
            for _ in range(6):
                y = (A @ y) / 8
            stream.synchronize()
            np.testing.assert_allclose(cupy.asnumpy(y), expected, atol=1e-12)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = torch.as_tensor(x, device="cuda")
        for _ in range(6):
            y = (A @ y) / 8
    side.synchronize()
    np.testing.assert_allclose(y.cpu().numpy(), expected, atol=1e-12)


def test_a_product_is_captured_by_cupy_and_replayed(A, matrix, cupy):
    x, y = cupy.zeros(A.shape[1]), cupy.zeros(A.shape[0])
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        A.matvec(x, out=y)
        stream.synchronize()
        stream.begin_capture()
        A.matvec(x, out=y)
        graph = stream.end_capture()
        for seed in range(3):
            x.set(draw(A.shape[1], float, seed))
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_allclose(y.get(), matrix @ draw(A.shape[1], float, seed), atol=1e-12)


def test_a_product_of_a_new_tensor_is_captured_and_replayed(A, matrix, torch):
    x = torch.zeros(A.shape[1], dtype=torch.float64, device="cuda")
    A @ x
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = A @ x
    for seed in range(3):
        x.copy_(torch.as_tensor(draw(A.shape[1], float, seed)))
        graph.replay()
        np.testing.assert_allclose(y.cpu().numpy(), matrix @ draw(A.shape[1], float, seed), atol=1e-12)


def test_a_refill_is_captured_and_replayed(matrix, cupy):
    from cupyx.scipy.sparse import csr_matrix

    a = csr_matrix(sp.csr_matrix(matrix))
    c, plan = repro.spgemm(a, a, plan=True)
    values, out = cupy.zeros(a.nnz), cupy.zeros(plan.nnz)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        plan.refill(values, values, out=out)
        stream.synchronize()
        stream.begin_capture()
        plan.refill(values, values, out=out)
        graph = stream.end_capture()
        values[:] = 3 * a.data
        graph.launch(stream)
        stream.synchronize()
    c.data[:] = out
    assert abs(c.get() - 9 * (matrix @ matrix)).max() < 1e-10
    plan.close()


def test_what_is_read_on_the_host_is_refused_in_a_capture_that_goes_on(matrix, cupy):
    from cupyx.scipy.sparse import csr_matrix

    D = repro.DynamicCSR.from_csr(matrix, device="cuda:0")
    solver, a = repro.operator(matrix, device="cuda:0").solver(), csr_matrix(sp.csr_matrix(matrix))
    x, y = cupy.ones(matrix.shape[1]), cupy.zeros(matrix.shape[0])
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        D.matvec(x, out=y)
        stream.synchronize()
        stream.begin_capture()
        D.matvec(x, out=y)
        for read in (
            lambda: D.insert([0], [0], [9.0]),
            D.defragment,
            lambda: solver.solve(x),
            lambda: repro.spgemm(a, a),
        ):
            with pytest.raises(ReproError, match="CUDA graph cannot contain"):
                read()
        graph = stream.end_capture()
        x[:] = 2
        graph.launch(stream)
        stream.synchronize()
    np.testing.assert_allclose(y.get(), matrix @ np.full(matrix.shape[1], 2.0), atol=1e-12)
    D.insert([0], [0], [9.0])


def test_a_combination_of_vectors_is_captured_and_replayed(A, cupy):
    x, y = cupy.ones(A.shape[1]), cupy.zeros(A.shape[1])
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        A.vectors.axpby(2.0, x, 1.0, y)
        stream.synchronize()
        stream.begin_capture()
        A.vectors.axpby(2.0, x, 1.0, y)
        graph = stream.end_capture()
        for _ in range(2):
            graph.launch(stream)
        stream.synchronize()
    np.testing.assert_array_equal(y.get(), np.full(A.shape[1], 6.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_matrices_are_multiplied_where_they_lie(matrix, cupy, torch, dtype):
    from cupyx.scipy.sparse import csr_matrix

    a = sp.csr_matrix(matrix.astype(dtype))
    expected, tolerance = a @ a, 100 * np.finfo(dtype).eps
    c = repro.spgemm(csr_matrix(a), csr_matrix(a))
    assert isinstance(c, csr_matrix) and abs(c.get() - expected).max() < tolerance
    for index in (torch.int32, torch.int64):
        arrays = (torch.as_tensor(part).to(index) for part in (a.indptr, a.indices))
        tensor = torch.sparse_csr_tensor(*arrays, torch.as_tensor(a.data), a.shape).cuda()
        t = repro.spgemm(tensor, tensor)
        assert t.layout is torch.sparse_csr and t.col_indices().dtype is index
        parts = (t.values(), t.col_indices(), t.crow_indices())
        assert abs(sp.csr_matrix(tuple(part.cpu().numpy() for part in parts), t.shape) - expected).max() < tolerance
    host = repro.spgemm(a, a, "cuda:0")
    assert isinstance(host, sp.csr_array) and abs(host - expected).max() < tolerance


def test_a_damaged_tensor_is_refused_and_the_gpu_goes_on(matrix, torch):
    a = sp.csr_matrix(matrix)
    columns = torch.as_tensor(a.indices.copy())
    columns[5] = a.shape[1]
    parts = torch.as_tensor(a.indptr), columns, torch.as_tensor(a.data)
    wrong = torch.sparse_csr_tensor(*parts, a.shape, check_invariants=False).cuda()
    with pytest.raises(ReproError, match="damaged"):
        repro.spgemm(wrong, wrong)
    assert abs(repro.spgemm(a, a, "cuda:0") - a @ a).max() < 1e-12


def test_gradients_are_those_of_the_dense_matrix(A, matrix, torch):
    x = torch.randn(A.shape[1], dtype=torch.float64, device="cuda", requires_grad=True)
    (A @ x).square().sum().backward()
    dense = torch.as_tensor(matrix.toarray(), device="cuda")
    expected = 2 * dense.T @ (dense @ x.detach())
    torch.testing.assert_close(x.grad, expected)
    with pytest.raises(ReproError, match="gradient"):
        A.matvec(x, out=torch.empty(A.shape[0], dtype=torch.float64, device="cuda"))


def test_a_compiled_function_has_no_graph_break(A, matrix, torch):
    import repro.torch

    compiled = torch.compile(lambda x: 2 * repro.torch.spmv(A, x) + 1, fullgraph=True, backend="aot_eager")
    x = torch.randn(A.shape[1], dtype=torch.float64, device="cuda")
    np.testing.assert_allclose(compiled(x).cpu().numpy(), 2 * (matrix @ x.cpu().numpy()) + 1, atol=1e-10)


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_threads_multiply_by_many_operators_at_once(small_problem, cupy, torch, library):
    """Eight threads, sixteen operators, each thread on a stream of its own."""
    operators = [
        repro.operator(small_problem(entry, n=n), precision=precision, device="cuda:0")
        for entry in ("real", "complex", "quaternion", "block3")
        for precision in ("single", "double")
        for n in (503, 1003)
    ]
    inputs = [draw(A.shape[1], A.dtype) for A in operators]
    expected = [A @ x for A, x in zip(operators, inputs, strict=True)]
    wrong = []

    def run():
        try:
            stream = cupy.cuda.Stream(non_blocking=True) if library == "cupy" else torch.cuda.Stream()
            with stream if library == "cupy" else torch.cuda.stream(stream):
                for _ in range(10):
                    given = map(cupy.asarray if library == "cupy" else lambda x: torch.as_tensor(x).cuda(), inputs)
                    results = [A @ x for A, x in zip(operators, given, strict=True)]
                    stream.synchronize()
                    for y, right in zip(results, expected, strict=True):
                        read = y.get() if library == "cupy" else y.cpu().numpy()
                        if not np.array_equal(read, right):
                            wrong.append("another result")
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_does_not_fit_is_one_message(A, cupy, torch):
    n = A.shape[1]
    x = cupy.ones(n)
    wrong = {
        "the wrong dtype": lambda: A @ x.astype(np.float32),
        "the wrong size": lambda: A @ x[:-1],
        "contiguous": lambda: A @ cupy.ones(2 * n)[::2],
        "overlap": lambda: A.matvec(x, out=x),
        "same place": lambda: A.matvec(x, out=np.empty(n)),
    }
    for message, call in wrong.items():
        with pytest.raises(ReproError, match=message):
            call()
    closed = repro.operator(sp.csr_array(sp.eye(8)), device="cuda:0")
    closed.close()
    with pytest.raises(ReproError, match="closed"):
        closed @ cupy.ones(8)


def test_dlpack_goes_both_ways(A, cupy, torch):
    own = A.vectors.put(draw(A.shape[1], float))
    np.testing.assert_array_equal(cupy.from_dlpack(own).get(), own.get())
    np.testing.assert_array_equal(torch.from_dlpack(own).cpu().numpy(), own.get())
    expected = (A @ own).get()
    np.testing.assert_array_equal((A @ cupy.from_dlpack(own)).get(), expected)
    np.testing.assert_array_equal((A @ torch.from_dlpack(own)).cpu().numpy(), expected)
