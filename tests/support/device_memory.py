"""Devices that run out of memory, and lists of the memory that is still held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import pytest

from repro.devices.base import OutOfDeviceMemory
from repro.devices.cuda import CudaDevice
from repro.devices.cuda_driver import CudaBuffer


def fill_after(
    monkeypatch: pytest.MonkeyPatch, device: Any, nth: int, failure: type[BaseException] = OutOfDeviceMemory
) -> list[Any]:
    """Let allocations fail after a number of them; return a live list of the buffers that were not released."""
    held: list[Any] = []
    allocate, first = device.allocate, iter(range(nth))

    def full(nbytes: int) -> Any:
        if next(first, None) is None:
            raise failure("it is full")
        buffer = allocate(nbytes)
        release = buffer.release
        held.append(buffer)
        monkeypatch.setattr(buffer, "release", lambda: (held.remove(buffer) if buffer in held else None, release())[1])
        return buffer

    monkeypatch.setattr(device, "allocate", full)
    return held


def count_taken(monkeypatch: pytest.MonkeyPatch, device: CudaDevice) -> Callable[[], int]:
    """Return what says how many bytes are held of all that a device gives from now on, from its pool as well."""
    given: WeakSet[CudaBuffer] = WeakSet()  # one that nobody refers to has given its memory back
    allocate = device._memory.allocate

    def counted(nbytes: int) -> CudaBuffer:
        buffer = allocate(nbytes)
        given.add(buffer)
        return buffer

    monkeypatch.setattr(device._memory, "allocate", counted)
    return lambda: sum(buffer.nbytes for buffer in given if buffer._allocation is not None)
