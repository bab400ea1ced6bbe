"""A variant: one layout run under one schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import Unsupported
from repro.bench.workspace import Workspace
from repro.codegen.compile import Module
from repro.codegen.render import kernel_name
from repro.codegen.schedules import Schedule
from repro.devices.base import Buffer, Device
from repro.formats.layout import Layout
from repro.formats.pack import pack_vector

#: Slots for each entry above which a layout of ours is not tried.
MOST_PADDING = 4


class ModuleError(Exception):
    """The variant's module did not compile; the message is the compiler's first error."""


class Variant:
    """A `Runnable` that launches one of our kernels.

    Parameters
    ----------
    layout, schedule
        What it is.
    module
        The manifest of its module.
    folder
        Where the manifest lies; binaries are relative to it.
    space
        The space that it belongs to: `paper` or `extended`.
    """

    kind = "variant"
    launch: Callable[[], None]

    def __init__(self, layout: Layout, schedule: Schedule, module: Module, folder: Path, space: str = "paper") -> None:
        self.layout, self.schedule, self.module, self.space = layout, schedule, module, space
        self.name = f"{layout}/{schedule}"
        self.arrangement = f"{layout.vector}@{layout.unknowns}"
        self.identity = f"{module.hash} {schedule}"
        self.packing = replace(layout, vector="")
        self._folder = folder
        self._kernel_resources: Mapping[str, int] = {}
        self._y: Buffer | None = None
        self._moved = (0, 0)
        self._permutation: NDArray[np.int64] | None = None
        self._bind: Callable[[Buffer, Buffer], Callable[[], None]] | None = None

    def reordered(self, ordering: str) -> Variant:
        """Return the same layout and schedule on the matrix with its unknowns renumbered.

        Raises
        ------
        ValueError
            The layout has an order of its own, which its kernel is compiled for.
        """
        if self.layout.ordering != "natural":
            raise ValueError(f"{self.layout} cannot be reordered")
        layout = replace(self.layout, ordering=ordering)
        return Variant(layout, self.schedule, self.module, self._folder, self.space)

    @property
    def columns(self) -> dict[str, Any]:
        """Layout and schedule, and what the compiler said of the kernel."""
        return {
            "space": self.space,
            "ordering": self.layout.unknowns,
            "layout": str(self.layout),
            "schedule": self.schedule.kind,
            "n_t": self.schedule.n_t,
            "n_b": self.schedule.n_b,
            "width": self.schedule.width,
            "unroll": self.schedule.unroll,
            "registers": self._kernel_resources.get("registers"),
            "spills": self._kernel_resources.get("spills"),
        }

    @property
    def moved(self) -> tuple[int, int]:
        """(matrix in its layout + x once + y, matrix alone), in bytes."""
        return self._moved

    def prepare(self, workspace: Workspace) -> None:
        """Pack and upload the matrix, load the module, bind the kernel to its arguments.

        Raises
        ------
        ModuleError
        Unsupported
            A layout of ours would be mostly padding; the papers' are timed however large they get.
        """
        if self.module.binary is None:
            raise ModuleError(self.module.message)
        device = workspace.device
        if self.space == "extended" and (padded := workspace.padding(self.layout.outer)) > MOST_PADDING:
            raise Unsupported(f"padded to {padded:.1f} times the entries, more than {MOST_PADDING}")
        packed, buffers = workspace.matrix(self.layout)
        name = kernel_name(self.schedule, device.target)
        self._kernel_resources = (self.module.resources or {}).get(name, {})
        self._y = workspace.y
        x = workspace.x(self.layout.vector, self.layout.unknowns)
        self._moved = packed.nbytes + 2 * x.nbytes, packed.nbytes
        self._permutation = workspace.permutation(self.layout.unknowns)
        n = workspace.operands.problem.n
        blocks = self.schedule.blocks(n, device.n_s, packed.stride if self.layout.ordering == "clustered" else 0)
        matrix = [np.int32(n), np.int32(packed.slots), np.int32(packed.stride)]
        arrays = [buffers["index"], buffers["columns"], buffers["values"]]
        program, counter = workspace.program(self._folder / self.module.binary), workspace.counter

        def bind(x: Buffer, y: Buffer) -> Callable[[], None]:
            run = device.bind(program.kernel(name), blocks, self.schedule.n_t, [*matrix, *arrays, x, y, counter])
            return run if self.schedule.kind != "dynamic" else _after_reset(device, counter, run)

        self._bind = bind
        self.launch = bind(x, self._y)

    def product(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues y = A x for other vectors, in the layout's ordering and vector order; once prepared."""
        assert self._bind is not None
        return self._bind(x, y)

    def result(self) -> Buffer | None:
        """Return y, in the layout's vector order."""
        return self._y

    def arrange(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bring `(n, k)` members into the layout's ordering and vector order; once prepared."""
        assert self._permutation is not None
        return pack_vector(values[self._permutation], self.layout.vector)

    def release(self) -> None:
        """Let go of the matrix, which belongs to the workspace, as vectors and counter do."""
        self._bind = None


def _after_reset(device: Device, counter: Buffer, run: Callable[[], None]) -> Callable[[], None]:
    """Return what sets the row counter to zero and then runs: resetting is part of a dynamic schedule's time."""

    def launch() -> None:
        device.fill(counter, 0)
        run()

    return launch
