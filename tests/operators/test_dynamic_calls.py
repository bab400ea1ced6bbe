"""The short path of a matrix that changes, on an emulated GPU: what a call binds, waits for, and sees."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from repro.errors import ReproError
from repro.operators.dynamic_csr import Capacity, DynamicCSR
from support.emulated_cuda import needs_compiler
from support.emulated_runtime import CAPTURED_STREAM, CURRENT_STREAM, OWN_STREAM, EmulatedRuntime, install_cupy, ndarray
from support.frames import frames
from support.matrices import draw, random

pytestmark = [pytest.mark.medium, needs_compiler]


@pytest.fixture
def runtime(monkeypatch, built_folder):
    return EmulatedRuntime(monkeypatch, built_folder / "emulated")


@pytest.fixture
def bring(monkeypatch, runtime):
    return install_cupy(monkeypatch, runtime)


def made(runtime, matrix, room=None):
    operator = DynamicCSR.__new__(DynamicCSR)
    operator._init_from_csr(runtime, "double", sp.csr_array(matrix), room or Capacity())
    return operator


@pytest.fixture
def matrix():
    return sp.csr_array(random(50, 40, 0.15))


@pytest.fixture
def A(runtime, matrix):  # noqa: N802
    return made(runtime, matrix, Capacity(capacity=4000))


@pytest.fixture
def bound(monkeypatch, runtime):
    """Note each product that is bound."""
    names, original = [], runtime.device.bind_call
    monkeypatch.setattr(
        runtime.device, "bind_call", lambda program, name, *rest: names.append(name) or original(program, name, *rest)
    )
    return names


def test_a_product_is_bound_once_until_the_arrays_or_the_schedule_change(A, matrix, bring, bound, runtime):
    x = draw(40, float)
    on_gpu, out, dense = bring(x), bring(np.zeros(50)), matrix.toarray()
    for _ in range(3):
        assert A.matvec(on_gpu, out=out) is out
        np.testing.assert_allclose(out.get(), dense @ x, atol=1e-13)
    A.insert([1, 2], [3, 4], [5.0, 6.0])  # into free space: the same arrays
    dense[1, 3] += 5
    dense[2, 4] += 6
    np.testing.assert_allclose((A @ on_gpu).get(), dense @ x, atol=1e-13)
    assert type(A @ on_gpu) is ndarray and len(bound) == 1
    A.defragment()
    np.testing.assert_allclose((A @ on_gpu).get(), dense @ x, atol=1e-13)
    assert len(bound) == 2
    rows, columns = np.repeat(np.arange(50), 40), np.tile(np.arange(40), 50)
    A.insert(rows, columns, np.ones(2000))  # eight times as many entries: another schedule
    np.testing.assert_allclose((A @ on_gpu).get(), (dense + 1) @ x, atol=1e-12)
    assert len(bound) == 3 and bound[2] != bound[1]
    assert set(runtime.device.streams) == {CURRENT_STREAM} and not any(
        CURRENT_STREAM in w for w in runtime._streams.waited
    )


def test_arrays_of_the_host_and_own_arrays_are_multiplied_as_before(A, matrix, runtime):
    x = draw(40, float)
    np.testing.assert_allclose(A @ x, matrix @ x, atol=1e-13)
    own = runtime.put(x)
    np.testing.assert_allclose((A @ own).get(), matrix @ x, atol=1e-13)
    assert set(runtime.device.streams) == {OWN_STREAM} and not runtime._streams.marked


def test_a_change_waits_for_products_of_other_streams_and_only_for_these(A, bring, runtime):
    x, streams = bring(draw(40, float)), runtime._streams
    A.insert(1, 2, 3.0)
    assert not streams.awaited
    for stream in (0, OWN_STREAM, CURRENT_STREAM, CURRENT_STREAM, 23, CAPTURED_STREAM):
        A.matvec(x, out=bring(np.zeros(50)), stream=stream)
    assert streams.marked == [CURRENT_STREAM, CURRENT_STREAM, 23, CAPTURED_STREAM]
    A.delete(1, 2)
    assert len(streams.awaited) == 2  # the graph runs what was captured whenever its owner wants
    A.insert(1, 2, 3.0)
    assert len(streams.awaited) == 2


def test_a_product_waits_for_the_change_of_another_thread(A, bring, runtime, monkeypatch):
    x, out = bring(np.ones(40)), bring(np.zeros(50))
    before = (A @ x).get()
    entered, go, seen = threading.Event(), threading.Event(), []
    original = A._matrix.insert

    def insert(*arguments):
        entered.set()
        assert go.wait(10)
        return original(*arguments)

    monkeypatch.setattr(A._matrix, "insert", insert)
    changing = threading.Thread(target=A.insert, args=([0], [0], [100.0]))
    changing.start()
    assert entered.wait(10)
    reading = threading.Thread(target=lambda: seen.append(A.matvec(x, out=out).get()))
    reading.start()
    reading.join(0.2)
    assert reading.is_alive()
    go.set()
    changing.join()
    reading.join()
    before[0] += 100
    np.testing.assert_allclose(seen[0], before, atol=1e-12)


def test_an_interrupted_change_is_named_by_the_next_product(A, bring, monkeypatch):
    x = bring(np.ones(40))
    A @ x

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(A._matrix, "_report", interrupt)
    with pytest.raises(KeyboardInterrupt):
        A.insert([0], [0], [1.0])
    with pytest.raises(ReproError, match="in the middle of an operation"):
        A @ x


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_empty_matrices(runtime, bring, shape):
    A = made(runtime, sp.csr_array(shape))
    y = A @ bring(np.zeros(shape[1]))
    assert y.shape == (shape[0],)
    np.testing.assert_array_equal(y.get(), np.zeros(shape[0]))


@pytest.fixture
def traffic(monkeypatch, runtime):
    """Note what the host asks of the device: launches that are bound, and copies, each of which is a wait."""
    noted, device = [], runtime.device
    for name in ("bind", "write", "download"):
        monkeypatch.setattr(
            device, name, lambda *given, name=name, do=getattr(device, name): noted.append(name) or do(*given)
        )
    return noted


CHANGES = {
    "insert": lambda A, *batch: A.insert(*batch),
    "unique": lambda A, *batch: A.insert(*batch, mode="unique"),
    "update": lambda A, *batch: A.update(*batch),
    "delete": lambda A, *batch: A.delete(*batch[:2]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_same_size_is_one_copy_one_wait_and_binds_nothing(A, matrix, traffic, change):
    rng = np.random.default_rng(5)
    batches = [(rng.integers(0, 50, 30), rng.integers(0, 40, 30), rng.random(30)) for _ in range(2)]
    A.insert(*batches[0])
    change(A, *batches[0])
    traffic.clear()
    change(A, *batches[1])
    assert traffic == ["write", "download"]


def test_batches_of_several_sizes_are_inserted_by_launches_that_are_kept(A, matrix):
    rng, dense = np.random.default_rng(6), matrix.toarray()
    for count in (*range(1, 24, 2), 300, 5, 5, 300):
        rows, columns, values = rng.integers(0, 50, count), rng.integers(0, 40, count), rng.random(count)
        A.insert(rows, columns, values)
        np.add.at(dense, (rows, columns), values)
        if count % 3 == 0:
            A.defragment()
        A.delete(rows[:1], columns[:1])
        dense[rows[0], columns[0]] = 0
    np.testing.assert_allclose(A.to_scipy().toarray(), dense, atol=1e-12)


def test_an_operation_that_is_queued_by_itself_is_waited_for(A, traffic):
    A.insert([1], [2], [3.0])
    _ = A._matrix.operations
    traffic.clear()
    A.insert([1], [2], [3.0])
    assert traffic.count("download") == 2


def test_a_second_insertion_takes_few_frames(A):
    def insert():
        A.insert([1, 2], [3, 4], [5.0, 6.0])

    insert()
    assert 0 < len(frames(insert)) <= 62
