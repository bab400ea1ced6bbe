"""One trial: prepare, verify, time; whatever happens becomes the status of one row.

While a trial runs, it watches for contention: other processes on its devices. Times that depend on the device
alone, such as a device copy's, say nothing of a problem; they are taken once for all cases of a batch.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from repro.bench import timing
from repro.bench.rows import NO_COLUMNS, REPORT, ColumnType, Row, split_columns
from repro.bench.runnable import IncorrectError, ModuleError, Runnable, UnstableError, Unsupported
from repro.bench.timing import Samples, SamplingPlan, TooSlow
from repro.bench.workspace import Workspace
from repro.config.models import Timing
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.devices.device_group import Devices

#: Seconds between two looks.
INTERVAL = 5.0


class ContentionMonitor:
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


@dataclass
class DeviceSamples:
    """What was found out of one runnable.

    Attributes
    ----------
    preprocess, moved
        Seconds that preparing it took, and the bytes that it moves.
    samples
        Those that count, by effort, in the order in which the first case took them.
    """

    preprocess: float
    moved: int
    samples: dict[SamplingPlan, list[Samples]] = field(default_factory=dict)


class DeviceSampleCache:
    """The part of one case in what a batch knows of its devices.

    Parameters
    ----------
    timed
        What the cases before it found out, by name; this one adds to it. None: nothing is kept, each sample is taken.
    """

    def __init__(self, timed: dict[str, DeviceSamples] | None) -> None:
        self._timed = timed
        self._taken: Counter[tuple[str, SamplingPlan]] = Counter()
        self._spared: set[str] = set()

    def spare(self, runnable: Runnable) -> float | None:
        """Return what preparing it took, where it need not be prepared; else None."""
        timed = self._timed.get(runnable.name) if self._timed is not None and runnable.of_device else None
        if timed is None:
            return None
        runnable.moved = timed.moved
        self._spared.add(runnable.name)
        return timed.preprocess

    def is_spared(self, runnable: Runnable) -> bool:
        """Whether it is not prepared, since it need not be."""
        return runnable.of_device and runnable.name in self._spared

    def prepared(self, runnable: Runnable, seconds: float) -> None:
        """Keep what preparing it took."""
        if self._timed is not None and runnable.of_device:
            self._timed.setdefault(runnable.name, DeviceSamples(seconds, runnable.moved))

    def sample(
        self, runnable: Runnable, effort: SamplingPlan, prepare: Callable[[], float], take: Callable[[], Samples]
    ) -> Samples:
        """Return a case's next sample: as an earlier case took it, else a new one.

        Parameters
        ----------
        prepare, take
            Prepares the runnable, and times it when it is prepared.
        """
        if self._timed is None or not runnable.of_device:
            return take()
        number = self._taken[runnable.name, effort]
        self._taken[runnable.name, effort] += 1
        kept = self._timed[runnable.name].samples.setdefault(effort, [])
        if number < len(kept):
            return kept[number]
        if runnable.name in self._spared:
            self._spared.remove(runnable.name)
            prepare()
        samples = take()
        if not (samples.disturbed or samples.throttle):
            kept.append(samples)
        return samples


FAILURES: dict[type[Exception], str] = {
    Unsupported: "unsupported",
    ModuleError: "compile_error",
    LaunchError: "launch_error",
    OutOfDeviceMemory: "out_of_memory",
    MemoryError: "out_of_memory",  # of the host, which packs
    IncorrectError: "incorrect",
    UnstableError: "unstable",
    TooSlow: "timeout",
}


class Bench:
    """Devices with the operands of one problem in one precision on them, and what all their rows have in common.

    Parameters
    ----------
    workspace
        Devices and operands.
    study, problem
        Names.
    timing, seed
        As configured.
    own
        The study's own columns with their types.
    timed
        What the cases of a batch know of their devices; None of a case alone.
    environment
        Hash of the environment record.
    driver
        What a time depends on beside the device's model.
    code
        Returns the hash of all code behind a module of that name: that packs an operand, and runs and times.
    idle
        Returns the processes that are on the devices and do nothing there.

    Attributes
    ----------
    lost
        Whether the device's context is lost, so that nothing more can be tried in this process.
    neighbours
        Who else uses the devices.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        study: str,
        problem: str,
        timing: Timing,
        seed: int,
        environment: str,
        driver: str,
        code: Callable[[str], str],
        own: Mapping[str, ColumnType] = NO_COLUMNS,
        timed: dict[str, DeviceSamples] | None = None,
        idle: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.workspace = workspace
        self.devices, self.device, self.operands = workspace.devices, workspace.device, workspace.operands
        self.timing = timing
        self.own = own
        self.lost = False
        self.neighbours = ContentionMonitor(self.devices, idle)
        self._of_device = DeviceSampleCache(timed)
        operands, device = self.operands, self.device
        self._code = code
        self._surroundings = [self.devices.topology(), device.name, driver, operands.checksum, operands.precision, seed,
                              workspace.common.hash, timing.budget(device.backend), timing.launches, timing.timeout,
                              timing.noise, timing.tolerance(device.backend)]  # fmt: skip
        self._common: Mapping[str, Any] = {
            "study": study,
            "problem": problem,
            "precision": operands.precision,
            "least_bytes": sum(operands.least_bytes),
            "operations": operands.operations,
            "device": device.name,
            "device_uuid": device.uuid,
            "backend": device.backend,
            "environment": environment,
        }

    def key(self, runnable: Runnable, phase: str, effort: SamplingPlan) -> str:
        """Return the hash of all that a time depends on, so that no other time can stand in for it."""
        code = self._code(type(runnable).__module__)
        parts = [*self._surroundings, runnable.kind, runnable.name, runnable.identity, code, phase, effort]
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]

    def row(self, runnable: Runnable, phase: str, effort: SamplingPlan, status: str, **columns: Any) -> Row:
        """Return a row of a runnable, with what all rows have in common filled in."""
        # what the runnable says of itself, its own preprocessing, comes first
        given = {**columns, **self.operands.columns, **runnable.columns}
        common, own = split_columns(given, self.own)
        return Row(
            key=self.key(runnable, phase, effort),
            kind=runnable.kind,
            name=runnable.name,
            status=status,
            phase=phase,
            protocol="screen" if effort.screening else "full",
            cache="cold" if effort.cold else "warm",
            bytes=runnable.moved or None,
            measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **self._common,
            **common,
            own=own,
        )

    def try_once(self, runnable: Runnable, phase: str, effort: SamplingPlan) -> Row:
        """Prepare, verify and time one runnable; whatever goes wrong is the row's status and message.

        After a failure that loses the device's context `lost` is set, and nothing more can be tried in this process.
        """
        try:
            preprocess = self.prepare(runnable)
            error = self.check(runnable)
            samples = self.sample(runnable, effort)
        except tuple(FAILURES) as failure:
            return self.failed(runnable, phase, effort, failure)
        finally:
            if not self.lost:
                runnable.release()
        return self.measured(runnable, phase, effort, samples, error=error, preprocess=preprocess)

    def prepare(self, runnable: Runnable) -> float:
        """Prepare a runnable; return the seconds it took, with those of what it packed before."""
        seconds = self._of_device.spare(runnable)
        return self._prepare(runnable) if seconds is None else seconds

    def _prepare(self, runnable: Runnable) -> float:
        start, packed = time.perf_counter(), self.workspace.packed_seconds
        runnable.prepare(self.workspace)
        self.devices.synchronize()
        seconds = time.perf_counter() - start + self.workspace.packed_seconds - packed
        self._of_device.prepared(runnable, seconds)
        return seconds

    def check(self, runnable: Runnable) -> float | None:
        """Launch a prepared runnable once and hold what it leaves against what is right; see `Operands.check`.

        Raises
        ------
        IncorrectError
            Its result is wrong, or it wrote outside of what is its own.
        """
        if self._of_device.is_spared(runnable):
            return None
        try:
            error = self.operands.check(runnable, self.workspace)
        except IncorrectError as wrong:
            raise IncorrectError(
                "; ".join([str(wrong), *self.workspace.guards.out_of_bounds_writes()]), wrong.error
            ) from None
        self.workspace.guards.check()
        return error

    def sample(self, runnable: Runnable, effort: SamplingPlan) -> Samples:
        """Time a prepared runnable.

        Raises
        ------
        IncorrectError
            One of the launches wrote outside of what is the runnable's own.
        """
        prepare, take = partial(self._prepare, runnable), partial(self._sample, runnable, effort)
        return self._of_device.sample(runnable, effort, prepare, take)

    def _sample(self, runnable: Runnable, effort: SamplingPlan) -> Samples:
        self.neighbours.look_at_times()
        samples = timing.take_samples(self.devices, runnable, effort, self.timing)
        self.workspace.guards.check()
        if samples.disturbed and (others := self.neighbours.look()):
            samples = replace(samples, disturbed=f"{samples.disturbed}, beside {', '.join(others)}")
        return samples

    def measured(self, runnable: Runnable, phase: str, effort: SamplingPlan, samples: Samples, **columns: Any) -> Row:
        """Return the row of samples: `ok`, `noisy` if they lie too far apart, or `disturbed` if they do not count."""
        noise = 0.0 if effort.screening else timing.spread(samples)
        noisy = noise > self.timing.noise
        messages = [f"quartiles {noise:.0%} of the median apart"] if noisy else []
        messages += [samples.message] if samples.message else []
        return self.row(
            runnable,
            phase,
            effort,
            "disturbed" if samples.disturbed else "noisy" if noisy else "ok",
            message="; ".join(messages) or None,
            **{**columns, **timing.columns(samples), **(timing.sampled(samples) if phase == REPORT else {})},
        )

    def failed(self, runnable: Runnable, phase: str, effort: SamplingPlan, failure: Exception) -> Row:
        """Return the row of a failure: its status, its message, no time."""
        self.lost = self.lost or getattr(failure, "sticky", False)
        if not self.lost:
            self._forget_strays()
        status = next(status for kind, status in FAILURES.items() if isinstance(failure, kind))
        error = getattr(failure, "error", None)
        return self.row(runnable, phase, effort, status, message=str(failure), error=error)

    def _forget_strays(self) -> None:
        """Keep what a runnable wrote before it failed from being taken for the next one's."""
        try:
            self.workspace.guards.out_of_bounds_writes()
        except LaunchError as late:
            self.lost = late.sticky

    def release(self) -> None:
        """Give all device memory back, unless it is lost already."""
        if not self.lost:
            self.workspace.release()
