"""Device memory with guard zones: extra bytes before and after a buffer that reveal out-of-bounds writes."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from repro.devices.base import PART_ALIGNMENT, Buffer, Device
from repro.errors import IncorrectError

#: Size of a guard zone in bytes: a thread block whose index is off by one still writes inside the zone. Kernels never
#: compute a number with the bit pattern that fills a zone.
ZONE = 4096
BYTE = 0xA5


class Guarded:
    """`nbytes` of device memory at `memory` between two guard zones.

    `name` is the name of the memory in error messages, such as `its result`. The second zone starts at the first byte
    after the memory, which may be unaligned.
    """

    def __init__(self, device: Device, nbytes: int, name: str) -> None:
        self._device, self._name = device, name
        end = ZONE + nbytes
        end_zone_offset = end // PART_ALIGNMENT * PART_ALIGNMENT  # start addresses of parts must be aligned
        self._written = end - end_zone_offset
        self._whole: Buffer | None = device.allocate(end_zone_offset + PART_ALIGNMENT + ZONE)
        self._parts: list[Buffer] = []
        try:
            for offset, size in ((ZONE, nbytes), (0, ZONE), (end_zone_offset, PART_ALIGNMENT + ZONE)):
                self._parts.append(device.part(self._whole, offset, size))
            self.memory, self._before, self._behind = self._parts
            self.arm()
        except Exception:
            self.release()
            raise

    @property
    def in_use(self) -> bool:
        return self._whole is not None

    def arm(self) -> None:
        """Fill both guard zones with the pattern. This may overwrite up to `PART_ALIGNMENT` bytes at the end of the
        buffer.
        """
        for zone in (self._before, self._behind):
            self._device.fill(zone, BYTE)

    def out_of_bounds_writes(self) -> list[str]:
        """Wait for the queue and return one line for each guard zone that was overwritten."""
        writes_before, writes_behind = (self._overwritten_bytes(zone) for zone in (self._before, self._behind))
        return _describe_writes(
            self._name, writes_before, writes_behind[writes_behind >= self._written] - self._written
        )

    def part(self, offset: int, nbytes: int) -> Buffer:
        """Return a range of the memory as a buffer; `offset` must be a multiple of `PART_ALIGNMENT`."""
        assert self._whole is not None, "not released yet"
        return self._device.part(self._whole, ZONE + offset, nbytes)  # OpenCL forbids nested sub-buffers

    def _overwritten_bytes(self, zone: Buffer) -> NDArray[np.intp]:
        bytes_now = np.empty(zone.nbytes, np.uint8)
        self._device.download(zone, bytes_now)
        return np.flatnonzero(bytes_now != BYTE)

    def release(self) -> None:
        padded, self._whole = self._whole, None
        if padded is not None:
            for part in self._parts:
                part.release()
            padded.release()


class GuardedArray:
    """An array in host memory between two guard zones, for code that runs on the host; `name` is as in `Guarded`."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, name: str) -> None:
        self._name, nbytes = name, math.prod(shape) * np.dtype(dtype).itemsize
        padded = np.empty(nbytes + 2 * ZONE + PART_ALIGNMENT, np.uint8)
        start = ZONE + -(padded.ctypes.data + ZONE) % PART_ALIGNMENT
        self.array: NDArray[Any] = padded[start : start + nbytes].view(dtype).reshape(shape)
        self._zones = padded[start - ZONE : start], padded[start + nbytes : start + nbytes + ZONE]
        self.in_use = True
        self.arm()

    def arm(self) -> None:
        for zone in self._zones:
            zone[:] = BYTE

    def out_of_bounds_writes(self) -> list[str]:
        """Return one line for each guard zone that was overwritten."""
        writes_before, writes_behind = (np.flatnonzero(zone != BYTE) for zone in self._zones)
        return _describe_writes(self._name, writes_before, writes_behind)

    def release(self) -> None:
        self.in_use = False


class Guards:
    """All guarded memory of a workspace."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._guarded: list[Guarded | GuardedArray] = []

    def allocate(self, nbytes: int, name: str, device: Device | None = None) -> Guarded:
        """Allocate uninitialised memory with guard zones; the zones are checked until the memory is released."""
        buffer = Guarded(device or self._device, nbytes, name)
        self._add(buffer)
        return buffer

    def zeros(self, stack: ExitStack, nbytes: int, name: str) -> Buffer:
        """Allocate zeroed memory with guard zones, which `stack` releases."""
        buffer = self.allocate(nbytes, name)
        stack.callback(buffer.release)
        self._device.fill(buffer.memory, 0)
        return buffer.memory

    def allocate_array(self, shape: tuple[int, ...], dtype: DTypeLike, name: str) -> GuardedArray:
        """Allocate an uninitialised array in host memory with guard zones, which are checked until it is released."""
        array = GuardedArray(shape, dtype, name)
        self._add(array)
        return array

    def _add(self, memory: Guarded | GuardedArray) -> None:
        self._guarded = [*(other for other in self._guarded if other.in_use), memory]

    def out_of_bounds_writes(self) -> list[str]:
        """Wait for the queue, return one line for each overwritten guard zone, and refill overwritten zones."""
        out_of_bounds_writes = []
        for memory in self._guarded:
            writes = memory.out_of_bounds_writes() if memory.in_use else []
            if writes:
                memory.arm()
            out_of_bounds_writes += writes
        return out_of_bounds_writes

    def check(self) -> None:
        """Raise `IncorrectError` if a guard zone was overwritten."""
        if out_of_bounds_writes := self.out_of_bounds_writes():
            raise IncorrectError("; ".join(out_of_bounds_writes))


def _describe_writes(name: str, writes_before: NDArray[np.intp], writes_behind: NDArray[np.intp]) -> list[str]:
    """Return one line for each zone with changed bytes, given the offsets of these bytes in both zones."""
    texts = []
    if len(writes_before):
        texts.append(_writes_text(len(writes_before), ZONE - int(writes_before[0]), "before the start"))
    if len(writes_behind):
        texts.append(_writes_text(len(writes_behind), int(writes_behind[-1]) + 1, "past the end"))
    return [f"writes outside of {name}: {side}" for side in texts]


def _writes_text(count: int, reach: int, side_text: str) -> str:
    bytes_ = "1 byte" if count == 1 else f"{count} bytes"
    return f"{bytes_} {side_text}" + (f", within {reach} of it" if reach > count else "")
