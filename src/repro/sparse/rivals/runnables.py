"""Rivals as runnables: prepared, verified, timed and released as ours are."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.rows import OUTSIDE
from repro.bench.runnable import Runnable, Workspace, not_prepared
from repro.bench.worker import Watchdog, restart
from repro.config.models import Rival
from repro.devices.base import Buffer, Device
from repro.sparse.expansions import real_expansion, to_bsr
from repro.sparse.operands import Multiplies, operands_of
from repro.sparse.rivals.arrays import RivalArray, RivalArrays
from repro.sparse.rivals.files import identity_of
from repro.sparse.rivals.forms import Form, compile_source, open_form
from repro.sparse.rivals.problem import RivalProblem, give_matrix

#: Seconds that a rival may take to give back what it holds.
TEARDOWN_SECONDS = 60.0


class RivalRunnable(Runnable):
    """What rivals of all tasks share: loading, set-up, reading, and giving back."""

    kind = OUTSIDE

    def __init__(self, rival: Rival) -> None:
        self.rival = rival
        self.name = f"rival/{rival.name}"
        if rival.waits:
            self.clocks = ("host",)
        self.launch = not_prepared
        self._form: Form | None = None
        self._arrays: RivalArrays | None = None
        self._label = ""
        #: Seconds of its last set-up.
        self.setup_seconds: float | None = None

    @cached_property
    def identity(self) -> str:
        return identity_of(self.rival)

    @property
    def label(self) -> str:
        """Its name in the configuration, and what it calls itself; that is known once it is prepared."""
        return f"{self.rival.name} ({self._label})" if self._label else self.rival.name

    def pack(self, workspace: Workspace) -> None:
        """Compile a source, while other processes use the device."""
        if self.rival.source is not None and workspace.device.backend == "cuda":
            compile_source(self.rival, workspace.device.target, workspace.operands.precision, self._block(workspace))

    def prepare(self, workspace: Workspace) -> None:
        self.release()
        device = workspace.device
        form = open_form(self.rival, device, workspace.operands.precision, self._block(workspace))
        self._label = form.label
        self._arrays = arrays = RivalArrays(device, workspace.guards)
        problem = self._problem(workspace, arrays)
        device.synchronize()
        self._form = form  # whose teardown is due from here on
        start = time.perf_counter()
        form.setup(problem)
        device.synchronize()
        self.setup_seconds = time.perf_counter() - start
        self.launch = form.launcher()

    def _block(self, workspace: Workspace) -> int:
        """Return the size of the blocks that it gets."""
        raise NotImplementedError

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        """Return what it is told, with arrays of its own."""
        raise NotImplementedError

    def _told(self, workspace: Workspace, arrays: RivalArrays) -> dict[str, Any]:
        """Return what rivals of all tasks are told."""
        return {
            "task": self.rival.of,
            "precision": workspace.operands.precision,
            "stream": arrays.stream if arrays.on_gpu else None,
            "device": int(getattr(workspace.device, "ordinal", 0)) if arrays.on_gpu else None,
        }

    def release(self) -> None:
        self.launch = not_prepared
        form, self._form = self._form, None
        arrays, self._arrays = self._arrays, None
        if form is not None:

            def expired() -> None:
                restart(f"{self.name} did not end its teardown within {TEARDOWN_SECONDS:g} s")

            with Watchdog(TEARDOWN_SECONDS) as watchdog, watchdog.guard(expired):
                try:
                    form.teardown()
                except Exception as error:  # its times stand; what it holds is lost until this process ends
                    print(f"warning: {self.name}: {error}", flush=True)
        if arrays is not None:
            arrays.release()


class RivalProduct(RivalRunnable, Multiplies):
    """y = A x by a rival, for a matrix whose compound entries are expanded to real numbers."""

    def __init__(self, rival: Rival, entry: str) -> None:
        super().__init__(rival)
        self._representation = real_expansion(entry)
        self.arrangement = f"{self._representation.arrangement}@natural"
        self._y: tuple[RivalArray, Buffer | None] | None = None
        self._device: Device | None = None
        self._uploaded: Buffer | None = None

    @property
    def columns(self) -> dict[str, Any]:
        columns = {
            "ordering": "natural",
            "routine": self.label,
            "format": self.rival.format,
            "representation": self._representation.name,
            "papers_choice": False,
            "matrix_bytes": self.matrix_bytes or None,
        }
        return columns if self.setup_seconds is None else {**columns, "preprocess": self.setup_seconds}

    def _block(self, workspace: Workspace) -> int:
        return self._representation.size if self.rival.format == "bsr" else 1

    def _problem(self, workspace: Workspace, arrays: RivalArrays) -> RivalProblem:
        operands = operands_of(workspace)
        bsr = to_bsr(operands.problem, self._representation, operands.dtype)
        a, self.matrix_bytes = give_matrix(arrays, self.rival, bsr, operands.problem.shape[1], "the matrix")
        x = arrays.give(operands.x.ravel(), "x")
        self._device = workspace.device
        self._y = y, _ = arrays.empty((a.shape[0],), operands.dtype, "its result")
        self.bytes_moved = self.matrix_bytes + operands.dtype.itemsize * sum(a.shape)
        return RivalProblem(**self._told(workspace, arrays), a=a, x=x, y=y)

    def result(self) -> Buffer | None:
        """Return y, on the CPU uploaded anew.

        Only verification asks for it, which is when the matrix and x are compared with what was given.
        """
        if self._y is None or self._arrays is None or self._device is None:
            return None
        self._arrays.check_read_only()
        array, buffer = self._y
        if buffer is not None:
            return buffer
        self._drop_upload()
        assert isinstance(array, np.ndarray)
        self._uploaded = self._device.upload(array)
        return self._uploaded

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._representation.arrange(values)

    def _drop_upload(self) -> None:
        uploaded, self._uploaded = self._uploaded, None
        if uploaded is not None:
            uploaded.release()

    def release(self) -> None:
        super().release()
        self._drop_upload()
        self._y = None


def products_of(rivals: Sequence[Rival], entry: str) -> list[RivalProduct]:
    """Return the rivals for y = A x with entries of a kind."""
    return [RivalProduct(rival, entry) for rival in rivals if rival.of == "spmv"]
