"""Guard zones: bytes before and behind what a kernel writes, which tell of a write outside of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError
from repro.devices.base import PART_ALIGNMENT, Buffer, Device

#: Bytes on each side: as far as a block of threads reaches that is one off. Neither they nor any part of them is a
#: number that a kernel would write.
ZONE = 4096
BYTE = 0xA5


class Guarded:
    """Device memory between two guard zones.

    Parameters
    ----------
    device
        Where it is.
    nbytes
        As many as may be written; the zone behind starts with the very next one.
    name
        What it is to who writes it: `its result`.

    Attributes
    ----------
    memory
        The memory, aligned to `PART_ALIGNMENT`.

    Raises
    ------
    OutOfDeviceMemory
    """

    def __init__(self, device: Device, nbytes: int, name: str) -> None:
        self._device, self._name = device, name
        end = ZONE + nbytes
        behind = end // PART_ALIGNMENT * PART_ALIGNMENT  # a part cannot start at any byte
        self._written = end - behind
        self._whole: Buffer | None = device.allocate(behind + PART_ALIGNMENT + ZONE)
        self._parts: list[Buffer] = []
        try:
            for offset, size in ((ZONE, nbytes), (0, ZONE), (behind, PART_ALIGNMENT + ZONE)):
                self._parts.append(device.part(self._whole, offset, size))
            self.memory, self._before, self._behind = self._parts
            self.arm()
        except Exception:
            self.release()
            raise

    @property
    def held(self) -> bool:
        """Whether it was not released yet."""
        return self._whole is not None

    def arm(self) -> None:
        """Put the zones in order; the last bytes of the memory itself, up to `PART_ALIGNMENT` of them, are lost."""
        for zone in (self._before, self._behind):
            self._device.fill(zone, BYTE)

    def strays(self) -> list[str]:
        """Wait for what is queued; return what was written outside, a line each side."""
        before, behind = (self._changed(zone) for zone in (self._before, self._behind))
        behind = behind[behind >= self._written] - self._written
        words = []
        if len(before):
            words.append(_words(len(before), ZONE - int(before[0]), "before the start"))
        if len(behind):
            words.append(_words(len(behind), int(behind[-1]) + 1, "past the end"))
        return [f"writes outside of {self._name}: {side}" for side in words]

    def part(self, offset: int, nbytes: int) -> Buffer:
        """Return some bytes of the memory as a buffer of their own, from a multiple of `PART_ALIGNMENT` on.

        Raises
        ------
        OutOfDeviceMemory
            The device does not take it for a buffer.
        """
        assert self._whole is not None, "not released yet"
        return self._device.part(self._whole, ZONE + offset, nbytes)  # no part of a part: OpenCL has none

    def _changed(self, zone: Buffer) -> NDArray[np.intp]:
        """Return which bytes of a zone are not what they were."""
        bytes_now = np.empty(zone.nbytes, np.uint8)
        self._device.download(zone, bytes_now)
        return np.flatnonzero(bytes_now != BYTE)

    def release(self) -> None:
        """Give the memory back; harmless a second time."""
        whole, self._whole = self._whole, None
        if whole is not None:
            for part in self._parts:
                part.release()
            whole.release()


class Guards:
    """All guarded memory of a workspace.

    Parameters
    ----------
    device
        Where it is, unless another is named.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._guarded: list[Guarded] = []

    def allocate(self, nbytes: int, name: str, device: Device | None = None) -> Guarded:
        """Return new, uninitialised memory between guard zones, looked after until it is released.

        Raises
        ------
        OutOfDeviceMemory
        """
        self._guarded = [guarded for guarded in self._guarded if guarded.held]
        self._guarded.append(Guarded(device or self._device, nbytes, name))
        return self._guarded[-1]

    def strays(self) -> list[str]:
        """Wait for what is queued; return what was written outside of all memory, and put those zones in order again.

        Raises
        ------
        LaunchError
            Something that was queued failed.
        """
        strays = []
        for guarded in self._guarded:
            outside = guarded.strays() if guarded.held else []
            if outside:
                guarded.arm()
            strays += outside
        return strays

    def check(self) -> None:
        """Do nothing if nothing was written outside.

        Raises
        ------
        IncorrectError
            Something was.
        LaunchError
            Something that was queued failed.
        """
        if strays := self.strays():
            raise IncorrectError("; ".join(strays))


def _words(count: int, reach: int, where: str) -> str:
    bytes_ = "1 byte" if count == 1 else f"{count} bytes"
    return f"{bytes_} {where}" + (f", within {reach} of it" if reach > count else "")
