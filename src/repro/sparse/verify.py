"""Comparing a product with the reference, on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import IncorrectError
from repro.bench.workspace import Workspace
from repro.codegen.common import VERIFY_N_T
from repro.devices.base import Buffer

if TYPE_CHECKING:
    from repro.sparse.operands import Multiplies

NAN_BYTE = 0xFF


class Expected(Protocol):
    """What a product must be."""

    @property
    def precision(self) -> str:
        """That of the result, `single` or `double`."""

    @property
    def reference(self) -> NDArray[np.float64]:
        """What it must be."""

    @property
    def bound(self) -> NDArray[np.float64]:
        """By how much it may differ from that, in the shape of the reference."""


def compare(operands: Expected, runnable: Multiplies, workspace: Workspace) -> float | None:
    """Run a product once into an output poisoned with NaN; return its largest error over the bound.

    None where the runnable has no result.

    Raises
    ------
    IncorrectError
        A number lies outside its bound, or is NaN.
    """
    y = runnable.result()
    if y is None:
        return None
    device = workspace.device
    device.fill(y, NAN_BYTE)
    runnable.before()
    runnable.launch()
    # asked for once more: a library that runs on the host brings its result to the device only now
    y = runnable.result() or y
    reference, bound = _expected(operands, runnable, workspace)
    count = reference.nbytes // operands.reference.itemsize  # more than the members where the order pads them
    report = workspace.buffer("report", lambda: device.allocate(8))
    n_t = VERIFY_N_T[device.backend]
    device.fill(report, 0)
    device.bind(
        workspace.common.program.kernel(f"verify_{operands.precision}"),
        min(device.n_s * 8, -(-count // n_t)),
        n_t,
        [np.int32(count), y, reference, bound, report],
    )()
    numbers = np.empty(2, np.int32)
    device.download(report, numbers)
    wrong, error = int(numbers[0]), float(numbers.view(np.float32)[1])
    if wrong:
        worst = f"the largest error is {error:.3g} of its bound" if np.isfinite(error) else "some are NaN"
        raise IncorrectError(f"{wrong} of {count} numbers are wrong; {worst}", error)
    return error


def _expected(operands: Expected, runnable: Multiplies, workspace: Workspace) -> tuple[Buffer, Buffer]:
    """Return reference and bound on the device, in the order of a runnable's result."""
    order, upload = runnable.arrangement, workspace.device.upload
    return (
        workspace.buffer(("reference", order), lambda: upload(runnable.arrange(operands.reference))),
        workspace.buffer(("bound", order), lambda: upload(np.abs(runnable.arrange(operands.bound)))),
    )
