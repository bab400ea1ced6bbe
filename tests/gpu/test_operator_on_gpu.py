"""The operator and the vectors' kernels on a GPU, with arrays of other libraries on streams of their own."""

import importlib.util

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.entries import entries
from repro.errors import ReproError
from repro.operators.arrays import INTERFACE
from repro.operators.runtime import open_runtime
from repro.sparse.operands import expand
from support.matrices import draw

pytestmark = pytest.mark.gpu

#: Of the largest number of a result: the problems have one long row.
TOLERANCE = {"single": 1e-5, "double": 1e-14}
VARIANTS = ["default", "CSR-AoS-AoS/direct-256-8-w8", "Sl-8-AoSoA-SoA@rcm/dynamic-128-2-w4", "ELL-SoA-AoS/static-256-4"]
ORDERS = [(entry, order) for entry in sorted(entries()) for order in ("AoS", "SoA")] + [("block3", "Padded")]


@pytest.fixture(scope="module", autouse=True)
def runtime(gpu, tmp_path_factory):
    """The operator's own opening of the GPU, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield open_runtime("cuda:0")


class Foreign:
    """Another library's array: it shows the interface and nothing else."""

    def __init__(self, array, **changes):
        self.array = array
        setattr(self, INTERFACE, {**getattr(array, INTERFACE), **changes})


def numpys(matrix, problem):
    """The product of a problem's matrix by NumPy."""
    values = problem.values
    if problem.entry == "complex":
        return sp.csr_array((values[:, 0] + 1j * values[:, 1], problem.indices, problem.indptr), shape=matrix.shape)
    return expand(problem, values)


@pytest.mark.parametrize("tuned", VARIANTS)
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("entry", sorted(entries()))
def test_arrays_of_the_host_and_of_the_gpu_are_multiplied(small_problem, entry, precision, tuned):
    problem = small_problem(entry, n=1003)
    A = repro.operator(problem, tuned, precision=precision, device="cuda:0")
    x = draw(A.shape[1], A.dtype)
    expected = numpys(A, problem) @ x
    np.testing.assert_allclose(A @ x, expected, rtol=0, atol=TOLERANCE[precision] * np.abs(expected).max())
    on_gpu = A.vectors.put(x)
    out = A.vectors.zeros()
    for given in (on_gpu, Foreign(on_gpu), Foreign(on_gpu, stream=None), Foreign(on_gpu, stream=1)):
        np.testing.assert_array_equal((A @ given).get(), A @ x)
        A.vectors.axpby(0.0, on_gpu, 0, out)
        A.matvec(given, out=Foreign(out))
        np.testing.assert_array_equal(out.get(), A @ x)


def test_what_does_not_fit_is_refused(small_problem):
    A = repro.operator(small_problem("quaternion"), precision="single", device="cuda:0")
    x = A.vectors.zeros()
    pointer = getattr(x, INTERFACE)["data"][0]
    with pytest.raises(ReproError, match="not aligned"):
        A.matvec(Foreign(x, data=(pointer + 4, False)))
    with pytest.raises(ReproError, match="a different device"):
        A.matvec(Foreign(x, data=(np.zeros(A.shape[0], np.float32).ctypes.data // 16 * 16, False)))
    with pytest.raises(ReproError, match="overlap"):
        A.matvec(x, out=Foreign(x))


def test_a_stream_of_another_library_is_waited_for_and_waits(small_problem, runtime):
    """A chain of steps that alternate between a stream of its own and the operator's gives what the host computes."""
    from cuda.bindings import driver

    problem = small_problem("block3", n=20_011)
    A = repro.operator(problem, device="cuda:0")
    _, stream = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    handle = int(stream)
    matrix, x = numpys(A, problem), draw(A.shape[0], float)
    start, y, z = A.vectors.put(x), A.vectors.empty(), A.vectors.empty()
    runtime.device.synchronize()
    for _ in range(5):
        expected = x
        driver.cuMemcpyDtoDAsync(y.buffer.pointer, start.buffer.pointer, x.nbytes, stream)
        for _ in range(3):
            A.matvec(Foreign(y, stream=handle), out=Foreign(z, stream=handle))
            driver.cuMemcpyDtoDAsync(y.buffer.pointer, z.buffer.pointer, x.nbytes, stream)
            expected = matrix @ expected
        driver.cuStreamSynchronize(stream)
        np.testing.assert_allclose(y.get(), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    driver.cuStreamDestroy(stream)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_librarys_own_arrays(small_problem, library):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    problem = small_problem("block3", n=2003)
    A = repro.operator(problem, device="cuda:0")
    x = draw(A.shape[0], float)
    expected = numpys(A, problem) @ x
    if library == "torch":
        import torch

        given = torch.from_numpy(x).cuda()
        out = torch.zeros_like(given)
        assert A.matvec(given, out=out) is out
        np.testing.assert_allclose(out.cpu().numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(torch.as_tensor(A @ given, device="cuda").cpu().numpy(), expected, atol=1e-12)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            doubled = given * 2
            A.matvec(doubled, out=out, stream=side.cuda_stream)
            halved = out / 2
        side.synchronize()
        np.testing.assert_allclose(halved.cpu().numpy(), expected, atol=1e-12)
        with pytest.raises(ReproError, match="contiguous"):
            A.matvec(torch.zeros(2 * len(x), dtype=torch.float64, device="cuda")[::2])
    else:
        import cupy

        given = cupy.asarray(x)
        out = cupy.zeros_like(given)
        assert A.matvec(given, out=out) is out
        np.testing.assert_allclose(cupy.asnumpy(out), expected, atol=1e-12)
        np.testing.assert_allclose(cupy.asnumpy(cupy.asarray(A @ given)), expected, atol=1e-12)


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize(("entry", "order"), ORDERS)
def test_what_solvers_do_with_vectors(entry, order, precision):
    vectors = repro.vectors(100_003, entry, precision, order, "cuda:0")
    x, y = (draw(100_003 * vectors.kind.numbers, vectors.kind.dtype, seed) for seed in (1, 2))
    on_gpu, other = vectors.put(x), vectors.put(y)
    np.testing.assert_array_equal(vectors.get(on_gpu), x)
    wide = np.complex128 if entry == "complex" else np.float64
    np.testing.assert_allclose(vectors.dot(on_gpu, other), np.vdot(x.astype(wide), y.astype(wide)), atol=1e-8)
    assert len({vectors.dot(on_gpu, other) for _ in range(10)}) == 1
    vectors.axpby(1.5, on_gpu, -0.5, other)
    np.testing.assert_allclose(vectors.get(other), 1.5 * x - 0.5 * y, atol=1e-6 if precision == "single" else 1e-14)


@pytest.mark.alone
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize(("entry", "order"), ORDERS)
def test_kernels_of_vectors_are_as_fast_as_a_copy(gpu, gpu_module, runtime, entry, order, precision):
    """Bytes a second of `axpby` and of the inner product over those of a device copy, on vectors of 256 MiB."""
    kind = repro.vectors(1, entry, precision, order, "cuda:0")
    n = (256 << 20) // (kind.size * kind.dtype.itemsize)
    vectors = repro.vectors(n, entry, precision, order, "cuda:0")
    x, y = vectors.zeros(), vectors.zeros()
    device = runtime.device
    words = np.int32(x.nbytes // 16)
    source, target = gpu.upload(np.zeros(4 * int(words), np.int32)), gpu.allocate(16 * int(words))
    copies = (
        gpu.time_graph(gpu.bind(gpu_module.kernel(f"copy_{n_t}_{unroll}"), grid * gpu.sm_count, n_t, arguments), 5, 5)
        for n_t, unroll, grid in ((256, 4, 4), (512, 2, 4), (1024, 1, 2))
        for arguments in ([words, source, target],)
    )
    copy = 2 * x.nbytes / min(map(np.median, copies))
    fractions = {}
    for name, moved, run in (
        ("axpby", 3, lambda: vectors.axpby(2.0, x, 0.5, y)),
        ("dot", 2, lambda: vectors._sum(vectors._view(x, "x"), vectors._view(y, "y"))),
    ):
        run()
        fractions[name] = moved * x.nbytes / np.median(device.time_graph(run, 5, 5)) / copy
    said = ", ".join(f"{name} {fraction:.0%}" for name, fraction in fractions.items())
    print(f"{entry} {order} {precision}: copy {copy / 1e9:.0f} GB/s, {said} of it")
    source.release()
    target.release()
    assert min(fractions.values()) > 0.6
