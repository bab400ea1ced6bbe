"""A device that only keeps time and uses energy: it has one power while it works and one while it rests."""

from __future__ import annotations

from collections.abc import Callable

from repro.bench.energy import EnergyMeter


class MeteredDevice:
    """Time is whole milliseconds; the counter has the energy used until its last update.

    Parameters
    ----------
    update
        Milliseconds between two updates; None: the counter stands still.
    """

    backend = "cuda"

    def __init__(self, busy_watts=300, idle_watts=100, update=50, launch_ms=1, has_counter=True):
        self._powers = {True: busy_watts, False: idle_watts}
        self._update, self._launch_ms, self._has_counter = update, launch_ms, has_counter
        self.now, self._used, self._shown = 7, 0, 0  # no update at the start
        self.launched = 0
        self.batches: list[int] = []

    def __len__(self):
        return 1

    def advance(self, milliseconds: float, *, busy: bool) -> None:
        for _ in range(round(milliseconds)):
            self.now += 1
            self._used += self._powers[busy]
            if self._update and self.now % self._update == 0:
                self._shown = self._used

    def joules(self) -> float | None:
        return self._shown / 1000 if self._has_counter else None

    def clock(self) -> float:
        return self.now / 1000

    def rest(self, seconds: float) -> None:
        self.advance(1000 * seconds, busy=False)

    def launch(self) -> None:
        self.launched += 1
        self.advance(self._launch_ms, busy=True)

    def synchronize(self) -> None: ...

    def keep_busy(self, launch: Callable[[], None], launches: int, goes_on: Callable[[], bool]) -> tuple[int, float]:
        self.batches.append(launches)
        start, count, going = self.clock(), 0, True
        while going or count % launches:
            launch()
            count += 1
            going = going and goes_on()
        return count, self.clock() - start

    def meter(self, seconds: float) -> EnergyMeter:
        return Meter(self, seconds)


class Meter(EnergyMeter):
    """A meter that lets the device rest between readings only if it is idle."""

    def __init__(self, device: MeteredDevice, seconds: float) -> None:
        super().__init__(device, seconds, device.clock, self._wait)
        self._device = device
        self._works = False

    def _wait(self, seconds: float) -> None:
        if not self._works:
            self._device.rest(seconds)

    def measure(self, runnable, launch_seconds):
        self._works = True
        try:
            return super().measure(runnable, launch_seconds)
        finally:
            self._works = False
