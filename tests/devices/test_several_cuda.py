"""The order of several GPUs' work, on GPUs that only keep time: a launch takes as many ms as its argument says."""

import os

import numpy as np
import pytest

from repro.devices.base import Copy, LaunchError, LaunchSpec
from repro.devices.cuda import open_cuda
from repro.devices.device_group import Devices
from support.fake_cuda import BYTES_PER_MS, install


@pytest.fixture(params=[True, False], ids=["PyCUDA", "bindings"])
def machine(request, monkeypatch):
    return install(monkeypatch, 3, request.param)


def assert_closed(machine):
    """No context is current any more, and the next device that is opened keeps its own current, as a first one does."""
    assert machine.stack == []
    device = open_cuda(0)
    assert machine.stack == [0]
    device.close()
    assert machine.stack == []


@pytest.fixture
def devices(machine):
    opened = Devices([open_cuda(ordinal) for ordinal in range(3)])
    yield opened
    opened.close()
    assert_closed(machine)


@pytest.fixture
def launch(tmp_path, devices):
    """Return what queues a kernel of so many ms on one of the devices."""
    kernels = [device.load(tmp_path).kernel("any") for device in devices]
    return lambda index, duration: devices[index].bind(kernels[index], 1, 1, [np.int32(duration)])


def streams(machine):
    return [stream.now for stream in machine.streams.values()]


def test_the_first_device_switches_no_context_and_the_others_put_it_back(machine, devices, launch):
    own, guest = launch(0, 1), launch(1, 2)
    buffer = devices[0].allocate(8)
    before = machine.switches
    own()
    devices[0].fill(buffer, 0)
    devices[0].synchronize()
    assert machine.switches == before
    guest()
    assert machine.switches == before + 2
    own()
    assert machine.stack == [0]
    assert streams(machine) == [102, 2, 0]


@pytest.mark.parametrize("index", [0, 1])
def test_concurrent_launches_take_as_long_as_the_longest(machine, devices, tmp_path, index):
    device = devices[index]
    kernel = device.load(tmp_path).kernel("any")
    launches = [LaunchSpec(kernel, 1, 1, [np.int32(duration)]) for duration in (3, 7, 5)]
    before, queued = device.bind(*launches[0]), device.bind_concurrent(launches)
    before()
    queued()
    before()
    own = machine.streams[device.stream]
    assert own.now == 3 + 7 + 3
    device.bind_concurrent(launches[:2])()
    assert own.now == 13 + 7
    assert sorted(streams(machine))[:2] == [0, 0], "the other GPUs have nothing to do"
    device.bind_concurrent(launches[2:])()
    assert own.now == 25


def test_a_part_of_a_buffer_is_given_back_with_the_whole(machine, devices):
    whole = devices[0].allocate(1024)
    part = devices[0].part(whole, 256, 8)
    assert (part.pointer, part.nbytes) == (whole.pointer + 256, 8)
    part.release()
    assert list(machine.memory) == [whole.pointer]
    whole.release()
    assert not machine.memory


def test_what_is_bound_before_another_device_is_opened_runs_after_it(machine, tmp_path):
    first = open_cuda(1)
    run = first.bind(first.load(tmp_path).kernel("any"), 1, 1, [np.int32(1)])
    second = open_cuda(0)
    second.flush()
    run()
    assert (second.free_bytes(), first.free_bytes()) == (machine.room[0], machine.room[1])
    assert machine.room[0] != machine.room[1]
    first.close()
    second.flush()
    third = open_cuda(2)
    assert machine.stack == [2]
    second.close()
    third.flush()
    third.close()
    assert machine.stack == []


def test_an_error_in_a_guest_puts_the_context_back(machine, devices):
    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        devices[2].time_events(fail, 1)
    assert machine.stack == [0]


def test_one_clock_reads_the_longest_of_all(devices, launch):
    runs = [launch(0, 2), launch(1, 7), launch(2, 5)]

    def on_all():
        for run in runs:
            run()

    np.testing.assert_allclose(devices.time_events(on_all, 9), 7e-3)
    np.testing.assert_allclose(devices.time_graph(on_all, 10, 3), 7e-3)
    np.testing.assert_allclose(devices.time_stages([on_all, runs[2], runs[1]], 3), np.tile([7e-3, 5e-3, 7e-3], (3, 1)))


def test_what_comes_before_a_launch_is_in_no_time(devices, launch):
    long, short = launch(1, 50), launch(2, 1)
    np.testing.assert_allclose(devices.time_events(short, 3, lambda: (devices.flush(), long())), 1e-3)
    np.testing.assert_allclose(devices.time_stages([short], 3, long), 1e-3)


def test_one_device_is_timed_as_it_is(machine, tmp_path):
    device = open_cuda(0)
    alone = Devices([device])
    run = device.bind(device.load(tmp_path).kernel("any"), 1, 1, [np.int32(3)])
    machine.calls.clear()
    before = machine.switches
    np.testing.assert_allclose(alone.time_events(run, 5, alone.flush), 3e-3)
    np.testing.assert_allclose(alone.time_graph(run, 5, 5), 3e-3)
    np.testing.assert_allclose(alone.time_stages([run, run], 5), 3e-3)
    alone.time_host(run, 2)
    assert "cuStreamWaitEvent" not in {name for name, _ in machine.calls}
    assert machine.switches == before
    assert alone.environment() == device.environment()
    alone.close()


def test_a_copy_comes_after_the_work_of_both_and_before_what_follows_on_both(machine, devices, launch):
    source, target = devices[1].allocate(4000), devices[2].allocate(4000)
    launch(1, 10)()
    launch(2, 3)()
    devices.copy(source, 1, target, 2, 2 * BYTES_PER_MS)
    launch(2, 1)()
    launch(1, 1)()
    assert streams(machine) == [0, 13, 13]


def test_copies_of_one_call_go_both_ways_at_once(machine, devices):
    here, there = devices[0].allocate(9000), devices[1].allocate(9000)
    devices.exchange([Copy(here, 0, there, 1, 4 * BYTES_PER_MS), Copy(there, 1, here, 0, 6 * BYTES_PER_MS)])
    assert streams(machine) == [6, 6, 0]
    devices.copy(here, 0, here, 0, BYTES_PER_MS)
    assert streams(machine) == [7, 6, 0]


def test_launches_run_while_copies_are_under_way(machine, devices, launch):
    buffers = [device.allocate(9000) for device in devices]
    launch(1, 10)()
    both_ways = [Copy(buffers[0], 0, buffers[1], 1, 4 * BYTES_PER_MS), Copy(buffers[1], 1, buffers[0], 0, 6000)]
    devices.exchange(both_ways, launch(1, 5))
    assert streams(machine)[:3] == [16, 16, 0], "both copies come after 10 ms, and the launch beside them"
    devices.exchange(both_ways, launch(0, 50))
    assert streams(machine)[:3] == [66, 22, 0]
    devices.exchange([], launch(2, 3))
    assert streams(machine)[:3] == [66, 22, 3]
    made = [gpu for name, gpu in machine.calls if name == "cuStreamCreate"]
    assert made in ([0, 1, 2], [0, 1, 2] * 2), "once, beside the streams of the devices"


def test_all_meet_when_the_last_is_done(machine, devices, launch):
    for index, duration in enumerate((2, 7, 5)):
        launch(index, duration)()
    devices.meet()
    assert streams(machine) == [7, 7, 7]


def test_the_first_of_several_are_timed_without_the_others(machine, devices, launch):
    runs = [launch(0, 2), launch(1, 7), launch(2, 5)]
    runs[2]()
    np.testing.assert_allclose(devices.leading(1).time_events(runs[0], 3), 2e-3)
    two = devices.leading(2)
    assert [*two] == [devices[0], devices[1]] and len(two.topology()) == 1
    np.testing.assert_allclose(two.time_graph(lambda: (runs[0](), runs[1]()), 3, 3), 7e-3)
    assert streams(machine)[2] == 5


def test_without_peer_access_the_driver_stages_a_copy(machine):
    machine.peers.clear()
    devices = Devices([open_cuda(0), open_cuda(1)])
    source, target = devices[0].allocate(1000), devices[1].allocate(1000)
    launches = len(machine.calls)
    devices.copy(source, 0, target, 1, 1000)
    copies = [call for call in machine.calls[launches:] if "Memcpy" in call[0]]
    assert copies == [("cuMemcpyPeerAsync", 1)]
    assert machine.enabled == []
    assert devices.environment()["topology"][0]["peer_access"] is False
    devices.close()


def test_peer_access_is_enabled_once_for_each_pair_and_kept(machine):
    for _ in range(2):  # the second time it is there already
        devices = Devices([open_cuda(0), open_cuda(1)])
        source, target = devices[0].allocate(1000), devices[1].allocate(1000)
        devices.copy(source, 0, target, 1, 1000)
        assert ("cuMemcpyDtoDAsync", 1) in machine.calls
        devices.close()


def test_a_copy_beyond_a_buffer_or_that_is_refused_is_an_error(machine, devices):
    source, target = devices[0].allocate(1000), devices[1].allocate(500)
    with pytest.raises(ValueError, match="1000 bytes"):
        devices.copy(source, 0, target, 1, 1000)
    machine.enabled.clear()
    with pytest.raises(LaunchError, match="INVALID_HANDLE"):
        devices.copy(source, 0, target, 1, 500)
    assert machine.stack == [0]


def test_the_environment_names_all_and_what_links_them(devices):
    environment = devices.environment()
    assert {**devices.first.environment(), **environment} == environment
    assert environment["devices"] == 3
    assert len(set(environment["uuids"])) == 3
    pairs = [link["devices"] for link in environment["topology"]]
    assert pairs == [[0, 1], [0, 2], [1, 2]]
    assert all(link["peer_access"] for link in environment["topology"])


def test_a_fault_that_a_copy_meets_says_that_the_context_is_lost_and_all_are_closed(machine):
    devices = Devices([open_cuda(0), open_cuda(1)])
    source, target = devices[0].allocate(1000), devices[1].allocate(1000)
    machine.lost = True
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS") as caught:
        devices.copy(source, 0, target, 1, 1000)
    assert caught.value.sticky
    devices.close()
    machine.lost = False
    assert_closed(machine)


def test_a_refused_copy_alone_loses_no_context(machine, devices):
    source, target = devices[0].allocate(1000), devices[1].allocate(1000)
    machine.enabled.clear()
    with pytest.raises(LaunchError) as caught:
        devices.copy(source, 0, target, 1, 1000)
    assert not caught.value.sticky


def test_a_device_that_cannot_be_closed_keeps_no_other_open(machine, monkeypatch):
    devices = Devices([open_cuda(0), open_cuda(1)])

    def fail():
        raise RuntimeError

    close = devices[1].close
    monkeypatch.setattr(devices[1], "close", lambda: (close(), fail()))
    with pytest.raises(RuntimeError):
        devices.close()
    assert machine.stack == []


def test_gpus_are_numbered_by_their_addresses_whatever_the_user_has_set(machine, monkeypatch):
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    open_cuda(0).close()
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
