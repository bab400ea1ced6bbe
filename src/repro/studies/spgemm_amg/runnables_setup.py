"""Runnables of multigrid: the set-up, level by level or as a whole, and the solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import ClockName
from repro.bench.runnable import not_prepared
from repro.devices.base import Buffer
from repro.errors import Unsupported
from repro.sparse.device_primitives import ModuleFile, RunnableContext
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid.hierarchy import (
    Coarsening,
    DeviceLevel,
    LevelLaunches,
    LevelReadback,
    Multiply,
    NearNull,
    set_up_hierarchy,
)
from repro.sparse.multigrid.reference import MultigridSettings, operator_complexity
from repro.sparse.multigrid.solver import Solver, SolveResult
from repro.sparse.spgemm.binned_rows import papers_shapes
from repro.sparse.spgemm.multiplication import CoordinateMultiplication, Multiplication
from repro.studies.spgemm_amg import SETUP_STAGES, TOLERANCE
from repro.studies.spgemm_amg.operands import SetupRunnable, SolveRunnable, StackedRunnable, operands_of, upload

#: Methods for the products in a set-up: our kernels, the paper's kernels, or sorting all products.
SetUpMethod = Literal["default", "sort", "coordinates"]
SET_UP_METHODS: tuple[SetUpMethod, ...] = get_args(SetUpMethod)
#: Maximum number of solver steps.
MAX_STEPS = 500


class MultigridRunnable(StackedRunnable):
    """A runnable that uses the modules of products and of multigrid."""

    kind = "variant"
    clocks: tuple[ClockName, ...] = ("host",)

    @property
    def identity(self) -> str:
        return " ".join(module_file.module.hash for module_file in self._built.values())


class SetUp(MultigridRunnable, SetupRunnable):
    """The set-up of a whole hierarchy, from the matrix on the device."""

    def __init__(self, modules: Mapping[str, ModuleFile], method: SetUpMethod) -> None:
        super().__init__(modules)
        self._method: SetUpMethod = method
        self.name = f"setup/{method}"
        self._levels: list[DeviceLevel] = []

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "setup", "method": self._method, **self._amounts}

    def bind(self, work: RunnableContext) -> None:
        operands = operands_of(work.workspace)
        a = work.keep(upload(work.workspace, operands.a))
        if self._method == "coordinates":
            multiply: Multiply = CoordinateMultiplication(work.device, work.load).multiply
        else:
            by_products = papers_shapes(work.device.target, operands.dtype.itemsize) if self._method == "sort" else None
            multiplication = Multiplication(work.device, work.load, operands.dtype, by_products)
            multiply = multiplication.multiply_in_one_phase if by_products else multiplication.multiply
        self._amounts = {
            "levels": len(operands.levels),
            "rows": operands.a.shape[0],
            "nonzeros": int(operands.a.nnz),
            "complexity": operator_complexity([*operands.levels]),
        }

        def run_set_up() -> list[DeviceLevel]:
            a.retain()  # the hierarchy releases its matrices
            return set_up_hierarchy(
                work.device, work.load, a, operands.given_null, operands.unknowns, multiply=multiply
            )

        def launch() -> None:
            self._levels = run_set_up()

        self.launch = launch
        self._amounts["peak_bytes"] = work.device.pool_growth(lambda: _release(run_set_up()))

    def before(self) -> None:
        levels, self._levels = self._levels, []
        _release(levels)

    def result(self) -> Sequence[sp.csr_array]:
        return [level.a.download().to_csr() for level in self._levels]

    def release(self) -> None:
        self.before()
        super().release()


class LevelSetUp(MultigridRunnable):
    """The set-up of the next level from one level, stage by stage; all levels above exist already."""

    def __init__(self, modules: Mapping[str, ModuleFile], level: int) -> None:
        super().__init__(modules)
        self._level = level
        self.name = f"setup/level-{level}"
        self.stages = dict.fromkeys(SETUP_STAGES, not_prepared)
        self._of_launch = ExitStack()

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "level", "method": "default", "level": self._level, **self._amounts}

    def bind(self, work: RunnableContext) -> None:
        operands = operands_of(work.workspace)
        if self._level + 1 >= len(operands.levels):
            raise Unsupported(f"level {self._level} is the coarsest")
        a = work.keep(upload(work.workspace, operands.a))
        vectors = np.ascontiguousarray(operands.near_null, operands.dtype)
        near_null = NearNull(work.keep(work.device.upload(vectors.ravel())), vectors.shape[1])
        unknowns = operands.unknowns
        for _ in range(self._level):
            steps = LevelSteps(work, a, unknowns, near_null, work.stack.callback)
            for name in SETUP_STAGES:
                getattr(steps, name)()
            a, near_null, unknowns = steps.coarse, steps.coarse_near, near_null.count
        self._amounts = {"rows": a.shape[0], "nonzeros": a.report().pointer, "levels": len(operands.levels)}
        level_input = a, unknowns, near_null
        current: list[LevelSteps] = []

        def stage(name: str) -> Callable[[], None]:
            def launch() -> None:
                with work.device.pooling():  # as in a whole set-up
                    if name == "radius":
                        current[:] = [LevelSteps(work, *level_input, self._of_launch.callback)]
                    getattr(current[0], name)()

            return launch

        stages = {name: stage(name) for name in SETUP_STAGES}
        self.stages = stages

        def launch() -> None:
            for part in stages.values():
                part()

        self.launch = launch

    def before(self) -> None:
        self._of_launch.close()

    def release(self) -> None:
        self.before()
        super().release()


class LevelSteps:
    """The phases for making the next level from one level, in order; `at_end` collects releases of memory."""

    def __init__(
        self,
        work: RunnableContext,
        a: Storage,
        unknowns: int,
        near_null: NearNull,
        on_exit: Callable[[Callable[[], object]], object],
    ) -> None:
        self._work, self._a, self._unknowns, self._near, self._at_end = work, a, unknowns, near_null, on_exit
        dtype = operands_of(work.workspace).dtype
        stack = ExitStack()
        on_exit(stack.close)
        multiply = Multiplication(work.device, work.load, dtype).multiply
        self._step = Coarsening(LevelLaunches(work.device, work.load, dtype, stack), multiply, MultigridSettings())
        self._level: DeviceLevel
        self._aggregates: Buffer
        self._facts: LevelReadback
        self._laid_out: Storage | None
        self._t: Storage
        self._p: Storage
        self._r: Storage
        #: The next level's matrix and its near null space; set by the last stage.
        self.coarse: Storage
        self.coarse_near: NearNull

    def radius(self) -> None:
        diagonal = self._work.device.allocate(max(self._a.shape[0], 1) * self._a.dtype.itemsize)
        self._at_end(diagonal.release)
        self._level = DeviceLevel(self._a, self._a.report().pointer, diagonal, unknowns=self._unknowns)
        self._step.measure(self._level)()

    def aggregates(self) -> None:
        self._aggregates = self._step.aggregates(self._level)
        self._at_end(self._aggregates.release)
        self._laid_out = self._step.lay_out(self._level, self._aggregates, self._near.count)
        if self._laid_out is not None:
            self._at_end(self._laid_out.release)
        self._facts = self._step.read(self._level)

    def tentative(self) -> None:
        prolongator = self._step.tentative(self._level, self._aggregates, self._facts.aggregates, self._near)
        self._t, self.coarse_near = prolongator
        self._at_end(self.coarse_near.vectors.release)

    def prolongator(self) -> None:
        level_arguments = self._level, self._aggregates, self._t, self._near.count
        self._p = self._step.prolongator(*level_arguments, self._facts, self._laid_out)
        if self._laid_out is None:
            self._at_end(self._p.release)

    def transpose(self) -> None:
        self._r = self._step.transposed(self._p)
        self._at_end(self._r.release)

    def galerkin(self) -> None:
        self.coarse = self._step.coarse(self._a, self._p, self._r)[0]
        self._at_end(self.coarse.release)


class Solution(MultigridRunnable, SolveRunnable):
    """A solution of A x = b by conjugate gradients from x = 0, with one V-cycle per step as preconditioner."""

    name = "solve/cg"

    def __init__(self, modules: Mapping[str, ModuleFile]) -> None:
        super().__init__(modules)
        self._clear: Callable[[], None] = not_prepared
        self._read: Callable[[], NDArray[np.floating]] | None = None
        self._solved: SolveResult | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "solve", "method": "default", **self._amounts}

    def bind(self, work: RunnableContext) -> None:
        operands = operands_of(work.workspace)
        a = upload(work.workspace, operands.a)
        levels = set_up_hierarchy(work.device, work.load, a, operands.given_null, operands.unknowns)
        work.stack.callback(lambda: _release(levels))
        solver = work.keep(Solver(work.device, work.load, levels))
        work.device.write(solver.b, operands.b)
        self._amounts = {"levels": len(levels), "rows": operands.a.shape[0], "nonzeros": int(operands.a.nnz)}
        self._read = lambda: work.download(solver.x, operands.a.shape[0], operands.dtype)
        self._clear = lambda: work.device.fill(solver.x, 0)

        def launch() -> None:
            self._solved = solver.conjugate_gradients(TOLERANCE, MAX_STEPS)
            self._amounts["iterations"] = len(self._solved.residuals) - 1

        self.launch = launch

    def before(self) -> None:
        self._clear()

    def result(self) -> NDArray[np.floating]:
        assert self._read is not None
        return self._read()

    @property
    def shortfall(self) -> str | None:
        if self._solved is None or self._solved.converged:
            return None
        steps = len(self._solved.residuals) - 1
        return f"it has not converged after {steps} iterations, b - A x being {self._solved.reached:.3g} of b"


def _release(levels: Sequence[DeviceLevel]) -> None:
    for level in levels:
        level.release()
