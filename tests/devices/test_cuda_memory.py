"""Memory of a GPU that comes from a pool, on a GPU that only counts it."""

import pytest

from repro.devices.base import OutOfDeviceMemory
from repro.devices.cuda import open_cuda
from support.device_memory import count_taken
from support.fake_cuda import install


@pytest.fixture(params=[True, False], ids=["PyCUDA", "bindings"])
def machine(request, monkeypatch):
    return install(monkeypatch, 2, request.param)


@pytest.fixture(params=[0, 1], ids=["resident", "guest"])
def gpu(request, machine):
    """The first of two GPUs that are open, or the second, which makes its context current for each call."""
    opened = [open_cuda(ordinal) for ordinal in range(2)]
    yield opened[request.param]
    for device in reversed(opened):
        device.close()
    assert not machine.memory and machine.stack == []


def test_what_the_pool_has_given_comes_from_it_again(machine, gpu):
    with gpu.pooling():
        first = gpu.allocate(1000)
        pointer = first.pointer
        first.release()
        assert pointer in machine.memory, "the driver has it back"
        again = gpu.allocate(1000)
        assert (again.pointer, again.nbytes) == (pointer, 1000)
        other = gpu.allocate(16)
    assert machine.allocated == [1000, 16]
    beside = gpu.allocate(1000)  # not from the pool
    assert machine.allocated == [1000, 16, 1000]
    beside.release()
    assert beside.pointer not in machine.memory
    for buffer in (again, other):
        buffer.release()  # to the pool that it is from
        assert buffer.pointer in machine.memory
        buffer.release()


def test_a_pool_within_a_pool_is_the_same_and_ends_with_the_outer_one(machine, gpu):
    with gpu.pooling():
        with gpu.pooling():
            gpu.allocate(8).release()
        gpu.allocate(8).release()
        assert machine.allocated == [8]
    with pytest.raises(ZeroDivisionError), gpu.pooling():
        1 / 0  # noqa: B018
    gpu.allocate(8).release()
    assert machine.allocated == [8, 8]


def test_what_the_pool_keeps_can_be_allocated(machine, gpu):
    free = gpu.free_bytes()
    assert free == machine.room[gpu.ordinal]
    with gpu.pooling():
        held, kept = gpu.allocate(3000), gpu.allocate(500)
    kept.release()
    assert machine.room[gpu.ordinal] == free - 3500
    assert gpu.free_bytes() == free - 3000
    held.release()
    assert gpu.free_bytes() == free


def test_what_a_test_takes_is_counted_whatever_others_take(machine, gpu, monkeypatch):
    taken = count_taken(monkeypatch, gpu)
    with gpu.pooling():
        pooled = gpu.allocate(3000)
    buffer = gpu.allocate(500)
    part = gpu.part(buffer, 100, 200)
    machine.room[gpu.ordinal] -= 10**6  # another process
    assert taken() == 3500
    part.release()
    assert taken() == 3500
    pooled.release()  # though the pool keeps it
    assert taken() == 500
    buffer.release()
    gpu.allocate(70)  # and lets it go
    assert taken() == 0
    machine.room[gpu.ordinal] += 10**6


def test_where_the_driver_has_no_more_the_pool_gives_up_what_it_keeps(machine, gpu):
    machine.room[gpu.ordinal] = 1000
    with gpu.pooling():
        gpu.allocate(700).release()
    large = gpu.allocate(900)
    assert machine.allocated == [700, 900]
    assert gpu.free_bytes() == 100
    with gpu.pooling():
        kept = gpu.allocate(60)
    with pytest.raises(OutOfDeviceMemory):
        gpu.allocate(50)  # the pool keeps nothing
    kept.release()
    with pytest.raises(OutOfDeviceMemory):
        gpu.allocate(200)  # too little, with what it kept
    assert gpu.free_bytes() == machine.room[gpu.ordinal] == 100
    with pytest.raises(OutOfDeviceMemory), gpu.pooling():
        gpu.allocate(200)
    large.release()


def test_without_a_pool_there_is_nothing_to_give_up(machine, gpu):
    machine.room[gpu.ordinal] = 10
    with pytest.raises(OutOfDeviceMemory):
        gpu.allocate(11)
    assert gpu.free_bytes() == 10


def test_the_growth_of_the_pool_is_the_most_that_is_taken_at_once(gpu):
    def run():
        first, second = gpu.allocate(1000), gpu.allocate(500)
        first.release()
        third = gpu.allocate(1000)  # where the first was
        for buffer in (second, third):
            buffer.release()

    assert gpu.pool_growth(run) == 1500
    assert gpu.pool_growth(run) == 1500, "what it kept from before does not count"
    with gpu.pooling():
        held = gpu.allocate(1000)
        assert gpu.pool_growth(run) == 1500, "nor does what is held"
        held.release()
    assert gpu.pool_growth(lambda: None) == 0
    gpu.allocate(77).release()  # and it pools no longer


def test_closing_gives_up_what_the_pool_keeps(machine):
    gpu = open_cuda(0)
    with gpu.pooling():
        late = gpu.allocate(64)
        gpu.allocate(1000).release()
    gpu.close()
    assert [allocation.nbytes for allocation in machine.memory.values()] == [64]
    late.release()  # nothing is kept any more
    assert not machine.memory


def test_memory_that_is_released_after_its_device_was_closed_makes_no_context_current(machine):
    """An interrupted process closes its device before generators release their buffers."""
    device = open_cuda(0)
    buffer = device.allocate(1000)
    with device.pooling():
        pooled = device.allocate(1000)
    device.close()
    machine.stack.clear()
    device._context.push = lambda: pytest.fail("the context of a closed device cannot be made current")
    buffer.release()
    pooled.release()
    assert machine.stack == []
