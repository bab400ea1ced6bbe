"""Measures the energy of a launch by a device's energy counter, which the driver updates every 20 to 100 ms.

A window begins and ends at updates of the counter, so that their interval does not matter. The device repeats a launch
without gaps from before the first update until after the last one. Power times the seconds of a launch is its energy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from repro.bench.runnable import Runnable
from repro.devices.base import CaptureError, keep_busy
from repro.devices.device_group import Devices

#: Seconds of work, or of rest, before the first update that counts: the power of a GPU takes some time to settle.
SETTLING = 0.1
#: Seconds without an update after which the counter is given up; updates are at most 0.1 s apart.
STUCK = 1.0
#: Seconds between two readings of the counter.
POLL = 1e-3
#: Seconds that a batch of launches should take, and its most launches. Reading the counter takes up to some
#: milliseconds, for which the next batch must already be queued: with 5 ms launches on an H200 took a tenth to a fourth
#: longer than in the rounds.
BATCH_SECONDS, MAX_BATCH = 25e-3, 5000


class NoEnergy(Exception):
    """The energy cannot be measured, for the reason in the message."""


@dataclass(frozen=True)
class Energy:
    """Energy of one launch in one round."""

    #: Mean power of the device during the launches.
    watts: float
    #: The same while it rested, right before and after the round.
    idle_watts: float
    #: Seconds of one launch, one after another.
    seconds: float
    launches: int

    @property
    def joules(self) -> float:
        return self.watts * self.seconds


class Window:
    """Watches a counter until two of its updates lie at least `seconds` apart; the first one is after `SETTLING`."""

    def __init__(self, joules: Callable[[], float | None], seconds: float, clock: Callable[[], float]) -> None:
        self._joules, self._seconds, self._clock = joules, seconds, clock
        self._opened = self._changed = clock()
        self._last = joules()
        self._first: tuple[float, float] | None = None
        self._watts: float | None = None

    def is_open(self) -> bool:
        """Read the counter; return whether the window goes on."""
        joules, now = self._joules(), self._clock()
        if joules is None or self._last is None or joules == self._last:
            return joules is not None and now - self._changed < STUCK
        self._last, self._changed = joules, now
        if self._first is None:
            if now - self._opened >= SETTLING:
                self._first = now, joules
            return True
        start, before = self._first
        if now - start < self._seconds:
            return True
        self._watts = (joules - before) / (now - start)
        return False

    @property
    def watts(self) -> float:
        """Mean power between the two updates; raises `NoEnergy` if the counter stood still."""
        if self._watts is None:
            raise NoEnergy(f"the energy counter was not updated for {STUCK:g} s")
        return self._watts


class EnergyMeter:
    """Measures power of idle devices and of repeated launches, each for at least `seconds`."""

    def __init__(
        self,
        devices: Devices,
        seconds: float,
        clock: Callable[[], float] = time.perf_counter,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._devices, self._seconds, self._clock, self._pause = devices, seconds, clock, pause
        self._said: set[str] = set()

    def say(self, reason: NoEnergy) -> None:
        """Print why no energy is measured, each reason once."""
        if str(reason) not in self._said:
            self._said.add(str(reason))
            print(f"energy is not measured: {reason}", flush=True)

    def idle_watts(self) -> float:
        """Return the power of the idle devices; raise `NoEnergy` without a counter."""
        self._devices.synchronize()
        window = self._window()
        while self._goes_on(window):
            pass
        return window.watts

    def measure(self, runnable: Runnable, launch_seconds: float) -> tuple[float, float, int]:
        """Repeat a prepared runnable; return the power, the seconds of one launch and the number of launches.

        Raises
        ------
        NoEnergy
        """
        batch = max(1, min(MAX_BATCH, int(BATCH_SECONDS / launch_seconds)))
        window = self._window()
        try:
            if "graph" not in runnable.clocks:
                raise CaptureError
            count, seconds = self._devices.keep_busy(runnable.launch, batch, lambda: self._goes_on(window))
        except CaptureError:
            window = self._window()
            count, seconds = self._launch_repeatedly(runnable, batch, window)
        return window.watts, seconds / count, count

    def _launch_repeatedly(self, runnable: Runnable, batch: int, window: Window) -> tuple[int, float]:
        def launch() -> None:
            runnable.before()
            runnable.launch()

        return keep_busy(launch, batch, window.is_open, self._devices.synchronize, self._clock)

    def _goes_on(self, window: Window) -> bool:
        self._pause(POLL)
        return window.is_open()

    def _window(self) -> Window:
        if self._devices.joules() is None:
            what = "several devices have no common counter" if len(self._devices) > 1 else "the device has no counter"
            raise NoEnergy(f"{what} that can be read")
        return Window(self._devices.joules, self._seconds, self._clock)


def is_repeatable(runnable: Runnable) -> bool:
    """Return whether energy can be measured: the runnable uses one device, and nothing but launches is repeated."""
    has_before = type(runnable).before is not Runnable.before and not runnable.before_is_free
    return runnable.contender is not None and not has_before and not runnable.device_only and runnable.devices == 1


def energy_columns(runnable: Runnable, rounds: Sequence[Energy]) -> dict[str, Any]:
    """Return the columns of a row that energy measurements fill: medians over the rounds; none without rounds."""
    if not rounds or runnable.contender is None:
        return {}
    joules = [energy.joules for energy in rounds]
    task, whose = runnable.contender
    return {
        "energy_task": task,
        "energy_of": whose,
        "energy_launches": sum(energy.launches for energy in rounds),
        "energy_joules": median(joules),
        "energy_joules_min": min(joules),
        "energy_joules_max": max(joules),
        "energy_seconds": median(energy.seconds for energy in rounds),
        "energy_watts": median(energy.watts for energy in rounds),
        "energy_idle_watts": median(energy.idle_watts for energy in rounds),
    }
