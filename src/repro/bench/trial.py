"""One trial: prepare, verify, time; whatever happens becomes the status of one row."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from repro.bench import timing
from repro.bench.floor import floor_bytes
from repro.bench.rows import Row
from repro.bench.runnable import Runnable, Unsupported
from repro.bench.timing import Effort, Samples, TooSlow
from repro.bench.variant import ModuleError
from repro.bench.verify import IncorrectError, Verifier
from repro.bench.workspace import Operands, Workspace
from repro.config.models import Protocol
from repro.devices.base import Device, LaunchError, OutOfDeviceMemory

FAILURES: dict[type[Exception], str] = {
    Unsupported: "unsupported",
    ModuleError: "compile_error",
    LaunchError: "launch_error",
    OutOfDeviceMemory: "out_of_memory",
    IncorrectError: "incorrect",
    TooSlow: "timeout",
}


class Bench:
    """A device with the operands of one problem in one precision on it, and what all rows have in common.

    Parameters
    ----------
    device, operands, workspace, verifier
        What to run on and to hold results against.
    study, protocol, seed
        As configured.
    environment
        Hash of the environment record.
    """

    def __init__(
        self,
        device: Device,
        operands: Operands,
        workspace: Workspace,
        *,
        study: str,
        protocol: Protocol,
        seed: int,
        environment: str,
        driver: str,
    ) -> None:
        self.device = device
        self.operands = operands
        self.workspace = workspace
        self.protocol = protocol
        self.verifier = Verifier(device, operands, workspace.common)
        self.lost = False
        checksum = operands.problem.checksum()
        self._surroundings = [device.name, driver, checksum, operands.precision, seed, workspace.common_hash]
        self._common: Mapping[str, Any] = {
            "study": study,
            "problem": operands.problem.name,
            "entry": operands.problem.entry,
            "precision": operands.precision,
            "floor_bytes": sum(floor_bytes(operands)),
            "device": device.name,
            "device_uuid": device.uuid,
            "backend": device.backend,
            "environment": environment,
        }

    def key(self, runnable: Runnable, phase: str, effort: Effort) -> str:
        """Return the hash of all that a time depends on, so that no other time can stand in for it."""
        parts = [*self._surroundings, runnable.kind, runnable.name, runnable.identity, phase, effort]
        parts += [self.protocol.budget(self.device.backend), self.protocol.timeout]
        return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]

    def row(self, runnable: Runnable, phase: str, effort: Effort, status: str, **columns: Any) -> Row:
        """Return a row of a runnable, with what all rows have in common filled in."""
        known = {**columns, **runnable.columns}  # what the runnable says of itself, its own preprocessing, comes first
        moved, matrix = runnable.moved
        return Row(
            key=self.key(runnable, phase, effort),
            kind=runnable.kind,
            name=runnable.name,
            status=status,
            phase=phase,
            protocol="screen" if effort.screening else "full",
            cache="cold" if effort.cold else "warm",
            bytes=moved or None,
            matrix_bytes=matrix or None,
            measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **self._common,
            **known,
        )

    def try_once(self, runnable: Runnable, phase: str, effort: Effort) -> Row:
        """Prepare, verify and time one runnable; whatever goes wrong is the row's status and message.

        After a failure that loses the device's context `lost` is set, and nothing more can be tried in this process.
        """
        try:
            preprocess = self.prepare(runnable)
            error = self.verifier.check(runnable)
            samples = self.sample(runnable, effort)
        except tuple(FAILURES) as failure:
            return self.failed(runnable, phase, effort, failure)
        finally:
            if not self.lost:
                runnable.release()
        return self.measured(runnable, phase, effort, samples, error=error, preprocess=preprocess)

    def prepare(self, runnable: Runnable) -> float:
        """Prepare a runnable; return the seconds it took."""
        start = time.perf_counter()
        runnable.prepare(self.workspace)
        self.device.synchronize()
        return time.perf_counter() - start

    def sample(self, runnable: Runnable, effort: Effort) -> Samples:
        """Time a prepared runnable."""
        return timing.take_samples(self.device, runnable.launch, effort, self.protocol)

    def measured(self, runnable: Runnable, phase: str, effort: Effort, samples: Samples, **columns: Any) -> Row:
        """Return the row of samples: `ok`, or `noisy` where they lie too far apart."""
        noise = 0.0 if effort.screening else timing.spread(samples)
        noisy = noise > self.protocol.noise
        message = f"quartiles {noise:.0%} of the median apart" if noisy else samples.graph_message
        return self.row(
            runnable,
            phase,
            effort,
            "noisy" if noisy else "ok",
            message=message,
            **{**columns, **timing.columns(samples)},
        )

    def failed(self, runnable: Runnable, phase: str, effort: Effort, failure: Exception) -> Row:
        """Return the row of a failure: its status, its message, no time."""
        self.lost = self.lost or getattr(failure, "sticky", False)
        status = next(status for kind, status in FAILURES.items() if isinstance(failure, kind))
        error = getattr(failure, "error", None)
        return self.row(runnable, phase, effort, status, message=str(failure), error=error)

    def release(self) -> None:
        """Give all device memory back, unless it is lost already."""
        if self.lost:
            return
        self.verifier.release()
        self.workspace.release()
