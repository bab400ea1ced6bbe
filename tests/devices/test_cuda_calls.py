"""Launches on a caller's stream and stream-ordered memory, against a driver that notes what it is asked."""

import ctypes
import enum
import importlib
import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from repro.devices.base import ADDRESS, LaunchError, OutOfDeviceMemory


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_HANDLE = 400


class Driver(ModuleType):
    """A driver whose launch reads the arguments of a kernel (int n, x, y) from where it is told that they are."""

    CUresult = CUresult
    CUmemPool_attribute = SimpleNamespace(
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=1, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT=2, CU_MEMPOOL_ATTR_USED_MEM_CURRENT=3
    )

    def __init__(self):
        super().__init__("cuda.bindings.driver")
        self.contexts, self.launches, self.freed, self.room = ["ours"], [], [], 1000
        self.CUstream = self.cuuint64_t = int

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra):  # noqa: N802
        if not self.contexts or self.contexts[-1] != "ours":
            return (CUresult.CUDA_ERROR_INVALID_CONTEXT,)
        if stream == 666:
            return (CUresult.CUDA_ERROR_INVALID_HANDLE,)
        n, x, y = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))[:3]
        time.sleep(0.001)  # another thread may run, as the bindings release Python's lock
        read = [ctypes.c_int.from_address(n).value, *(ctypes.c_uint64.from_address(a).value for a in (x, y))]
        self.launches.append((function, (gx, bx, shared), stream, read))
        return (CUresult.CUDA_SUCCESS,)

    def cuCtxPushCurrent(self, context):  # noqa: N802
        self.contexts.append(context)
        return (CUresult.CUDA_SUCCESS,)

    def cuCtxPopCurrent(self):  # noqa: N802
        return CUresult.CUDA_SUCCESS, self.contexts.pop()

    def cuCtxGetCurrent(self):  # noqa: N802
        return CUresult.CUDA_SUCCESS, "ours"

    def cuCtxGetDevice(self):  # noqa: N802
        return CUresult.CUDA_SUCCESS, 0

    def cuDeviceGetDefaultMemPool(self, gpu):  # noqa: N802
        return CUresult.CUDA_SUCCESS, "pool"

    def cuMemPoolSetAttribute(self, pool, attribute, value):  # noqa: N802
        return (CUresult.CUDA_SUCCESS,)

    def cuMemAllocAsync(self, nbytes, stream):  # noqa: N802
        if nbytes > self.room:
            return CUresult.CUDA_ERROR_OUT_OF_MEMORY, 0
        self.room -= nbytes
        return CUresult.CUDA_SUCCESS, 1 << 20

    def cuMemFreeAsync(self, pointer, stream):  # noqa: N802
        assert self.contexts[-1] == "ours"
        self.freed.append((pointer, stream))
        return (CUresult.CUDA_SUCCESS,)


@pytest.fixture
def driver(monkeypatch):
    driver, bindings = Driver(), ModuleType("cuda.bindings")
    bindings.driver = driver
    for name, module in (("cuda", ModuleType("cuda")), ("cuda.bindings", bindings), ("cuda.bindings.driver", driver)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "repro.devices.cuda_bindings", raising=False)
    yield driver
    sys.modules.pop("repro.devices.cuda_bindings", None)


@pytest.fixture
def calls(driver):
    return importlib.import_module("repro.devices.cuda_bindings")


@pytest.fixture
def launch(calls):
    return calls.StreamLaunch("kernel", 3, 64, 16, [np.int32(5), ADDRESS, ADDRESS, np.int32(9)], "ours", LaunchError)


def test_each_call_gives_its_stream_and_addresses(driver, launch):
    launch(7, 100, 200)
    launch(8, 300, 1 << 40)
    assert driver.launches == [("kernel", (3, 64, 16), 7, [5, 100, 200]), ("kernel", (3, 64, 16), 8, [5, 300, 1 << 40])]


def test_threads_do_not_mix_their_addresses(driver, launch):
    def call(number):
        for _ in range(20):
            launch(number, number, 2 * number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(driver.launches) == 160
    assert all(read == [5, stream, 2 * stream] for _, _, stream, read in driver.launches)


@pytest.mark.parametrize("contexts", [[], ["that of another GPU"]])
def test_a_thread_without_the_gpus_context_launches_within_it(driver, launch, contexts):
    driver.contexts = [*contexts]
    launch(7, 100, 200)
    assert driver.launches[0][3] == [5, 100, 200] and driver.contexts == contexts


def test_a_stream_that_is_none_is_an_error_and_leaves_the_context(driver, launch):
    with pytest.raises(LaunchError, match="INVALID_HANDLE"):
        launch(666, 100, 200)
    assert driver.contexts == ["ours"]
    launch(7, 100, 200)


def test_a_closed_launch_reads_no_released_memory(driver, launch):
    launch.close()
    with pytest.raises(LaunchError, match="freed"):
        launch(7, 100, 200)
    assert not driver.launches


def test_addresses_stand_among_other_arguments(driver, calls):
    launch = calls.StreamLaunch("kernel", 1, 1, 0, [np.int32(5), ADDRESS, np.int64(-1), ADDRESS], "ours", LaunchError)
    launch(7, 100, 200)
    assert driver.launches[0][3] == [5, 100, 2**64 - 1]
    with pytest.raises(ValueError, match="shorter"):
        launch(7, 100)


def test_ordered_memory_is_given_back_in_the_streams_order_by_any_thread(driver, calls):
    pool = calls.OrderedPool(7, LaunchError)
    buffer = pool.allocate(100)
    driver.contexts = []
    buffer.release()
    buffer.release()
    assert driver.freed == [(1 << 20, 7)] and driver.contexts == []
    del buffer
    assert len(driver.freed) == 1


def test_a_full_device_is_told(driver, calls):
    with pytest.raises(OutOfDeviceMemory, match="2,000 bytes"):
        calls.OrderedPool(7, LaunchError).allocate(2000)


def test_memory_outlives_the_pool_without_a_call(driver, calls):
    pool = calls.OrderedPool(7, LaunchError)
    buffer = pool.allocate(100)
    pool.close()
    buffer.release()
    assert not driver.freed
