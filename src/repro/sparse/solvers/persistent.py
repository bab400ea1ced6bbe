"""Conjugate gradients and BiCGSTAB that stay on the chip: many iterations in one launch, the matrix in shared memory.

Each block of a launch has the same rows in every iteration. It keeps as many of their slices in shared memory as fit,
and reads the others from L2. Between phases all blocks wait for each other. A device that cannot launch blocks
together, such as a CPU, gets a launch for each phase, with the same arithmetic. `PersistentRun` times and verifies a
solve of BiCGSTAB with a fixed number of iterations, beside those by launches.

Rows are dealt to blocks in slices of 32 slots, one for each lane of a warp. A row has one lane, or several if it is
long or if rows are few, so that rows of any length cost little padding.
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
from repro.bench.runnable import Runnable, Workspace
from repro.codegen.build_cache import Module
from repro.devices.base import Argument, Buffer, Device, Program
from repro.entries import get_entry
from repro.errors import ModuleError, ReproError, Unsupported
from repro.problems.matrix import Matrix
from repro.sparse.operands import operands_of
from repro.sparse.solvers.bicgstab import error_of, expect, judge_error, true_residual
from repro.sparse.solvers.kernels import KINDS, PERSISTENT_BLOCK_SIZE, STATES, CgState, StopReason, held_rows

#: Slots of a step of a slice: the lanes of a warp.
LANES = 32
#: Cost of a row besides its slots, in slots: one for each vector of conjugate gradients. This and the limits below are
#: choices of this project, without a published source; `_lanes_of_rows` and `assign_rows` use them.
ROW_COST = 6
#: A row gets twice the lanes while a lane has more than `SHORT` slots, and more than `LONG` times the mean row's slots
#: per lane.
LONG, SHORT = 2, 8
#: All rows get twice the lanes while they fill less than this share of all warps, and a lane of the mean row keeps at
#: least `MIN_STEPS` slots.
FILLED, MIN_STEPS = 0.5, 4
#: Largest number of slots: kernels count them in int32.
MAX_SLOTS = (1 << 31) - 1


@dataclass(frozen=True)
class Slices:
    """A square matrix with m members per entry, as the kernels of a persistent solver read it."""

    #: int64 `(n,)`: row of the matrix for each row of the solver; columns are numbered alike.
    rows: NDArray[np.int64]
    #: int32 `(blocks + 1,)`: first slice of each block.
    starts: NDArray[np.int32]
    #: int32 `(slices, 4)`: first row, number of rows and lanes per row (rows + 64 · lanes), first step, steps.
    slices: NDArray[np.int32]
    #: int32 `(steps, 32)`: column of each slot; padding has value 0 and a column of its row.
    columns: NDArray[np.int32]
    #: `(steps, m, 32)`: members of each slot.
    values: NDArray[np.floating]
    #: `(n, k)`: reciprocal of the diagonal's real expansion, or 1 where the diagonal is 0 or absent.
    scale: NDArray[np.floating]
    #: Smallest number on the diagonal of the real expansion, and its row in the matrix.
    least: tuple[float, int]

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1

    @property
    def step_bytes(self) -> int:
        """Bytes of a step: values and columns of 32 slots."""
        return int(LANES * (self.values.shape[1] * self.values.itemsize + self.columns.itemsize))

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix."""
        return len(self.columns) * self.step_bytes

    def max_slices_per_warp(self, warps: int) -> int:
        """Return the largest number of slices of a warp, if a block deals its slices to `warps` warps in turn."""
        return int(-(-np.diff(self.starts).max(initial=0) // warps))

    def kept(self, capacity: int) -> NDArray[np.int32]:
        """Return the end of the slices that a block keeps in `capacity` bytes, for each block: its first ones."""
        ends = (self.slices[:, 2] + self.slices[:, 3]).astype(np.int64)
        firsts = self._first_steps()
        limits = firsts[:-1] + capacity // self.step_bytes
        kept = np.searchsorted(ends, limits, side="right").astype(np.int32)
        return np.clip(kept, self.starts[:-1], self.starts[1:]).astype(np.int32)

    def kept_bytes(self, kept: NDArray[np.int32]) -> tuple[int, int]:
        """Return the bytes that all blocks keep, and the most that one of them does."""
        ends = np.append(self.slices[:, 2], len(self.columns)).astype(np.int64)
        steps = ends[kept] - self._first_steps()[:-1]
        return int(steps.sum()) * self.step_bytes, int(steps.max(initial=0)) * self.step_bytes

    def _first_steps(self) -> NDArray[np.int64]:
        return np.append(self.slices[:, 2], len(self.columns)).astype(np.int64)[self.starts]


def assign_rows(matrix: Matrix, dtype: np.dtype[Any], blocks: int, warps: int) -> Slices:
    """Deal the rows of a matrix, of n ≥ 1 rows, to at most `blocks` blocks of `warps` warps each.

    Blocks get successive rows of about equal cost; or of equal number, where the most slices of a warp are fewer then.
    Inside a block, rows with as many lanes lie together, otherwise in
    their order. Raise `ReproError` if the matrix has too many slots.
    """
    n, indptr = matrix.n, matrix.indptr.astype(np.int64)
    lengths = np.diff(indptr)
    lanes = _lanes_of_rows(lengths, blocks * warps)
    steps = -(-lengths // lanes)
    dealt = None
    for costs in (lanes * (steps + ROW_COST), lanes):
        owners = _owners(costs, lanes, blocks)
        rows = np.lexsort((np.arange(n), lanes, owners))
        slices, starts, slice_of, place_of = _cut(owners[rows], lanes[rows], steps[rows])
        rounds = -(-np.diff(starts).max() // warps)
        if dealt is None or rounds < dealt[0]:
            dealt = rounds, rows, slices, starts, slice_of, place_of
    assert dealt is not None
    _, rows, slices, starts, slice_of, place_of = dealt
    count = int(slices[-1, 2] + slices[-1, 3])
    if count * LANES > MAX_SLOTS:
        raise ReproError(
            "the matrix is too large for a persistent solver",
            expected=f"at most {MAX_SLOTS:,} slots",
            actual=f"{count * LANES:,}",
            todo="solve with SciPy and the operator's product",
        )
    columns, values = _fill(matrix, dtype, rows, lanes, slices, slice_of, place_of, count)
    scale, least = invert_diagonal(matrix, dtype)
    return Slices(rows, starts, slices.astype(np.int32), columns, values, scale[rows], least)


def _lanes_of_rows(lengths: NDArray[np.int64], all_warps: int) -> NDArray[np.int64]:
    """Return the number of lanes of each row, a power of two: of all rows, and more of long ones."""
    mean, lanes = float(lengths.mean()), 1
    while lanes < LANES and len(lengths) * lanes < FILLED * all_warps * LANES and mean >= 2 * MIN_STEPS * lanes:
        lanes *= 2
    max_steps = max(SHORT, LONG * mean / lanes)
    excess = np.maximum(lengths / (max_steps * lanes), 1)
    more = np.exp2(np.ceil(np.log2(excess))).astype(np.int64)
    return np.minimum(lanes * more, LANES)


def _owners(costs: NDArray[np.int64], lanes: NDArray[np.int64], blocks: int) -> NDArray[np.int64]:
    """Return the block of each row: successive rows of equal cost, and at most as many blocks as there are slices."""
    blocks = min(blocks, -(-int(lanes.sum()) // LANES))
    before = np.cumsum(costs) - costs / 2
    owners: NDArray[np.int64] = np.minimum((before * blocks / costs.sum()).astype(np.int64), blocks - 1)
    return np.unique(owners, return_inverse=True)[1].astype(np.int64)


def _cut(
    owners: NDArray[np.int64], lanes: NDArray[np.int64], steps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Cut rows, in the solver's order, into slices; return these, the first of each block, and each row's slice and
    place in it.
    """
    n = len(owners)
    runs = np.flatnonzero(np.append(True, (owners[1:] != owners[:-1]) | (lanes[1:] != lanes[:-1])))
    run_of = np.repeat(np.arange(len(runs)), np.diff(np.append(runs, n)))
    heights = LANES // lanes
    in_run = np.arange(n) - runs[run_of]
    slices_of_run = -(-np.diff(np.append(runs, n)) // heights[runs])
    slice_of = (np.cumsum(slices_of_run) - slices_of_run)[run_of] + in_run // heights
    place_of = in_run % heights
    firsts = np.flatnonzero(place_of == 0)
    widths = np.maximum.reduceat(steps, firsts)
    counts = np.diff(np.append(firsts, n))
    slices = np.stack([firsts, counts + 64 * lanes[firsts], np.cumsum(widths) - widths, widths], axis=1)
    starts = np.searchsorted(owners[firsts], np.arange(owners[-1] + 2)).astype(np.int32)
    return slices, starts, slice_of, place_of


def _fill(
    matrix: Matrix, dtype: np.dtype[Any], rows: NDArray[np.int64], lanes: NDArray[np.int64],
    slices: NDArray[np.int64], slice_of: NDArray[np.int64], place_of: NDArray[np.int64], count: int,
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:  # fmt: skip
    """Return columns and values of all slots."""
    number = np.empty(matrix.n, np.int64)
    number[rows] = np.arange(matrix.n)
    lengths = np.diff(matrix.indptr).astype(np.int64)
    row = np.repeat(number, lengths)  # the solver's row of each entry
    of_row = lanes[rows][row]
    place = np.arange(len(row)) - np.repeat(matrix.indptr[:-1].astype(np.int64), lengths)
    step = slices[slice_of[row], 2] + place // of_row
    lane = place_of[row] * of_row + place % of_row
    columns = np.repeat(slices[:, 0], slices[:, 3]).astype(np.int32)[:, None].repeat(LANES, axis=1)
    columns[step, lane] = number[matrix.indices]
    members = matrix.values.shape[1]
    values = np.zeros((count, members, LANES), dtype)
    values[step[:, None], np.arange(members), lane[:, None]] = matrix.values
    return columns, values


def invert_diagonal(matrix: Matrix, dtype: np.dtype[Any]) -> tuple[NDArray[np.floating], tuple[float, int]]:
    """Return `scale` and `least` of `Slices`, the former in the matrix's own order."""
    entry = get_entry(matrix.entry)
    diagonal = np.zeros((matrix.n, entry.size))
    row = np.repeat(np.arange(matrix.n), np.diff(matrix.indptr))
    on = np.flatnonzero(row == matrix.indices)
    blocks = entry.expand(matrix.values[on].astype(np.float64))
    np.add.at(diagonal, row[on], np.diagonal(blocks, axis1=1, axis2=2))
    with np.errstate(divide="ignore", over="ignore"):
        scale = (1 / diagonal).astype(dtype)
    scale[~np.isfinite(scale) | (scale == 0)] = 1
    least = np.unravel_index(int(np.argmin(diagonal)), diagonal.shape)
    return scale, (float(diagonal[least]), int(least[0]))


#: Vectors of each method, in the order of kernel parameters; other blocks read only u.
VECTORS = {"cg": ("x", "r", "p", "s", "w", "u"), "bicgstab": ("x", "r", "p", "v", "t", "shadow", "u")}
#: Phases of an iteration, each a kernel.
PHASES = {"cg": ("multiply", "update"), "bicgstab": ("project", "half_step", "dot_products", "full_step")}
#: Phases after the last iteration, by which (r, r) is known.
LAST_PHASES = {"cg": ("multiply",), "bicgstab": ()}
#: Bytes of shared memory that the kernels of many iterations declare themselves, and the system takes (CUDA: 1 KiB).
OWN_SHARED = 2048
#: Seconds that a launch is to take about, by the time of an iteration: waits of all blocks, and bytes from memory.
LAUNCH_SECONDS, WAIT_SECONDS, BYTES_PER_SECOND = 5e-3, 6e-6, 1e12
#: A restart from x is worthwhile if the true residual has decreased by this factor.
PROGRESS = 0.5
#: A residual below this multiple of what rounding leaves, term by term, is not expected to become smaller.
AT_ROUNDING = 20

Method = Literal["cg", "bicgstab"]
Status = Literal["converged", "limit", "rounding", "breakdown", "not finite"]


@dataclass(frozen=True)
class Progress:
    """State of a running solve."""

    #: Finished iterations since `reset`.
    iterations: int
    #: Euclidean norms of the recurrence's r, and of b.
    residual: float
    right: float
    reason: StopReason


@dataclass(frozen=True)
class PersistentSolution:
    """Result of a solve; x is in the solver's memory."""

    #: `converged`: the norm of b - A x is at most the tolerance times that of b. `limit`: the allowed iterations are
    #: done. `rounding`: the recurrence converges, b - A x does not get smaller. `breakdown`: a divisor is zero; of
    #: conjugate gradients, (p, A p) is not positive. `not finite`: a sum is infinite or NaN.
    status: Status
    iterations: int
    #: Euclidean norms of b - A x, computed in the working precision from x, and of b.
    residual: float
    right: float


class RestartedSolver(ABC):
    """The host's part of a solver on a device: when it looks, begins anew from x, and stops.

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
        """Queue up to `iterations` iterations; none are executed after the recurrence has stopped."""

    @abstractmethod
    def iterations_of_launch(self) -> int:
        """Return how many iterations the host queues before it looks: about `LAUNCH_SECONDS` of them."""

    @abstractmethod
    def rounding(self) -> float:
        """Return about the norm of b - A x that rounding x and the products leaves."""

    def reset(self) -> None:
        """Count iterations from 0, and let no residual but 0 stop the recurrence."""
        self._device.write(self._state, np.zeros(len(self._state_type)))

    def progress(self) -> Progress:
        """Wait for queued work and return the state."""
        state = np.empty(len(self._state_type))
        self._device.download(self._state, state)
        with np.errstate(invalid="ignore"):
            return Progress(
                int(state[CgState.ITERATIONS]),
                float(np.sqrt(state[CgState.RR])),
                float(np.sqrt(state[CgState.BB])),
                StopReason(int(state[CgState.REASON])),
            )

    def solve(self, tolerance: float, max_iterations: int, check_every: int | None = None) -> PersistentSolution:
        """Solve A x = b from the x that is there, in at most `max_iterations` iterations.

        It has converged if the norm of b - A x, computed from x, is at most `tolerance` times that of b. Where the
        recurrence has stopped and this is larger, the recurrence begins anew from x as long as that helps. The host
        looks after every `check_every` iterations.
        """
        check_every = check_every or self.iterations_of_launch()
        self.reset()
        self.begin()
        now = self.progress()
        right, before, stopped = now.right, math.inf, StopReason.NONE
        limit = tolerance * right
        least = float(np.finfo(self._dtype).eps) / 16  # a recurrence that gets further tells nothing of x
        self._device.write(self._state, np.array([(max(tolerance, least) * right) ** 2]))  # the first of the state
        while (status := self._judge(now, limit, before, stopped, max_iterations)) is None:
            before = now.residual
            while now.reason == StopReason.NONE and now.iterations < max_iterations:
                self.iterate(min(check_every, max_iterations - now.iterations))
                now = self.progress()
            stopped = now.reason
            self.begin()
            now = self.progress()
        return PersistentSolution(status, now.iterations, now.residual, right)

    def _judge(
        self, now: Progress, limit: float, before: float, stopped: StopReason, max_iterations: int
    ) -> Status | None:
        """Return the final status of a solve, or None while it continues; `before` is the last start's residual."""
        if not math.isfinite(now.residual) or not math.isfinite(limit):
            return "not finite"
        if now.residual <= limit:
            return "converged"
        if stopped == StopReason.NOT_FINITE:
            return "not finite"
        if now.iterations >= max_iterations:
            return "limit"
        if now.residual <= PROGRESS * before:
            return None
        return "rounding" if stopped == StopReason.CONVERGED or now.residual <= self.rounding() else "breakdown"

    def release(self) -> None:
        self._stack.close()


class PersistentSolver(RestartedSolver):
    """A matrix dealt to the blocks of a device, the vectors of a solve, and the kernels bound to them.

    `program` is the module of `render_persistent`, for the entry and precision that `kernels` names; b and x are device
    memory in the order of `slices.rows`. `capacity`: bytes of shared memory that a block may keep slices in; None: all
    that the device has. `together`: False launches each phase for itself.
    """

    def __init__(
        self,
        device: Device,
        program: Program,
        slices: Slices,
        method: Method,
        kernels: tuple[str, str],
        capacity: int | None = None,
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
                guarded = guards.allocate(array.nbytes, f"the solver's {name}")
                stack.callback(guarded.release)
                if array.nbytes:
                    device.write(guarded.memory, array)
                return guarded.memory

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
            given = list(vectors.values())

            def bind(name: str, *arguments: Argument, grid: int = blocks) -> Callable[[], None]:
                return device.bind(program.kernel(name), grid, n_t, arguments)

            self._begin = [
                bind("begin", *matrix, self.b, *given, parts),
                bind("begin_state", np.int32(blocks), parts, self._state, grid=1),
            ]
            phases = {name: bind(name, *matrix, *given, parts, self._state) for name in PHASES[method]}
            self._phases = list(phases.values())
            settle = bind("sum_residual", np.int32(blocks), parts, self._state, grid=1)
            self._last_phases = [*(phases[name] for name in LAST_PHASES[method]), settle]
            self._many: Callable[[int], Callable[[], None]] | None = None
            self.kept_bytes = 0
            room = device.target.shared_bytes - OWN_SHARED
            kept = slices.kept(room if capacity is None else min(room, capacity))
            in_all, shared_bytes = slices.kept_bytes(kept)
            rows = held_rows(method, *kernels, slices.max_slices_per_warp(n_t // LANES))
            kernel = device.cooperative(program, f"iterate_{rows}", n_t, shared_bytes) if together else None
            if kernel is not None and kernel.resident >= blocks:
                self.kept_bytes = in_all
                arguments = [*matrix, keep(kept, "places of kept slices"), *given, parts, self._state]

                def many(count: int) -> Callable[[], None]:
                    return kernel.bind(blocks, [*arguments, np.int32(count)])

                self._many = many
            self._bound: dict[int, Callable[[], None]] = {}
            self._stack = stack.pop_all()

    @property
    def together(self) -> bool:
        """Return whether many iterations are one launch."""
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
        of_x = np.abs(x).max(axis=1)[slices.columns].astype(np.float64)
        of_entries = np.abs(slices.values).max(axis=1, initial=0 if slices.values.shape[1] else 1)
        return AT_ROUNDING * float(np.finfo(x.dtype).eps) * float(np.linalg.norm(of_entries * of_x))

    def release(self) -> None:
        self._bound.clear()
        super().release()


#: Name of the product in rows, and of the routine.
ON_CHIP, ROUTINE = "persistent", "persistent bicgstab"


def slices_on(workspace: Workspace) -> Slices:
    """Return the rows assigned to the blocks of a persistent solver; `Unsupported` if there are too many slots."""
    operands, device = operands_of(workspace), workspace.device

    def assigned() -> Slices:
        warps = PERSISTENT_BLOCK_SIZE[device.backend] // LANES
        try:
            return assign_rows(operands.problem, operands.dtype, device.sm_count, warps)
        except ReproError as error:
            raise Unsupported(str(error)) from None

    return workspace.cached(ON_CHIP, assigned, lend_device=True)


class PersistentRun(Runnable):
    """As `SolverRun`, without a preconditioner, on a matrix of real entries; the matrix stays on the chip if it fits.

    Preparation verifies both residuals, by recurrence and from x, against the host's recurrence in double precision.
    Binaries of `module` are relative to `folder`.
    """

    kind = "solver"
    cold = False

    def __init__(self, module: Module, folder: Path, iterations: int = 10) -> None:
        self.name = f"bicgstab-{iterations}/{ON_CHIP}"
        self._module, self._folder, self._iterations = module, folder, iterations
        self._solver: PersistentSolver | None = None
        self._matrix_bytes: int | None = None
        self._error: float | None = None

    @property
    def identity(self) -> str:
        return f"{self.name} {self._module.hash}"

    @property
    def columns(self) -> dict[str, Any]:
        own = {"routine": ROUTINE, "product": ON_CHIP, "matrix_bytes": self._matrix_bytes}
        return {**own, "error": self._error}

    def pack(self, workspace: Workspace) -> None:
        """Deal the rows, and compute the expected residual on the host."""
        slices_on(workspace)
        expect(workspace, self._iterations, lend_device=True)

    def prepare(self, workspace: Workspace) -> None:
        """Upload the matrix and the right side, solve once and verify; a wrong residual raises as in `SolverRun`."""
        if self._module.binary is None:
            raise ModuleError(self._module.message)
        self.release()
        self._error = None
        operands, assigned = operands_of(workspace), slices_on(workspace)
        slices = replace(assigned, scale=np.ones_like(assigned.scale))  # there is no preconditioner
        program = workspace.program(self._folder / self._module.binary)
        kernels = operands.problem.entry, operands.precision
        solver = PersistentSolver(
            workspace.device, program, slices, "bicgstab", kernels, guards=workspace.guards
        )  # fmt: skip
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
        found = np.empty_like(slices.scale)
        workspace.device.download(solver.x, found)
        x[slices.rows] = found
        residuals = solver.progress().residual, true_residual(operands, x.ravel())
        self._error = error_of(residuals, expected)
        judge_error(self._error, residuals, expected, workspace, self._iterations)
        self.launch = launch

    def release(self) -> None:
        if self._solver is not None:
            self._solver.release()
            self._solver = None
