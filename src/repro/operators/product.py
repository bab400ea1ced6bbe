"""y = A x on a device, with the matrix packed and its kernel compiled."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np

from repro.bench.variant import Variant
from repro.bench.workspace import Operands, Workspace
from repro.codegen.render import render_module
from repro.codegen.schedules import Schedule
from repro.devices.base import Buffer, OutOfDeviceMemory, Program
from repro.formats.layout import Layout
from repro.operators.arrays import Kind
from repro.operators.runtime import Runtime, templates
from repro.operators.vectors import Vectors
from repro.problems.problem import Problem

STUDY = "compound_spmv"
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
        Whether these are a user's vectors as they are: AoS, unknowns not renumbered.
    nbytes
        Bytes of the packed matrix.

    Raises
    ------
    ReproError
        The kernel cannot be compiled, or the matrix is too large for the device or for 32-bit indices.
    """

    def __init__(self, runtime: Runtime, problem: Problem, precision: str, layout: Layout, schedule: Schedule) -> None:
        self.runtime, self.layout, self.schedule = runtime, layout, schedule
        kind = Kind(problem.entry, precision)
        source = render_module(templates(), STUDY, problem.entry, precision, layout, [schedule], runtime.device.target)
        name = f"{STUDY}/{problem.entry}-{precision}/{layout.stored}-{schedule}"
        self._variant = Variant(layout, schedule, *runtime.compiled(source, name))
        self._workspace = _Workspace(runtime, problem, kind)
        try:
            packed, _ = self._workspace.matrix(layout)
        except OutOfDeviceMemory as error:
            raise runtime.no_room(error) from None
        self.nbytes = packed.nbytes
        self.direct = layout.unknowns == "natural" and layout.vector == "AoS"
        rows = None if layout.unknowns == "natural" else self._workspace.permutation(layout.unknowns)
        self.vectors = Vectors(runtime, problem.n, kind, layout.vector, rows)
        self._bound: OrderedDict[tuple[int, int], Callable[[], None]] = OrderedDict()

    def bind(self, x: Buffer, y: Buffer) -> Callable[[], None]:
        """Return what queues one product of vectors in the layout's order."""
        self._workspace.given = x, y
        self._variant.prepare(self._workspace)
        return self._variant.launch

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


class _Workspace(Workspace):
    """A workspace that has no operands of its own: x and y are a user's.

    Attributes
    ----------
    given
        x and y, in the order of the layout that is bound next.
    """

    given: tuple[Buffer, Buffer]

    def __init__(self, runtime: Runtime, problem: Problem, kind: Kind) -> None:
        none = np.empty((0, kind.algebra.size))
        operands = Operands(problem, kind.precision, none.astype(kind.scalar), none, none)
        # nothing is verified or timed here: that is what the common module is for
        super().__init__(runtime.device, operands, cast(Program, None), "")
        self._runtime = runtime

    def program(self, binary: Path) -> Program:
        """Return a module, loaded once for all operators."""
        return self._runtime.load(binary)

    def x(self, order: str, ordering: str = "natural") -> Buffer:
        """Return the x that is given."""
        return self.given[0]

    @property
    def y(self) -> Buffer:
        """The y that is given."""
        return self.given[1]
