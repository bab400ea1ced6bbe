"""What NVIDIA's management library (NVML) says of a GPU; every answer may be missing, none is an error."""

from __future__ import annotations

import os
from collections.abc import Callable
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
    found = []
    for index in range(library.nvmlDeviceGetCount()):
        with suppress(library.NVMLError):  # a GPU that fell off its bus must not hide the others
            handle = library.nvmlDeviceGetHandleByIndex(index)
            major, minor = library.nvmlDeviceGetCudaComputeCapability(handle)
            name, uuid = library.nvmlDeviceGetName(handle), library.nvmlDeviceGetUUID(handle)
            found.append((_text(name), f"sm_{major}{minor}", _text(uuid)))
    return found


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

    def other_processes(self) -> list[str]:
        """Return the other processes that compute on the GPU, a line each."""
        running = self._of_device(lambda n, h: n.nvmlDeviceGetComputeRunningProcesses(h)) or []
        return [self._describe(process) for process in running if process.pid != os.getpid()]

    def _describe(self, process: Any) -> str:
        name = _text(self._ask(lambda n: n.nvmlSystemGetProcessName(process.pid)))
        memory = f", {process.usedGpuMemory >> 20} MiB" if process.usedGpuMemory else ""
        return f"process {process.pid} ({name or 'name unknown'}{memory})"


def _text(value: Any) -> Any:
    """Return text as `str`: older bindings answer in bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _on(flag: Any) -> bool | None:
    return None if flag is None else bool(flag)
