"""Several devices of one host: one order of their work, copies between them, and one clock over all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import Buffer, Copy, Device, time_host


class Link(Protocol):
    """How the devices of one backend wait for each other and reach each other's memory."""

    def fork(self) -> None:
        """Hold all others back until what is queued on the first is done."""

    def join(self) -> None:
        """Hold the first back until what is queued on all others is done."""

    def meet(self) -> None:
        """Hold each back until what is queued on all others is done."""

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Queue copies, and launches beside them; see `Devices.exchange`."""

    def topology(self) -> list[dict[str, Any]]:
        """Return what links each pair: `devices` (two indices), `peer_access`, and what the backend knows."""

    def close(self) -> None:
        """Release what the link itself holds."""


class Devices:
    """One or more devices of one backend, and a `Clock` over all of them; made by `open_devices`.

    With one device everything is that device's own, at no cost.

    Parameters
    ----------
    devices
        At least one, in the order in which they were opened. On a GPU each has to be another GPU.

    Attributes
    ----------
    backend
        `cuda` or `opencl`.

    Raises
    ------
    LaunchError
        The GPUs cannot be brought together.
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
        """The one that times."""
        return self._devices[0]

    def __len__(self) -> int:
        return len(self._devices)

    def __getitem__(self, index: int) -> Device:
        return self._devices[index]

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices)

    def environment(self) -> dict[str, Any]:
        """Describe the first device; of several, how many and which they are and what links them as well."""
        environment = self.first.environment()
        if len(self) > 1:
            environment |= {
                "devices": len(self),
                "uuids": [device.uuid for device in self],
                "topology": self.topology(),
            }
        return environment

    def topology(self) -> list[dict[str, Any]]:
        """Return what links each pair, as `Link.topology`; nothing for one device."""
        return self._link.topology()

    def leading(self, count: int) -> Devices:
        """Return the first so many as devices of their own, with a clock over them alone; closed with the whole.

        Raises
        ------
        ValueError
            There are not so many.
        """
        if not 1 <= count <= len(self):
            raise ValueError(f"the first {count} of {len(self)} devices")
        if count == len(self):
            return self
        if count not in self._leading:
            self._leading[count] = Devices(self._devices[:count])
        return self._leading[count]

    def copy(self, source: Buffer, at: int, target: Buffer, to: int, nbytes: int) -> None:
        """Queue a copy from the memory of device `at` to that of device `to`; as `exchange` of this one."""
        self.exchange([Copy(source, at, target, to, nbytes)])

    def meet(self) -> None:
        """Hold what is queued later on any back until what is queued so far on all is done."""
        if len(self) > 1:
            self._link.meet()

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Queue copies between devices, with no order among themselves.

        Each comes after what is queued on its source's device and on its target's, and before what is queued later on
        either. Copies that go both ways between two devices run at the same time where they are of one call.

        Parameters
        ----------
        copies
            What to copy.
        meanwhile
            Queues launches that neither write what is copied nor touch where it goes. They come after what is queued,
            and have no order with the copies: on GPUs they run while these are under way, on the CPU behind them.

        Raises
        ------
        LaunchError
            A copy is refused.
        """
        for copy in copies:
            if copy.nbytes > min(copy.source.nbytes, copy.target.nbytes):
                raise ValueError(f"{copy.nbytes} bytes from {copy.source.nbytes} to {copy.target.nbytes}")
        self._link.exchange([copy for copy in copies if copy.nbytes], meanwhile)

    def synchronize(self) -> None:
        """Wait for the queues of all.

        Raises
        ------
        LaunchError
            Something that was queued failed.
        """
        for device in self:
            device.synchronize()

    def reset_kept(self) -> None:
        """Take back what loads asked the last-level caches of all to keep."""
        for device in self:
            device.reset_kept()

    def flush(self) -> None:
        """Overwrite the last-level caches of all, asynchronously."""
        for device in self:
            device.flush()

    def time_events(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time single launches from a common start to the last end, as `Device.time_events`; seconds, `(count,)`."""
        return self.first.time_events(self._forked(launch), count, self._joined(before))

    def time_graph(self, launch: Callable[[], None], launches: int, replays: int) -> NDArray[np.float64]:
        """Time replays of a graph of launches, each from a common start to the last end; seconds, `(replays,)`."""
        return self.first.time_graph(self._forked(launch), launches, replays)

    def time_host(
        self, launch: Callable[[], None], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time launches by the host's clock, from all idle to all idle; seconds, `(count,)`."""
        return time_host(launch, count, self.synchronize, before)

    def time_stages(
        self, stages: Sequence[Callable[[], None]], count: int, before: Callable[[], None] | None = None
    ) -> NDArray[np.float64]:
        """Time stages, each from a common start to the last end, as `Device.time_stages`."""
        return self.first.time_stages([self._forked(stage) for stage in stages], count, self._joined(before))

    def _forked(self, launch: Callable[[], None]) -> Callable[[], None]:
        if len(self) == 1:
            return launch

        @wraps(launch, assigned=(), updated=())  # a timer knows it again by the launch, for it is a new one each time
        def over_all() -> None:
            self._link.fork()
            launch()
            self._link.join()

        return over_all

    def _joined(self, before: Callable[[], None] | None) -> Callable[[], None] | None:
        """Return what runs ahead of a launch, so that the first device's clock starts after it on all."""
        if before is None or len(self) == 1:
            return before

        def ahead() -> None:
            before()
            self._link.join()

        return ahead

    def clocks(self) -> tuple[float | None, str | None]:
        """Return the lowest SM clock in MHz, and all that holds one down."""
        readings = [device.clocks() for device in self]
        clocks = [clock for clock, _ in readings if clock is not None]
        reasons = dict.fromkeys(reason for _, reason in readings if reason)
        return min(clocks, default=None), ", ".join(reasons) or None

    def close(self) -> None:
        """Release everything."""
        with ExitStack() as closing:  # one that fails keeps none of the others open
            for device in self._devices:
                closing.callback(device.close)
            closing.callback(self._link.close)
            for part in self._leading.values():
                closing.callback(part._link.close)


def numbers_of(count: int) -> list[int]:
    """Return over how many of so many devices something is timed: 2, 4, 8, … and all; nothing where there is one."""
    return sorted({*(1 << power for power in range(1, count.bit_length())), count}) if count > 1 else []


def _link(devices: Sequence[Device], backend: str) -> Link:
    if backend == "cuda":
        from repro.devices.cuda import CudaDevice
        from repro.devices.cuda_link import CudaLink  # NVIDIA's bindings are an extra

        return CudaLink(cast(Sequence[CudaDevice], devices))
    from repro.devices.opencl import OpenClDevice, OpenClLink

    return OpenClLink(cast(Sequence[OpenClDevice], devices))
