"""Comparing a result with the reference, on the device."""

from __future__ import annotations

import numpy as np

from repro.bench.runnable import Runnable
from repro.bench.workspace import Operands
from repro.codegen.render import VERIFY_N_T
from repro.devices.base import Buffer, Device, Program

NAN_BYTE = 0xFF


class IncorrectError(Exception):
    """A result lies outside the bound; `error` is the largest error over its bound."""

    def __init__(self, wrong: int, count: int, error: float) -> None:
        self.error = error
        worst = f"the largest error is {error:.3g} of its bound" if np.isfinite(error) else "some are NaN"
        super().__init__(f"{wrong} of {count} numbers are wrong; {worst}")


class Verifier:
    """Runs each runnable once into an output poisoned with NaN and holds it against reference and bound."""

    def __init__(self, device: Device, operands: Operands, common: Program) -> None:
        self._device = device
        self._operands = operands
        self._kernel = f"verify_{operands.precision}"
        self._common = common
        self._report = device.allocate(8)
        self._expected: dict[str, tuple[Buffer, Buffer]] = {}

    def check(self, runnable: Runnable) -> float | None:
        """Return the largest error over its bound, None where the runnable has no result.

        Raises
        ------
        IncorrectError
        """
        y = runnable.result()
        if y is None:
            return None
        self._device.fill(y, NAN_BYTE)
        runnable.launch()
        # asked for once more: a library that runs on the host brings its result to the device only now
        return self._compare(runnable, runnable.result() or y)

    def _compare(self, runnable: Runnable, y: Buffer) -> float:
        if runnable.arrangement not in self._expected:
            self._expected[runnable.arrangement] = (
                self._device.upload(runnable.arrange(self._operands.reference)),
                self._device.upload(np.abs(runnable.arrange(self._operands.bound))),
            )
        reference, bound = self._expected[runnable.arrangement]
        count = self._operands.reference.size
        n_t = VERIFY_N_T[self._device.backend]
        self._device.fill(self._report, 0)
        self._device.bind(
            self._common.kernel(self._kernel),
            min(self._device.n_s * 8, -(-count // n_t)),
            n_t,
            [np.int32(count), y, reference, bound, self._report],
        )()
        report = np.empty(2, np.int32)
        self._device.download(self._report, report)
        wrong, error = int(report[0]), float(report.view(np.float32)[1])
        if wrong:
            raise IncorrectError(wrong, count, error)
        return error

    def release(self) -> None:
        """Give the device memory back."""
        self._report.release()
        for pair in self._expected.values():
            for buffer in pair:
                buffer.release()
        self._expected.clear()
