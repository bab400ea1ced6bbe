"""Runnables of products: the rows of one bin, whole products, the numeric phase alone, and those of libraries.

The kernels for the rows of a bin are what is searched; a plan has the ones that were chosen for the bins of a
product. The libraries are cuSPARSE on a GPU and SciPy on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import Row
from repro.bench.runnable import Candidate, ClockName, not_prepared
from repro.bench.workspace import Workspace
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.sparse.device_work import ModuleFile, Work, keep
from repro.sparse.dynamic.storage import Storage
from repro.sparse.library.cusparse_bindings import gpu, version
from repro.sparse.library.cusparse_csr import SPGEMM_ALGORITHMS, Gemm, GemmReuse, GpuCsr
from repro.sparse.library.registry import among
from repro.sparse.multigrid.hierarchy import LevelLaunches, rows_of
from repro.sparse.operands import NAN_BYTE
from repro.sparse.spgemm.kernels import BINS, LIMITS
from repro.sparse.spgemm.multiplication import ONE_PHASE, TWO_PHASES, CoordinateMultiplication, Multiplication, Steps
from repro.sparse.spgemm.rows import Factors, Plan, ProductBins, ProductRows, papers_plan, plan_for_any, plan_products
from repro.studies.spgemm_amg import STUDY_NAME, ProductName
from repro.studies.spgemm_amg.ids import BinMode, KernelId, Shape, shapes_for
from repro.studies.spgemm_amg.operands import AmgOperands, Multiplied, factor_of, factors_on, operands_of
from repro.tuning.search import Choice, pick

#: The clock that kernels of bins are chosen by: the one that they have.
CLOCK = "event"
#: The tuning that a case is counted by: what most rows of the first product of the set-up are in; where there is no
#: set-up, those of A A.
HEADLINE = "headline"


@dataclass(frozen=True)
class Plans:
    """What was chosen for the rows of one product.

    Attributes
    ----------
    shapes
        By mode and bin; what is not there is done as is expected to be best.
    """

    shapes: Mapping[tuple[BinMode, int], Shape] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(f"{mode}/{bin}/{shape}" for (mode, bin), shape in sorted(self.shapes.items(), key=str))

    def on(self, target: Target, scalar_bytes: int, mode: BinMode) -> Plan:
        """Return the plan for rows that are binned by their products, or by their entries."""
        usual = plan_products(target, scalar_bytes) if mode == "one" else plan_for_any(target, scalar_bytes)
        return Plan(tuple(self.shapes.get((mode, bin), shape) for bin, shape in enumerate(usual.shapes)))


def tuning_of(product: ProductName, mode: BinMode, bin: int) -> str:
    """Return the name of a choice: `AP/one/b1`."""
    return f"{product}/{mode}/b{bin}"


def choose_kernels(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the fastest kernel of each bin of each product, of the paper's (`paper/AP/one/b1`) and of all."""

    def asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        tunings: dict[str, list[Row]] = {}
        for row in timed:
            tuning = tuning_of(row["product"], row["mode"], row["bin"])
            tunings.setdefault(tuning, []).append(row)
            if row.space == "paper":
                tunings.setdefault(f"paper/{tuning}", []).append(row)
        main = _main_bin(timed)
        return {HEADLINE: main, **tunings} if main else tunings

    return pick([row for row in rows if row["what"] == "bin"], tie, asked)


def _main_bin(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the bin that most of a product is in, in one phase: of A P, or of A A."""
    in_one = [row for row in rows if row["mode"] == "one" and row["product"] in ("AP", "AA")]
    of_first = [row for row in in_one if row["product"] == "AP"] or in_one
    most = max((row["products"] or 0 for row in of_first), default=0)
    return [row for row in of_first if row["products"] == most]


def plans_of(choices: Iterable[Choice]) -> dict[ProductName, Plans]:
    """Return what was chosen, product by product."""
    shapes: dict[ProductName, dict[tuple[BinMode, int], Shape]] = {}
    for choice in choices:
        id = KernelId.parse(choice.name)
        if choice.clock == CLOCK and choice.tuning == tuning_of(id.product, id.mode, id.bin):
            shapes.setdefault(id.product, {})[id.mode, id.bin] = id.shape
    return {product: Plans(of_bins) for product, of_bins in shapes.items()}


#: `one`: rows in segments as they are done; `two`: their sizes first; `paper`: in one phase, by the paper's sorts;
#: `coordinates`: all products sorted by row and column, with which the paper compares.
ProductMethod = Literal["one", "two", "paper", "coordinates"]
_STEPS: Mapping[ProductMethod, tuple[str, ...]] = {
    "one": ONE_PHASE,
    "paper": ONE_PHASE,
    "two": TWO_PHASES,
    "coordinates": (),
}


class Product(Multiplied):
    """A product on the device by modules of ours.

    Parameters
    ----------
    built
        The modules of a precision by name.
    product
        Which one.
    plans
        What was chosen for the bins of this product; None: what is expected to fit.
    """

    kind = "variant"
    cold = False

    def __init__(self, built: Mapping[str, ModuleFile], product: ProductName, plans: Plans | None = None) -> None:
        self._built, self.product, self._plans = built, product, plans
        self._held = ExitStack()
        self._c: Storage | None = None
        self._said: dict[str, Any] = {}
        self._work: Work | None = None

    @property
    def identity(self) -> str:
        """The hashes of all modules, and the kernels that were chosen."""
        return " ".join([*(built.module.hash for built in self._built.values()), str(self._plans or "")])

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is multiplied, and how much it is."""
        return {"product": self.product, **self._said}

    def prepare(self, workspace: Workspace) -> None:
        """Bring the factors to the device.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            self._work = work = Work(workspace, self._built, held)
            factors = factors_on(workspace, self.product)
            self.bind(work, factors)
            self._held = held.pop_all()
        amount, self.moved = operands_of(workspace).amount(self.product)
        self._said |= amount

    def bind(self, work: Work, factors: Factors) -> None:
        """Do what `prepare` does with the factors; what is held is given to `work`."""
        raise NotImplementedError

    def multiplication(self, work: Work, phases: int) -> Multiplication:
        """Return what multiplies in so many phases, with the kernels that were chosen, if any were."""
        target, dtype = work.device.target, operands_of(work.workspace).dtype
        if self._plans is None:
            return Multiplication(work.device, work.program, dtype)
        plans = self._plans
        # what was chosen for one phase may be a sort, which finds no sizes
        in_one = plans.on(target, dtype.itemsize, "one") if phases == 1 else None
        return Multiplication(work.device, work.program, dtype, in_one, plans.on(target, dtype.itemsize, "numeric"))

    def result(self) -> sp.csr_array:
        """Wait, and return the product."""
        assert self._c is not None
        return self._c.download().to_csr()

    def rows_times(self, x: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """Wait, and return the entries of each row of the product, and C x, computed where it lies."""
        assert self._c is not None and self._work is not None
        c, work = self._c, self._work
        with ExitStack() as held:
            run = LevelLaunches(work.device, work.program, c.dtype, held)
            y, given, lanes = run.scalars(c.shape[0]), run.upload(x.astype(c.dtype)), run.lanes(c, c.report().pointer)
            run.cycle(f"multiply_w{lanes}", c.shape[0], c.shape[0], *rows_of(c), given, y, lanes=lanes)
            return run.download(c.sizes, c.shape[0], np.int32), run.download(y, c.shape[0], c.dtype)

    def release(self) -> None:
        """Give all memory back."""
        self._drop()
        self._held, held = ExitStack(), self._held
        held.close()
        self._work = None
        self.launch = not_prepared
        self.stages = dict.fromkeys(self.stages, not_prepared)

    def _drop(self) -> None:
        if self._c is not None:
            self._c.release()
            self._c = None


class WholeProduct(Product):
    """A product from its factors on the device to C there, memory allocated on the way.

    Parameters
    ----------
    built, product, plans
        As of `Product`.
    way
        How it is computed.
    """

    clocks: tuple[ClockName, ...] = ("host",)

    def __init__(
        self,
        built: Mapping[str, ModuleFile],
        product: ProductName,
        way: ProductMethod = "one",
        plans: Plans | None = None,
    ) -> None:
        super().__init__(built, product, plans)
        self._way = way
        self.name = f"{product}/{way}{'-tuned' if plans else ''}"
        self.stages = dict.fromkeys(_STEPS[way], not_prepared)
        self._open = ExitStack()

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done, which way, and how much memory that takes."""
        method = {"paper": "sort", "coordinates": "coordinates"}.get(self._way, "tuned" if self._plans else "default")
        mode = self._way if self._way in ("two", "coordinates") else "one"
        return {"what": "product", "mode": mode, "method": method, **super().columns}

    def bind(self, work: Work, factors: Factors) -> None:
        """Bind the product, and see how much memory it takes."""
        multiply = self._bind_product(work, factors)

        def launch() -> None:
            self._c = multiply(factors)

        self.launch = launch
        self._said["peak_bytes"] = work.device.pool_growth(lambda: multiply(factors).release())

    def _bind_product(self, work: Work, factors: Factors) -> Callable[[Factors], Storage]:
        if self._way == "coordinates":
            return CoordinateMultiplication(work.device, work.program).multiply
        multiplication = self.multiplication(work, 2 if self._way == "two" else 1)
        if self._way == "paper":
            multiplication.usual = papers_plan(work.device.target, factors.a.dtype.itemsize)
        self._bind_stages(multiplication, factors)
        return multiplication.in_two_phases if self._way == "two" else multiplication.in_one_phase

    def _bind_stages(self, multiplication: Multiplication, factors: Factors) -> None:
        """Bind the steps of a product of its own, which the first of them begins and the last one ends."""
        steps: list[Steps] = []
        names = _STEPS[self._way]

        def stage(name: str) -> Callable[[], None]:
            def launch() -> None:
                if name == names[0]:
                    steps[:] = [self._open.enter_context(multiplication.steps(factors, names))]
                    self._c = steps[0].c  # given back as well where a step fails
                steps[0].all[name]()
                if name == names[-1]:
                    self._open.close()

            return launch

        self.stages = {name: stage(name) for name in names}

    def before(self) -> None:
        """Give the product of the launch before back."""
        self._open.close()
        self._drop()

    def release(self) -> None:
        """Give all memory back."""
        self._open.close()
        super().release()


class Refill(Product):
    """The numeric phase alone, into a product of factors with the same patterns."""

    #: Kernels of bins run side by side: in a graph, where they are forked and joined each time, they take longer.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, built: Mapping[str, ModuleFile], product: ProductName, plans: Plans | None = None) -> None:
        super().__init__(built, product, plans)
        self.name = f"{product}/refill{'-tuned' if plans else ''}"

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is done."""
        return {
            "what": "numeric",
            "mode": "refill",
            "method": "tuned" if self._plans else "default",
            **super().columns,
        }

    def bind(self, work: Work, factors: Factors) -> None:
        """Multiply once, for the pattern, and bind what fills it."""
        multiplication = self.multiplication(work, 2)
        self._c = c = multiplication.in_two_phases(factors)
        bound = ExitStack()
        work.at_end(bound.close)
        self.launch = bound.enter_context(multiplication.refilled(factors, c))
        work.device.fill(c.values, NAN_BYTE)  # so that what is left out is seen


MODES: tuple[BinMode, ...] = ("one", "numeric")


#: A bin with fewer of all products is not searched: whatever its rows are in, it is nothing beside the others.
MIN_SHARE = 0.01
#: Columns that a sum a column goes through, of all rows of a bin: beyond, one launch takes a second and more.
MAX_SUMS = 200_000_000_000


class BinKernel(Product, Candidate):
    """The rows of a bin, the others left out. Listing them, and having memory for them, is no part of the time."""

    #: A pointer is put back before each launch.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, built: Mapping[str, ModuleFile], id: KernelId) -> None:
        super().__init__(built, id.product)
        self.id, self.space, self.name = id, id.space, str(id)
        self.mode, self.bin = id.mode, id.bin
        self.packing = id.product
        self.group = id.product, id.mode, id.bin, id.method
        self._restore: Callable[[], None] = lambda: None  # what has its places stays there

    @property
    def identity(self) -> str:
        """The hashes of the modules that it uses."""
        module = self.id.shape.kernel(self.id.mode)[0] if self.id.shape else self.id.mode
        return " ".join(self._built[name].module.hash for name in ("count-exact", f"{module}-exact", "sort", "matrix"))

    @property
    def columns(self) -> Mapping[str, Any]:
        """Rows and kernel, and how much it is."""
        return {**super().columns, **self.id.columns, "space": self.space}

    def prepare(self, workspace: Workspace) -> None:
        """List the bin's rows, and bind the kernel.

        Raises
        ------
        Unsupported, ModuleError, OutOfDeviceMemory
        """
        super().prepare(workspace)
        operands = operands_of(workspace)
        expected = operands.expected(self.product)
        rows = expected.rows_of(self.mode, self.bin)
        nonzeros = int(expected.sizes[rows].sum())
        self._said = {"products": int(expected.products[rows].sum()), "nonzeros": nonzeros, "rows": int(rows.sum())}
        # of A these rows, of B a row for each of their entries at the least once: the whole of it, or less
        self.moved = operands.bytes_of_csr(int(rows.sum()), nonzeros)

    def bind(self, work: Work, factors: Factors) -> None:
        """Bind the kernel to memory that is as large as the product."""
        device = work.device
        bins = work.keep(ProductBins(device, work.program("count-exact"), factors.shape[0]))
        left = work.keep(device.allocate(4 * bins.stride))
        if self.mode == "numeric":
            self._c = c = Multiplication(device, work.program, factors.a.dtype).in_two_phases(factors)
            bins.by_sizes(c)
            device.fill(c.values, NAN_BYTE)
        else:
            entries = int(operands_of(work.workspace).expected(self.product).sizes.sum())
            self._c = c = Storage.empty(device, factors.shape, 1, max(entries, 1), factors.a.dtype)
            bins.by_products(factors.a, factors.b, c)
        counts = bins.read()
        only = tuple(rows if bin == self.bin else 0 for bin, rows in enumerate(counts.rows))
        shapes: list[Shape] = [None] * BINS
        plan = Plan((*shapes[: self.id.bin], self.id.shape, *shapes[self.id.bin + 1 :]))
        scratch = ExitStack()
        work.at_end(scratch.close)
        rows = ProductRows(device, work.program, factors, c, bins, left)
        self.launch = rows.bind(self.id.mode, replace(counts, rows=only), plan, scratch)
        if self.mode == "one":
            self._restore = lambda: device.fill(c.state, 0)

    def before(self) -> None:
        """Let segments be cut off from the beginning again."""
        self._restore()


def kernels_of(
    built: Mapping[str, ModuleFile], operands: AmgOperands, target: Target, space: str, least_share: float = MIN_SHARE
) -> list[BinKernel]:
    """Return the kernels of a space to try, for each bin that matters; those of one product follow each other.

    Parameters
    ----------
    space
        `paper` or `extended`.
    least_share
        Of all products, that a bin has to have.
    """
    kernels: list[BinKernel] = []
    for product in operands.products:
        expected = operands.expected(product)
        for mode in MODES:
            for bin in range(BINS):
                rows = expected.rows_of(mode, bin)
                least = least_share * int(expected.products.sum())
                if not rows.any() or int(expected.products[rows].sum()) < least:
                    continue
                limit = LIMITS[bin] if bin < len(LIMITS) else None
                longest = int(np.max(expected.sizes[rows]))
                shapes = shapes_for(target, operands.dtype.itemsize, mode, limit, longest)
                if int(np.count_nonzero(rows)) * len(expected.x) > MAX_SUMS:
                    shapes = [shape for shape in shapes if shape is not None]
                ids = (KernelId(product, mode, bin, shape) for shape in shapes)
                kernels += [BinKernel(built, id) for id in ids if id.space == space]
    return kernels


REUSE = "reuse"
#: Of numbers that no product has: 32.5 in double precision, 3.004 in single.
WRONG_BYTE = 0x40
#: Routines by backend.
ROUTINES: Mapping[str, tuple[str, ...]] = {"cuda": (*SPGEMM_ALGORITHMS, REUSE), "opencl": ("csr",)}


def routines(settings: StudySettings, backend: str) -> list[str]:
    """Return the routines that are asked for on a backend.

    Raises
    ------
    ReproError
        One is none.
    """
    return among(STUDY_NAME, settings.baselines, ROUTINES[backend])


def library_products(names: Collection[str], backend: str, product: ProductName) -> Sequence[LibraryProduct]:
    """Return the routines of these names for a product; of `reuse` its numeric phase alone too."""
    if backend == "opencl":
        return [ScipyProduct(product)] if names else []
    whole = [CusparseProduct(product, name) for name in ROUTINES[backend] if name in names]
    return [*whole, CusparseRefill(product)] if REUSE in names else whole


class LibraryProduct(Multiplied):
    """A product by a library."""

    kind = "baseline"
    cold = False
    clocks: tuple[ClockName, ...] = ("host",)
    what: Literal["product", "numeric"] = "product"
    library: str

    def __init__(self, product: ProductName, routine: str) -> None:
        self.product, self.routine = product, routine
        self.name = f"{self.library}/spgemm-{routine.lower()}/{product}"
        self._held = ExitStack()
        self._said: dict[str, Any] = {}

    @property
    def columns(self) -> Mapping[str, Any]:
        """What is multiplied, by which routine."""
        return {"what": self.what, "product": self.product, "routine": self.routine, "format": "csr", **self._said}

    def prepare(self, workspace: Workspace) -> None:
        """Bring the factors to where the library takes them.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        self.release()
        with ExitStack() as held:
            self.bind(workspace, held)
            self._held = held.pop_all()
        amount, self.moved = operands_of(workspace).amount(self.product)
        self._said |= amount

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Do what `prepare` does; what is held is given to the stack."""
        raise NotImplementedError

    def release(self) -> None:
        """Give all memory back."""
        self._held, held = ExitStack(), self._held
        held.close()
        self.launch = not_prepared


class CusparseProduct(LibraryProduct):
    """A product by cuSPARSE from its factors on the GPU to C there, memory from the same pool as ours."""

    library = "cusparse"

    def __init__(self, product: ProductName, routine: str) -> None:
        super().__init__(product, routine)
        self._c: GpuCsr | None = None

    @property
    def identity(self) -> str:
        """The library's version."""
        return f"{version()} {self.name}"

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Upload the factors, and see how much memory a product takes.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        device = gpu(workspace.device)
        multiplier = held.enter_context(_multiplier(workspace, self.product, self.routine))

        def multiply() -> GpuCsr:
            with device.pooling():
                return multiplier.multiply()

        def launch() -> None:
            self._c = multiply()

        self.launch = launch
        self._said = {"peak_bytes": device.pool_growth(lambda: multiply().release())}

    def before(self) -> None:
        """Give the product of the launch before back."""
        if self._c is not None:
            self._c.release()
            self._c = None

    def result(self) -> sp.csr_array:
        """Wait, and return the product."""
        assert self._c is not None
        return self._c.download()

    def release(self) -> None:
        """Give all memory back."""
        self.before()
        super().release()


class CusparseRefill(LibraryProduct):
    """The numeric phase of `SpGEMMreuse` alone, into a product whose pattern it has."""

    library = "cusparse"
    what = "numeric"
    #: As ours: kernels that run side by side take longer in a graph, where they are forked and joined each time.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, product: ProductName) -> None:
        super().__init__(product, f"{REUSE}-compute")
        self._read: Callable[[], sp.csr_array] | None = None

    @property
    def identity(self) -> str:
        """The library's version."""
        return f"{version()} {self.name}"

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Multiply once, for the pattern, and bind the numeric phase.

        Raises
        ------
        Unsupported, OutOfDeviceMemory
        """
        reuse = held.enter_context(_multiplier(workspace, self.product, REUSE))
        assert isinstance(reuse, GemmReuse)
        c = keep(held, reuse.multiply())
        self.launch = reuse.bind()
        self._read = c.download
        # so that what is left out is seen; finite, since 0 times C may be added
        workspace.device.fill(c.values, WRONG_BYTE)

    def result(self) -> sp.csr_array:
        """Wait, and return the product."""
        assert self._read is not None
        return self._read()


@contextmanager
def _multiplier(workspace: Workspace, product: ProductName, routine: str) -> Iterator[Gemm | GemmReuse]:
    """Give what multiplies the factors of a product on the GPU."""
    device = gpu(workspace.device)
    given = factor_of(workspace, product)
    with ExitStack() as held:
        a = keep(held, GpuCsr.upload(device, given.a))
        b = a if given.b is given.a else keep(held, GpuCsr.upload(device, given.b))
        yield keep(held, GemmReuse(device, a, b) if routine == REUSE else Gemm(device, a, b, routine))


class ScipyProduct(LibraryProduct):
    """A product by SciPy, on one core."""

    library = "scipy"
    drops = True

    def __init__(self, product: ProductName) -> None:
        super().__init__(product, "csr")
        self._c: sp.csr_array | None = None

    @property
    def identity(self) -> str:
        """SciPy's version."""
        import scipy

        return f"{scipy.__version__} {self.name}"

    def bind(self, workspace: Workspace, held: ExitStack) -> None:
        """Take the factors as they are."""
        a, b = factor_of(workspace, self.product)

        def launch() -> None:
            self._c = sp.csr_array(a @ b)

        self.launch = launch

    def result(self) -> sp.csr_array:
        """Return the product."""
        assert self._c is not None
        return self._c
