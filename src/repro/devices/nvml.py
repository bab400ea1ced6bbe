"""What NVIDIA's management library (NVML) says of a GPU; every answer may be missing, none is an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from typing import Any

#: Bits of nvmlClocksEventReasons (nvml.h) that mean that the SM clock is held below what the GPU would run at. Left
#: out: idle (0x1) and a clock that was set (0x2 applications clocks, 0x100 display clocks), which do not come and go.
THROTTLE_REASONS = {
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}

#: What the least common part of two GPUs' ways to each other is (nvmlGpuTopologyLevel_t).
COMMON_ANCESTORS = {
    0: "board",
    10: "one PCIe switch",
    20: "PCIe switches",
    30: "PCIe host bridge",
    40: "NUMA node",
    50: "system",
}
_P2P_BY_NVLINK = 2  # nvmlGpuP2PCapsIndex_t


@cache
def _library() -> Any | None:
    """Return `pynvml`, initialised, or None."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # not installed, no driver, or a driver of another version: all mean that NVML cannot be asked
        return None
    return pynvml


def list_gpus() -> list[tuple[str, str, str]]:
    """Return (name, `sm_90`, UUID) of every GPU in the order of their PCI addresses; none where NVML is missing."""
    library = _library()
    if library is None:
        return []
    gpus = []
    for index in range(library.nvmlDeviceGetCount()):
        with suppress(library.NVMLError):  # a GPU that fell off its bus must not hide the others
            handle = library.nvmlDeviceGetHandleByIndex(index)
            major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
            name, uuid = library.nvmlDeviceGetName(handle), library.nvmlDeviceGetUUID(handle)
            gpus.append((_text(name), f"sm_{major}{minor}", _text(uuid)))
    return gpus


def driver_version() -> str | None:
    """Return the version of NVIDIA's driver; None where NVML is missing."""
    library = _library()
    return None if library is None else str(_text(library.nvmlSystemGetDriverVersion()))


def throttle_text(reasons: int) -> str | None:
    """Put the bits of the clocks' event reasons into words; None if the clock is not held down."""
    return ", ".join(text for bit, text in THROTTLE_REASONS.items() if reasons & bit) or None


class Monitor:
    """One GPU as NVML sees it.

    Parameters
    ----------
    pci_bus_id
        Its PCI address, as CUDA gives it.
    """

    def __init__(self, pci_bus_id: str) -> None:
        self._nvml = _library()
        self._handle = self._ask(lambda n: n.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode()))

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        if self._nvml is None:
            return None
        try:
            return question(self._nvml)
        except (self._nvml.NVMLError, AttributeError):  # an old pynvml lacks some of the functions
            return None

    def _of_device(self, question: Callable[[Any, Any], Any]) -> Any:
        handle = self._handle
        return None if handle is None else self._ask(lambda n: question(n, handle))

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the SM clock in MHz and why it is held down (None: it is not, or that is not known)."""
        clock = self._of_device(lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM))
        reasons = self._of_device(lambda n, h: n.nvmlDeviceGetCurrentClocksThrottleReasons(h))
        return None if clock is None else float(clock), None if reasons is None else throttle_text(reasons)

    def settings(self) -> dict[str, Any]:
        """Return what does not change while a campaign runs: driver, top clocks, ECC, power limit, persistence."""
        power = self._of_device(lambda n, h: n.nvmlDeviceGetPowerManagementLimit(h))
        return {
            "driver": _text(self._ask(lambda n: n.nvmlSystemGetDriverVersion())),
            "max_sm_clock_mhz": self._of_device(lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM)),
            "max_memory_clock_mhz": self._of_device(lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM)),
            "ecc": _on(self._of_device(lambda n, h: n.nvmlDeviceGetEccMode(h)[0])),
            "power_limit_w": None if power is None else power / 1000,
            "persistence": _on(self._of_device(lambda n, h: n.nvmlDeviceGetPersistenceMode(h))),
        }

    def link_to(self, other: Monitor) -> dict[str, Any]:
        """Return what links the GPU to another: what their ways have in common, and NVLink.

        `active_nvlinks` counts all links that are up, of the GPU that has fewer: through a switch, each leads to all.
        """
        level = self._of_pair(other, lambda n, a, b: n.nvmlDeviceGetTopologyCommonAncestor(a, b))
        status = self._of_pair(other, lambda n, a, b: n.nvmlDeviceGetP2PStatus(a, b, _P2P_BY_NVLINK))
        links = [monitor._active_nvlinks() for monitor in (self, other)]
        return {
            "common_ancestor": COMMON_ANCESTORS.get(level),
            "nvlink": None if status is None else status == 0,
            "active_nvlinks": min((count for count in links if count is not None), default=None),
        }

    def _of_pair(self, other: Monitor, question: Callable[[Any, Any, Any], Any]) -> Any:
        return None if other._handle is None else self._of_device(lambda n, h: question(n, h, other._handle))

    def _active_nvlinks(self) -> int | None:
        def is_active(link: int) -> bool:  # one that the GPU does not have is an error, and so no answer
            return bool(self._of_device(lambda n, h: n.nvmlDeviceGetNvLinkState(h, link)))

        links = self._ask(lambda n: n.NVML_NVLINK_MAX_LINKS)
        return None if links is None else sum(map(is_active, range(links)))

    def other_processes(self, idle: Collection[int] = ()) -> list[str]:
        """Return the other processes that compute on the GPU, a line each, but for those that do nothing there."""
        running = self._of_device(lambda n, h: n.nvmlDeviceGetComputeRunningProcesses(h)) or []
        return [self._describe(process) for process in running if process.pid not in (os.getpid(), *idle)]

    def _describe(self, process: Any) -> str:
        name = _text(self._ask(lambda n: n.nvmlSystemGetProcessName(process.pid)))
        memory = f", {process.usedGpuMemory >> 20} MiB" if process.usedGpuMemory else ""
        return f"process {process.pid} ({name or 'name unknown'}{memory})"


def _text(value: Any) -> Any:
    """Return text as `str`: older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _on(flag: Any) -> bool | None:
    return None if flag is None else bool(flag)
