"""Queries a GPU through NVIDIA's management library (NVML). No errors are raised; any result may be None."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from typing import Any

#: Names of the bits in nvmlClocksEventReasons (nvml.h) that mean throttling. Left out: idle (0x1) and clocks set by
#: users (0x2 application clocks, 0x100 display clocks).
THROTTLE_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}

#: Names of the lowest common ancestor of two GPUs in the PCI topology (nvmlGpuTopologyLevel_t).
COMMON_ANCESTORS = {
    0: "board",
    10: "one PCIe switch",
    20: "PCIe switches",
    30: "PCIe host bridge",
    40: "NUMA node",
    50: "system",
}
_P2P_BY_NVLINK = 2  # value in nvmlGpuP2PCapsIndex_t


@cache
def _library() -> Any | None:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # NVML or its driver is missing or incompatible
        return None
    return pynvml


def list_gpus() -> list[tuple[str, str, str]]:
    """Return name, compute capability such as `sm_90`, and UUID of each GPU in PCI order; empty without NVML."""
    library = _library()
    if library is None:
        return []
    gpus = []
    for index in range(library.nvmlDeviceGetCount()):
        with suppress(library.NVMLError):  # skip a GPU that has failed and report the others
            handle = library.nvmlDeviceGetHandleByIndex(index)
            major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
            name, uuid = library.nvmlDeviceGetName(handle), library.nvmlDeviceGetUUID(handle)
            gpus.append((_text(name), f"sm_{major}{minor}", _text(uuid)))
    return gpus


def driver_version() -> str | None:
    library = _library()
    return None if library is None else str(_text(library.nvmlSystemGetDriverVersion()))


def throttle_text(reasons: int) -> str | None:
    """Return the names of the throttle reasons in a bit mask; None if the clock is not throttled."""
    return ", ".join(text for bit, text in THROTTLE_REASONS.items() if reasons & bit) or None


class Monitor:
    def __init__(self, pci_bus_id: str) -> None:
        self._nvml = _library()
        self._handle = self._ask(lambda n: n.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode()))

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        if self._nvml is None:
            return None
        try:
            return question(self._nvml)
        except (self._nvml.NVMLError, AttributeError):  # old versions of pynvml lack some functions
            return None

    def _ask_device(self, question: Callable[[Any, Any], Any]) -> Any:
        handle = self._handle
        return None if handle is None else self._ask(lambda n: question(n, handle))

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the SM clock in MHz and the throttle reasons (None: not throttled, or unknown)."""
        clock = self._ask_device(lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM))
        reasons = self._ask_device(lambda n, h: n.nvmlDeviceGetCurrentClocksThrottleReasons(h))
        return None if clock is None else float(clock), None if reasons is None else throttle_text(reasons)

    def joules(self) -> float | None:
        """Return the energy that the card has used since its driver was loaded; None without a counter (before Volta)
        or permission.
        """
        millijoules = self._ask_device(lambda n, h: n.nvmlDeviceGetTotalEnergyConsumption(h))
        return None if millijoules is None else millijoules / 1000

    def settings(self) -> dict[str, Any]:
        """Return settings that stay constant during a campaign: driver, maximum clocks, ECC, power limit, persistence
        mode, PCI Express generation and lanes, and whether the GPU is divided (MIG).
        """
        power = self._ask_device(lambda n, h: n.nvmlDeviceGetPowerManagementLimit(h))
        return {
            "driver": _text(self._ask(lambda n: n.nvmlSystemGetDriverVersion())),
            "max_sm_clock_mhz": self._ask_device(lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM)),
            "max_memory_clock_mhz": self._ask_device(lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM)),
            "ecc": _flag(self._ask_device(lambda n, h: n.nvmlDeviceGetEccMode(h)[0])),
            "power_limit_w": None if power is None else power / 1000,
            "persistence": _flag(self._ask_device(lambda n, h: n.nvmlDeviceGetPersistenceMode(h))),
            "pcie_generation": self._ask_device(lambda n, h: n.nvmlDeviceGetMaxPcieLinkGeneration(h)),
            "pcie_lanes": self._ask_device(lambda n, h: n.nvmlDeviceGetMaxPcieLinkWidth(h)),
            "divided": _flag(self._ask_device(lambda n, h: n.nvmlDeviceGetMigMode(h)[0])),
        }

    def link_to(self, other: Monitor) -> dict[str, Any]:
        """Return the connection to another GPU: lowest common ancestor in the PCI topology, and NVLink.

        `active_nvlinks` is the smaller of the two GPUs' numbers of active links. With an NVSwitch, links lead to all
        GPUs.
        """
        level = self._ask_pair(other, lambda n, a, b: n.nvmlDeviceGetTopologyCommonAncestor(a, b))
        status = self._ask_pair(other, lambda n, a, b: n.nvmlDeviceGetP2PStatus(a, b, _P2P_BY_NVLINK))
        links = [monitor._active_nvlinks() for monitor in (self, other)]
        return {
            "common_ancestor": COMMON_ANCESTORS.get(level),
            "nvlink": None if status is None else status == 0,
            "active_nvlinks": min((count for count in links if count is not None), default=None),
        }

    def _ask_pair(self, other: Monitor, question: Callable[[Any, Any, Any], Any]) -> Any:
        return None if other._handle is None else self._ask_device(lambda n, h: question(n, h, other._handle))

    def _active_nvlinks(self) -> int | None:
        def is_active(link: int) -> bool:  # None if the GPU lacks this link
            return bool(self._ask_device(lambda n, h: n.nvmlDeviceGetNvLinkState(h, link)))

        links = self._ask(lambda n: n.NVML_NVLINK_MAX_LINKS)
        return None if links is None else sum(map(is_active, range(links)))

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        processes = self._ask_device(lambda n, h: n.nvmlDeviceGetComputeRunningProcesses(h)) or []
        return [self._describe(process) for process in processes if process.pid not in (os.getpid(), *idle)]

    def _describe(self, process: Any) -> str:
        name = _text(self._ask(lambda n: n.nvmlSystemGetProcessName(process.pid)))
        memory = f", {process.usedGpuMemory >> 20} MiB" if process.usedGpuMemory else ""
        return f"process {process.pid} ({name or 'name unknown'}{memory})"


def _text(value: Any) -> Any:
    """Return text as `str`, since older Python bindings return bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _flag(flag: Any) -> bool | None:
    return None if flag is None else bool(flag)
