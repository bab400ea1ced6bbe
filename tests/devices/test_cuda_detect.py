import sys
from types import ModuleType, SimpleNamespace

import pytest

from repro.devices import nvml, selection
from repro.devices.cuda import open_cuda
from repro.devices.selection import Gpu, find_gpus, visible_devices
from repro.errors import ReproError

UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-cc33"]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("", []),
        ("-1", []),
        ("1,7,0", [1]),  # what comes after a number that is none is not seen
        ("GPU-c, 0", [2, 0]),
        ("GPU-a", []),  # stands for two
        ("1,1", [1]),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(setting, expected):
    assert visible_devices(UUIDS, setting) == expected


def test_gpus_are_numbered_as_they_are_visible(monkeypatch):
    monkeypatch.setattr(nvml, "list_gpus", lambda: [("A", "sm_80", "GPU-a"), ("B", "sm_90", "GPU-b")])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert find_gpus() == [Gpu(0, "B", "sm_90", "GPU-b")]


def test_without_nvml_there_are_no_gpus_and_no_readings(monkeypatch):
    monkeypatch.setattr(nvml, "_library", lambda: None)
    assert selection.find_gpus() == []
    monitor = nvml.Monitor("0000:01:00.0")
    assert monitor.clocks() == (None, None)
    assert monitor.joules() is None
    assert monitor.other_processes() == []
    assert set(monitor.settings().values()) == {None}


class Nvml(SimpleNamespace):
    """The few answers of NVML that are asked for."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def nvmlDeviceGetHandleByPciBusId(self, address):  # noqa: N802
        return "handle"

    def nvmlDeviceGetClockInfo(self, handle, kind):  # noqa: N802
        return 1980

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):  # noqa: N802
        return self.reasons

    def nvmlDeviceGetPowerManagementLimit(self, handle):  # noqa: N802
        return 700_000

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle):  # noqa: N802
        return 5

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802
        return [0, 1]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):  # noqa: N802
        if self.millijoules is None:
            raise self.NVMLError("not supported")
        return self.millijoules

    def nvmlDeviceGetEccMode(self, handle):  # noqa: N802
        raise self.NVMLError("not supported")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return self.processes


def test_clocks_and_settings_are_put_into_words(monkeypatch):
    library = Nvml(reasons=0x1 | 0x2)
    monkeypatch.setattr(nvml, "_library", lambda: library)
    monitor = nvml.Monitor("0000:01:00.0")
    assert monitor.clocks() == (1980.0, None)  # idle and a set clock are no throttling
    library.reasons = 0x4 | 0x40
    assert monitor.clocks() == (1980.0, "software power cap, hardware thermal slowdown")
    settings = monitor.settings()
    assert settings["power_limit_w"] == 700
    assert (settings["pcie_generation"], settings["divided"]) == (5, False)
    assert settings["ecc"] is None  # refused
    assert settings["persistence"] is None  # an old binding lacks the function


def test_energy_is_in_joules_and_unknown_where_the_card_does_not_count_it(monkeypatch):
    library = Nvml(millijoules=1_234)
    monkeypatch.setattr(nvml, "_library", lambda: library)
    monitor = nvml.Monitor("0000:01:00.0")
    assert monitor.joules() == 1.234
    library.millijoules = None  # before Volta, or without permission
    assert monitor.joules() is None


@pytest.mark.wording
def test_other_processes_are_named_but_not_this_one(monkeypatch):
    import os

    processes = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=1), SimpleNamespace(pid=1, usedGpuMemory=5 << 20)]
    monkeypatch.setattr(nvml, "_library", lambda: Nvml(processes=processes))
    assert nvml.Monitor("0000:01:00.0").other_processes() == ["process 1 (name unknown, 5 MiB)"]


class Linked(Nvml):
    """GPUs behind one NUMA node, each with its own number of active links; NVLink between them is not supported."""

    NVML_NVLINK_MAX_LINKS = 18

    def nvmlDeviceGetHandleByPciBusId(self, address):  # noqa: N802
        return int(address)

    def nvmlDeviceGetTopologyCommonAncestor(self, first, second):  # noqa: N802
        assert (first, second) == (12, 6)
        return 40

    def nvmlDeviceGetP2PStatus(self, first, second, index):  # noqa: N802
        return self.status

    def nvmlDeviceGetNvLinkState(self, handle, link):  # noqa: N802
        if link >= handle:
            raise self.NVMLError("no such link")
        return link != 0


def test_what_links_two_gpus_is_put_into_words(monkeypatch):
    library = Linked(status=0)
    monkeypatch.setattr(nvml, "_library", lambda: library)
    first, second = nvml.Monitor("12"), nvml.Monitor("6")
    assert first.link_to(second) == {"common_ancestor": "NUMA node", "nvlink": True, "active_nvlinks": 5}
    library.status = 2
    assert first.link_to(second)["nvlink"] is False


def test_without_nvml_nothing_is_said_of_a_link(monkeypatch):
    monkeypatch.setattr(nvml, "_library", lambda: None)
    link = nvml.Monitor("1").link_to(nvml.Monitor("2"))
    assert link == {"common_ancestor": None, "nvlink": None, "active_nvlinks": None}


@pytest.fixture
def fake_cuda(monkeypatch):
    """`pycuda.driver` of a machine with one GPU, as far as opening gets."""
    driver = ModuleType("pycuda.driver")
    driver.Error = type("Error", (Exception,), {})
    driver.init = lambda: None
    driver.Device = SimpleNamespace(count=lambda: 1)
    for name, module in (("pycuda", ModuleType("pycuda")), ("pycuda.driver", driver)):
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("cuda", "cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    return driver


def test_missing_packages_are_one_message_that_says_what_to_install(fake_cuda, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    with pytest.raises(ReproError, match=r"not installed\n[\s\S]*\.\[cuda\]"):
        open_cuda(0)


@pytest.mark.wording
def test_no_gpu_is_one_message(fake_cuda):
    def init():
        raise fake_cuda.Error("cuInit failed: no CUDA-capable device is detected")

    fake_cuda.init = init
    with pytest.raises(ReproError, match=r"NVIDIA GPU[\s\S]*no CUDA-capable device[\s\S]*opencl"):
        open_cuda(0)


@pytest.mark.parametrize("ordinal", [1, -1])
def test_a_gpu_that_is_not_there_is_one_message(fake_cuda, ordinal):
    with pytest.raises(ReproError, match=rf"no such GPU[\s\S]*cuda:0[\s\S]*cuda:{ordinal}"):
        open_cuda(ordinal)
