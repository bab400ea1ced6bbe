"""Uses several devices of one host together: ordered work, copies between devices, and one common clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, wraps
from time import perf_counter
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Buffer, Copy, Device, time_host


class Link(Protocol):
    """Lets devices of one backend wait for each other and access each other's memory."""

    def fork(self) -> None:
        """Make all other devices wait for the first device's queued work."""

    def join(self) -> None:
        """Make the first device wait for the queued work of all other devices."""

    def meet(self) -> None:
        """Make each device wait for the queued work of all other devices."""

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Queue copies between devices, and launches that may overlap with the copies; see `Devices.exchange`."""

    def topology(self) -> list[dict[str, Any]]:
        """Return one entry for each pair of devices: `devices` (two indices), `peer_access`, and keys specific to the
        backend.
        """

    def close(self) -> None:
        """Free the link's resources."""


class Devices:
    """One or more devices of one backend with a common `Clock`, created by `open_devices`.

    With a single device, all calls go directly to the device, without overhead. Raises `LaunchError`: the GPUs cannot
    be linked.

    Parameters
    ----------
    devices
        At least one device, in the order of opening; no GPU may be repeated.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = tuple(devices)
        backends = {device.backend for device in self._devices}
        if len(backends) != 1:
            raise ValueError(f"at least one device, and of one backend: {sorted(backends)}")
        (self.backend,) = backends
        self._link = _link(self._devices, self.backend)
        self._leading: dict[int, Devices] = {}

    @property
    def first(self) -> Device:
        return self._devices[0]

    def __len__(self) -> int:
        return len(self._devices)

    def __getitem__(self, index: int) -> Device:
        return self._devices[index]

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices)

    def environment(self) -> dict[str, Any]:
        """Describe the first device; with several devices, also their number, names and connections."""
        environment = self.first.environment()
        if len(self) > 1:
            environment |= {
                "devices": len(self),
                "uuids": [device.uuid for device in self],
                "topology": self.topology(),
            }
        return environment

    def topology(self) -> list[dict[str, Any]]:
        return self._link.topology()

    def leading(self, count: int) -> Devices:
        """Return the first `count` devices as a group, closed together with this group; raise `ValueError` if
        too many.
        """
        if not 1 <= count <= len(self):
            raise ValueError(f"the first {count} of {len(self)} devices")
        if count == len(self):
            return self
        if count not in self._leading:
            self._leading[count] = Devices(self._devices[:count])
        return self._leading[count]

    def copy(self, source: Buffer, source_device: int, target: Buffer, target_device: int, nbytes: int) -> None:
        """Queue one copy from device number `source_device` to device number `target_device`; see `exchange`."""
        self.exchange([Copy(source, source_device, target, target_device, nbytes)])

    def meet(self) -> None:
        """Make later work on each device wait for all work queued so far on all devices."""
        if len(self) > 1:
            self._link.meet()

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Queue copies between devices; the copies of one call may run in any order.

        A copy starts after all work queued so far on its source and target devices, and ends before work queued later
        on these devices. Two copies in opposite directions between two devices overlap if they are queued by one call.
        Raises `LaunchError`: the driver rejects a copy.

        Parameters
        ----------
        copies
            Copies to queue.
        meanwhile
            Function that queues launches to run during the copies. The launches must neither write a source nor access
            a target of a copy. They start after all work queued so far; on a CPU they run after the copies.
        """
        for copy in copies:
            if copy.nbytes > min(copy.source.nbytes, copy.target.nbytes):
                raise ValueError(f"{copy.nbytes} bytes from {copy.source.nbytes} to {copy.target.nbytes}")
        self._link.exchange([copy for copy in copies if copy.nbytes], meanwhile)

    def synchronize(self) -> None:
        for device in self:
            device.synchronize()

    def reset_persisting_l2(self) -> None:
        for device in self:
            device.reset_persisting_l2()

    def flush(self) -> None:
        for device in self:
            device.flush()

    @cached_property
    def flush_seconds(self) -> float:
        """Seconds of a flush, measured once."""
        self.flush()
        self.synchronize()
        start = perf_counter()
        self.flush()
        self.synchronize()
        return perf_counter() - start

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time as `Device.time_events` does, from a common start of all devices until the last device ends."""
        return self.first.time_events(self._fork_launch(launch), count, self._join_before(before))

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time as `Device.time_graph` does; each replay is timed from a common start until the last device ends."""
        return self.first.time_graph(self._fork_launch(launch), launches, replays)

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time as `Device.time_host` does; all devices are idle before and after each launch."""
        return time_host(launch, count, self.synchronize, before)

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time as `Device.time_stages` does; each stage is timed from a common start until the last device ends."""
        return self.first.time_stages([self._fork_launch(stage) for stage in stages], count, self._join_before(before))

    def keep_busy(self, launch: Callable[[], None], launches: int, goes_on: Callable[[], bool]) -> tuple[int, float]:
        return self.first.keep_busy(self._fork_launch(launch), launches, goes_on)

    def joules(self) -> float | None:
        """Return the energy used so far; None for several devices, whose counters are updated at different times."""
        return self.first.joules() if len(self) == 1 else None

    def _fork_launch(self, launch: Callable[[], None]) -> Callable[[], None]:
        if len(self) == 1:
            return launch

        # A new function each time does no harm: timers recognise it by `__wrapped__`, the launch.
        @wraps(launch, assigned=(), updated=())
        def over_all() -> None:
            self._link.fork()
            launch()
            self._link.join()

        return over_all

    def _join_before(self, before: Callable[[], None] | None) -> Callable[[], None] | None:
        """Return a function to run before each launch, so that all devices start when the first device's clock
        starts.
        """
        if before is None or len(self) == 1:
            return before

        def ahead() -> None:
            before()
            self._link.join()

        return ahead

    def clocks(self) -> tuple[float | None, str | None]:
        readings = [device.clocks() for device in self]
        clocks = [clock for clock, _ in readings if clock is not None]
        reasons = dict.fromkeys(reason for _, reason in readings if reason)
        return min(clocks, default=None), ", ".join(reasons) or None

    def close(self) -> None:
        with ExitStack() as stack:  # all devices are closed, even if closing one of them fails
            for device in self._devices:
                stack.callback(device.close)
            stack.callback(self._link.close)
            for part in self._leading.values():
                stack.callback(part._link.close)


def device_counts(count: int) -> list[int]:
    """Return the numbers of devices to time: 2, 4, 8, … and `count`; none for one device."""
    return sorted({*(1 << power for power in range(1, count.bit_length())), count}) if count > 1 else []


def _link(devices: Sequence[Device], backend: str) -> Link:
    if backend == "cuda":
        from repro.devices.cuda import CudaDevice
        from repro.devices.cuda_link import CudaLink  # NVIDIA's Python bindings are optional

        return CudaLink(cast(Sequence[CudaDevice], devices))
    from repro.devices.opencl import OpenClDevice, OpenClLink

    return OpenClLink(cast(Sequence[OpenClDevice], devices))
