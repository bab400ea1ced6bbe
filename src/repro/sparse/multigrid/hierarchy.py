"""The hierarchy of smoothed-aggregation multigrid on a device: levels and set-up.

The whole set-up runs on the device (King 2017, Algorithm 8). If only values change, a refresh keeps the aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device
from repro.errors import ReproError
from repro.sparse.device_work import Launches, Load, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, Scratch, in_order
from repro.sparse.multigrid.kernels import LANES_OF_AGGREGATE, width_for
from repro.sparse.multigrid.reference import MIN_RADIUS, MultigridSettings, bad_diagonal, largest_eigenvalue
from repro.sparse.spgemm.destinations import Destinations
from repro.sparse.spgemm.multiplication import Multiplication
from repro.sparse.spgemm.rows import Factors

#: Stride of float64 columns that are aligned as separate buffers.
COLUMN = PART_ALIGNMENT // 8
#: Blocks per multiprocessor for dot products; each computes a partial sum.
SHARES = 4


def rows_of(matrix: Storage) -> list[Argument]:
    """Return kernel arguments of a matrix with one segment a row and no free space."""
    return [matrix.table, matrix.columns, matrix.values]


class LevelLaunches(Launches):
    """Kernels of multigrid, launched immediately, for numbers of one precision."""

    def __init__(self, device: Device, load: Load, dtype: np.dtype[Any], held: ExitStack) -> None:
        super().__init__(device, load, held)
        self.dtype = dtype
        self._scratch = self.keep(Scratch(device))

    def scalars(self, count: int) -> Buffer:
        return self.numbers(count, self.dtype)

    def setup(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        self.over("setup", kernel, count, *arguments, lanes=lanes)

    def cycle(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        self.over("cycle", kernel, count, *arguments, lanes=lanes)

    def vectors(self, count: int, n: int) -> tuple[list[Buffer], Buffer, int]:
        """Return `count` vectors of n numbers, the memory of all, and their stride in numbers."""
        stride = -(-max(n, 1) // PART_ALIGNMENT) * PART_ALIGNMENT
        whole, size = self.scalars(count * stride), self.dtype.itemsize
        return (
            [self.keep(self.device.part(whole, i * stride * size, max(n, 1) * size)) for i in range(count)],
            whole,
            stride,
        )

    def column(self, numbers: Buffer, at: int) -> Buffer:
        """Return a column of a buffer of float64 columns as a buffer."""
        return self.keep(self.device.part(numbers, 8 * at * COLUMN, 8 * COLUMN))

    def blocks_over(self, n: int) -> int:
        """Return the blocks of a dot product over n elements."""
        return max(1, min(self.device.sm_count * SHARES, -(-n // BLOCK_SIZE[self.device.backend])))

    def dots(self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer) -> None:
        """Queue the products of w with `count` vectors at a stride: float64 `(count,)`."""
        self.bind_dots(n, vectors, count, stride, w, sums)()

    def bind_dots(
        self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer
    ) -> Callable[[], None]:
        blocks = self.blocks_over(n)
        partial = self._scratch.take("shares", 8 * blocks * count)
        given: list[Argument] = [np.int32(n), np.int32(count), np.int32(stride), vectors, w, partial]
        kernels = self.kernels("cycle")
        lanes = self.device.target.warp if self.device.backend == "cuda" else 1
        added: list[Argument] = [np.int32(count), np.int32(blocks), partial, sums]
        return in_order([kernels.blocks("dots", blocks, given), kernels.over("add_shares", count * lanes, added)])

    @property
    def lanes_of_aggregate(self) -> int:
        return LANES_OF_AGGREGATE[self.device.backend]

    def lanes(self, matrix: Storage, nnz: int) -> int:
        """Return the lanes of a row, for a matrix of `nnz` entries."""
        return width_for(self.device.target, nnz / max(matrix.shape[0], 1))


#: Steps of the kernel `largest_near`.
WITHIN_ONE, WITHIN_TWO, SPREAD = range(3)
#: Rounds of the search for an independent set between two readbacks of its progress.
SEARCH_ROUNDS = 2
#: Multiplies into a matrix with one segment a row and no free space.
Multiply = Callable[[Factors], Storage]


@dataclass(frozen=True)
class DeviceLevel:
    """A level on the device; matrices have one segment a row and no free space."""

    a: Storage
    nnz: int
    #: `(n,)`, in the precision.
    diagonal: Buffer
    #: Estimate of the spectral radius of D⁻¹A; 0 on the coarsest level, which does not need it.
    radius: float = 0.0
    #: Prolongator from the next level, and its transpose; None on the coarsest.
    p: Storage | None = None
    r: Storage | None = None
    #: Aggregate of each node, int32; None on the coarsest.
    aggregates: Buffer | None = None
    #: Tentative prolongator T, and A P; kept only for a refresh.
    t: Storage | None = None
    ap: Storage | None = None
    #: Unknowns of a node on this level and on the next one, which has a column of T for each.
    unknowns: int = 1
    vectors: int = 1
    #: Destinations of A T, A P and R (A P), from the first refresh on.
    plans: tuple[Destinations, ...] = ()

    def release(self) -> None:
        for part in (self.a, self.diagonal, self.p, self.r, self.aggregates, self.t, self.ap, *self.plans):
            if part is not None:
                part.release()


@dataclass(frozen=True)
class NearNull:
    """The near null space of a matrix: `count` vectors, `(rows, count)`, row by row."""

    vectors: Buffer
    count: int


class Coarsening:
    """The set-up of one level: its prolongator, and the next level's matrix."""

    def __init__(self, run: LevelLaunches, multiply: Multiply, settings: MultigridSettings) -> None:
        self._run, self._multiply, self._settings = run, multiply, settings
        self._zeros = True  # whether the matrix may store zeros

    def diagonal(self, a: Storage) -> Buffer:
        """Return the diagonal, which the caller releases; see `take_diagonal`."""
        diagonal = self._run.device.allocate(max(a.shape[0], 1) * self._run.dtype.itemsize)
        try:
            self.take_diagonal(a, diagonal)
        except BaseException:
            diagonal.release()
            raise
        return diagonal

    def take_diagonal(self, a: Storage, diagonal: Buffer) -> None:
        """Copy the diagonal of a matrix; a missing, zero or non-finite entry raises `ReproError`."""
        run, n, bad = self._run, a.shape[0], self._run.zeros(3, np.int32)
        run.setup("take_diagonal", n, n, *rows_of(a), diagonal, bad)
        count, first, zeros = run.download(bad, 3, np.int32).tolist()
        self._zeros = bool(zeros)
        if count:
            row = 0x7FFFFFFF - first
            raise bad_diagonal(row, count, float(run.download(diagonal, n, run.dtype)[row]))

    def aggregates(self, level: DeviceLevel, unknowns: int) -> tuple[Buffer, Buffer, int]:
        """Return each node's aggregate (the caller releases it), the nodes' sort keys, and the number of aggregates."""
        run, n = self._run, level.a.shape[0] // unknowns
        lanes = run.lanes(level.a, level.nnz)
        plain = "_plain" if unknowns == 1 and not self._settings.theta and not self._zeros else ""
        nodes = [n, unknowns, float(self._settings.theta), level.diagonal, *rows_of(level.a)]
        tuples, near, largest = (run.numbers(n, np.int64) for _ in range(3))

        def largest_near(numbers: Buffer, result: Buffer, step: int) -> None:
            run.setup(f"largest_near{plain}_w{lanes}", n, *nodes, step, tuples, numbers, result, lanes=lanes)

        run.setup("begin_set", n, n, tuples)
        run.device.fill(near, 0)
        undecided, some = run.numbers(1, np.int32), True
        while some:
            for _ in range(SEARCH_ROUNDS):
                run.device.fill(undecided, 0)
                largest_near(tuples, near, WITHIN_ONE)
                largest_near(near, largest, WITHIN_TWO)
                run.setup("decide", n, n, largest, tuples, undecided)
            some = bool(run.download(undecided, 1, np.int32)[0])
        roots = run.numbers(n, np.int32)
        run.setup(f"begin_aggregates{plain}_w{lanes}", n, *nodes, tuples, roots, near, lanes=lanes)
        numbers = run.numbers(n + 1, np.int32)
        count = run.offsets(roots, numbers, n)
        largest_near(near, largest, SPREAD)
        largest_near(largest, near, SPREAD)
        named, keys = run.device.allocate(4 * max(n, 1)), run.numbers(n, np.int32)
        run.setup("name_aggregates", n, n, near, numbers, named, keys)
        return named, keys, count

    def tentative(
        self, aggregates: Buffer, keys: Buffer, nodes: int, count: int, unknowns: int, near: NearNull
    ) -> tuple[Storage, NearNull]:
        """Return the tentative prolongator, and the next level's near null space, which the caller releases."""
        run, k, rows = self._run, near.count, nodes * unknowns
        by_aggregate = run.sort(keys, nodes, count + 1)
        begins = run.numbers(count + 1, np.int32)
        run.setup("find_begins", nodes + 1, nodes, count, by_aggregate.keys, begins)
        t = run.keep(Storage.empty(run.device, (rows, count * k), 1, max(rows * k, 1), run.dtype))
        coarse = run.device.allocate(max(count * k * k, 1) * run.dtype.itemsize)
        of_nodes = begins, by_aggregate.order, near.vectors
        run.setup("fit", count, count, unknowns, k, *of_nodes, t.values, coarse, lanes=run.lanes_of_aggregate)
        run.setup("lay_out_tentative", rows, rows, unknowns, k, aggregates, t.table, t.sizes, t.columns)
        t.set_pointer(rows * k)
        t.entries, t.longest = rows * k, k
        return t, NearNull(coarse, k)

    def radius(self, level: DeviceLevel) -> float:
        """Return the estimated spectral radius of D⁻¹A; see `repro.sparse.multigrid.reference.spectral_radius`."""
        radius = 0.0
        for first in (0, level.a.shape[0]):
            radius = max(radius, self._largest_ritz_value(level, first))
            if radius >= MIN_RADIUS:
                break
        return max(radius, 1.0)

    def _largest_ritz_value(self, level: DeviceLevel, first: int) -> float:
        """Run Arnoldi's process from the keys of nodes `first` on."""
        run, n, steps = self._run, level.a.shape[0], self._settings.ritz_steps
        lanes = run.lanes(level.a, level.nnz)
        basis, whole, stride = run.vectors(steps + 1, n)
        w, blocks = run.scalars(n), run.blocks_over(n)
        # for each step: products with earlier vectors, and the squared norm of the remainder
        numbers = run.zeros(2 * (steps + 1) * COLUMN, np.float64)
        products, squares = ([run.column(numbers, at * (steps + 1) + j) for j in range(steps + 1)] for at in (0, 1))
        shares, of_square = run.numbers(blocks * (steps + 1), np.float64), run.numbers(blocks, np.float64)

        def launch(kernel: str, *arguments: Argument) -> None:
            run.blocks("cycle", kernel, blocks, n, *arguments)

        run.cycle("begin_basis", n, n, first, w)
        launch("dots", 1, stride, w, w, of_square)
        launch("normalize", blocks, w, of_square, squares[steps], basis[0])
        for j in range(steps):
            run.cycle(f"scaled_w{lanes}", n, n, *rows_of(level.a), basis[j], level.diagonal, w, lanes=lanes)
            launch("dots", j + 1, stride, whole, w, shares)
            launch("subtract", j + 1, blocks, stride, whole, shares, products[j], w, of_square)
            launch("normalize", blocks, w, of_square, squares[j], basis[j + 1])
        read = run.download(numbers, 2 * (steps + 1) * COLUMN, np.float64).reshape(2, steps + 1, COLUMN)
        h = np.zeros((steps + 1, steps))
        h[:steps] = read[0, :steps, :steps].T
        h[np.arange(1, steps + 1), np.arange(steps)] = np.sqrt(read[1, :steps, 0])
        return largest_eigenvalue(h[:steps])

    def prolongator(
        self, level: DeviceLevel, aggregates: Buffer, t: Storage, unknowns: int, k: int, radius: float
    ) -> Storage:
        """Return the smoothed prolongator P = T - ω/ρ D⁻¹ A T, which the caller releases; it overwrites A T."""
        p = self._multiply(Factors(level.a, t))
        self._smooth(level, aggregates, t, p, unknowns, k, radius)
        return p

    def _smooth(
        self, level: DeviceLevel, aggregates: Buffer, t: Storage, p: Storage, unknowns: int, k: int, radius: float
    ) -> None:
        rows, weight = t.shape[0], self._settings.omega / radius
        of_rows = level.diagonal, aggregates, t.values, p.table, p.columns, p.values
        self._run.setup("smooth", rows, rows, unknowns, k, weight, *of_rows)

    def transposed(self, p: Storage) -> Storage:
        """Return the transpose, which the caller releases, with sorted columns."""
        run, (rows, columns) = self._run, p.shape
        offsets = run.numbers(rows + 1, np.int32)
        nnz = run.offsets(p.sizes, offsets, rows)
        listed, row_of, place_of = (run.numbers(nnz, np.int32) for _ in range(3))
        run.setup("list_entries", rows, rows, offsets, p.table, p.columns, listed, row_of, place_of)
        by_column = run.sort(listed, nnz, columns)
        begins = run.numbers(columns + 1, np.int32)
        run.setup("find_begins", nnz + 1, nnz, columns, by_column.keys, begins)
        r = Storage.empty(run.device, (columns, rows), 1, max(nnz, 1), run.dtype)
        run.setup("transpose", nnz, nnz, by_column.order, row_of, place_of, p.values, r.columns, r.values)
        run.setup("place_rows", columns, columns, begins, r.table, r.sizes)
        r.set_pointer(nnz)
        return r

    def coarse(self, a: Storage, p: Storage, r: Storage) -> tuple[Storage, int]:
        """Return R (A P), which the caller releases, and its entries; an empty row gets a 1 on the diagonal."""
        ap = self.multiplied(a, p)
        try:
            return self.coarse_of(r, ap)
        finally:
            ap.release()

    def multiplied(self, a: Storage, p: Storage) -> Storage:
        return self._multiply(Factors(a, p))

    def coarse_of(self, r: Storage, ap: Storage) -> tuple[Storage, int]:
        """Return R (A P) from R and A P; see `coarse`."""
        product = self._multiply(Factors(r, ap))
        self._fill_empty(product)
        return product, product.report().pointer if product.entries is None else product.entries

    def _fill_empty(self, product: Storage) -> None:
        n = product.shape[0]
        self._run.setup("fill_empty", n, n, product.table, product.columns, product.values)

    def refresh(self, level: DeviceLevel, coarse: Storage, multiplication: Multiplication) -> DeviceLevel:
        """Recompute the values of P, R, A P and the next level's matrix in place, from new values of A.

        `level` has T and A P, and diagonal and radius of the new values. The level that is returned has the plans of
        its products.
        """
        t, p, r, ap, aggregates = level.t, level.p, level.r, level.ap, level.aggregates
        assert t is not None and p is not None and r is not None and ap is not None and aggregates is not None
        run, rows = self._run, p.shape[0]
        products = (Factors(level.a, t), p), (Factors(level.a, p), ap), (Factors(r, ap), coarse)
        if not level.plans:
            level = replace(level, plans=self._plan(products))
        # a row without destinations may change the order of its columns, which later products' destinations follow
        stored = not any(plan.unplanned for plan in level.plans)

        def refill(at: int) -> None:
            factors, c = products[at]
            if stored:
                level.plans[at].bind(factors, c, run.held)()
                return
            with multiplication.refilled(factors, c) as launch:
                launch()
                run.device.synchronize()  # the product's lists of rows are released here

        refill(0)
        self._smooth(level, aggregates, t, p, level.unknowns, level.vectors, level.radius)
        run.setup("refill_transposed", rows, rows, *rows_of(p), *rows_of(r))
        refill(1)
        refill(2)
        self._fill_empty(coarse)
        return level

    def _plan(self, products: Sequence[tuple[Factors, Storage]]) -> tuple[Destinations, ...]:
        run = self._run
        with ExitStack() as held:
            plans = tuple(keep(held, Destinations(run.device, run.load, *product)) for product in products)
            held.pop_all()
        return plans


def set_up_on(
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

    `load` loads modules in the precision of the matrix. `a` is square with one segment a row, no free space and no
    duplicates; the finest level owns it, and on failure it is released. `near_null` is `(n, k)` on the host; None: the
    constant vector. Nodes have `unknowns` successive rows. `refreshable` keeps T and A P on each level for
    `refresh_on`. `multiply` None: in one launch or one phase.

    Raises
    ------
    ReproError
        The matrix is not square, its diagonal has a zero, or the vectors do not fit.
    OutOfDeviceMemory
    """
    settings = settings or MultigridSettings()
    levels: list[DeviceLevel] = []
    left: Storage | None = a  # matrix without an owner yet
    try:
        vectors = None if near_null is None else np.asarray(near_null)
        _check(a, vectors, unknowns)
        multiply = multiply or Multiplication(device, load, a.dtype).whole
        nnz = a.report().pointer
        if vectors is None:
            n = a.shape[0]
            near = NearNull(device.allocate(max(n, 1) * a.dtype.itemsize), 1)
            Kernels(device, load("setup")).over("fill_ones", n, [np.int32(n), near.vectors])()
        else:
            near = NearNull(device.upload(np.ascontiguousarray(vectors, a.dtype).ravel()), vectors.shape[1])
        while True:
            with device.pooling(), ExitStack() as of_level:
                of_level.callback(near.vectors.release)
                step = Coarsening(LevelLaunches(device, load, a.dtype, of_level), multiply, settings)
                levels.append(DeviceLevel(a, nnz, step.diagonal(a), unknowns=unknowns))
                left = None
                if len(levels) == settings.levels or a.shape[0] <= settings.coarsest:
                    return levels
                made = _coarsen(step, levels[-1], near, settings.stall, refreshable)
                if made is None:
                    return levels
                levels[-1], a, nnz, near = made
                unknowns = near.count
                left = a
    except BaseException:
        for level in levels:
            level.release()
        if left is not None:
            left.release()
        raise


def refresh_on(
    device: Device, load: Load, levels: Sequence[DeviceLevel], settings: MultigridSettings | None = None
) -> list[DeviceLevel]:
    """Return levels, set up as `refreshable`, after new values in the finest matrix.

    Aggregates, tentative prolongators and patterns stay, whatever the new strong connections are. Diagonals, radii and
    values of P, R and coarser matrices are recomputed in place. For equal aggregates the result is that of a new set-up
    but for rounding. After a `ReproError` some levels have new values, and others old ones.
    """
    multiplication = Multiplication(device, load, levels[0].a.dtype)
    refreshed: list[DeviceLevel] = []
    for at, level in enumerate(levels):
        with device.pooling(), ExitStack() as of_level:
            run = LevelLaunches(device, load, level.a.dtype, of_level)
            step = Coarsening(run, multiplication.in_one_phase, settings or MultigridSettings())
            step.take_diagonal(level.a, level.diagonal)
            if level.p is None:
                refreshed.append(level)
            else:
                begun = replace(level, radius=step.radius(level))
                refreshed.append(step.refresh(begun, levels[at + 1].a, multiplication))
    return refreshed


def _coarsen(
    step: Coarsening, level: DeviceLevel, near: NearNull, stall: float, refreshable: bool
) -> tuple[DeviceLevel, Storage, int, NearNull] | None:
    """Return a level with its prolongator, and the next level's inputs; None if that level is hardly coarser."""
    rows, unknowns = level.a.shape[0], level.unknowns
    with ExitStack() as made, ExitStack() as passing:
        aggregates, keys, count = step.aggregates(level, unknowns)
        made.callback(aggregates.release)
        if not count or count * near.count > stall * rows:
            return None
        t, coarse_near = step.tentative(aggregates, keys, rows // unknowns, count, unknowns, near)
        made.callback(coarse_near.vectors.release)
        if refreshable:
            t.retain()  # beyond this level's set-up
            made.callback(t.release)
        radius = step.radius(level)
        p = step.prolongator(level, aggregates, t, unknowns, near.count, radius)
        made.callback(p.release)
        r = step.transposed(p)
        made.callback(r.release)
        ap = step.multiplied(level.a, p)
        (made if refreshable else passing).callback(ap.release)
        a, nnz = step.coarse_of(r, ap)
        made.pop_all()
    level = replace(level, radius=radius, p=p, r=r, aggregates=aggregates, vectors=near.count)
    return replace(level, t=t, ap=ap) if refreshable else level, a, nnz, coarse_near


def _check(a: Storage, vectors: NDArray[np.floating] | None, unknowns: int) -> None:
    if a.shape[0] != a.shape[1]:
        raise ReproError("multigrid needs a square matrix", expected="as many columns as rows", actual=a.shape)
    if unknowns < 1 or a.shape[0] % unknowns:
        raise ReproError(
            "the unknowns of a node do not divide the rows",
            where="unknowns",
            expected=f"a divisor of {a.shape[0]}",
            actual=unknowns,
        )
    if vectors is None:
        return
    if vectors.ndim != 2 or vectors.shape[0] != a.shape[0] or not vectors.shape[1]:
        raise ReproError("the near null space does not fit", expected=f"({a.shape[0]}, k)", actual=tuple(vectors.shape))
