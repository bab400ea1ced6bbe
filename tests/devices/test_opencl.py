from types import SimpleNamespace

import numpy as np
import pytest

from repro.codegen import opencl_runtime
from repro.codegen.build_cache import Module, compile_module
from repro.codegen.targets import CPU
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.devices.opencl import OpenClDevice
from repro.errors import ReproError

SCALE = """
__kernel __attribute__((reqd_work_group_size(16, 1, 1)))
void scale(int n, __global float* y) { for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] *= 2; }
"""


@pytest.fixture
def scale(tmp_path, cpu_device):
    module = compile_module(SCALE, CPU, tmp_path / "scale.json")
    return cpu_device.load(tmp_path / module.binary).kernel("scale")


def test_a_kernel_runs_on_what_was_uploaded(cpu_device, scale):
    y = np.arange(100, dtype=np.float32)
    buffer = cpu_device.upload(y)
    assert buffer.nbytes == 400
    launch = cpu_device.bind(scale, 2, 16, [np.int32(100), buffer])
    launch()
    launch()
    got = np.empty_like(y)
    cpu_device.download(buffer, got)
    np.testing.assert_array_equal(got, 4 * y)


def test_a_kernel_that_the_module_lacks_is_a_launch_error_with_its_name(tmp_path, cpu_device):
    module = compile_module(SCALE, CPU, tmp_path / "scale.json")
    with pytest.raises(LaunchError, match="no kernel scales in the module"):
        cpu_device.load(tmp_path / module.binary).kernel("scales")


def test_filling_with_ones_makes_every_number_nan(cpu_device):
    for dtype in (np.float32, np.float64):
        got = np.zeros(7, dtype)
        buffer = cpu_device.upload(got)
        cpu_device.fill(buffer, 0xFF)
        cpu_device.download(buffer, got)
        assert np.isnan(got).all()


def test_both_clocks_give_as_many_times_as_asked(cpu_device, scale):
    launch = cpu_device.bind(scale, 1, 16, [np.int32(100), cpu_device.upload(np.ones(100, np.float32))])
    for before in (None, cpu_device.flush):
        times = cpu_device.time_events(launch, 7, before)
        assert times.shape == (7,)
        assert (times > 0).all()
    times = cpu_device.time_graph(launch, 10, 5)
    assert times.shape == (5,)
    assert (times > 0).all()


def test_a_launch_of_the_wrong_shape_is_a_launch_error(cpu_device, scale):
    launch = cpu_device.bind(scale, 1, 8, [np.int32(1), cpu_device.upload(np.ones(1, np.float32))])
    with pytest.raises(LaunchError):
        launch()


def test_wrong_arguments_are_a_launch_error(cpu_device, scale):
    with pytest.raises(LaunchError):
        cpu_device.bind(scale, 1, 16, [np.int32(1)])


def test_too_large_a_buffer_is_out_of_memory(cpu_device):
    with pytest.raises(OutOfDeviceMemory):
        cpu_device.allocate(1 << 50)


def test_a_damaged_binary_cannot_be_loaded(cpu_device, tmp_path):
    (tmp_path / "bad.clbin").write_bytes(b"no binary")
    with pytest.raises(LaunchError, match="cannot be loaded"):
        cpu_device.load(tmp_path / "bad.clbin")


def test_the_environment_names_device_and_driver(cpu_device):
    environment = cpu_device.environment()
    assert environment["backend"] == "opencl"
    assert environment["multiprocessors"] == cpu_device.sm_count >= 1
    assert environment["device"] and environment["driver"]


def test_a_device_that_is_not_there_names_those_that_are():
    with pytest.raises(ReproError, match=r"opencl:0 .*\n.*opencl:99"):
        OpenClDevice(99)


@pytest.mark.wording
def test_no_pyopencl_says_how_to_install_it(monkeypatch):
    def refuse(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(opencl_runtime, "import_module", refuse)
    opencl_runtime.load.cache_clear()
    with pytest.raises(ReproError, match=r"PyOpenCL is not installed(.*\n)*.*pip install"):
        opencl_runtime.load()
    opencl_runtime.load.cache_clear()


def test_the_common_module_runs(cpu_device, modules_folder):
    manifest = modules_folder / "cpu/common.json"
    module = Module.load(manifest)
    empty = cpu_device.load(manifest.parent / module.binary).kernel("empty")
    cpu_device.bind(empty, 1, 32, [np.int32(0)])()
    cpu_device.synchronize()


def test_what_does_not_fit_a_buffer_is_a_launch_error(cpu_device):
    buffer = cpu_device.allocate(8)
    long = np.zeros(16)
    with pytest.raises(LaunchError):
        cpu_device.write(buffer, long)
    with pytest.raises(LaunchError):
        cpu_device.download(buffer, long)
    with pytest.raises(LaunchError):
        cpu_device.fill(SimpleNamespace(handle=buffer.handle, nbytes=16), 0)


def test_what_the_runtime_reads_from_the_environment_is_part_of_the_driver(
    cpu_device: OpenClDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is in the keys of rows: a time with one thread is none with all."""
    monkeypatch.delenv("DPCPP_CPU_NUM_CUS", raising=False)
    driver = cpu_device.environment()["driver"]
    monkeypatch.setenv("DPCPP_CPU_NUM_CUS", "1")
    assert cpu_device.environment()["driver"] == f"{driver} DPCPP_CPU_NUM_CUS=1"


@pytest.fixture
def program(tmp_path, cpu_device):
    module = compile_module(SCALE, CPU, tmp_path / "scale.json")
    return cpu_device.load(tmp_path / module.binary)


def test_bindings_of_one_kernel_never_share_arguments(cpu_device, program):
    ones = [cpu_device.upload(np.ones(16, np.float32)) for _ in range(3)]
    launches = [cpu_device.bind(program.kernel("scale"), 1, 16, [np.int32(16), buffer]) for buffer in ones]
    for times, launch in enumerate(launches, 1):
        for _ in range(times):
            launch()
    got = np.empty(16, np.float32)
    for times, buffer in enumerate(ones, 1):
        cpu_device.download(buffer, got)
        np.testing.assert_array_equal(got, 2.0**times)


def test_a_kernel_that_was_dropped_is_used_again_and_one_that_is_bound_is_not(cpu_device, program):
    buffer = cpu_device.upload(np.ones(16, np.float32))
    first, second = program.kernel("scale"), program.kernel("scale")
    handles = first.handle, second.handle
    assert handles[0] is not handles[1]
    launch = cpu_device.bind(first, 1, 16, [np.int32(16), buffer])
    del first, second
    third, fourth = program.kernel("scale"), program.kernel("scale")
    assert third.handle is handles[1]  # the launch still has the first
    assert fourth.handle not in handles
    del launch
    assert program.kernel("scale").handle is handles[0]


def test_a_buffer_can_be_given_back_twice(cpu_device):
    buffer = cpu_device.allocate(64)
    part = cpu_device.part(buffer, 0, 16)
    for held in (part, buffer, part, buffer):
        held.release()
