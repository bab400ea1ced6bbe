"""Words for devices, and the parts of a CPU as several devices."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from repro.codegen import opencl_runtime
from repro.codegen.build_cache import compile_module
from repro.codegen.targets import CPU
from repro.config.models import Config
from repro.devices import selection
from repro.devices import selection as opening
from repro.devices.base import Copy, LaunchError
from repro.devices.device_group import Devices
from repro.devices.opencl import OpenClDevice
from repro.devices.selection import (
    Gpu,
    identities,
    open_device,
    open_devices,
    resolve_device,
    single_devices,
    target_of,
)
from repro.errors import ReproError

GOOD = {
    "auto": "cuda:0",
    "cuda": "cuda:0",
    "cuda:2": "cuda:2",
    "cuda:0,1": "cuda:0,1",
    "cuda:2,00": "cuda:2,0",
    "cuda:all": "cuda:0,1,2",
    "opencl": "opencl:0",
    "opencl:1": "opencl:1",
    "opencl:0/2": "opencl:0/2",
    "opencl:0/16": "opencl:0/16",
}
BAD = [
    *("", "quux", "gpu", "CUDA:0", "cpu", "cuda:", "cuda:-1", "cuda:x", "cuda:0,", "cuda:,1", "cuda:0,0", "cuda:1,01"),
    *("cuda:0/2", "cuda:all,1", "cuda:0 ", "cuda:0\n", "opencl:0/1", "opencl:0/0", "opencl:/2", "opencl:0,1"),
    *("opencl:all", "auto:0", "cuda:٣"),
]
ADD = """
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void add(int n, int value, __global int* y)
{ for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] += value; }
"""


@pytest.fixture
def gpus(monkeypatch):
    """Three GPUs, the last of another generation."""
    listed = [Gpu(0, "A", "sm_90", "GPU-a"), Gpu(1, "A", "sm_90", "GPU-b"), Gpu(2, "B", "sm_80", "GPU-c")]
    monkeypatch.setattr(selection, "find_gpus", lambda: listed)
    monkeypatch.setattr(opening, "find_spec", lambda name: object())
    # and two CPUs
    monkeypatch.setattr(opencl_runtime, "find_devices", lambda: [SimpleNamespace(name=name) for name in ("C", "D")])
    return listed


def make_config(device):
    return Config(device=device, studies={"compound_spmv": {}})


@pytest.mark.parametrize("words", GOOD)
def test_words_are_resolved_to_the_devices_that_they_name(gpus, words):
    assert resolve_device(words) == GOOD[words]
    assert resolve_device(GOOD[words]) == GOOD[words]
    assert make_config(words).device == words


@pytest.mark.parametrize("words", BAD)
def test_other_words_are_refused_with_what_may_be_said(gpus, words):
    with pytest.raises(ReproError, match=r"no such device\n[\s\S]*cuda:0,1,2[\s\S]*opencl:N/K"):
        resolve_device(words)
    with pytest.raises(ValueError, match=r"auto[\s\S]*cuda:0,1,2[\s\S]*opencl:N/K"):
        make_config(words)


def test_the_cpu_is_opencl(gpus):
    with pytest.raises(ReproError, match=r"opencl \(the CPU\)[\s\S]*'cpu'; did you mean opencl\?"):
        resolve_device("cpu")


def test_what_is_no_text_is_refused(gpus):
    with pytest.raises(ReproError, match="no such device"):
        resolve_device(0)


@pytest.mark.wording
@pytest.mark.parametrize("words", ["cuda:3", "cuda:0,3"])
def test_a_gpu_that_is_not_there_names_those_that_are(gpus, words):
    with pytest.raises(ReproError, match=rf"no such GPU\n[\s\S]*{words}\n[\s\S]*cuda:0 A, cuda:1 A, cuda:2 B"):
        resolve_device(words)


@pytest.mark.wording
@pytest.mark.parametrize("words", ["opencl:2", "opencl:7/2"])
def test_a_cpu_that_is_not_there_names_those_that_are(gpus, words):
    with pytest.raises(ReproError, match=rf"no such OpenCL device\n[\s\S]*opencl:0 C, opencl:1 D\n.*{words[:8]}"):
        resolve_device(words)


@pytest.mark.parametrize("words", ["cuda", "cuda:all"])
def test_without_a_gpu_none_is_resolved(gpus, words):
    gpus.clear()
    assert resolve_device("auto") == "opencl:0"
    with pytest.raises(ReproError, match="no NVIDIA GPU"):
        resolve_device(words)


@pytest.mark.parametrize("words", ["auto", "cuda", "cuda:0"])
def test_parts_of_a_gpu_are_refused_by_name_and_not_passed_over_for_the_cpu(gpus, monkeypatch, words):
    gpus.clear()  # none is whole
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-4c1e")
    with pytest.raises(ReproError, match=r"MIG[\s\S]*where: CUDA_VISIBLE_DEVICES[\s\S]*actual: MIG-4c1e"):
        resolve_device(words)
    assert resolve_device("opencl") == "opencl:0"


def test_auto_is_the_cpu_where_nothing_drives_the_gpus(gpus, monkeypatch):
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    assert resolve_device("auto") == "opencl:0"


def test_the_devices_of_a_resolved_one_share_a_target(gpus):
    assert target_of("cuda:0,1").name == "sm_90"
    assert target_of("opencl:0/2") == CPU
    with pytest.raises(ReproError, match=r"several generations[\s\S]*cuda:0 A \(sm_90\), cuda:2 B \(sm_80\)"):
        target_of("cuda:0,2")
    with pytest.raises(ReproError, match="several generations"):
        open_devices("cuda:all")


def test_single_devices_are_named_one_by_one():
    assert single_devices("cuda:2,0") == ["cuda:2", "cuda:0"]
    assert single_devices("cuda:1") == ["cuda:1"]
    assert single_devices("opencl:0/4") == ["opencl:0"]


def test_a_gpu_is_told_by_its_uuid_whatever_its_number(gpus):
    assert identities("cuda:2,0") == [gpus[2].uuid, gpus[0].uuid]
    assert identities("opencl:0/4") == ["opencl:0"]


@pytest.mark.parametrize("words", ["cuda:0,1", "cuda:all", "opencl:0/2"])
def test_several_devices_are_not_opened_as_one(gpus, words):
    with pytest.raises(ReproError, match=rf"one device only\n[\s\S]*actual: {words}"):
        open_device(words)


@pytest.fixture
def bind(tmp_path, halves):
    """Return what binds a kernel that adds a number to each of a buffer's, on one of the halves."""
    module = compile_module(ADD, CPU, tmp_path / "add.json")
    kernels = [half.load(tmp_path / module.binary).kernel("add") for half in halves]
    return lambda index, n, value, buffer: halves[index].bind(
        kernels[index], 2, 16, [np.int32(n), np.int32(value), buffer]
    )


def read(device, buffer, n):
    numbers = np.empty(n, np.int32)
    device.download(buffer, numbers)
    return numbers


def test_the_parts_of_a_cpu_are_equal_and_apart(halves, bind):
    assert len(halves) == 2
    assert [*halves] == [halves[0], halves[1]]
    assert halves.first is halves[0]
    assert halves[0].sm_count == halves[1].sm_count == OpenClDevice().sm_count // 2
    assert len({OpenClDevice().uuid, *(half.uuid for half in halves)}) == 3
    with pytest.raises(LaunchError):
        bind(0, 1, 1, halves[1].allocate(4))()


def test_kernels_run_on_each_and_a_copy_comes_between(halves, bind):
    n = 1000
    first, second = halves[0].upload(np.arange(n, dtype=np.int32)), halves[1].upload(np.zeros(n, np.int32))
    bind(0, n, 1, first)()
    bind(1, n, 5, second)()
    halves.copy(first, 0, second, 1, 4 * (n - 1))
    bind(0, n, 100, first)()
    bind(1, n, 10, second)()
    halves.synchronize()
    np.testing.assert_array_equal(read(halves[0], first, n), np.arange(n) + 101)
    np.testing.assert_array_equal(read(halves[1], second, n), [*range(11, n + 10), 15])
    halves.copy(second, 1, first, 0, 0)
    np.testing.assert_array_equal(read(halves[0], first, n), np.arange(n) + 101)


def test_what_runs_beside_copies_is_queued_once_and_they_meet(halves, bind):
    n = 1000
    first, second = halves[0].upload(np.arange(n, dtype=np.int32)), halves[1].upload(np.zeros(n, np.int32))
    beside = halves[1].upload(np.zeros(n, np.int32))
    bind(0, n, 1, first)()
    halves.exchange([Copy(first, 0, second, 1, 4 * n)], bind(1, n, 7, beside))
    bind(1, n, 10, second)()
    halves.meet()
    np.testing.assert_array_equal(read(halves[1], second, n), np.arange(11, n + 11))
    np.testing.assert_array_equal(read(halves[1], beside, n), np.full(n, 7))


def test_the_first_of_several_have_a_clock_of_their_own(halves, bind):
    assert halves.leading(2) is halves
    alone = halves.leading(1)
    assert alone is halves.leading(1)
    assert [*alone] == [halves.first]
    assert alone.environment() == halves.first.environment()
    buffer = halves[0].upload(np.zeros(8, np.int32))
    assert (alone.time_events(bind(0, 8, 1, buffer), 3) > 0).all()
    alone.meet()
    for count in (0, 3):
        with pytest.raises(ValueError, match=f"the first {count} of 2"):
            halves.leading(count)


def test_one_clock_waits_for_all(halves, bind):
    n = 1000
    calls = []
    runs = [bind(index, n, 1, halves[index].upload(np.zeros(n, np.int32))) for index in range(2)]

    def launch():
        calls.append("launch")
        for run in runs:
            run()
        time.sleep(1e-3)

    def before():
        calls.append("before")
        time.sleep(0.5)  # much longer than a launch takes on a machine that does other things too

    for clock in (halves.time_events, halves.time_host):
        calls.clear()
        seconds = clock(launch, 3, before)
        assert seconds.shape == (3,)
        assert (seconds >= 1e-3).all()
        assert seconds.min() < 0.5
        assert calls == ["before", "launch"] * 3
    assert (halves.time_graph(launch, 3, 2) >= 1e-3).all()
    stages = halves.time_stages([launch, runs[0]], 5, before)
    assert stages.shape == (5, 2)
    assert (stages[:, 0] >= 1e-3).all()
    assert (stages > 0).all()
    assert halves.time_stages([], 2).shape == (2, 0)


def test_the_clock_of_all_stops_when_the_last_has_ended(halves, bind):
    n = 1 << 22
    long = bind(1, n, 1, halves[1].upload(np.zeros(n, np.int32)))
    # by turns, so that what else runs on the machine slows both
    times = [[clock.time_events(long, 1)[0] for clock in (halves[1], halves)] for _ in range(10)]
    alone, both = zip(*times, strict=True)
    assert min(both) > 0.5 * min(alone)


def test_the_environment_of_several_says_how_many_and_what_links_them(halves):
    environment = halves.environment()
    assert environment.pop("devices") == 2
    assert environment.pop("uuids") == [half.uuid for half in halves]
    assert environment.pop("topology") == [{"devices": [0, 1], "peer_access": False}]
    assert environment == halves.first.environment()


def test_one_device_is_described_and_copied_as_it_is(cpu_device):
    alone = Devices([cpu_device])
    assert alone.environment() == cpu_device.environment()
    source, target = cpu_device.upload(np.arange(4, dtype=np.int32)), cpu_device.upload(np.zeros(4, np.int32))
    alone.copy(source, 0, target, 0, 8)
    np.testing.assert_array_equal(read(cpu_device, target, 4), [0, 1, 0, 0])
    assert alone.clocks() == cpu_device.clocks()


@pytest.mark.wording
def test_no_devices_or_two_backends_are_no_devices(cpu_device):
    for none in ([], [cpu_device, SimpleNamespace(backend="cuda")]):
        with pytest.raises(ValueError, match="at least one device"):
            Devices(none)


def test_a_cpu_is_not_split_into_more_parts_than_cores():
    with pytest.raises(ReproError, match=r"too few cores[\s\S]*opencl:0/100000"):
        open_devices("opencl:0/100000")


@pytest.mark.wording
def test_a_cpu_that_is_not_there_is_not_split():
    with pytest.raises(ReproError, match=r"no such OpenCL device"):
        open_devices("opencl:99/2")


def test_devices_that_cannot_be_brought_together_are_closed_and_one_message(monkeypatch):
    def refuse(devices):
        raise LaunchError("CUDA_ERROR_UNKNOWN")

    def close(device):
        closed.append(device)

    closed = []
    monkeypatch.setattr(OpenClDevice, "close", close)
    monkeypatch.setattr(opening, "Devices", refuse)
    with pytest.raises(ReproError, match=r"used together\n[\s\S]*opencl:0[\s\S]*CUDA_ERROR_UNKNOWN"):
        open_devices("opencl:0")
    assert len(closed) == 1
