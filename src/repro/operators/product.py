"""y = A x on a device, with the matrix packed and its kernel compiled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from repro.codegen.render import kernel_name, render_module
from repro.codegen.schedules import Schedule
from repro.devices.base import Argument, Buffer
from repro.formats.layout import Layout
from repro.formats.ordering import permutation, reorder
from repro.formats.pack import pack
from repro.operators.arrays import Kind
from repro.operators.runtime import Runtime, templates
from repro.operators.vectors import Vectors
from repro.problems.problem import Problem

#: Pairs of vectors whose launches are kept: those of an iterative solver are always the same.
KEPT = 64


class Product:
    """A matrix on the device and the one kernel that multiplies with it.

    Parameters
    ----------
    runtime
        The device.
    problem, precision
        The matrix, rounded to the precision.
    layout, schedule
        The variant.

    Attributes
    ----------
    vectors
        Vectors in the layout's order.
    direct
        Whether these are a user's vectors as they are: AoS, rows not reordered.
    nbytes
        Bytes of the packed matrix.
    """

    def __init__(self, runtime: Runtime, problem: Problem, precision: str, layout: Layout, schedule: Schedule) -> None:
        self.runtime, self.layout, self.schedule = runtime, layout, schedule
        kind = Kind(problem.entry, precision)
        natural = layout.ordering == "natural"
        rows = None if natural else permutation(problem, layout.ordering)
        self.vectors = Vectors(runtime, problem.n, kind, layout.vector, rows)
        self.direct = natural and layout.vector == "AoS"
        device = runtime.device
        source = render_module(
            templates(), "compound_spmv", problem.entry, precision, layout, [schedule], device.target
        )
        name = f"compound_spmv/{problem.entry}-{precision}/{layout.stored}-{schedule}"
        self._kernel = runtime.program(source, name).kernel(kernel_name(schedule, device.target))
        ordered = problem if rows is None else reorder(problem, rows)
        packed = pack(ordered, ordered.values.astype(kind.scalar), layout, device.target.warp)
        self.nbytes = packed.nbytes
        self._buffers = {name: runtime.upload(array) for name, array in packed.arrays.items()}
        self._counts = [np.int32(problem.n), np.int32(packed.slots), np.int32(packed.stride)]
        self._grid = schedule.blocks(problem.n, device.n_s)
        self._counter = runtime.upload(np.zeros(1, np.int32))
        self._bound: OrderedDict[tuple[int, int], Callable[[], None]] = OrderedDict()

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues one product of vectors in the layout's order."""
        device = self.runtime.device
        arrays = (self._buffers[name] for name in ("index", "columns", "values"))
        arguments: list[Argument] = [*self._counts, *arrays, x, y, self._counter]
        run = device.bind(self._kernel, self._grid, self.schedule.n_t, arguments)
        if self.schedule.kind != "dynamic":
            return run

        def from_the_first_row() -> None:
            device.fill(self._counter, 0)
            run()

        return from_the_first_row

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Queue one product of vectors in the layout's order."""
        if not hasattr(x, "pointer") or not hasattr(y, "pointer"):
            self.bind(x, y)()  # OpenCL's launches would keep their buffers alive
            return
        key = x.pointer, y.pointer
        if key not in self._bound:
            while len(self._bound) >= KEPT:
                self._bound.popitem(last=False)
            self._bound[key] = self.bind(x, y)
        self._bound[key]()
