import os
import subprocess
import sys
import time
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

from repro.bench.energy import SETTLING, EnergyMeter
from repro.bench.runnable import Runnable
from repro.codegen.build_cache import compile_module
from repro.devices.base import CaptureError, LaunchError, OutOfDeviceMemory
from repro.devices.cuda import Blocker, may_block
from repro.devices.device_group import Devices
from repro.devices.selection import find_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.alone]


@pytest.fixture
def empty(gpu, gpu_module):
    """A launch of the kernel that does nothing."""
    return gpu.bind(gpu_module.kernel("empty"), 1, 32, [np.int32(0)])


def test_the_gpu_is_the_one_that_was_found(gpu):
    found = find_gpus()[0]
    assert (gpu.name, gpu.uuid, gpu.target.name) == (found.name, found.uuid, found.capability)
    assert gpu.sm_count > 0
    assert gpu.l2_bytes > 0
    assert 0 < gpu.free_bytes() <= gpu.environment()["memory_bytes"]


def test_the_environment_is_complete_and_does_not_change(gpu):
    environment = gpu.environment()
    missing = {name for name, value in environment.items() if value is None} - {"ecc", "persistence", "power_limit_w"}
    assert not missing
    assert environment == gpu.environment()


def test_the_clock_is_read(gpu, empty):
    gpu.time_events(empty, 100)
    clock, _ = gpu.clocks()
    assert clock is None or clock > 100


def test_another_process_that_computes_is_named_and_this_one_is_not(gpu):
    before = gpu.other_processes()
    words = "import sys; from repro.devices.cuda import open_cuda; gpu = open_cuda(0); print('open', flush=True); "
    child = subprocess.Popen(
        [sys.executable, "-c", words + "sys.stdin.readline()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "open\n"
        named = [line for line in gpu.other_processes() if line.startswith(f"process {child.pid} (")]
        assert len(named) == 1  # beside whoever else came to the card meanwhile
        assert named[0] not in before
    finally:
        child.communicate("\n")
    assert not any(f"process {os.getpid()} " in line for line in before)


@pytest.mark.parametrize("array", [np.arange(1000, dtype=np.float64), np.zeros(0, np.int32), np.eye(7).T[::2]])
def test_arrays_come_back_as_they_went(gpu, array):
    buffer = gpu.upload(array)
    back = np.full(array.shape, 5, array.dtype)
    if array.size:
        gpu.download(buffer, back)
    assert np.array_equal(array, back)
    assert buffer.nbytes == array.nbytes
    buffer.release()
    buffer.release()


def test_fill_sets_every_byte(gpu):
    buffer = gpu.upload(np.ones(1001, np.float32))
    gpu.fill(buffer, 0xFF)
    back = np.empty(1001, np.float32)
    gpu.download(buffer, back)
    assert np.isnan(back).all()
    buffer.release()


def test_a_kernel_gets_its_arguments(gpu, gpu_module):
    """The copy kernel: an integer beside pointers, a grid smaller than the array."""
    words = 12345
    source = gpu.upload(np.random.default_rng(1).integers(0, 2**31, 4 * words, dtype=np.int32))
    target = gpu.allocate(source.nbytes)
    names = [f"copy_{n_t}_1" for n_t in (128, 1024)]
    for name in names:
        gpu.fill(target, 0)
        gpu.bind(gpu_module.kernel(name), 5, int(name.split("_")[1]), [np.int32(words), source, target])()
        sent, got = (np.empty(4 * words, np.int32) for _ in range(2))
        gpu.download(source, sent)
        gpu.download(target, got)
        assert np.array_equal(sent, got)
    source.release()
    target.release()


def test_too_much_memory_is_an_error_that_does_no_harm(gpu, empty):
    with pytest.raises(OutOfDeviceMemory):
        gpu.allocate(1 << 50)
    empty()
    gpu.synchronize()


def test_a_launch_that_is_refused_is_an_error_that_does_no_harm(gpu, gpu_module, empty):
    too_many = gpu.bind(gpu_module.kernel("empty"), 1, 4096, [np.int32(0)])
    with pytest.raises(LaunchError) as caught:
        too_many()
    assert not caught.value.sticky
    with pytest.raises(LaunchError, match="nothing_of_that_name"):
        gpu_module.kernel("nothing_of_that_name")
    empty()
    gpu.synchronize()


def test_an_empty_kernel_reads_little_by_both_clocks(gpu, empty):
    event = gpu.time_events(empty, 1000)
    assert event.shape == (1000,)
    assert event.min() >= 0
    print(f"empty kernel by events: median {np.median(event) * 1e6:.2f} us")
    graph = gpu.time_graph(empty, 100, 20)
    assert graph.shape == (20,)
    print(f"empty kernel in a graph: median {np.median(graph) * 1e6:.2f} us")
    if may_block(os.environ):
        assert np.median(graph) < np.median(event) / 2  # whatever the GPU
    if "H200" in gpu.name:
        assert np.median(graph) <= 1e-6
        assert np.median(event) <= 8e-6 or not may_block(os.environ)  # 3 where nothing else runs on the host


@pytest.fixture
def copying(gpu, gpu_module):
    """A launch of a copy of 256 MiB on a GPU that counts its energy, and its seconds."""
    if gpu.joules() is None:
        pytest.skip("the GPU counts no energy, or may not be asked")
    words = 1 << 24
    source, target = gpu.upload(np.ones(4 * words, np.int32)), gpu.allocate(16 * words)
    launch = gpu.bind(gpu_module.kernel("copy_256_4"), 2 * gpu.sm_count, 256, [np.int32(words), source, target])
    yield launch, float(np.median(gpu.time_graph(launch, 5, 5)))
    source.release()
    target.release()


def test_a_copy_uses_more_power_than_nothing_and_takes_as_long_as_in_a_graph(gpu, copying):
    runnable = Runnable()
    runnable.launch, launch_seconds = copying
    powers = []
    for seconds in (0.5, 1.5):
        meter = EnergyMeter(Devices([gpu]), seconds)
        idle = meter.idle_watts()
        watts, repeated_seconds, launches = meter.measure(runnable, launch_seconds)
        print(f"{seconds} s: {idle:.1f} W idle, {watts:.1f} W copying, {launches} launches of {repeated_seconds:.3g} s")
        assert watts > idle > 0
        assert repeated_seconds == pytest.approx(launch_seconds, rel=0.1)
        assert launches * repeated_seconds > seconds
        powers.append(watts)
    assert powers[0] == pytest.approx(powers[1], rel=0.05)


def test_the_power_has_settled_when_a_window_begins(gpu, copying):
    """The counter's updates after a rest of a second show how fast it follows a step of the power."""
    launch, launch_seconds = copying
    time.sleep(1)
    updates = [(time.perf_counter(), gpu.joules())]

    def goes_on():
        time.sleep(1e-3)
        joules, now = gpu.joules(), time.perf_counter()
        if joules != updates[-1][1]:
            updates.append((now, joules))
        return now - updates[0][0] < 2

    gpu.keep_busy(launch, max(1, int(5e-3 / launch_seconds)), goes_on)
    start, *later = updates
    powers = [(end[0] - start[0], (end[1] - begin[1]) / (end[0] - begin[0])) for begin, end in pairwise(later)]
    print("W until seconds after the start:", ", ".join(f"{watts:.0f} until {end:.3f}" for end, watts in powers))
    settled = np.mean([watts for end, watts in powers if end > 1.5])
    first = np.mean([watts for end, watts in powers if SETTLING + 0.1 < end < 0.7])
    assert first == pytest.approx(settled, rel=0.05)


def test_a_fill_and_a_kernel_are_timed_together(gpu, gpu_module, empty):
    counter = gpu.allocate(4)

    def launch():
        gpu.fill(counter, 0)
        empty()

    both, alone = (np.median(gpu.time_graph(run, 100, 20)) for run in (launch, empty))
    assert both > alone
    assert np.median(gpu.time_events(launch, 300)) < 50e-6
    counter.release()


def test_a_cold_cache_is_slower(gpu, gpu_module):
    words = gpu.l2_bytes // 16 // 8
    source, target = gpu.upload(np.ones(4 * words, np.int32)), gpu.allocate(16 * words)
    copy = gpu.bind(gpu_module.kernel("copy_256_4"), 2 * gpu.sm_count, 256, [np.int32(words), source, target])
    warm, cold = (np.median(gpu.time_events(copy, 200, before)) for before in (None, gpu.flush))
    assert cold > 1.1 * warm
    source.release()
    target.release()


def test_a_launch_that_waits_cannot_be_captured_but_harms_nothing(gpu, empty):
    def waiting():
        empty()
        gpu.synchronize()

    with pytest.raises(CaptureError):
        gpu.time_graph(waiting, 2, 2)
    assert gpu.time_graph(empty, 2, 2).shape == (2,)


@pytest.mark.skipif(not may_block(os.environ), reason="a stream may not be blocked here")
def test_the_blocker_gives_up_and_says_so(gpu, gpu_module):
    driver = import_module("pycuda.driver")
    with gpu.current():
        stream = driver.Stream()
        blocker = Blocker(driver, gpu_module.kernel("block_stream"), stream, timeout=0.02, short=0.02)
        with blocker.block():
            pass
        stream.synchronize()
        assert not blocker.has_expired
        with blocker.block():
            stream.synchronize()  # comes back when the blocker has given up
        assert blocker.has_expired


@pytest.mark.skipif(not may_block(os.environ), reason="a stream may not be blocked here")
def test_a_launch_that_waits_for_the_device_is_an_error_by_the_event_clock(gpu, gpu_module, empty, monkeypatch):
    monkeypatch.setattr("repro.devices.cuda.BLOCKED_SECONDS", (0.02, 0.02))
    gpu.use_common(gpu_module)
    try:
        with pytest.raises(LaunchError, match="REPRO_BLOCKING"):
            gpu.time_events(lambda: (empty(), gpu.synchronize()), 20)
    finally:
        monkeypatch.undo()
        gpu.use_common(gpu_module)
    assert np.median(gpu.time_events(empty, 100)) < 1e-4


COOPERATIVE = """
#include <cooperative_groups.h>
extern "C" __global__ void __launch_bounds__(256) totals(int rounds, int* of_blocks, int* result)
{
    extern __shared__ int own[];
    if (threadIdx.x == 0)
        own[0] = 1;
    for (int round = 0; round < rounds; round++) {
        __syncthreads();
        if (threadIdx.x == 0)
            of_blocks[blockIdx.x] = own[0];
        cooperative_groups::this_grid().sync();
        if (threadIdx.x == 0)
            own[0] += __ldcg(of_blocks + (blockIdx.x + 1) % gridDim.x);
        cooperative_groups::this_grid().sync();
    }
    if (threadIdx.x == 0)
        result[blockIdx.x] = own[0];
}
"""


def test_blocks_of_a_cooperative_launch_wait_for_each_other(gpu, tmp_path):
    module = compile_module(COOPERATIVE, gpu.target, tmp_path / "cooperative.json")
    program, shared = gpu.load(tmp_path / str(module.binary)), gpu.target.shared_bytes - 1024
    kernel = gpu.cooperative(program, "totals", 256, shared)
    assert kernel.resident == gpu.sm_count  # so much shared memory has room once
    assert gpu.cooperative(program, "totals", 256).resident > gpu.sm_count
    of_blocks, result = (gpu.upload(np.zeros(gpu.sm_count, np.int32)) for _ in range(2))
    launch = kernel.bind(gpu.sm_count, [np.int32(20), of_blocks, result])
    values = np.empty(gpu.sm_count, np.int32)
    for run in (launch, gpu.capture(launch).replay):
        gpu.fill(result, 0)
        run()
        gpu.download(result, values)
        assert (values == 1 << 20).all()
    with pytest.raises(LaunchError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        kernel.bind(gpu.sm_count + 1, [np.int32(1), of_blocks, result])()


CHAINED = """
static __device__ long long now()
{
    long long time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time) :: "memory");
    return time;
}
extern "C" __global__ void __launch_bounds__(32) link(int number, const int* from, int* to, long long* times)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    const long long start = now();
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    for (const long long begin = now(); now() < begin + 200000;) { }
    if (threadIdx.x == 0) {
        to[0] = from[0] + 1;
        times[2 * number] = start;
        times[2 * number + 1] = now();
    }
}
"""
LINKS = 9


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("dependent", [False, True])
def test_dependent_launches_start_before_the_previous_one_has_ended(gpu, tmp_path, dependent, captured):
    """In a stream and in a graph; what each reads is what the previous one wrote."""
    module = compile_module(CHAINED, gpu.target, tmp_path / "chained.json")
    program = gpu.load(tmp_path / str(module.binary))
    buffers = [gpu.upload(np.zeros(1, np.int32)) for _ in range(2)]
    times, result = gpu.upload(np.zeros((LINKS, 2), np.int64)), np.empty(1, np.int32)

    def bind(number):
        arguments = [np.int32(number), buffers[number % 2], buffers[1 - number % 2], times]
        if dependent:
            return gpu.bind_dependent(program, "link", 1, 32, arguments)
        return gpu.bind(program.kernel("link"), 1, 32, arguments)

    links = [bind(number) for number in range(LINKS)]

    def chain():
        for link in links:
            link()

    chain()
    gpu.write(buffers[0], np.zeros(1, np.int32))  # waits
    run = gpu.capture(chain).replay if captured else chain
    run()
    gpu.download(buffers[LINKS % 2], result)
    assert result[0] == LINKS
    measured = np.empty((LINKS, 2), np.int64)
    gpu.download(times, measured)
    start, end = measured.T
    overlaps = dependent and gpu.target.has_dependent_launches
    assert ((start[1:] < end[:-1]) == overlaps).all(), measured - measured[0, 0]
    assert (np.diff(end) > 0).all(), "a launch ended before the previous one"
