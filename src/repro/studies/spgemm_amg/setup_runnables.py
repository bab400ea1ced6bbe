"""Runnables of multigrid: the set-up, level by level or as a whole, and the solution with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.runnable import ClockName, Runnable, Unsupported, not_prepared
from repro.bench.workspace import Workspace
from repro.devices.base import Buffer
from repro.sparse.device_work import ModuleFile, Work
from repro.sparse.dynamic.storage import Storage
from repro.sparse.multigrid.hierarchy import Coarsening, DeviceLevel, LevelLaunches, Multiply, NearNull, set_up_on
from repro.sparse.multigrid.reference import MultigridSettings, operator_complexity
from repro.sparse.multigrid.solver import Solver, SolveResult
from repro.sparse.spgemm.multiplication import CoordinateMultiplication, Multiplication
from repro.sparse.spgemm.rows import papers_plan
from repro.studies.spgemm_amg import TOLERANCE
from repro.studies.spgemm_amg.operands import AmgOperands, SetsUp, Solves, operands_of, upload

#: How products of a set-up are computed: by our kernels, by the paper's, and by sorting all products.
SetUpMethod = Literal["default", "sort", "coordinates"]
#: Steps of a solver at the most.
MAX_STEPS = 500
#: What a level's set-up consists of.
PHASES = ("diagonal", "aggregates", "tentative", "radius", "prolongator", "transpose", "galerkin")


def multiply_by(work: Work, method: SetUpMethod) -> Multiply:
    """Return what multiplies by a method."""
    dtype = operands_of(work.workspace).dtype
    if method == "coordinates":
        return CoordinateMultiplication(work.device, work.program).multiply
    plan = papers_plan(work.device.target, dtype.itemsize) if method == "sort" else None
    return Multiplication(work.device, work.program, dtype, plan).in_one_phase


class OnMultigrid(Runnable):
    """What is done with modules of products and of multigrid.

    Parameters
    ----------
    built
        The modules of a precision by name.
    """

    kind = "variant"
    cold = False
    clocks: tuple[ClockName, ...] = ("host",)

    def __init__(self, built: Mapping[str, ModuleFile]) -> None:
        self._built = built
        self._held = ExitStack()
        self._said: dict[str, Any] = {}

    @property
    def identity(self) -> str:
        """The hashes of all modules."""
        return " ".join(built.module.hash for built in self._built.values())

    def prepare(self, workspace: Workspace) -> None:
        """Bring what it needs to the device and bind its kernels.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            work = Work(workspace, self._built, held)
            self.bind(work, operands_of(workspace))
            self._held = held.pop_all()

    def bind(self, work: Work, operands: AmgOperands) -> None:
        """Do what `prepare` does; what is held is given to `work`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give all memory back."""
        self._held, held = ExitStack(), self._held
        held.close()
        self.launch = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)


class SetUp(OnMultigrid, SetsUp):
    """A whole hierarchy, from the matrix on the device."""

    def __init__(self, built: Mapping[str, ModuleFile], method: SetUpMethod) -> None:
        super().__init__(built)
        self._method: SetUpMethod = method
        self.name = f"setup/{method}"
        self._levels: list[DeviceLevel] = []
        self._fresh: Callable[[], Storage] | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, by which products."""
        return {"what": "setup", "method": self._method, **self._said}

    def bind(self, work: Work, operands: AmgOperands) -> None:
        """Bring the matrix to the device; each hierarchy gets it as its finest level."""
        a = work.keep(upload(work.workspace, operands.a))
        multiply = multiply_by(work, self._method)
        levels = operands.levels
        self._said = {
            "levels": len(levels),
            "rows": operands.a.shape[0],
            "nonzeros": int(operands.a.nnz),
            "complexity": operator_complexity([*levels]),
        }

        def set_up() -> list[DeviceLevel]:
            a.retain()  # a hierarchy gives its matrices back
            return set_up_on(work.device, work.program, a, operands.given_null, operands.unknowns, multiply=multiply)

        def launch() -> None:
            self._levels = set_up()

        self.launch = launch
        self._said["peak_bytes"] = work.device.pool_growth(lambda: _release(set_up()))

    def before(self) -> None:
        """Give the hierarchy of the launch before back."""
        levels, self._levels = self._levels, []
        _release(levels)

    def result(self) -> Sequence[sp.csr_array]:
        """Wait, and return the matrices of all levels."""
        return [level.a.download().to_csr() for level in self._levels]

    def release(self) -> None:
        """Give all memory back."""
        self.before()
        super().release()


class LevelSetUp(OnMultigrid):
    """What makes the next level of one, phase by phase; the levels before it are there."""

    def __init__(self, built: Mapping[str, ModuleFile], level: int) -> None:
        super().__init__(built)
        self._level = level
        self.name = f"setup/level-{level}"
        self.stages = dict.fromkeys(PHASES, not_prepared)
        self._of_launch = ExitStack()

    @property
    def columns(self) -> Mapping[str, Any]:
        """Which level."""
        return {"what": "level", "method": "default", "level": self._level, **self._said}

    def bind(self, work: Work, operands: AmgOperands) -> None:
        """Make the levels before, as the set-up does.

        Raises
        ------
        Unsupported
            There is no next level.
        """
        if self._level + 1 >= len(operands.levels):
            raise Unsupported(f"level {self._level} is the coarsest")
        a = work.keep(upload(work.workspace, operands.a))
        vectors = np.ascontiguousarray(operands.near_null, operands.dtype)
        near = NearNull(work.keep(work.device.upload(vectors.ravel())), vectors.shape[1])
        unknowns = operands.unknowns
        for _ in range(self._level):
            steps = LevelSteps(work, a, unknowns, near, work.at_end)
            for name in PHASES:
                getattr(steps, name)()
            a, near, unknowns = steps.coarse, steps.coarse_near, near.count
        self._said = {"rows": a.shape[0], "nonzeros": a.report().pointer, "levels": len(operands.levels)}
        given = a, unknowns, near
        current: list[LevelSteps] = []

        def stage(name: str) -> Callable[[], None]:
            def launch() -> None:
                if name == PHASES[0]:
                    current[:] = [LevelSteps(work, *given, self._of_launch.callback)]
                getattr(current[0], name)()

            return launch

        stages = {name: stage(name) for name in PHASES}
        self.stages = stages

        def launch() -> None:
            for part in stages.values():
                part()

        self.launch = launch

    def before(self) -> None:
        """Give what the launch before made back."""
        self._of_launch.close()

    def release(self) -> None:
        """Give all memory back."""
        self.before()
        super().release()


class LevelSteps:
    """The phases of making the next level of one, to be taken in their order.

    Parameters
    ----------
    work
        Where it works.
    a, unknowns, near
        The level's matrix, the unknowns of a node, and what the matrix nearly takes to 0.
    at_end
        Told what gives memory back.

    Attributes
    ----------
    coarse, coarse_near
        The next level's matrix and vectors, after the last phase.
    """

    def __init__(
        self,
        work: Work,
        a: Storage,
        unknowns: int,
        near: NearNull,
        at_end: Callable[[Callable[[], object]], object],
    ) -> None:
        self._work, self._a, self._unknowns, self._near, self._at_end = work, a, unknowns, near, at_end
        dtype = operands_of(work.workspace).dtype
        held = ExitStack()
        at_end(held.close)
        multiply = Multiplication(work.device, work.program, dtype).in_one_phase
        self._step = Coarsening(LevelLaunches(work.device, work.program, dtype, held), multiply, MultigridSettings())
        self._level: DeviceLevel
        self._aggregates: tuple[Buffer, Buffer, int]
        self._radius = 0.0
        self._t: Storage
        self._p: Storage
        self._r: Storage
        self.coarse: Storage
        self.coarse_near: NearNull

    def diagonal(self) -> None:
        """Find the diagonal."""
        self._level = DeviceLevel(self._a, self._a.report().pointer, self._step.diagonal(self._a))
        self._at_end(self._level.diagonal.release)

    def aggregates(self) -> None:
        """Aggregate the nodes."""
        self._aggregates = self._step.aggregates(self._level, self._unknowns)
        self._at_end(self._aggregates[0].release)

    def tentative(self) -> None:
        """Make the tentative prolongator."""
        named, keys, count = self._aggregates
        nodes = self._a.shape[0] // self._unknowns
        self._t, self.coarse_near = self._step.tentative(named, keys, nodes, count, self._unknowns, self._near)
        self._at_end(self.coarse_near.vectors.release)

    def radius(self) -> None:
        """Estimate the spectral radius."""
        self._radius = self._step.radius(self._level)

    def prolongator(self) -> None:
        """Smooth the prolongator."""
        named, count = self._aggregates[0], self._near.count
        self._p = self._step.prolongator(self._level, named, self._t, self._unknowns, count, self._radius)
        self._at_end(self._p.release)

    def transpose(self) -> None:
        """Transpose it."""
        self._r = self._step.transposed(self._p)
        self._at_end(self._r.release)

    def galerkin(self) -> None:
        """Multiply R (A P)."""
        self.coarse = self._step.coarse(self._a, self._p, self._r)[0]
        self._at_end(self.coarse.release)


class Solution(OnMultigrid, Solves):
    """A solution of A x = b by conjugate gradients with a V-cycle each, from x = 0."""

    name = "solve/cg"

    def __init__(self, built: Mapping[str, ModuleFile]) -> None:
        super().__init__(built)
        self._clear: Callable[[], None] = not_prepared
        self._read: Callable[[], NDArray[np.floating]] | None = None

    @property
    def columns(self) -> Mapping[str, Any]:
        """How many steps it took."""
        return {"what": "solve", "method": "default", **self._said}

    def bind(self, work: Work, operands: AmgOperands) -> None:
        """Set the hierarchy up."""
        a = upload(work.workspace, operands.a)
        levels = set_up_on(work.device, work.program, a, operands.given_null, operands.unknowns)
        work.at_end(lambda: _release(levels))
        solver = work.keep(Solver(work.device, work.program, levels))
        work.device.write(solver.b, operands.b)
        self._said = {"levels": len(levels), "rows": operands.a.shape[0], "nonzeros": int(operands.a.nnz)}
        self._read = lambda: work.download(solver.x, operands.a.shape[0], operands.dtype)
        self._clear = lambda: work.device.fill(solver.x, 0)

        def launch() -> None:
            self._tell(solver.conjugate_gradients(TOLERANCE, MAX_STEPS))

        self.launch = launch

    def _tell(self, solved: SolveResult) -> None:
        self._said["iterations"] = len(solved.residuals) - 1

    def before(self) -> None:
        """Begin at 0 again."""
        self._clear()

    def result(self) -> NDArray[np.floating]:
        """Wait, and return x."""
        assert self._read is not None
        return self._read()


def _release(levels: Sequence[DeviceLevel]) -> None:
    for level in levels:
        level.release()
