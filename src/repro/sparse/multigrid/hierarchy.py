"""The hierarchy of multigrid by smoothed aggregation on a device: its levels, and its set-up there.

The whole set-up runs on the device (King 2017, Algorithm 8): each level makes the next one. Where only values
change, a hierarchy is refreshed and keeps its aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.bench.runnable import in_turn
from repro.devices.base import PART_ALIGNMENT, Argument, Buffer, Device
from repro.errors import ReproError
from repro.sparse.device_work import Launches, Load
from repro.sparse.dynamic.storage import Storage
from repro.sparse.elementwise import BLOCK_SIZE, Kernels, Scratch
from repro.sparse.multigrid.kernels import LANES_OF_AGGREGATE, width_for
from repro.sparse.multigrid.reference import MIN_RADIUS, MultigridSettings, largest_eigenvalue
from repro.sparse.spgemm.multiplication import Multiplication
from repro.sparse.spgemm.rows import Factors

#: Numbers from one column to the next, so that each is a buffer of its own.
COLUMN = PART_ALIGNMENT // 8
#: Blocks of a multiprocessor that add up a share of a product of vectors each.
SHARES = 4


def rows_of(matrix: Storage) -> list[Argument]:
    """Return what kernels take of a matrix whose rows lie in one segment each, without room."""
    return [matrix.table, matrix.columns, matrix.values]


class LevelLaunches(Launches):
    """Kernels of multigrid, launched at once.

    Parameters
    ----------
    device, load, held
        As of `Launches`.
    dtype
        Of the numbers.
    """

    def __init__(self, device: Device, load: Load, dtype: np.dtype[Any], held: ExitStack) -> None:
        super().__init__(device, load, held)
        self.dtype = dtype
        self._scratch = self.keep(Scratch(device))

    def scalars(self, count: int) -> Buffer:
        """Return memory for so many numbers of the precision, until the end."""
        return self.numbers(count, self.dtype)

    def setup(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel of the module `setup` with so many lanes for each of so many things."""
        self.over("setup", kernel, count, *arguments, lanes=lanes)

    def cycle(self, kernel: str, count: int, *arguments: Argument, lanes: int = 1) -> None:
        """Launch a kernel of the module `cycle` with so many lanes for each of so many things."""
        self.over("cycle", kernel, count, *arguments, lanes=lanes)

    def vectors(self, count: int, n: int) -> tuple[list[Buffer], Buffer, int]:
        """Return so many vectors of n numbers, the memory that they lie in, and how many numbers they are apart."""
        stride = -(-max(n, 1) // PART_ALIGNMENT) * PART_ALIGNMENT
        whole, size = self.scalars(count * stride), self.dtype.itemsize
        return (
            [self.keep(self.device.part(whole, i * stride * size, max(n, 1) * size)) for i in range(count)],
            whole,
            stride,
        )

    def column(self, numbers: Buffer, at: int) -> Buffer:
        """Return one of the columns of float64 numbers, each a buffer of its own, that a buffer consists of."""
        return self.keep(self.device.part(numbers, 8 * at * COLUMN, 8 * COLUMN))

    def blocks_over(self, n: int) -> int:
        """Return how many blocks add up numbers over n things, each a share."""
        return max(1, min(self.device.n_s * SHARES, -(-n // BLOCK_SIZE[self.device.backend])))

    def dots(self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer) -> None:
        """Queue the products of a vector with so many others that lie a stride apart, float64 `(count,)`."""
        self.bind_dots(n, vectors, count, stride, w, sums)()

    def bind_dots(
        self, n: int, vectors: Buffer, count: int, stride: int, w: Buffer, sums: Buffer
    ) -> Callable[[], None]:
        """Return what queues them."""
        blocks = self.blocks_over(n)
        partial = self._scratch.take("shares", 8 * blocks * count)
        given: list[Argument] = [np.int32(n), np.int32(count), np.int32(stride), vectors, w, partial]
        kernels = Kernels(self.device, self.load("cycle"))
        lanes = self.device.target.warp if self.device.backend == "cuda" else 1
        added: list[Argument] = [np.int32(count), np.int32(blocks), partial, sums]
        return in_turn(kernels.blocks("dots", blocks, given), kernels.over("add_shares", count * lanes, added))

    @property
    def lanes_of_aggregate(self) -> int:
        """Lanes that go through the nodes of an aggregate."""
        return LANES_OF_AGGREGATE[self.device.backend]

    def lanes(self, matrix: Storage, nnz: int) -> int:
        """Return how many lanes go through a row of a matrix with so many entries."""
        return width_for(self.device.target, nnz / max(matrix.shape[0], 1))


#: Steps of the kernel `largest_near`.
WITHIN_ONE, WITHIN_TWO, SPREAD = range(3)
#: Rounds of the search for an independent set after which it is seen whether there is more to do.
SEARCH_ROUNDS = 2
#: Returns a product whose rows lie in one segment each, without room.
Multiply = Callable[[Factors], Storage]


@dataclass(frozen=True)
class DeviceLevel:
    """A level on the device.

    Attributes
    ----------
    a
        Its matrix, each row in one segment without room.
    nnz
        Entries of it.
    diagonal
        `(n,)`, in the precision.
    radius
        The estimate of the spectral radius of D⁻¹A; 0 on the coarsest level, which needs none.
    p, r
        The prolongator from the next level, and its transpose; None on the coarsest.
    aggregates
        int32, of each node; None on the coarsest.
    t, ap
        The tentative prolongator, and A P: kept where values are to be refreshed, else None.
    unknowns, vectors
        Of a node of this level and of the next one: k columns of T for each aggregate.
    """

    a: Storage
    nnz: int
    diagonal: Buffer
    radius: float = 0.0
    p: Storage | None = None
    r: Storage | None = None
    aggregates: Buffer | None = None
    t: Storage | None = None
    ap: Storage | None = None
    unknowns: int = 1
    vectors: int = 1

    def release(self) -> None:
        """Give the memory back."""
        for part in (self.a, self.diagonal, self.p, self.r, self.aggregates, self.t, self.ap):
            if part is not None:
                part.release()


@dataclass(frozen=True)
class NearNull:
    """Vectors that a matrix nearly takes to 0.

    Attributes
    ----------
    vectors
        `(rows, count)`, row by row.
    count
        How many.
    """

    vectors: Buffer
    count: int


class Coarsening:
    """One level's set-up: from a matrix to the prolongator from the next level, and that level's matrix.

    Parameters
    ----------
    run
        What launches, and what holds memory for the time of this level.
    multiply
        Multiplies matrices.
    settings
        What is asked for.
    """

    def __init__(self, run: LevelLaunches, multiply: Multiply, settings: MultigridSettings) -> None:
        self._run, self._multiply, self._settings = run, multiply, settings
        self._zeros = True  # whether the matrix may store some

    def diagonal(self, a: Storage) -> Buffer:
        """Return the diagonal of a matrix, which the caller keeps.

        Raises
        ------
        ReproError
            One of its entries is missing, 0, or no number.
        """
        diagonal = self._run.device.allocate(max(a.shape[0], 1) * self._run.dtype.itemsize)
        try:
            self.take_diagonal(a, diagonal)
        except BaseException:
            diagonal.release()
            raise
        return diagonal

    def take_diagonal(self, a: Storage, diagonal: Buffer) -> None:
        """Put the diagonal of a matrix into memory for it; see `diagonal`."""
        run, n, bad = self._run, a.shape[0], self._run.zeros(3, np.int32)
        run.setup("take_diagonal", n, n, *rows_of(a), diagonal, bad)
        count, first, zeros = run.download(bad, 3, np.int32).tolist()
        self._zeros = bool(zeros)
        if count:
            raise ReproError(
                "multigrid needs a diagonal without zeros",
                where=f"row {0x7FFFFFFF - first}, the first of {count}",
                expected="a number other than 0",
            )

    def aggregates(self, level: DeviceLevel, unknowns: int) -> tuple[Buffer, Buffer, int]:
        """Return the aggregate of each node, which the caller keeps, keys to sort nodes by, and how many there are."""
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
        """Return the tentative prolongator, and the near null space of the next level, which the caller keeps."""
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
        return t, NearNull(coarse, k)

    def radius(self, level: DeviceLevel) -> float:
        """Return the estimate of the spectral radius of D⁻¹A; see `repro.sparse.multigrid.reference.spectral_radius`.

        Raises
        ------
        ReproError
            The matrix has numbers that are not finite.
        """
        radius = 0.0
        for first in (0, level.a.shape[0]):
            radius = max(radius, self._largest_ritz_value(level, first))
            if radius >= MIN_RADIUS:
                break
        return max(radius, 1.0)

    def _largest_ritz_value(self, level: DeviceLevel, first: int) -> float:
        """Do the steps of Arnoldi's process, which begins with the keys of nodes from one on."""
        run, n, steps = self._run, level.a.shape[0], self._settings.ritz_steps
        lanes = run.lanes(level.a, level.nnz)
        basis, whole, stride = run.vectors(steps + 1, n)
        w, blocks = run.scalars(n), run.blocks_over(n)
        # of each step the products with the vectors before, and the square of what is left
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
        """Return the smoothed prolongator, which the caller keeps: P = T - ω/ρ D⁻¹ A T, made of A T where it lies."""
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
        """Return the transpose of a matrix, which the caller keeps, its columns in order."""
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
        """Return R (A P), which the caller keeps, and its entries; a row that nothing meets has a 1 on the diagonal."""
        ap = self.multiplied(a, p)
        try:
            return self.coarse_of(r, ap)
        finally:
            ap.release()

    def multiplied(self, a: Storage, p: Storage) -> Storage:
        """Return A P, which the caller keeps."""
        return self._multiply(Factors(a, p))

    def coarse_of(self, r: Storage, ap: Storage) -> tuple[Storage, int]:
        """Return R (A P) of R and A P; see `coarse`."""
        product = self._multiply(Factors(r, ap))
        self._fill_empty(product)
        return product, product.report().pointer

    def _fill_empty(self, product: Storage) -> None:
        n = product.shape[0]
        self._run.setup("fill_empty", n, n, product.table, product.columns, product.values)

    def refresh(self, level: DeviceLevel, coarse: Storage, multiplication: Multiplication) -> None:
        """Make P, R, A P and the next level's matrix of the values of a level's matrix, where they lie.

        Parameters
        ----------
        level
            With T and A P, and with diagonal and radius of these values.
        coarse
            The next level's matrix.
        multiplication
            What multiplies into patterns that are there.
        """
        t, p, r, ap, aggregates = level.t, level.p, level.r, level.ap, level.aggregates
        assert t is not None and p is not None and r is not None and ap is not None and aggregates is not None
        run, rows = self._run, p.shape[0]

        def refill(a: Storage, b: Storage, c: Storage) -> None:
            with multiplication.refilled(Factors(a, b), c) as launch:
                launch()
                run.device.synchronize()  # its lists of rows are given back here

        refill(level.a, t, p)
        self._smooth(level, aggregates, t, p, level.unknowns, level.vectors, level.radius)
        run.setup("refill_transposed", rows, rows, *rows_of(p), *rows_of(r))
        refill(level.a, p, ap)
        refill(r, ap, coarse)
        self._fill_empty(coarse)


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

    Parameters
    ----------
    device, load
        Where, and what gives modules in the precision of the matrix.
    a
        A square matrix, each row in one segment without room, no column twice. It becomes that of the finest level;
        where there will be none, it is given back.
    near_null
        `(n, k)` on the host; None: the constant vector.
    unknowns
        Of a node, one after the other.
    refreshable
        Whether levels keep T and A P, so that `refresh_on` can take other values.
    multiply
        Multiplies matrices; None: in one phase.

    Raises
    ------
    ReproError
        The matrix is not square, its diagonal has a zero, or the vectors do not fit.
    OutOfDeviceMemory
    """
    settings = settings or MultigridSettings()
    levels: list[DeviceLevel] = []
    left: Storage | None = a  # a matrix that no level has yet
    try:
        vectors = None if near_null is None else np.asarray(near_null)
        _check(a, vectors, unknowns)
        multiply = multiply or Multiplication(device, load, a.dtype).in_one_phase
        nnz = a.report().pointer
        near = _ones(device, load, a) if vectors is None else _upload(device, vectors, a.dtype)
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
    """Return levels that were set up before, for other values of the finest matrix in the same places.

    Aggregates, tentative prolongators and the patterns of all matrices stay, those of strong connections therefore too,
    whatever the values say; diagonals, radii and the values of P, R and all coarser matrices are computed anew where
    they lie. With the same aggregates a set-up comes to the same, but for rounding.

    Parameters
    ----------
    device, load, settings
        As of the set-up.
    levels
        Set up as `refreshable`; the finest matrix has the new values.

    Raises
    ------
    ReproError
        The values make no sense. Those of some levels are new then, and those of others are not.
    OutOfDeviceMemory
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
                refreshed.append(replace(level, radius=step.radius(level)))
                step.refresh(refreshed[-1], levels[at + 1].a, multiplication)
    return refreshed


def _coarsen(
    step: Coarsening, level: DeviceLevel, near: NearNull, stall: float, refreshable: bool
) -> tuple[DeviceLevel, Storage, int, NearNull] | None:
    """Return a level with its prolongator, and what the next one is made of; None where that would not be coarser."""
    rows, unknowns = level.a.shape[0], level.unknowns
    with ExitStack() as made, ExitStack() as passing:
        aggregates, keys, count = step.aggregates(level, unknowns)
        made.callback(aggregates.release)
        if not count or count * near.count > stall * rows:
            return None
        t, coarse_near = step.tentative(aggregates, keys, rows // unknowns, count, unknowns, near)
        made.callback(coarse_near.vectors.release)
        if refreshable:
            t.retain()  # longer than for this level's set-up
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


def _ones(device: Device, load: Load, a: Storage) -> NearNull:
    """Return the constant vector."""
    n, with_room = a.shape[0], device.allocate(max(a.shape[0], 1) * a.dtype.itemsize)
    Kernels(device, load("setup")).over("fill_ones", n, [np.int32(n), with_room])()
    return NearNull(with_room, 1)


def _upload(device: Device, vectors: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NearNull:
    return NearNull(device.upload(np.ascontiguousarray(vectors, dtype).ravel()), vectors.shape[1])


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
