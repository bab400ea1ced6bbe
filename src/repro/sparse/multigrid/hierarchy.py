"""The hierarchy of smoothed-aggregation multigrid on a device: levels, set-up, and refresh.

The whole set-up runs on the device (King 2017, Algorithm 8). A refresh recomputes the values of all levels, whose
patterns stay, from new values of the finest matrix. It is a single launch of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import count as count_from
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device, allocate_parts
from repro.errors import ReproErrorOfValue
from repro.sparse.device_primitives import (
    LaunchContext,
    Load,
    Owner,
    Phase,
    Releasable,
    Repeated,
    Stage,
    keep,
    phases_in_order,
)
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, Launch, Scratch, in_order
from repro.sparse.multigrid.kernels import COUNTERS, width_for
from repro.sparse.multigrid.reference import MIN_RADIUS, MultigridSettings, bad_diagonal, not_finite_error
from repro.sparse.spgemm.binned_rows import Factors
from repro.sparse.spgemm.multiplication import Destinations, Multiplication

#: Stride of float64 columns that are aligned as separate buffers.
COLUMN_STRIDE = PART_ALIGNMENT // 8
#: Blocks per multiprocessor for dot products; each computes a partial sum.
DOT_BLOCKS_PER_SM = 4
#: Longest row of A for which a dedicated kernel computes the prolongator.
LONGEST = 256


def row_arguments(matrix: Storage) -> list[Argument]:
    """Return the kernel arguments of a matrix with one segment per row and no free space."""
    return [matrix.table, matrix.columns, matrix.values]


class LevelLaunches(LaunchContext):
    """Memory and launches of multigrid kernels for one precision.

    Methods launch immediately unless they return a launch.
    """

    def __init__(self, device: Device, load: Load, dtype: np.dtype[Any], stack: ExitStack) -> None:
        super().__init__(device, load, stack)
        self.dtype = dtype
        self._scratch = self.keep(Scratch(device))

    def scalars(self, count: int) -> Buffer:
        return self.numbers(count, self.dtype)

    def arrays(self, *sizes: tuple[int, Any]) -> list[Buffer]:
        """Return arrays of (count, dtype), all in one allocation.

        Several allocations would take the host longer than a small stage takes.
        """
        block, parts = allocate_parts(self.device, [max(n, 1) * np.dtype(dtype).itemsize for n, dtype in sizes])
        self.keep(block)
        return parts

    def bind_setup(self, kernel: str, count: int, *arguments: Argument) -> Launch:
        return self.kernels("setup").over(kernel, count, arguments)

    def cycle(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        self.over("cycle", kernel, count, *arguments, lanes=lanes)

    def column(self, numbers: Buffer, index: int) -> Buffer:
        """Return one column of a buffer of float64 columns, as a buffer that shares the memory."""
        return self.keep(self.device.part(numbers, 8 * index * COLUMN_STRIDE, 8 * COLUMN_STRIDE))

    def blocks_over(self, n: int) -> int:
        """Return the number of blocks for a dot product of n elements."""
        return max(1, min(self.device.sm_count * DOT_BLOCKS_PER_SM, -(-n // BLOCK_SIZE[self.device.backend])))

    def dots(self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer) -> None:
        """Queue dot products of w with each of `count` vectors, `stride` numbers apart.

        `sums` is float64 `(count,)`.
        """
        self.bind_dots(n, vectors, count, stride, w, sums)()

    def bind_dots(
        self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer
    ) -> Callable[[], None]:
        blocks = self.blocks_over(n)
        shares = self._scratch.take("shares", 8 * blocks * count)
        dot_arguments: list[Argument] = [np.int32(n), np.int32(count), np.int32(stride), vectors, w, shares]
        kernels = self.kernels("cycle")
        lanes = self.device.target.warp if self.device.backend == "cuda" else 1
        sum_arguments: list[Argument] = [np.int32(count), np.int32(blocks), shares, sums]
        return in_order(
            [kernels.blocks("dots", blocks, dot_arguments), kernels.over("add_shares", count * lanes, sum_arguments)]
        )

    def lanes(self, matrix: Storage, nnz: int) -> int:
        """Return the number of lanes per row, for a matrix of `nnz` entries."""
        return width_for(self.device.target, nnz / max(matrix.shape[0], 1))


#: Function that multiplies two matrices; the product has one segment per row and no free space.
Multiply = Callable[[Factors], Storage]


@dataclass(frozen=True)
class DeviceLevel:
    """A level on the device; all matrices have one segment per row and no free space."""

    a: Storage
    nnz: int
    #: Diagonal of A, `(n,)`, in the working precision.
    diagonal: Buffer
    #: Estimate of the spectral radius of D⁻¹A; 0 on the coarsest level, which does not need it.
    radius: float = 0.0
    #: Prolongator P from the next level, and its transpose R; None on the coarsest level.
    p: Storage | None = None
    r: Storage | None = None
    #: Aggregate of each node, int32 `(nodes,)`; None on the coarsest level.
    aggregates: Buffer | None = None
    #: Tentative prolongator T, and the product A P; kept only for a refresh.
    t: Storage | None = None
    ap: Storage | None = None
    #: Number of unknowns per node on this level; and on the next level, where each of them has a column of T.
    unknowns: int = 1
    vectors: int = 1
    #: Bound launches of a refresh; only on the finest level, from the first refresh on.
    refresh: Releasable | None = None

    def lanes(self, run: LevelLaunches) -> int:
        """Return the number of lanes per row of A."""
        return run.lanes(self.a, self.nnz)

    def release(self) -> None:
        for part in (self.refresh, self.a, self.diagonal, self.p, self.r, self.aggregates, self.t, self.ap):
            if part is not None:
                part.release()


@dataclass(frozen=True)
class NearNull:
    """The near null space of a matrix: `count` vectors, `(rows, count)`, row by row."""

    vectors: Buffer
    count: int


class LevelReadback(NamedTuple):
    """Numbers of a level that the host reads back from the device."""

    #: Number of aggregates.
    aggregates: int
    #: Number of entries and longest row of P, if P has been laid out.
    entries: int
    longest: int
    #: Estimated spectral radius of D⁻¹A; NaN if products with the matrix are not finite.
    radius: float

    def checked_radius(self) -> float:
        """Return the estimated radius, at least 1, which is the mean eigenvalue; NaN raises `ReproError`."""
        if not np.isfinite(self.radius):
            raise not_finite_error()
        return max(self.radius, 1.0)


def has_prolongator_kernel(a: Storage) -> bool:
    """Return whether a dedicated kernel computes P; its time is quadratic in the longest row of A."""
    return a.longest is not None and a.longest <= LONGEST


def spectral_radius(words: NDArray[np.int32]) -> float:
    return float(words[COUNTERS.radius : COUNTERS.radius + 2].view(np.float64)[0])


class Coarsening:
    """The set-up of one level: its prolongator, and the next level's matrix."""

    def __init__(
        self, run: LevelLaunches, multiply: Multiply, settings: MultigridSettings, words: Buffer | None = None
    ) -> None:
        self._run, self._multiply, self._settings = run, multiply, settings
        self._words = words or run.numbers(COUNTERS.size, np.int32)

    def take_diagonal(self, level: DeviceLevel) -> Launch:
        """Return a launch that copies the diagonal of the level's matrix to `level.diagonal`."""
        n = level.a.shape[0]
        take = self._run.bind_setup("take_diagonal", n, n, *row_arguments(level.a), level.diagonal, self._words)
        return in_order([partial(self._run.device.fill, self._words, 0), take])

    def measure(self, level: DeviceLevel) -> Launch:
        """Return a launch that copies the diagonal, and estimates the spectral radius of D⁻¹A.

        The method is that of `repro.sparse.multigrid.reference.spectral_radius`.
        """
        run, n, lanes = self._run, level.a.shape[0], level.lanes(self._run)
        steps = min(self._settings.ritz_steps, n)
        stage = Stage(run, "radius", f"spectral_radius_w{lanes}", ("begin", "multiply", "subtract", "finish"), n, lanes)
        stride = -(-n // PART_ALIGNMENT) * PART_ALIGNMENT
        f64, sums = np.float64, stage.parts * (steps + 1)
        sizes = ((steps + 1) * stride, run.dtype), (sums, f64), (steps, f64), (steps * steps, f64)
        basis, shares, lengths, h = run.arrays(*sizes)
        start = 2.0 ** -(n.bit_length() // 2)  # about the reciprocal of the length of n numbers from 1/2 to 3/2
        step_arguments = n, steps, stride, start
        arguments = [*step_arguments, *row_arguments(level.a), level.diagonal, basis, shares, lengths, h, self._words]

        def script(phase: Phase) -> None:
            for first in (0, steps):
                phase("begin", first)
                for step in range(first, first + steps):
                    phase("multiply", step)
                    phase("subtract" if step + 1 < first + steps else "finish", step)
                if not spectral_radius(self._read()) < MIN_RADIUS:
                    return

        return stage.bind(arguments, script)

    def aggregates(self, level: DeviceLevel) -> Buffer:
        """Queue the search for each node's aggregate, int32 `(nodes,)`, which the caller releases.

        `measure` must have run for the level.
        """
        run, n, lanes = self._run, level.a.shape[0] // level.unknowns, level.lanes(self._run)
        phases = "begin", "near", "decide", "label", "spread", "name"
        stage = Stage(run, "aggregation", f"aggregate_w{lanes}", phases, n, lanes)
        # int64: keys, largest key near each node, labels; int32: marks, listed nodes, candidates, and a count for each
        # block
        sizes = *[(n, np.int64)] * 3, (n, np.int32), (2 * n, np.int32), (n, np.int32), (stage.parts, np.int32)
        temporaries, aggregate_numbers = run.arrays(*sizes), run.device.allocate(4 * max(n, 1))
        nodes = [n, level.unknowns, float(self._settings.theta), level.diagonal, *row_arguments(level.a)]

        def script(phase: Phase) -> None:
            phase("begin")
            for step in count_from(0):
                phase("near", step)
                phase("decide", step)
                if not self._read()[COUNTERS.undecided + step % 3]:
                    break
            for name in phases[3:]:
                phase(name)

        try:
            stage.bind([*nodes, *temporaries, aggregate_numbers, self._words], script)()
        except BaseException:
            aggregate_numbers.release()
            raise
        return aggregate_numbers

    def lay_out(self, level: DeviceLevel, aggregates: Buffer, k: int) -> Storage | None:
        """Queue the computation of P's row offsets, and return P without memory for entries; the caller releases it.

        Return None if rows of A are too long for the dedicated kernel, or of unknown length; see `prolongator`.
        """
        if not has_prolongator_kernel(level.a):
            return None
        run, rows, lanes = self._run, level.a.shape[0], level.lanes(self._run)
        phases = "count", "add", "begin", "lay_out"
        stage = Stage(run, "smoothing", f"lay_out_prolongator_w{lanes}", phases, rows, lanes)
        counts, totals, begins = run.arrays((rows, np.int32), (stage.parts, np.int32), (rows + 1, np.int32))
        p = Storage.empty(run.device, (rows, 0), 1, 0, run.dtype)
        count_arguments = rows, level.unknowns, k, level.a.table, level.a.columns, aggregates, counts, totals, begins
        try:
            stage.bind([*count_arguments, p.table, p.sizes, p.state, self._words], phases_in_order(phases))()
        except BaseException:
            p.release()
            raise
        return p

    def read(self, level: DeviceLevel) -> LevelReadback:
        """Wait for queued work, and return the level's numbers. An unusable diagonal raises `ReproError`."""
        return self.facts(level, self._read())

    def facts(self, level: DeviceLevel, words: NDArray[np.int32]) -> LevelReadback:
        """Convert the counters of a level, int32 `(COUNTERS.size,)`, to `LevelReadback`; raise as `read`."""
        count = int(words[COUNTERS.bad])
        if count:
            row = 0x7FFFFFFF - int(words[COUNTERS.first_bad])
            diagonal = self._run.download(level.diagonal, row + 1, self._run.dtype)
            raise bad_diagonal(row, count, float(diagonal[row]))
        aggregates, entries, longest = words[[COUNTERS.aggregates, COUNTERS.entries, COUNTERS.longest]].tolist()
        return LevelReadback(aggregates, entries, longest, spectral_radius(words))

    def _read(self) -> NDArray[np.int32]:
        return self._run.download(self._words, COUNTERS.size, np.int32)

    def tentative(self, level: DeviceLevel, aggregates: Buffer, count: int, near: NearNull) -> tuple[Storage, NearNull]:
        """Return the tentative prolongator T, and the next level's near null space, which the caller releases."""
        run, k, rows, nodes = self._run, near.count, level.a.shape[0], level.a.shape[0] // level.unknowns
        phases = "lay_out", "count", "add", "begin", "place", "order", "fit"
        stage = Stage(run, "grouping", "make_tentative", phases, rows)
        sizes = count, stage.parts, count + 1, nodes, nodes
        counts, totals, begins, members, order = run.arrays(*((size, np.int32) for size in sizes))
        t = run.keep(Storage.empty(run.device, (rows, count * k), 1, max(rows * k, 1), run.dtype))
        coarse = run.device.allocate(max(count * k * k, 1) * run.dtype.itemsize)
        input_arguments = (
            nodes,
            count,
            level.unknowns,
            k,
            aggregates,
            near.vectors,
            counts,
            totals,
            begins,
            members,
            order,
        )
        output_arguments = t.table, t.sizes, t.columns, t.values, t.state, coarse
        try:
            stage.bind([*input_arguments, *output_arguments, self._words], phases_in_order(phases))()
        except BaseException:
            coarse.release()
            raise
        t.entries, t.longest = rows * k, k
        return t, NearNull(coarse, k)

    def prolongator(
        self, level: DeviceLevel, aggregates: Buffer, t: Storage, k: int, facts: LevelReadback, laid_out: Storage | None
    ) -> Storage:
        """Return the smoothed prolongator P = T - ω/ρ D⁻¹ A T, which the caller releases.

        `measure` must have run for the level. `laid_out` is P from `lay_out`; if it is None, P is computed in the
        memory of the product A T.
        """
        if laid_out is None:
            p = self._multiply(Factors(level.a, t))
            self._smooth(level, aggregates, t, p, k)()
            return p
        laid_out.shape = t.shape
        laid_out.make_room(facts.entries)
        laid_out.entries, laid_out.longest = facts.entries, facts.longest
        self._fill(level, aggregates, t, laid_out, k)()
        return laid_out

    def _fill(self, level: DeviceLevel, aggregates: Buffer, t: Storage, p: Storage, k: int) -> Launch:
        rows, lanes, omega = t.shape[0], level.lanes(self._run), float(self._settings.omega)
        row_pointers = level.diagonal, aggregates, t.values, p.table, p.columns, p.values
        arguments = [rows, level.unknowns, k, omega, self._words, *row_arguments(level.a), *row_pointers]
        return self._run.kernels("smoothing").over(f"fill_prolongator_w{lanes}", rows * lanes, arguments)

    def _smooth(self, level: DeviceLevel, aggregates: Buffer, t: Storage, p: Storage, k: int) -> Launch:
        rows, omega = t.shape[0], float(self._settings.omega)
        row_pointers = level.diagonal, aggregates, t.values, p.table, p.columns, p.values
        return self._run.bind_setup("smooth", rows, rows, level.unknowns, k, omega, self._words, *row_pointers)

    def transposed(self, p: Storage) -> Storage:
        """Queue the transposition of P, with sorted columns.

        The caller releases the result, and `read_longest` completes it.
        """
        run, (rows, columns) = self._run, p.shape
        nnz = p.report().pointer if p.entries is None else p.entries
        phases = "clear", "count", "add", "begin", "place", "order"
        stage = Stage(run, "grouping", "transpose", phases, max(rows, nnz))
        sizes = columns, stage.parts, columns + 1, nnz, nnz
        counts, totals, begins, members, places = run.arrays(*((size, np.int32) for size in sizes))
        r = Storage.empty(run.device, (columns, rows), 1, max(nnz, 1), run.dtype)
        output_arguments = r.table, r.sizes, r.columns, r.values, r.state
        try:
            input_arguments = rows, columns, *row_arguments(p), counts, totals, begins, members, places
            stage.bind([*input_arguments, *output_arguments, self._words], phases_in_order(phases))()
            r.entries = nnz
        except BaseException:
            r.release()
            raise
        return r

    def read_longest(self, r: Storage) -> None:
        """Wait for queued work, and store the length of the longest row in the transpose `r`."""
        r.longest = int(self._read()[COUNTERS.longest])

    def coarse(self, a: Storage, p: Storage, r: Storage) -> tuple[Storage, int]:
        """Return R (A P) and its number of entries; the caller releases it. An empty row gets a 1 on the diagonal."""
        ap = self.multiplied(a, p)
        try:
            self.read_longest(r)
            return self.coarse_matrix(r, ap)
        finally:
            ap.release()

    def multiplied(self, a: Storage, p: Storage) -> Storage:
        return self._multiply(Factors(a, p))

    def coarse_matrix(self, r: Storage, ap: Storage) -> tuple[Storage, int]:
        """Return R (A P) and its number of entries, given R and A P; see `coarse`."""
        product = self._multiply(Factors(r, ap))
        self._fill_empty(product)()
        return product, product.report().pointer if product.entries is None else product.entries

    def _fill_empty(self, product: Storage) -> Launch:
        n = product.shape[0]
        return self._run.bind_setup("fill_empty", n, n, product.table, product.columns, product.values)

    def refill(self, level: DeviceLevel, coarse: Storage, product: Callable[[Factors, Storage], Launch]) -> Launch:
        """Return a launch that recomputes the values of P, R, A P and the next level's matrix, from new values of A.

        The level must keep T and A P (`refreshable`), and `measure(level)` must run before this launch. `product` takes
        the factors and the result of a product, and returns its launch.
        """
        t, p, r, ap, aggregates = level.t, level.p, level.r, level.ap, level.aggregates
        assert t is not None and p is not None and r is not None and ap is not None and aggregates is not None
        rows, prolongator_arguments = p.shape[0], (level, aggregates, t, p, level.vectors)
        smoothing_launches = (
            [self._fill(*prolongator_arguments)]
            if has_prolongator_kernel(level.a)
            else [product(Factors(level.a, t), p), self._smooth(*prolongator_arguments)]
        )
        transposition = self._run.bind_setup("refill_transposed", rows, rows, *row_arguments(p), *row_arguments(r))
        galerkin = product(Factors(level.a, p), ap), product(Factors(r, ap), coarse)
        return in_order([*smoothing_launches, transposition, *galerkin, self._fill_empty(coarse)])


def set_up_hierarchy(
    device: Device,
    load: Load,
    a: Storage,
    near_null: NDArray[np.floating] | None = None,
    unknowns: int = 1,
    settings: MultigridSettings | None = None,
    refreshable: bool = False,
    multiply: Multiply | None = None,
) -> list[DeviceLevel]:
    """Return the levels of a hierarchy, the finest first; the caller releases them.

    `load` loads modules in the precision of the matrix. `a` is square with one segment per row, no free space and no
    duplicates; the finest level owns it, and on failure it is released. `near_null` is `(n, k)` on the host; None: the
    constant vector. Each node has `unknowns` successive rows. `refreshable` keeps T and A P on each level for
    `refresh_hierarchy`. `multiply` computes products; None: in one launch if possible, else in one phase.

    Raises
    ------
    ReproError
        The matrix is not square, its diagonal has a zero, or the shape of `near_null` does not fit.
    OutOfDeviceMemory
    """
    settings = settings or MultigridSettings()
    levels: list[DeviceLevel] = []
    unowned_matrix: Storage | None = a  # matrix that no level owns yet
    try:
        vectors = None if near_null is None else np.asarray(near_null)
        _check(a, vectors, unknowns)
        multiply = multiply or Multiplication(device, load, a.dtype).multiply
        nnz = a.report().pointer if a.entries is None else a.entries
        with device.pooling():  # allocations by the driver would take longer than a small set-up
            near = _upload_near_null(device, load, a, vectors)
        while True:
            with device.pooling(), ExitStack() as level_stack:
                level_stack.callback(near.vectors.release)
                step = Coarsening(LevelLaunches(device, load, a.dtype, level_stack), multiply, settings)
                diagonal = device.allocate(max(a.shape[0], 1) * a.dtype.itemsize)
                levels.append(DeviceLevel(a, nnz, diagonal, unknowns=unknowns))
                unowned_matrix = None
                if len(levels) == settings.levels or a.shape[0] <= settings.coarsest:
                    step.take_diagonal(levels[-1])()
                    step.read(levels[-1])
                    return levels
                coarse_level = _coarsen(step, levels[-1], near, settings.stall, refreshable)
                if coarse_level is None:
                    return levels
                levels[-1], a, nnz, near = coarse_level
                unknowns = near.count
                unowned_matrix = a
    except BaseException:
        for level in levels:
            level.release()
        if unowned_matrix is not None:
            unowned_matrix.release()
        raise


def _upload_near_null(device: Device, load: Load, a: Storage, vectors: NDArray[np.floating] | None) -> NearNull:
    if vectors is not None:
        return NearNull(device.upload(np.ascontiguousarray(vectors, a.dtype).ravel()), vectors.shape[1])
    n = a.shape[0]
    near = NearNull(device.allocate(max(n, 1) * a.dtype.itemsize), 1)
    Kernels(device, load("setup")).over("fill_ones", n, [np.int32(n), near.vectors])()
    return near


def _coarsen(
    step: Coarsening, level: DeviceLevel, near: NearNull, stall: float, refreshable: bool
) -> tuple[DeviceLevel, Storage, int, NearNull] | None:
    """Return a level with its prolongator, and the inputs of the next level.

    It returns None if the next level is hardly smaller.
    """
    rows = level.a.shape[0]
    with ExitStack() as level_memory, ExitStack() as temporary_memory:
        step.measure(level)()
        aggregates = step.aggregates(level)
        level_memory.callback(aggregates.release)
        laid_out = step.lay_out(level, aggregates, near.count)
        if laid_out is not None:
            level_memory.callback(laid_out.release)
        facts = step.read(level)
        if not facts.aggregates or facts.aggregates * near.count > stall * rows:
            return None
        radius = facts.checked_radius()
        t, coarse_near = step.tentative(level, aggregates, facts.aggregates, near)
        level_memory.callback(coarse_near.vectors.release)
        if refreshable:
            t.retain()  # kept after the set-up of this level
            level_memory.callback(t.release)
        p = step.prolongator(level, aggregates, t, near.count, facts, laid_out)
        if laid_out is None:
            level_memory.callback(p.release)
        r = step.transposed(p)
        level_memory.callback(r.release)
        ap = step.multiplied(level.a, p)
        (level_memory if refreshable else temporary_memory).callback(ap.release)
        step.read_longest(r)  # after A P, whose computation waits for queued work anyway
        a, nnz = step.coarse_matrix(r, ap)
        level_memory.pop_all()
    level = replace(level, radius=radius, p=p, r=r, aggregates=aggregates, vectors=near.count)
    return replace(level, t=t, ap=ap) if refreshable else level, a, nnz, coarse_near


def _check(a: Storage, vectors: NDArray[np.floating] | None, unknowns: int) -> None:
    if a.shape[0] != a.shape[1]:
        raise ReproErrorOfValue(
            "multigrid needs a square matrix",
            expected="as many columns as rows",
            actual=a.shape,
            todo="solve the normal equations, with matrix `A.T @ A`, or use `scipy.sparse.linalg.lsqr`",
        )
    if unknowns < 1 or a.shape[0] % unknowns:
        raise ReproErrorOfValue(
            "the number of rows is not a multiple of the unknowns per node",
            where="unknowns",
            expected=f"a divisor of {a.shape[0]}",
            actual=unknowns,
        )
    if vectors is None:
        return
    if vectors.ndim != 2 or vectors.shape[0] != a.shape[0] or not vectors.shape[1]:
        raise ReproErrorOfValue(
            "the near null space has the wrong shape", expected=f"({a.shape[0]}, k)", actual=tuple(vectors.shape)
        )


def refresh_hierarchy(
    device: Device, load: Load, levels: Sequence[DeviceLevel], settings: MultigridSettings | None = None
) -> list[DeviceLevel]:
    """Return levels, set up as `refreshable`, after new values in the finest matrix.

    Aggregates, tentative prolongators and patterns stay, even if strong connections change. Diagonals, radii and values
    of P, R and coarser matrices are recomputed in place. If a new set-up would find the same aggregates, the results
    agree up to rounding. After a `ReproError` the values are undefined. The finest level keeps the bound launches for
    the next refresh.
    """
    stored_refresh = levels[0].refresh
    refresh = (
        stored_refresh
        if isinstance(stored_refresh, Refresh)
        else Refresh(device, load, levels, settings or MultigridSettings())
    )
    try:
        return refresh(levels)
    except BaseException:
        if stored_refresh is None:
            refresh.release()
        raise


class Refresh(Owner):
    """The launches of a refresh, bound to the memory of its levels.

    Products add to stored destinations, and all launches are captured into a graph at the end of the first call. If
    rows are too long for stored destinations, products are computed by hash tables instead, launch by launch.
    """

    def __init__(self, device: Device, load: Load, levels: Sequence[DeviceLevel], settings: MultigridSettings) -> None:
        self._device, self._load = device, load
        with device.pooling(), ExitStack() as stack:
            self._run = run = LevelLaunches(device, load, levels[0].a.dtype, stack)
            self._multiplication = Multiplication(device, load, run.dtype)
            self._words = run.numbers(len(levels) * PART_ALIGNMENT // 4, np.int32)
            product = self._products(levels, stack)
            self._steps: list[Coarsening] = []
            launches: list[Launch] = []
            for index, level in enumerate(levels):
                words = run.keep(device.part(self._words, index * PART_ALIGNMENT, 4 * COUNTERS.size))
                step = Coarsening(run, self._multiplication.multiply, settings, words)
                self._steps.append(step)
                if level.p is None:
                    launches.append(step.take_diagonal(level))
                else:
                    launches += [step.measure(level), step.refill(level, levels[index + 1].a, product)]
            whole = in_order(launches)
            self._launch: Launch = (
                keep(stack, Repeated(device, whole, behind_first=True)) if self._has_destinations else whole
            )
            self._stack = stack.pop_all()

    def _products(self, levels: Sequence[DeviceLevel], stack: ExitStack) -> Callable[[Factors, Storage], Launch]:
        """Return a function that binds a product: by stored destinations if all rows of all products have them."""
        plans: dict[int, Destinations] = {}
        with ExitStack() as plan_stack:
            for level, coarser in pairwise(levels):
                for factors, c in level_products(level, coarser.a):
                    plan = plans[id(c)] = keep(plan_stack, Destinations(self._device, self._load, factors, c))
                    if plan.unplanned:
                        # without destinations, the columns of a row may change their order, on which later products
                        # rely
                        self._has_destinations = False
                        return self._bind_refill
            stack.push(plan_stack.pop_all())
        self._has_destinations = True
        return lambda factors, c: plans[id(c)].bind(factors, c, stack)

    def _bind_refill(self, factors: Factors, c: Storage) -> Launch:
        def refill() -> None:
            with self._multiplication.refill_launch(factors, c) as launch:
                launch()

        return refill

    def __call__(self, levels: Sequence[DeviceLevel]) -> list[DeviceLevel]:
        """Recompute all values; return the levels. The finest level keeps a reference to this object."""
        self._launch()
        words = self._run.download(self._words, len(levels) * PART_ALIGNMENT // 4, np.int32)
        new_levels: list[DeviceLevel] = []
        for step, level, level_words in zip(self._steps, levels, words.reshape(len(levels), -1), strict=True):
            facts = step.facts(level, level_words)
            new_levels.append(level if level.p is None else replace(level, radius=facts.checked_radius()))
        new_levels[0] = replace(new_levels[0], refresh=self)
        return new_levels

    @property
    def is_captured(self) -> bool:
        """Whether the launches are captured into a graph."""
        return isinstance(self._launch, Repeated) and self._launch.is_captured


def level_products(level: DeviceLevel, coarse: Storage) -> list[tuple[Factors, Storage]]:
    """Return factors and result of each product of a level: A T → P, A P → `level.ap`, R (A P) → `coarse`.

    The product A T is left out if a dedicated kernel computes P.
    """
    t, p, r, ap = level.t, level.p, level.r, level.ap
    assert t is not None and p is not None and r is not None and ap is not None
    tentative = [] if has_prolongator_kernel(level.a) else [(Factors(level.a, t), p)]
    return [*tentative, (Factors(level.a, p), ap), (Factors(r, ap), coarse)]
