"""Connects several GPUs of one process: synchronises their streams and copies between their memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations, permutations
from typing import Any

from cuda.bindings import driver

from repro.devices.base import Copy, LaunchError
from repro.devices.cuda import CudaDevice
from repro.devices.cuda_driver import check_cuda


class CudaLink:
    """A `Link` between GPUs, with peer access if the hardware allows it. No operation waits on the host.

    Each GPU has an event, which is recorded when another GPU must wait for the GPU's queue. For exchanges that overlap
    with launches, each GPU also has a side stream for copies.
    """

    def __init__(self, devices: Sequence[CudaDevice]) -> None:
        self._devices = devices
        self._contexts = [_call(device, driver.cuCtxGetCurrent) for device in devices]
        self._gpus = [_call(device, driver.cuCtxGetDevice) for device in devices]
        pairs = list(permutations(range(len(devices)), 2))
        self._peers = {pair for pair in pairs if self._enable_peer(*pair)}
        flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        self._events = [_call(device, driver.cuEventCreate, flags) for device in devices]
        self._record = [
            _bind(device, driver.cuEventRecord, event, device.stream)
            for device, event in zip(devices, self._events, strict=True)
        ]
        self._wait = {
            (waiting, awaited): _bind(
                devices[waiting], driver.cuStreamWaitEvent, devices[waiting].stream, self._events[awaited], 0
            )
            for waiting, awaited in pairs
        }
        self._sides: list[_Side] = []

    def fork(self) -> None:
        self._record[0]()
        for other in range(1, len(self._devices)):
            self._wait[other, 0]()

    def join(self) -> None:
        for other in range(1, len(self._devices)):
            self._record[other]()
            self._wait[0, other]()

    def meet(self) -> None:
        for record in self._record:
            record()
        for wait in self._wait.values():
            wait()

    def exchange(self, copies: Sequence[Copy], meanwhile: Callable[[], None] | None = None) -> None:
        pairs = list(
            dict.fromkeys(
                (copy.source_device, copy.target_device) for copy in copies if copy.source_device != copy.target_device
            )
        )
        if meanwhile is not None:
            self._exchange_beside(copies, pairs, meanwhile)
            return
        for index in dict.fromkeys(index for pair in pairs for index in pair):
            self._record[index]()
        for source, target in pairs:
            self._wait[target, source]()
        for copy in copies:
            self._copy(copy, self._devices[copy.target_device].stream)
        for target in dict.fromkeys(target for _, target in pairs):
            self._record[target]()
        for source, target in pairs:
            self._wait[source, target]()  # the source's device may overwrite the source only after this

    def _exchange_beside(
        self, copies: Sequence[Copy], pairs: Sequence[tuple[int, int]], meanwhile: Callable[[], None]
    ) -> None:
        """Queue copies on side streams of the target GPUs, and the launches of `meanwhile` on the main streams."""
        if not self._sides:
            self._sides = [_Side.open(device) for device in self._devices]
        ends = list(dict.fromkeys(copy.target_device for copy in copies))
        for index in dict.fromkeys(index for copy in copies for index in (copy.source_device, copy.target_device)):
            self._record[index]()
        for source, target in dict.fromkeys([*((target, target) for target in ends), *pairs]):
            self._sides[target].wait(self._events[source])
        for copy in copies:
            self._copy(copy, self._sides[copy.target_device].stream)
        meanwhile()
        for target in ends:
            self._sides[target].record()
        for source, target in dict.fromkeys([*((target, target) for target in ends), *pairs]):
            device = self._devices[source]
            _call(device, driver.cuStreamWaitEvent, device.stream, self._sides[target].event, 0)

    def _copy(self, copy: Copy, stream: Any) -> None:
        source, target = _pointer(copy.source), _pointer(copy.target)
        device = self._devices[copy.target_device]
        if copy.source_device == copy.target_device or (copy.target_device, copy.source_device) in self._peers:
            _call(device, driver.cuMemcpyDtoDAsync, target, source, copy.nbytes, stream)
        else:  # the driver copies through host memory
            _call(
                device,
                driver.cuMemcpyPeerAsync,
                *(target, self._contexts[copy.target_device], source, self._contexts[copy.source_device]),
                *(copy.nbytes, stream),
            )

    def _enable_peer(self, index: int, peer: int) -> bool:
        """Give one GPU access to the memory of another; return whether this is possible."""
        device = self._devices[index]
        if not _call(device, driver.cuDeviceCanAccessPeer, self._gpus[index], self._gpus[peer]):
            return False
        codes = driver.CUresult
        (status,) = device.within(driver.cuCtxEnablePeerAccess)(self._contexts[peer], 0)
        if status == codes.CUDA_ERROR_TOO_MANY_PEERS:  # without NVSwitch, a GPU has at most eight peers
            return False
        if status != codes.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED:
            check_cuda((status,), device.failure)
        return True

    def topology(self) -> list[dict[str, Any]]:
        return [
            {
                "devices": [a, b],
                "peer_access": {(a, b), (b, a)} <= self._peers,
                **self._devices[a].monitor.link_to(self._devices[b].monitor),
            }
            for a, b in combinations(range(len(self._devices)), 2)
        ]

    def close(self) -> None:
        """Free the events; ignore errors of the driver, which occur after a fault on a GPU."""
        for device, event in zip(self._devices, self._events, strict=True):
            with suppress(LaunchError):
                _call(device, driver.cuEventDestroy, event)
        self._events.clear()
        for side in self._sides:
            with suppress(LaunchError):
                side.close()
        self._sides.clear()


@dataclass(frozen=True)
class _Side:
    """Side stream of a GPU for copies, and the event recorded after the latest copy."""

    device: CudaDevice
    stream: Any
    event: Any

    @classmethod
    def open(cls, device: CudaDevice) -> _Side:
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        stream = _call(device, driver.cuStreamCreate, flags[0])
        return cls(device, stream, _call(device, driver.cuEventCreate, flags[1]))

    def wait(self, event: Any) -> None:
        _call(self.device, driver.cuStreamWaitEvent, self.stream, event, 0)

    def record(self) -> None:
        _call(self.device, driver.cuEventRecord, self.event, self.stream)

    def close(self) -> None:
        _call(self.device, driver.cuEventDestroy, self.event)
        _call(self.device, driver.cuStreamDestroy, self.stream)


def _bind(device: CudaDevice, function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    run = device.within(partial(function, *arguments))
    return lambda: check_cuda(run(), device.failure)


def _call(device: CudaDevice, function: Callable[..., Any], *arguments: Any) -> Any:
    return _bind(device, function, *arguments)()


def _pointer(buffer: Any) -> int:
    return int(buffer.pointer)
