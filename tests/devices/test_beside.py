"""A queue beside a device's own: on the CPU, and on a GPU that only keeps time."""

import weakref
from importlib import import_module

import numpy as np
import pytest

from repro.devices.base import LaunchError
from repro.devices.cuda import open_cuda
from repro.devices.cuda_driver import NON_BLOCKING
from support.fake_cuda import BYTES_PER_MS, install


def test_both_queues_of_the_cpu_see_the_same_memory(cpu_device):
    queue = cpu_device.new_queue()
    assert queue is not cpu_device
    assert queue.target is cpu_device.target
    numbers, result = np.arange(100.0), np.empty(100)
    buffer = cpu_device.upload(np.zeros(100))
    with queue.current():
        queue.write(buffer, numbers)
    queue.synchronize()
    cpu_device.download(buffer, result)
    np.testing.assert_array_equal(result, numbers)
    cpu_device.write(buffer, 2 * numbers)
    queue.download(buffer, result)
    np.testing.assert_array_equal(result, 2 * numbers)


@pytest.fixture
def machine(monkeypatch):
    return install(monkeypatch, 2)


def test_a_stream_beside_a_gpus_own_makes_the_context_current_for_each_call(machine, tmp_path):
    device = open_cuda(0)
    kernel, buffer = device.load(tmp_path).kernel("any"), device.allocate(8000)
    queue = device.new_queue()
    *_, main, side = machine.streams.values()
    assert (main.flags, side.flags) == (0, NON_BLOCKING)
    own, launch = (of.bind(kernel, 1, 1, [np.int32(5)]) for of in (device, queue))
    own()
    stack, machine.stack[:] = list(machine.stack), []  # as in another thread, which has no context
    launch()
    queue.write(buffer, np.zeros(1000))
    queue.download(buffer, np.zeros(500))
    queue.synchronize()
    with queue.current():
        assert machine.stack == [0]
    assert machine.stack == []
    machine.stack[:] = stack
    assert (main.now, side.now) == (5, 5 + 12000 / BYTES_PER_MS)
    device.close()


def test_an_error_of_the_driver_is_ours(machine, monkeypatch, tmp_path):
    device = open_cuda(0)
    queue = device.new_queue()
    driver = import_module("pycuda.driver")

    def fail(*_):
        raise driver.Error("no such address")

    monkeypatch.setattr(driver, "memcpy_htod_async", fail)
    with pytest.raises(LaunchError, match="no such address"):
        queue.write(device.allocate(8), np.zeros(1))
    assert len(machine.stack) == 1
    device.close()


def test_a_queue_is_dropped_where_no_context_is_current(machine, tmp_path):
    """PyCUDA warns of a stream that it then cannot destroy, and leaves it open."""
    device = open_cuda(0)
    queue = device.new_queue()
    launch = queue.bind(device.load(tmp_path).kernel("any"), 1, 1, [np.int32(5)])
    _, stream = machine.streams.values()
    machine.streams.clear()  # which holds the stream as well
    current = []
    weakref.finalize(stream, lambda: current.extend(machine.stack))
    del stream
    stack, machine.stack[:] = list(machine.stack), []
    del queue
    assert not current
    del launch
    assert current == [0]
    assert machine.stack == []
    machine.stack[:] = stack
    device.close()
