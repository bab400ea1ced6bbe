"""Parts of a CPU among each other, through the host: it waits for them, and copies what it sees of their memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from repro.devices.base import Copy
from repro.devices.opencl import OpenClDevice


class OpenClLink:
    """A `Link` of devices with a context each, so that memory of one is of no use to another, as between GPUs."""

    def __init__(self, devices: Sequence[OpenClDevice]) -> None:
        self._devices = devices

    def fork(self) -> None:
        """Wait for the first."""
        self._devices[0].synchronize()

    def join(self) -> None:
        """Wait for all others."""
        for device in self._devices[1:]:
            device.synchronize()

    def meet(self) -> None:
        """Wait for all."""
        for device in self._devices:
            device.synchronize()

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        """Copy one after the other, and wait for each; then queue what may run meanwhile."""
        for copy in copies:
            self._devices[copy.to].receive(copy.target, self._devices[copy.at], copy.source, copy.nbytes)
        if meanwhile is not None:
            meanwhile()

    def topology(self) -> list[dict[str, Any]]:
        """Return for each pair that it is linked through the host."""
        return [{"devices": list(pair), "peer_access": False} for pair in combinations(range(len(self._devices)), 2)]

    def close(self) -> None:
        """Hold nothing."""
