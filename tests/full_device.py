"""A device that is full after so many allocations, and what is held of it."""

from __future__ import annotations

from typing import Any

import pytest

from repro.devices.base import OutOfDeviceMemory


def fill_after(monkeypatch: pytest.MonkeyPatch, device: Any, nth: int) -> list[Any]:
    """Let a device give memory so many times; return a list of what is not given back, which changes as that does."""
    held: list[Any] = []
    allocate, first = device.allocate, iter(range(nth))

    def full(nbytes: int) -> Any:
        if next(first, None) is None:
            raise OutOfDeviceMemory("it is full")
        buffer = allocate(nbytes)
        release = buffer.release
        held.append(buffer)
        monkeypatch.setattr(buffer, "release", lambda: (held.remove(buffer) if buffer in held else None, release())[1])
        return buffer

    monkeypatch.setattr(device, "allocate", full)
    return held
