"""One trial: prepare, verify and time a runnable; the outcome becomes the status of one row.

During a trial, other processes on the devices are detected. Times that depend only on the device, such as the time of a
device copy, are measured once for all cases of a batch.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from repro.bench import timing
from repro.bench.energy import EnergyMeter, NoEnergy
from repro.bench.rows import NO_COLUMNS, REPORT, ColumnType, Row, split_columns
from repro.bench.runnable import Candidate, Runnable, Workspace
from repro.bench.timing import Samples, SamplingPlan, TooSlow
from repro.config.models import Timing
from repro.containment import text_of
from repro.devices.base import LaunchError, OutOfDeviceMemory
from repro.devices.device_group import Devices
from repro.errors import IncorrectError, ModuleError, ReproError, UnstableError, Unsupported

#: Minimum seconds between two checks for other processes during a trial.
LOOK_SECONDS = 5.0


class ContentionMonitor:
    """Detects other processes on the devices and prints each new one once. `idle` returns processes to ignore."""

    def __init__(self, devices: Devices, idle: Callable[[], Collection[int]] = tuple) -> None:
        self._devices, self._idle = devices, idle
        self._reported: set[str] = set()
        self._next_look = 0.0

    def list_other_processes(self) -> list[str]:
        """Return one line for each other process that uses a device now, and print newly found ones."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        idle = self._idle()
        others = list(dict.fromkeys(line for device in self._devices for line in device.other_processes(idle)))
        for line in others:
            who = line.partition(" (")[0]  # ignore the rest of the line: its memory size changes
            if who not in self._reported:
                self._reported.add(who)
                # Users of this software wait for the device lock, unless they run in a container that does not see the
                # lock.
                shared = f"the device is shared with {line}, a program that takes no lock or is in another container"
                print(f"warning: {shared}; times may be disturbed", flush=True)
        return others

    def look_if_due(self) -> None:
        if time.monotonic() >= self._next_look:
            self.list_other_processes()


@dataclass
class DeviceSamples:
    """Preparation time and samples of a runnable whose times depend only on the device."""

    preprocess: float
    bytes_moved: int
    #: Undisturbed samples for each plan, in the order in which the first case of the batch took them.
    samples: dict[SamplingPlan, list[Samples]] = field(default_factory=dict)


class DeviceSampleCache:
    """Gives one case access to samples shared by a batch, by runnable name. With None, nothing is shared."""

    def __init__(self, device_samples: dict[str, DeviceSamples] | None) -> None:
        self._device_samples = device_samples
        self._sample_counts: Counter[tuple[str, SamplingPlan]] = Counter()
        self._unprepared: set[str] = set()

    def cached_preparation(self, runnable: Runnable) -> float | None:
        device_samples = (
            self._device_samples.get(runnable.name)
            if self._device_samples is not None and runnable.device_only
            else None
        )
        if device_samples is None:
            return None
        runnable.bytes_moved = device_samples.bytes_moved
        self._unprepared.add(runnable.name)
        return device_samples.preprocess

    def skips_preparation(self, runnable: Runnable) -> bool:
        return runnable.device_only and runnable.name in self._unprepared

    def note_preparation(self, runnable: Runnable, seconds: float) -> None:
        if self._device_samples is not None and runnable.device_only:
            self._device_samples.setdefault(runnable.name, DeviceSamples(seconds, runnable.bytes_moved))

    def sample(
        self, runnable: Runnable, effort: SamplingPlan, prepare: Callable[[], float], take: Callable[[], Samples]
    ) -> Samples:
        """Return the case's next sample: if an earlier case already took a sample at this position, that one, else a
        new one.
        """
        if self._device_samples is None or not runnable.device_only:
            return take()
        number = self._sample_counts[runnable.name, effort]
        self._sample_counts[runnable.name, effort] += 1
        cached_samples = self._device_samples[runnable.name].samples.setdefault(effort, [])
        if number < len(cached_samples):
            return cached_samples[number]
        if runnable.name in self._unprepared:
            self._unprepared.remove(runnable.name)
            prepare()
        samples = take()
        if not (samples.disturbed or samples.throttle):
            cached_samples.append(samples)
        return samples


FAILURES: dict[type[Exception], str] = {
    Unsupported: "unsupported",
    ModuleError: "compile_error",
    LaunchError: "launch_error",
    OutOfDeviceMemory: "out_of_memory",
    MemoryError: "out_of_memory",  # host memory, while packing
    IncorrectError: "incorrect",
    UnstableError: "unstable",
    TooSlow: "timeout",
}


def with_remark(message: str | None, runnable: Runnable) -> str | None:
    """Return the message of a row with the runnable's remark; None if there is neither."""
    remark = runnable.remark
    return message if not remark or remark in (message or "") else "; ".join(filter(None, (message, remark)))


def skipping(disturbance: str) -> str:
    """Say how a result was found to be wrong that was right before an operand changed between timed launches."""
    return f"right at first, wrong after timed launches before which {disturbance}"


class Bench:
    """Verifies and times runnables on one problem in one precision, and makes their rows.

    Parameters
    ----------
    own
        Type of each column that only this study has.
    device_samples
        Samples that the cases of a batch share; None for a single case.
    environment
        Hash of the environment record.
    software
        Names, versions and settings of the software below the kernels that affect times, such as the driver.
    code
        Function that returns, for a module name, a hash of the code that packs, runs and times.
    idle
        Function that returns the ids of processes that have a context on a device but do not use the device.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        study_name: str,
        problem_name: str,
        timing: Timing,
        seed: int,
        environment: str,
        software: str,
        code: Callable[[str], str],
        own: Mapping[str, ColumnType] = NO_COLUMNS,
        device_samples: dict[str, DeviceSamples] | None = None,
        idle: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.workspace = workspace
        self.devices, self.device, self.operands = workspace.devices, workspace.device, workspace.operands
        self.timing = timing
        self.own = own
        #: Whether the device's context is lost; this process then cannot use the device any more.
        self.lost = False
        self.neighbours = ContentionMonitor(self.devices, idle)
        self.meter = EnergyMeter(self.devices, timing.energy_seconds)
        self._shared = DeviceSampleCache(device_samples)
        #: Number of timed launches of each runnable since its last verification.
        self._timed_launches: Counter[str] = Counter()
        operands, device = self.operands, self.device
        self._code = code
        self._surroundings = [self.devices.topology(), device.name, software, operands.checksum, operands.precision,
                              seed, workspace.common.hash, timing.budget(device.backend), timing.launches,
                              timing.timeout, timing.noise, timing.tolerance(device.backend)]  # fmt: skip
        self.study_name = study_name
        self._common: Mapping[str, Any] = {
            "study": study_name,
            "problem": problem_name,
            "precision": operands.precision,
            "least_bytes": sum(operands.min_bytes),
            "operations": operands.operations,
            "device": device.name,
            "device_uuid": device.uuid,
            "backend": device.backend,
            "environment": environment,
        }

    def key(self, runnable: Runnable, phase: str, effort: SamplingPlan) -> str:
        """Return a hash of everything that the measured time depends on."""
        code = self._code(type(runnable).__module__)
        parts = [*self._surroundings, runnable.kind, runnable.name, runnable.identity, code, phase, effort]
        parts += [effort.until] if effort.until else []
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]

    def row(self, runnable: Runnable, phase: str, effort: SamplingPlan, status: str, **columns: Any) -> Row:
        # A runnable's own columns, such as its preprocessing time, replace columns with equal names.
        columns["message"] = with_remark(columns.get("message"), runnable)
        packing = runnable.packing if isinstance(runnable, Candidate) else None
        row_columns = {
            **columns,
            **self.operands.columns,
            "packing": self.workspace.packing_seconds.get(packing),
            **runnable.columns,
        }
        try:
            common, own_columns = split_columns(row_columns, self.own)
        except ReproError as undeclared:
            raise undeclared.at(f"study {self.study_name}, {runnable.kind} {runnable.name}") from None
        return Row(
            key=self.key(runnable, phase, effort),
            kind=runnable.kind,
            name=runnable.name,
            status=status,
            phase=phase,
            protocol="screen" if effort.screening else "full",
            cache="cold" if effort.cold else "warm",
            bytes=runnable.bytes_moved or None,
            measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **self._common,
            **common,
            own=own_columns,
        )

    def try_once(self, runnable: Runnable, phase: str, effort: SamplingPlan) -> Row:
        """Prepare, verify and time a runnable. A failure becomes the row's status and message, and may set `lost`."""
        try:
            preprocess = self.prepare(runnable)
            error = self.check(runnable)
            samples = self.sample(runnable, effort)
            if not effort.screening:  # times of screening only select variants that are timed again
                self.check_again(runnable)
        except tuple(FAILURES) as failure:
            return self.failure_row(runnable, phase, effort, failure)
        finally:
            if not self.lost:
                runnable.release()
        return self.measured_row(runnable, phase, effort, samples, error=error, preprocess=preprocess)

    def prepare(self, runnable: Runnable) -> float:
        """Prepare a runnable; return the seconds this took."""
        seconds = self._shared.cached_preparation(runnable)
        return self._prepare(runnable) if seconds is None else seconds

    def _prepare(self, runnable: Runnable) -> float:
        start = perf_counter()
        with runnable.contained():
            runnable.prepare(self.workspace)
            self.devices.synchronize()
        seconds = perf_counter() - start
        self._shared.note_preparation(runnable, seconds)
        return seconds

    def check(self, runnable: Runnable) -> float | None:
        """Launch a runnable once and verify its result and guard zones; raise `IncorrectError` for a failure. See
        `Operands.check`.
        """
        if self._shared.skips_preparation(runnable):
            return None
        self._timed_launches[runnable.name] = 0
        try:
            with runnable.contained():
                runnable.erase_result(self.workspace)
                error = self.operands.check(runnable, self.workspace)
        except IncorrectError as wrong:
            raise IncorrectError(
                "; ".join([str(wrong), *self.workspace.guards.out_of_bounds_writes()]), wrong.error
            ) from None
        self.workspace.guards.check()
        return error

    def check_again(self, runnable: Runnable) -> None:
        """Verify one more launch, as `check` does, after the timed launches, whose results were not verified."""
        launches = self._timed_launches[runnable.name]
        try:
            self.check(runnable)
        except IncorrectError as wrong:
            message = f"right at first, wrong after {launches} timed launches: {wrong}"
            raise IncorrectError(message, wrong.error) from None

    def _check_disturbed(self, runnable: Runnable, disturbance: str) -> None:
        """Verify the result of the last timed launch, before which an operand was changed."""
        try:
            with runnable.as_left():
                self.operands.check(runnable, self.workspace)
        except IncorrectError as wrong:
            raise IncorrectError(f"{skipping(disturbance)}: {wrong}", wrong.error) from None

    def sample(self, runnable: Runnable, effort: SamplingPlan) -> Samples:
        prepare, take = partial(self._prepare, runnable), partial(self._sample, runnable, effort)
        return self._shared.sample(runnable, effort, prepare, take)

    def _sample(self, runnable: Runnable, effort: SamplingPlan) -> Samples:
        self.neighbours.look_if_due()
        with runnable.contained():
            samples = timing.take_samples(
                self.devices, runnable, effort, self.timing, partial(self._check_disturbed, runnable)
            )
        self._timed_launches[runnable.name] += samples.launches
        self.workspace.guards.check()
        if samples.disturbed and (others := self.neighbours.list_other_processes()):
            samples = replace(samples, disturbed=f"{samples.disturbed}, beside {', '.join(others)}")
        return samples

    def energy(self, runnable: Runnable, launch_seconds: float) -> tuple[float, float, int]:
        """Measure as `EnergyMeter.measure` does; raise `NoEnergy` if another process uses the device as well."""
        with runnable.contained():
            measured = self.meter.measure(runnable, launch_seconds)
        self._timed_launches[runnable.name] += measured[-1]
        self.workspace.guards.check()
        if others := self.neighbours.list_other_processes():
            raise NoEnergy(f"the device is shared with {', '.join(others)}")
        return measured

    def measured_row(
        self, runnable: Runnable, phase: str, effort: SamplingPlan, samples: Samples, **columns: Any
    ) -> Row:
        """Return the row for samples: status `ok`, `noisy` if the quartiles lie far apart, or `disturbed`."""
        noise = 0.0 if effort.screening else timing.relative_iqr(samples)
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

    def failure_row(self, runnable: Runnable, phase: str, effort: SamplingPlan, failure: Exception) -> Row:
        self.lost = self.lost or getattr(failure, "sticky", False)
        if not self.lost:
            try:  # reset the zones, so that the next runnable is not blamed for these writes
                self.workspace.guards.out_of_bounds_writes()
            except LaunchError as late:
                self.lost = late.sticky
        status = next(status for kind, status in FAILURES.items() if isinstance(failure, kind))
        error = getattr(failure, "error", None)
        return self.row(runnable, phase, effort, status, message=text_of(failure), error=error)

    def release(self) -> None:
        if not self.lost:
            self.workspace.release()
