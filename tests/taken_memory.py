"""What a process has taken of a GPU's memory, whatever others take of it at the same time."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

import pytest

from repro.devices.cuda import CudaDevice
from repro.devices.cuda_driver import CudaBuffer


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
