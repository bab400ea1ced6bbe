"""Who else uses the devices, looked for as long as they are measured on."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from repro.devices.several import Devices

#: Seconds between two looks.
INTERVAL = 5.0


class Neighbours:
    """Other processes on devices; each new one is printed once.

    Parameters
    ----------
    devices
        Which ones.
    idle
        Returns the processes that are on the devices and do nothing there, since they have let them go.
    """

    def __init__(self, devices: Devices, idle: Callable[[], Collection[int]] = tuple) -> None:
        self._devices, self._idle = devices, idle
        self._told: set[str] = set()
        self._next = 0.0

    def look(self) -> list[str]:
        """Return who else uses a device now, a line each; print a warning of whom was not seen before."""
        self._next = time.monotonic() + INTERVAL
        idle = self._idle()
        there = list(dict.fromkeys(line for device in self._devices for line in device.other_processes(idle)))
        for line in there:
            who = line.partition(" (")[0]  # what follows changes: the memory that it uses
            if who not in self._told:
                self._told.add(who)
                # who measures with this harness and can be seen from here holds the lock, and is not there
                shared = f"the device is shared with {line}, a program that takes no lock or is in another container"
                print(f"warning: {shared}; times may be disturbed", flush=True)
        return there

    def look_at_times(self) -> None:
        """Look, if that is some seconds ago."""
        if time.monotonic() >= self._next:
            self.look()
