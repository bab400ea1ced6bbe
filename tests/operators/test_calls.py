"""The short path of a call, on an emulated GPU: the arrays that take it, its stream, and what goes the general way."""

from concurrent.futures import ThreadPoolExecutor
from threading import RLock

import numpy as np
import pytest
import scipy.sparse as sp

from repro.devices.base import PER_THREAD_DEFAULT_STREAM, LaunchError, OutOfDeviceMemory
from repro.errors import ReproError
from repro.operators import spmv
from repro.operators.arrays import DeviceArray
from repro.operators.product import MatrixSource, Product
from repro.operators.runtime import open_runtime
from repro.operators.scipy_matrices import as_problem
from repro.operators.spmv import SpmvOperator
from repro.operators.variant_choice import find_variant
from repro.sparse.compound.product import CallOfEachStream, CompoundProduct, ScratchOfStreams
from support.emulated_cuda import EmulatedCuda, needs_compiler
from support.emulated_runtime import CURRENT_STREAM, OWN_STREAM, EmulatedRuntime, install_cupy, ndarray
from support.frames import frames
from support.matrices import draw, random

pytestmark = [pytest.mark.medium, needs_compiler]
#: A matrix with a long first row, and a variant that splits it.
LONG_ROW, SPLIT = sp.csr_array(np.vstack([np.ones((1, 400)), np.eye(400)])), "CSR-AoSoA-AoS/split-128-12-u8"


@pytest.fixture
def runtime(monkeypatch, built_folder):
    return EmulatedRuntime(monkeypatch, built_folder / "emulated")


@pytest.fixture
def bring(monkeypatch, runtime):
    return install_cupy(monkeypatch, runtime)


def made(runtime, matrix, tuned="CSR-AoS-AoS/direct-64-3-w8"):
    problem, precision = as_problem(matrix, None, None)
    with MatrixSource(problem) as source:
        id = find_variant(tuned, source, precision, runtime.device.target)
        return SpmvOperator(source, Product(runtime, source, precision, id))


@pytest.fixture
def A(runtime):  # noqa: N802
    return made(runtime, random(50, 50, 0.2))


@pytest.fixture
def general(monkeypatch, A):
    """Count the calls that go the general way."""
    calls = []
    original = A._on_device
    monkeypatch.setattr(A, "_on_device", lambda *arguments: calls.append(1) or original(*arguments))
    return calls


def product(A, x):
    problem = A._problem
    return sp.csr_array((problem.values[:, 0], problem.indices, problem.indptr), shape=A.shape) @ x


def test_cupys_array_is_multiplied_into_cupys_on_the_current_stream(A, bring, general):
    x = draw(50, float)
    y = A @ bring(x)
    assert type(y) is ndarray and y.shape == (50,)
    np.testing.assert_allclose(y.get(), product(A, x), atol=1e-13)
    out = bring(np.zeros(50))
    assert A.matvec(bring(x), out=out) is out
    np.testing.assert_array_equal(out.get(), y.get())
    A.matvec(bring(x), out=out, stream=23)
    assert A._runtime.device.streams == [CURRENT_STREAM, CURRENT_STREAM, 23]
    assert not general and not A._runtime._streams.waited


def test_a_matrix_with_a_long_row_has_memory_for_each_stream(runtime, bring):
    """Its rows are split over warps, and two streams cannot share the memory of their sums."""
    A = made(runtime, LONG_ROW, SPLIT)
    x = draw(400, float)
    y = A @ bring(x)
    assert type(y) is ndarray and runtime.device.streams == [CURRENT_STREAM] * 2
    np.testing.assert_allclose(y.get(), LONG_ROW @ x, atol=1e-12)
    out = bring(np.zeros(401))
    for stream in (23, 24, 25, 23):
        assert A.matvec(bring(x), out=out, stream=stream) is out
        np.testing.assert_array_equal(out.get(), y.get())
    assert runtime.device.streams[2:] == [23, 23, 24, 24, 25, 25, 23, 23]
    X = np.column_stack([x, -x, 2 * x])
    np.testing.assert_allclose((A @ bring(X)).get(), LONG_ROW @ X, atol=1e-12)
    call = A._product.call
    A.close()
    with pytest.raises(LaunchError, match="freed"):
        call(26, 0, 0)


def test_memory_of_streams_is_made_with_the_device_locked(monkeypatch, runtime, bring):
    """Another thread may be the first to call on a stream, while a third one closes the operator with that lock."""
    lock, fill, locked = RLock(), EmulatedCuda.fill, []
    monkeypatch.setattr(EmulatedCuda, "current", lambda self: lock)
    monkeypatch.setattr(EmulatedCuda, "fill", lambda *arguments: locked.append(lock._is_owned()) or fill(*arguments))
    A = made(runtime, LONG_ROW, SPLIT)
    x, out = bring(np.ones(400)), bring(np.zeros(401))
    for stream in range(20, 25):
        A.matvec(x, out=out, stream=stream)
    assert len(locked) > 5 and all(locked)


def test_all_numbers_of_columns_share_the_memory_of_a_stream(monkeypatch, runtime, bring):
    new, made_now = CompoundProduct._new_scratch, []
    monkeypatch.setattr(CompoundProduct, "_new_scratch", lambda self: made_now.append(self._runs) or new(self))
    A, X = made(runtime, LONG_ROW, SPLIT), draw(400 * 32, float).reshape(400, 32)
    A @ bring(X[:, :8])
    made_now.clear()
    for _ in range(2):
        for columns in (8, 16, 32):  # launches of 8 each
            Y = A @ bring(X[:, :columns].copy())
            np.testing.assert_allclose(Y.get(), LONG_ROW @ X[:, :columns], atol=1e-12)
    assert not made_now


def test_a_stream_that_each_thread_has_for_itself_has_memory_for_each_thread(runtime):
    scratches = ScratchOfStreams(runtime.device, object(), object)
    used = []
    call = CallOfEachStream(runtime.device, scratches, lambda scratch: lambda stream: used.append(scratch))
    with ThreadPoolExecutor(1) as other:
        for stream in (PER_THREAD_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, 23):
            call(stream)
            other.submit(call, stream).result()
    assert used[0] is used[2] is not used[1] is used[3] and used[4] is used[5]
    assert len(set(map(id, used))) == 3


def test_a_stream_without_memory_for_its_sums_is_told(monkeypatch, runtime, bring):
    A = made(runtime, LONG_ROW, SPLIT)
    x, out = bring(np.ones(400)), bring(np.zeros(401))

    def allocate(self, nbytes):
        raise OutOfDeviceMemory("full")

    monkeypatch.setattr(EmulatedCuda, "allocate", allocate)
    for stream in (23, 24):  # which were thought of
        A.matvec(x, out=out, stream=stream)
    with pytest.raises(ReproError, match="out of memory"):
        A.matvec(x, out=out, stream=25)
    A.matvec(x, out=out, stream=24)


def test_columns_are_multiplied_without_memory_for_further_streams(monkeypatch, runtime, bring):
    A, X = made(runtime, LONG_ROW, SPLIT), draw(400 * 3, float).reshape(400, 3)

    def full(*arguments):
        raise OutOfDeviceMemory("full")

    monkeypatch.setattr(ScratchOfStreams, "__init__", full)
    for _ in range(2):
        np.testing.assert_allclose((A @ bring(X)).get(), LONG_ROW @ X, atol=1e-12)


def test_an_own_array_is_multiplied_on_the_devices_stream(A, general):
    x = draw(50, float)
    y = A @ A.vectors.put(x)
    assert type(y) is DeviceArray
    np.testing.assert_allclose(y.get(), product(A, x), atol=1e-13)
    assert A._runtime.device.streams == [OWN_STREAM] and not general
    A.matvec(A.vectors.put(x), stream=23)  # its memory is valid in the order of its own stream, which has to wait
    assert A._runtime._streams.waited == [{23}]


def test_a_column_keeps_its_shape(A, bring):
    x = draw(50, float)
    assert (A @ bring(x[:, None])).shape == (50, 1)


@pytest.mark.parametrize("precision", [np.float32, np.complex128])
def test_vectors_of_each_dtype_take_the_short_path(runtime, bring, precision):
    matrix = sp.csr_array(random(40, 40, 0.2).astype(precision))
    A, x = made(runtime, matrix), draw(40, precision)
    np.testing.assert_allclose((A @ bring(x)).get(), matrix @ x, rtol=1e-4, atol=1e-5)


def test_arrays_that_do_not_fit_end_in_the_message_of_the_general_way(A, bring, general):
    x = bring(draw(50, float))
    wrong = {
        "the wrong dtype": bring(np.ones(50, np.float32)),
        "the wrong size": bring(np.ones(49)),
        "contiguous": bring(np.ones(50)),
    }
    wrong["contiguous"].flags.c_contiguous = False
    for message, array in wrong.items():
        with pytest.raises(ReproError, match=message):
            A @ array
        with pytest.raises(ReproError, match=message):
            A.matvec(x, out=array)
    with pytest.raises(ReproError, match="overlap"):
        A.matvec(x, out=x)
    with pytest.raises(ReproError, match="same place"):
        A.matvec(x, out=np.zeros(50))
    assert len(general) == 8


def test_misaligned_vectors_are_refused(runtime, bring):
    A = made(runtime, random(40, 40, 0.2).astype(complex))
    x = bring(draw(41, complex))
    shifted = ndarray(runtime.device.part(x.memory, 8, 640), (40,), complex)
    with pytest.raises(ReproError, match="not aligned"):
        A @ shifted


def test_a_closed_operator_launches_nothing(A, bring, runtime):
    x, direct = bring(draw(50, float)), A._direct
    A.close()
    for call in (lambda: A @ x, lambda: A.matvec(x), lambda: A @ np.ones(50)):
        with pytest.raises(ReproError, match="closed"):
            call()
    with pytest.raises(ReproError, match="refused a launch"):
        direct(x)  # what another thread had read before
    assert len(runtime.device.streams) == 1


@pytest.mark.parametrize(("sticky", "todo"), [(False, "live stream"), (True, "new process")])
def test_a_failed_launch_is_one_message(runtime, sticky, todo):
    for each in (runtime, open_runtime("opencl:0")):
        with pytest.raises(ReproError, match=rf"refused a launch\n  actual: no grid\n[\s\S]*{todo}"), each.after():
            raise LaunchError("no grid", sticky=sticky)


def test_a_layout_of_its_own_order_goes_the_general_way(runtime, bring):
    matrix = random(40, 40, 0.2)
    A, x = made(runtime, matrix, "Sl-8-AoSoA-SoA@rcm/direct-64-3-w2-u2"), draw(40, float)
    y = A @ bring(x)
    assert type(y) is ndarray  # what comes in goes out
    np.testing.assert_allclose(y.get(), matrix @ x, atol=1e-13)
    assert {CURRENT_STREAM} <= runtime._streams.waited[-1]


def test_a_second_call_takes_few_frames(A, bring):
    x = bring(draw(50, float))
    A @ x
    entered = frames(lambda: A @ x)
    assert 0 < len(entered) <= 7, entered


def test_an_operator_needs_no_benchmark():
    """What measures is not imported for a product."""
    names = {name for name in vars(spmv) if not name.startswith("_")}
    assert not names & {"Workspace", "Variant", "ProductOperands"}


@pytest.mark.parametrize("columns", [2, 8, 11])
def test_columns_take_the_short_path_from_the_second_product_on(runtime, bring, columns, monkeypatch):
    matrix = random(50, 40, 0.2)
    A = made(runtime, matrix)
    X = np.asarray([draw(40, float, seed) for seed in range(columns)]).T.copy()
    first = A @ bring(X)
    monkeypatch.setattr(A, "_matmat_on_device", None)
    second, out = A @ bring(X), bring(np.zeros((50, columns)))
    assert type(second) is ndarray and second.shape == (50, columns)
    assert A.matmat(bring(X), out, stream=23) is out
    for Y in (first, second, out):
        np.testing.assert_allclose(Y.get(), matrix @ X, atol=1e-13)
    launches = -(-columns // 8)
    assert runtime.device.streams == [CURRENT_STREAM] * launches + [23] * launches


def test_columns_that_the_short_path_does_not_take_go_the_general_way(runtime, bring):
    matrix = random(50, 50, 0.2)
    A = made(runtime, matrix)
    X = np.asarray([draw(50, float, seed) for seed in range(3)]).T.copy()
    A @ bring(X)
    short = len(runtime.device.streams)
    np.testing.assert_allclose((A @ bring(X[:, :2].copy())).get(), matrix @ X[:, :2], atol=1e-13)
    with pytest.raises(ReproError, match="out has the wrong shape"):
        A.matmat(bring(X), bring(np.zeros((3, 50))))
    with pytest.raises(ReproError, match="overlap"):
        A.matmat(x := bring(X), x)
    assert len(runtime.device.streams) == short
    A.update(2 * A._problem.values[:, 0])
    np.testing.assert_allclose((A @ bring(X)).get(), 2 * (matrix @ X), atol=1e-13)
    A.close()
    with pytest.raises(ReproError, match="closed"):
        A @ bring(X)


def test_a_width_without_a_short_path_is_asked_for_once(runtime, bring, monkeypatch):
    A, X = made(runtime, random(50, 50, 0.2)), np.ones((50, 3))
    asked = []
    monkeypatch.setattr(A._product, "columns_call", lambda *arguments: asked.append(arguments))
    for _ in range(3):
        np.testing.assert_allclose((A @ bring(X)).get(), A.to_scipy() @ X, atol=1e-12)
    assert len(asked) == 1
