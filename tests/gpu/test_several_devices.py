"""Two GPUs of one host: their kernels, copies between them, and one clock over both."""

import numpy as np
import pytest
import scipy.sparse as sp

import repro
from repro.codegen.build_cache import compile_module
from repro.codegen.templates import render_common
from repro.devices.base import Copy
from repro.devices.selection import find_gpus, open_devices

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.alone,
    pytest.mark.skipif(len(find_gpus()) < 2, reason="there are no two GPUs"),
]

NBYTES = 256 << 20
WORDS = NBYTES // 16


@pytest.fixture(scope="module")
def pair():
    """The first two GPUs."""
    devices = open_devices("cuda:0,1")
    yield devices
    devices.close()


@pytest.fixture(scope="module")
def programs(pair, templates, tmp_path_factory):
    """The common module on each; the first has taken its blocker from it."""
    manifest = tmp_path_factory.mktemp("modules") / "common.json"
    target = pair.first.target
    module = compile_module(render_common(templates, target), target, manifest)
    loaded = [device.load(manifest.parent / module.binary) for device in pair]
    pair.first.use_common(loaded[0])
    return loaded


@pytest.fixture(scope="module")
def numbers():
    """256 MB that differ everywhere, for each GPU."""
    random = np.random.default_rng(1)
    return [random.integers(0, 2**31, NBYTES // 4, dtype=np.int32) for _ in range(2)]


@pytest.fixture
def buffers(pair, numbers):
    """A buffer with the numbers and one of as many zeros, on each GPU."""
    made = [(device.upload(array), device.allocate(NBYTES)) for device, array in zip(pair, numbers, strict=True)]
    for device, (_, zeros) in zip(pair, made, strict=True):
        device.fill(zeros, 0)
    pair.synchronize()
    yield made
    for both in made:
        for buffer in both:
            buffer.release()


@pytest.fixture
def copies(pair, programs, buffers):
    """Launches of the kernel that copies the first buffer to the second: equally long on both GPUs."""
    return [
        device.bind(program.kernel("copy_256_4"), 2 * device.sm_count, 256, [np.int32(WORDS), *both])
        for device, program, both in zip(pair, programs, buffers, strict=True)
    ]


def read(device, buffer):
    host = np.empty(NBYTES // 4, np.int32)
    device.download(buffer, host)
    return host


def median(times):
    return float(np.median(times))


def test_a_kernel_runs_on_each(pair, buffers, copies, numbers):
    for launch in copies:
        launch()
    for device, (_, copied), sent in zip(pair, buffers, numbers, strict=True):
        np.testing.assert_array_equal(read(device, copied), sent)


def test_a_copy_waits_for_the_kernel_before_it_and_the_one_after_it_waits_for_the_copy(pair, buffers, copies, numbers):
    (_, first), (source, second) = buffers
    copies[0]()
    pair.copy(first, 0, source, 1, NBYTES)
    pair[0].fill(first, 0)
    copies[1]()
    np.testing.assert_array_equal(read(pair[1], second), numbers[0])


def test_256_megabytes_are_copied_both_ways_and_the_bandwidth_is_read(pair, programs, buffers, numbers):
    (here, from_there), (there, from_here) = buffers
    both_ways = [Copy(here, 0, from_here, 1, NBYTES), Copy(there, 1, from_there, 0, NBYTES)]
    one_way = median(pair.time_events(lambda: pair.copy(*both_ways[0]), 20))
    np.testing.assert_array_equal(read(pair[1], from_here), numbers[0])
    at_once = median(pair.time_events(lambda: pair.exchange(both_ways), 20))
    np.testing.assert_array_equal(read(pair[0], from_there), numbers[1])
    print(f"one way {NBYTES / one_way * 1e-9:.1f} GB/s, both ways {2 * NBYTES / at_once * 1e-9:.1f} GB/s")
    assert at_once < 1.9 * one_way or not pair.environment()["topology"][0]["peer_access"]


def test_one_clock_reads_the_longer_of_both_and_not_the_sum(pair, programs, copies):
    alone = [median(device.time_events(launch, 20)) for device, launch in zip(pair, copies, strict=True)]

    def launch():
        for run in copies:
            run()

    clocks = {
        "events": pair.time_events(launch, 20),
        "graph": pair.time_graph(launch, 5, 5),
        "host": pair.time_host(launch, 20),
        "stages": pair.time_stages([launch], 20)[:, 0],
    }
    print(f"alone {alone}, both { ({name: median(times) for name, times in clocks.items()}) }")
    for name, times in clocks.items():
        assert 0.95 * max(alone) <= median(times) < 0.75 * sum(alone), name


def test_what_comes_before_a_launch_on_any_gpu_is_in_no_time(pair, programs, copies):
    empty = pair[1].bind(programs[1].kernel("empty"), 1, 32, [np.int32(0)])
    long = median(pair[1].time_events(copies[1], 20))
    assert median(pair.time_events(empty, 20, copies[1])) < 0.5 * long


def test_a_graph_may_hold_copies_between_gpus(pair, programs, buffers, numbers):
    if not pair.environment()["topology"][0]["peer_access"]:
        pytest.skip("the GPUs cannot reach each other's memory")
    (here, _), (_, from_here) = buffers
    assert median(pair.time_graph(lambda: pair.copy(here, 0, from_here, 1, NBYTES), 3, 5)) > 0
    np.testing.assert_array_equal(read(pair[1], from_here), numbers[0])


def test_the_environment_says_what_links_them(pair):
    environment = pair.environment()
    print(environment["topology"])
    assert environment["devices"] == 2
    assert len(set(environment["uuids"])) == 2
    (link,) = environment["topology"]
    assert link["devices"] == [0, 1]
    assert link["common_ancestor"] is not None
    assert environment == pair.environment()


def test_operators_on_both_gpus_of_one_process_are_right(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path))
    matrix = sp.random_array((300, 300), density=0.05, rng=np.random.default_rng(2), format="csr")
    x = np.random.default_rng(3).uniform(-1, 1, 300)
    operators = [repro.operator(matrix, device=f"cuda:{ordinal}") for ordinal in (0, 1)]
    for operator in (*operators, *operators):
        np.testing.assert_allclose(operator @ x, matrix @ x, atol=1e-12)
        on_device = operator.vectors.put(x)
        np.testing.assert_allclose(np.asarray(operator @ on_device), matrix @ x, atol=1e-12)
