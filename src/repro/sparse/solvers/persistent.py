"""Persistent conjugate gradients and BiCGSTAB: many iterations in one launch, with the matrix in shared memory.

Each block of a launch computes the same rows in every iteration. It keeps as many slices of its rows in shared memory
as fit, and reads the others from L2. Between phases there is a barrier of all blocks. A device without cooperative
launches, such as a CPU, gets a launch for each phase, with the same arithmetic. `PersistentRun` times and verifies a
BiCGSTAB solve with a fixed number of iterations, beside the solvers with a launch per product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from repro.bench.guards import Guards
from repro.bench.runnable import Workspace
from repro.codegen.build_cache import Module
from repro.devices.base import Argument, Buffer, Device, Program
from repro.errors import ReproError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.device_primitives import Owner
from repro.sparse.operands import operands_of
from repro.sparse.ordering import cluster_rows
from repro.sparse.solvers.bicgstab import FixedIterations, expect, judge_error, residual_error, true_residual
from repro.sparse.solvers.kernels import KINDS, PERSISTENT_BLOCK_SIZE, STATES, CgState, StopReason, held_rows
from repro.sparse.solvers.slices import LANES, Kept, Slices, assign_rows, keep_slices

#: Vectors of each method, in the order of kernel parameters. Only u is read by blocks that do not own the row.
VECTORS = {"cg": ("x", "r", "p", "s", "w", "u"), "bicgstab": ("x", "r", "p", "v", "t", "shadow", "u")}
#: Phases of an iteration; each is a kernel if every phase is a launch of its own.
PHASES = {"cg": ("multiply", "update"), "bicgstab": ("project", "half_step", "dot_products", "full_step")}
#: Phases that run once more after the last iteration, to compute (r, r).
LAST_PHASES = {"cg": ("multiply",), "bicgstab": ()}
#: Bytes of shared memory per block that are not available for slices: kernels declare some, the system takes 1 KiB.
OWN_SHARED = 2048
#: Targeted seconds of a launch; and an estimate of an iteration: seconds of a barrier of all blocks, and memory
#: bandwidth.
LAUNCH_SECONDS, WAIT_SECONDS, BYTES_PER_SECOND = 5e-3, 6e-6, 1e12
#: A restart from x is worthwhile if the norm of b - A x has decreased to this share.
PROGRESS = 0.5
#: A residual below this multiple of the estimated rounding error is not expected to decrease further.
AT_ROUNDING = 20

Method = Literal["cg", "bicgstab"]
Status = Literal["converged", "limit", "rounding", "breakdown", "not finite"]


@dataclass(frozen=True)
class Progress:
    """State of a running solve, read back from the device."""

    #: Finished iterations since `reset`.
    iterations: int
    #: Euclidean norms of the recurrence's r, and of b.
    residual: float
    norm_of_b: float
    reason: StopReason


@dataclass(frozen=True)
class PersistentSolution:
    """Result of a solve; x stays in device memory."""

    #: `converged`: the norm of b - A x is at most the tolerance times that of b. `limit`: the allowed iterations are
    #: done. `rounding`: the recurrence has converged, but b - A x computed from x no longer decreases. `breakdown`: a
    #: divisor is zero; in conjugate gradients, (p, A p) is not positive. `not finite`: a sum is infinite or NaN.
    status: Status
    iterations: int
    #: Euclidean norms of b - A x, computed in the working precision from x, and of b.
    residual: float
    norm_of_b: float


class RestartedSolver(Owner, ABC):
    """Host part of a solver on a device: it reads the state back, restarts the recurrence from x, and stops.

    Attributes
    ----------
    x, b
        Device memory of the solution and of the right-hand side, in the solver's order.
    """

    x: Buffer
    b: Buffer

    def __init__(self, device: Device, dtype: np.dtype[Any], state_type: type[IntEnum]) -> None:
        self._device, self._dtype, self._state_type = device, dtype, state_type
        self._state: Buffer
        self._stack = ExitStack()

    @abstractmethod
    def begin(self) -> None:
        """Queue r = b - A x and the start of the recurrence from it."""

    @abstractmethod
    def iterate(self, count: int) -> None:
        """Queue up to `count` iterations; none are executed after the recurrence has stopped."""

    @abstractmethod
    def iterations_of_launch(self) -> int:
        """Return how many iterations the host queues before it reads the state: they take about `LAUNCH_SECONDS`."""

    @abstractmethod
    def rounding(self) -> float:
        """Return an estimate of the part of norm(b - A x) that is due to rounding of x and of products."""

    def reset(self) -> None:
        """Clear the state: the count of iterations, and the residual at which the recurrence stops."""
        self._device.fill(self._state, 0)

    def progress(self) -> Progress:
        """Wait for queued work and return the state of the solve."""
        state = np.empty(len(self._state_type))
        self._device.download(self._state, state)
        with np.errstate(invalid="ignore"):
            return Progress(
                int(state[CgState.ITERATIONS]),
                float(np.sqrt(state[CgState.RR])),
                float(np.sqrt(state[CgState.BB])),
                StopReason(int(state[CgState.REASON])),
            )

    def stop_at(self, residual: float) -> None:
        """Set the residual at which the recurrence stops."""
        self._device.write(self._state, np.array([residual**2]))  # word 0 is `LIMIT`

    def solve(
        self,
        tolerance: float,
        max_iterations: int,
        check_every: int | None = None,
        *,
        absolute: float = 0.0,
        observe: Callable[[], None] | None = None,
    ) -> PersistentSolution:
        """Solve A x = b from the current x, in at most `max_iterations` iterations.

        The solve has converged if the norm of b - A x, computed from x, is at most `tolerance` times that of b, or
        `absolute` if this is larger. If the recurrence has stopped at a larger residual, it is restarted from x as long
        as this reduces the residual. The host reads the state after every `check_every` iterations; with `observe`,
        which is called after each iteration, after every single one. If the norm of b is 0, the solution is x = 0.
        """
        check_every = 1 if observe is not None else check_every or self.iterations_of_launch()
        self.reset()
        self.begin()
        progress = self.progress()
        norm_of_b, previous_residual, stop_reason = progress.norm_of_b, math.inf, StopReason.NONE
        if norm_of_b == 0:
            self._device.fill(self.x, 0)
            return PersistentSolution("converged", 0, 0.0, 0.0)
        limit = max(tolerance * norm_of_b, absolute)
        least = float(np.finfo(self._dtype).eps) / 16  # a smaller residual of the recurrence says nothing about x
        self.stop_at(max(limit, least * norm_of_b))
        while (status := self._judge(progress, limit, previous_residual, stop_reason, max_iterations)) is None:
            previous_residual = progress.residual
            while progress.reason == StopReason.NONE and progress.iterations < max_iterations:
                before = progress.iterations
                self.iterate(min(check_every, max_iterations - before))
                progress = self.progress()
                if observe is not None and progress.iterations > before:
                    observe()
            stop_reason = progress.reason
            self.begin()
            progress = self.progress()
        return PersistentSolution(status, progress.iterations, progress.residual, norm_of_b)

    def _judge(
        self, progress: Progress, limit: float, previous_residual: float, stop_reason: StopReason, max_iterations: int
    ) -> Status | None:
        """Return the final status of a solve, or None while it continues.

        `previous_residual` is the residual at the last restart.
        """
        if not math.isfinite(progress.residual) or not math.isfinite(limit):
            return "not finite"
        if progress.residual <= limit:
            return "converged"
        if stop_reason == StopReason.NOT_FINITE:
            return "not finite"
        if progress.iterations >= max_iterations:
            return "limit"
        if progress.residual <= PROGRESS * previous_residual:
            return None
        return (
            "rounding" if stop_reason == StopReason.CONVERGED or progress.residual <= self.rounding() else "breakdown"
        )


class PersistentSolver(RestartedSolver):
    """Persistent solver: rows of a matrix assigned to the blocks of a device, vectors, and the kernels bound to them.

    `program` is the module of `render_persistent` for the entry and precision that `kernels` names; b and x are device
    memory in the order of `slices.rows`. `kept`, from `keep_slices`, says what blocks keep in shared memory. `together`
    False launches each phase by itself.
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        slices: Slices,
        method: Method,
        kernels: tuple[str, str],
        kept_slices: Kept,
        together: bool = True,
        guards: Guards | None = None,
    ) -> None:
        guards = guards or Guards(device)
        self.slices, self.method = slices, method
        super().__init__(device, slices.scale.dtype, STATES[method])
        n_t = PERSISTENT_BLOCK_SIZE[device.backend]
        blocks, vector_bytes = slices.blocks, slices.scale.nbytes
        with ExitStack() as stack:

            def keep(array: NDArray[Any], name: str) -> Buffer:
                guarded_buffer = guards.allocate(array.nbytes, f"the solver's {name}")
                stack.callback(guarded_buffer.release)
                if array.nbytes:
                    device.write(guarded_buffer.memory, array)
                return guarded_buffer.memory

            zeros = partial(np.zeros, vector_bytes, np.uint8)
            matrix = [
                keep(array, name)
                for name, array in (("slices", slices.slices), ("starts", slices.starts), ("columns", slices.columns),
                                    ("values", slices.values), ("diagonal", slices.scale))
            ]  # fmt: skip
            self.b = keep(zeros(), "b")
            vectors = {name: keep(zeros(), name) for name in VECTORS[method]}
            self.x = vectors["x"]
            parts = keep(np.zeros(KINDS * blocks), "sums")
            self._state = keep(np.zeros(len(self._state_type)), "state")
            vector_buffers = list(vectors.values())

            def bind(name: str, *arguments: Argument, grid: int = blocks) -> Callable[[], None]:
                return device.bind(program.kernel(name), grid, n_t, arguments)

            self._begin = [
                bind("begin", *matrix, self.b, *vector_buffers, parts),
                bind("begin_state", np.int32(blocks), parts, self._state, grid=1),
            ]
            phases = {name: bind(name, *matrix, *vector_buffers, parts, self._state) for name in PHASES[method]}
            self._phases = list(phases.values())
            settle = bind("sum_residual", np.int32(blocks), parts, self._state, grid=1)
            self._last_phases = [*(phases[name] for name in LAST_PHASES[method]), settle]
            self._many: Callable[[int], Callable[[], None]] | None = None
            self.kept_bytes = 0
            rows = held_rows(method, *kernels, slices.max_slices_per_warp(n_t // LANES))
            name = f"iterate_{kept_slices.form}_{rows}"
            kernel = device.cooperative(program, name, n_t, kept_slices.max_bytes) if together else None
            if kernel is not None and kernel.resident >= blocks:
                self.kept_bytes = kept_slices.steps * slices.step_bytes
                chip_arguments = [keep(kept_slices.ends, "places of kept slices")]
                if kept_slices.form == "table":
                    chip_arguments += [
                        keep(kept_slices.images, "tables"),
                        keep(kept_slices.image_places, "places of tables"),
                    ]
                arguments = [*matrix, *chip_arguments, *vector_buffers, parts, self._state]

                def many(count: int) -> Callable[[], None]:
                    return kernel.bind(blocks, [*arguments, np.int32(count)])

                self._many = many
            self._bound: dict[int, Callable[[], None]] = {}
            self._stack = stack.pop_all()

    @property
    def runs_together(self) -> bool:
        """Whether a single launch runs many iterations."""
        return self._many is not None

    def iterations_of_launch(self) -> int:
        seconds = WAIT_SECONDS + self.slices.nbytes / BYTES_PER_SECOND
        return max(1, min(1000, int(LAUNCH_SECONDS / seconds)))

    def begin(self) -> None:
        for launch in self._begin:
            launch()

    def iterate(self, count: int) -> None:
        if self._many is None:
            for launch in self._phases * count + self._last_phases:
                launch()
            return
        if count not in self._bound:
            self._bound[count] = self._many(count)
        self._bound[count]()

    def rounding(self) -> float:
        slices = self.slices
        x = np.empty_like(slices.scale)
        self._device.download(self.x, x)
        x_bounds = np.abs(x).max(axis=1)[slices.columns].astype(np.float64)
        entry_bounds = np.abs(slices.values).max(axis=1)
        return AT_ROUNDING * float(np.finfo(x.dtype).eps) * float(np.linalg.norm(entry_bounds * x_bounds))

    def release(self) -> None:
        self._bound.clear()
        super().release()


#: Name of the product in result rows of persistent solvers, and name of the BiCGSTAB routine.
ON_CHIP, ROUTINE = "persistent", "persistent bicgstab"


def chip_room(device: Device) -> int:
    """Return the bytes of shared memory per block that can hold slices; 0 on a CPU."""
    return max(0, device.target.shared_bytes - OWN_SHARED) if device.backend == "cuda" else 0


#: Rows are clustered if two conditions hold: the matrix has at most this multiple of the bytes of all shared memory
#: (larger ones are mostly read from memory), and clustering increases the loaded sectors of x at most by this factor.
MAX_CLUSTERED, MAX_SECTORS = 4, 1.1


def deal_rows(matrix: Matrix, dtype: np.dtype[Any], device: Device) -> Slices:
    """Assign the rows of a matrix to the blocks of a device, clustered unless blocks then load clearly more of x.

    Raise `ReproError` if the matrix has too many slots.
    """
    block_arguments = device.sm_count, PERSISTENT_BLOCK_SIZE[device.backend] // LANES
    natural = assign_rows(matrix, dtype, *block_arguments)
    if natural.nbytes > MAX_CLUSTERED * device.sm_count * chip_room(device):
        return natural
    clustered = assign_rows(matrix, dtype, *block_arguments, cluster_rows(matrix))
    return clustered if clustered.sectors() <= MAX_SECTORS * natural.sectors() else natural


def slices_on(workspace: Workspace) -> Slices:
    """Return the rows as assigned to the blocks of a persistent solver; `Unsupported` if there are too many slots."""
    operands, device = operands_of(workspace), workspace.device

    def assigned() -> Slices:
        try:
            return deal_rows(operands.problem, operands.dtype, device)
        except ReproError as error:
            raise Unsupported(str(error)) from None

    return workspace.cached(ON_CHIP, assigned, lend_device=True)


def kept_on(workspace: Workspace) -> Kept:
    """Return which slices the blocks of a persistent solver keep in shared memory; computed once per workspace."""
    slices, room, entry = slices_on(workspace), chip_room(workspace.device), operands_of(workspace).problem.entry
    return workspace.cached((ON_CHIP, "kept"), lambda: keep_slices(slices, entry, room), lend_device=True)


class PersistentRun(FixedIterations):
    """A persistent BiCGSTAB solve from x = 0, without preconditioner, for real entries.

    Preparation verifies the norm of the recurrence's r and the norm of b - A x against a host solve in double
    precision.
    """

    routine = ROUTINE

    def __init__(self, module: Module, folder: Path, iterations: int = 10) -> None:
        super().__init__(f"bicgstab-{iterations}", ON_CHIP, module, folder)
        self._iterations = iterations

    def pack(self, workspace: Workspace) -> None:
        """Assign rows to blocks, and compute the expected residual on the host."""
        kept_on(workspace)
        expect(workspace, self._iterations, lend_device=True)

    def prepare(self, workspace: Workspace) -> None:
        """Upload the matrix and the right-hand side, solve once and verify.

        A wrong residual raises as in `SolverRun`.
        """
        program = self._load(workspace)
        operands, assigned_slices = operands_of(workspace), slices_on(workspace)
        slices = replace(assigned_slices, scale=np.ones_like(assigned_slices.scale))  # there is no preconditioner
        kernels = operands.problem.entry, operands.precision
        solver = PersistentSolver(
            workspace.device, program, slices, "bicgstab", kernels, kept_on(workspace), guards=workspace.guards
        )
        self._solver, self._matrix_bytes = solver, slices.nbytes
        workspace.device.write(solver.b, operands.x[slices.rows])
        zeros = np.zeros_like(slices.scale)
        read_again = 2 * self._iterations * (slices.nbytes - solver.kept_bytes + 2 * slices.scale.nbytes)
        self.bytes_moved = slices.nbytes + read_again

        def launch(iterations: int = self._iterations) -> None:
            workspace.device.fill(solver.x, 0)
            solver.begin()
            solver.iterate(iterations)

        expected = expect(workspace, self._iterations)
        launch(expected.iterations)
        x = zeros.astype(np.float64)
        solution = np.empty_like(slices.scale)
        workspace.device.download(solver.x, solution)
        x[slices.rows] = solution
        residuals = solver.progress().residual, true_residual(operands, x.ravel())
        self._error = residual_error(residuals, expected)
        judge_error(self._error, residuals, expected, workspace, self._iterations)
        self.launch = launch
