"""Runnables of products: the rows of one bin, whole products, the numeric phase alone, library products, and rivals.

The kernels for the rows of a bin are searched; `BinShapes` has the chosen kernels for the bins of a product.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from repro.bench.rows import ClockName, Row
from repro.bench.runnable import Candidate, Runnable, Workspace, not_prepared
from repro.codegen.targets import Target
from repro.config.models import Rival, StudySettings
from repro.errors import Unsupported
from repro.sparse.device_primitives import ModuleFile, RunnableContext
from repro.sparse.dynamic.storage import Storage
from repro.sparse.library import among
from repro.sparse.library.cusparse_bindings import gpu, version
from repro.sparse.library.cusparse_csr import SPGEMM_ALGORITHMS, Gemm, GemmReuse, GpuCsr
from repro.sparse.multigrid.hierarchy import LevelLaunches, row_arguments
from repro.sparse.operands import NAN_BYTE
from repro.sparse.rivals.runnables import RivalMultiplication, RivalSolution
from repro.sparse.spgemm.binned_rows import (
    BinShapes,
    Factors,
    ProductBins,
    ProductRows,
    papers_shapes,
    shapes_by_products,
    shapes_for_any_row,
)
from repro.sparse.spgemm.kernels import BINS, LIMITS
from repro.sparse.spgemm.multiplication import (
    ONE_PHASE,
    TWO_PHASES,
    CoordinateMultiplication,
    Destinations,
    Multiplication,
    Steps,
)
from repro.sparse.spgemm.one_launch import factor_sizes, single_launch, trim_products
from repro.studies.spgemm_amg import STUDY_NAME, TOLERANCE, ProductName
from repro.studies.spgemm_amg.ids import AmgRow, BinMode, KernelId, Shape, shapes_for
from repro.studies.spgemm_amg.operands import (
    AmgOperands,
    SolveRunnable,
    SpgemmRunnable,
    factor_of,
    factors_on,
    operands_of,
)
from repro.tuning.search import Choice, pick

#: The clock by which kernels of bins are chosen; kernels of bins have no other clock.
CLOCK = "event"
#: The tuning whose winner represents a case in reports: the bin with most products of the set-up's first product A P,
#: or of A A if there is no set-up.
HEADLINE = "headline"


@dataclass(frozen=True)
class ChosenKernels:
    """The kernels chosen for the bins of one product."""

    #: Chosen kernel by mode and bin; other bins use the kernel that is expected to be the fastest.
    by_bin: Mapping[tuple[BinMode, int], Shape] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join(f"{mode}/{bin}/{shape}" for (mode, bin), shape in sorted(self.by_bin.items(), key=str))

    def on(self, target: Target, scalar_bytes: int, mode: BinMode) -> BinShapes:
        """Return the shapes for rows that are binned by their products, or by their entries."""
        default_shapes = (
            shapes_by_products(target, scalar_bytes) if mode == "one" else shapes_for_any_row(target, scalar_bytes)
        )
        return BinShapes(tuple(self.by_bin.get((mode, bin), shape) for bin, shape in enumerate(default_shapes.shapes)))


def tuning_of(kernel: KernelId | AmgRow) -> str:
    """Return the name of the tuning that chooses a bin's kernel: `AP/one/b1`."""
    return f"{kernel.product}/{kernel.mode}/b{kernel.bin}"


def choose_kernels(rows: Sequence[Row], tie: float, ids: Iterable[KernelId] = ()) -> list[Choice]:
    """Return the fastest kernel for each bin of each product, among the paper's (`paper/AP/one/b1`) and among all."""

    def candidates_by_tuning(timed_rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        tunings: dict[str, list[Row]] = {}
        for row in timed_rows:
            tuning = tuning_of(AmgRow.of(row))
            tunings.setdefault(tuning, []).append(row)
            if row.space == "paper":
                tunings.setdefault(f"paper/{tuning}", []).append(row)
        main = _main_bin(timed_rows)
        return {HEADLINE: main, **tunings} if main else tunings

    return pick([row for row in rows if AmgRow.of(row).what == "bin"], tie, candidates_by_tuning, ids)


def _main_bin(rows: Iterable[Row]) -> list[Row]:
    """Return the one-phase kernels of the bin that has most products of A P, or else of A A."""
    one_phase_rows = [(kernel_row, row) for row in rows if (kernel_row := AmgRow.of(row)).mode == "one"]
    first = [(kernel_row, row) for kernel_row, row in one_phase_rows if kernel_row.product == "AP"]
    first = first or [(kernel_row, row) for kernel_row, row in one_phase_rows if kernel_row.product == "AA"]
    most_products = max((kernel_row.products or 0 for kernel_row, _ in first), default=0)
    return [row for kernel_row, row in first if kernel_row.products == most_products]


def chosen_kernels(choices: Iterable[Choice]) -> dict[ProductName, ChosenKernels]:
    """Return the chosen kernels of each product."""
    by_product: dict[ProductName, dict[tuple[BinMode, int], Shape]] = {}
    for choice in choices:
        id = choice.id
        if isinstance(id, KernelId) and choice.clock == CLOCK and choice.tuning == tuning_of(id):
            by_product.setdefault(id.product, {})[id.mode, id.bin] = id.shape
    return {product: ChosenKernels(shapes_by_bin) for product, shapes_by_bin in by_product.items()}


#: Methods. `single`: one launch; `one`: one phase; `two`: row sizes first; `paper`: one phase with the paper's sorts;
#: `coordinates`: sorts all products by row and column, the method with which the paper compares its own.
ProductMethod = Literal["single", "one", "two", "paper", "coordinates"]
_STEPS: Mapping[ProductMethod, tuple[str, ...]] = {
    "single": ("whole",),
    "one": ONE_PHASE,
    "paper": ONE_PHASE,
    "two": TWO_PHASES,
    "coordinates": (),
}


class Product(SpgemmRunnable):
    """A product by our modules; bins without a chosen kernel use the kernels that are expected to be the fastest."""

    kind = "variant"

    def __init__(
        self, modules: Mapping[str, ModuleFile], product: ProductName, chosen_kernels: ChosenKernels | None = None
    ) -> None:
        super().__init__(modules)
        self.product, self._chosen = product, chosen_kernels
        self._c: Storage | None = None

    @property
    def identity(self) -> str:
        return " ".join([*(module_file.module.hash for module_file in self._built.values()), str(self._chosen or "")])

    def bind(self, work: RunnableContext) -> None:
        self.bind_product(work, factors_on(work.workspace, self.product))

    def bind_product(self, work: RunnableContext, factors: Factors) -> None:
        raise NotImplementedError

    def multiplication(self, work: RunnableContext, phases: int) -> Multiplication:
        target, dtype = work.device.target, operands_of(work.workspace).dtype
        if self._chosen is None:
            return Multiplication(work.device, work.load, dtype)
        chosen_kernels = self._chosen
        # a kernel chosen for one phase may be a sort, which cannot find row sizes
        one_phase_shapes = chosen_kernels.on(target, dtype.itemsize, "one") if phases == 1 else None
        return Multiplication(
            work.device, work.load, dtype, one_phase_shapes, chosen_kernels.on(target, dtype.itemsize, "numeric")
        )

    def erase_result(self, workspace: Workspace) -> None:
        if self._c is not None and self._c.capacity:
            workspace.device.fill(self._c.values, NAN_BYTE)

    def result(self) -> sp.csr_array:
        assert self._c is not None
        return self._c.download().to_csr()

    def rows_times(self, x: NDArray[np.float64]) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """Compute C x on the device that holds C."""
        assert self._c is not None and self._work is not None
        c, work = self._c, self._work
        with ExitStack() as stack:
            run = LevelLaunches(work.device, work.load, c.dtype, stack)
            y, device_x, lanes = (
                run.scalars(c.shape[0]),
                run.upload(x.astype(c.dtype)),
                run.lanes(c, c.report().pointer),
            )
            run.cycle(f"multiply_w{lanes}", c.shape[0], c.shape[0], *row_arguments(c), device_x, y, lanes=lanes)
            return run.download(c.sizes, c.shape[0], np.int32), run.download(y, c.shape[0], c.dtype)

    def release(self) -> None:
        self._release_product()
        super().release()

    def _release_product(self) -> None:
        if self._c is not None:
            self._c.release()
            self._c = None


class WholeProduct(Product):
    """A whole product from factors on the device to C on the device, with memory allocated during the launch."""

    clocks: tuple[ClockName, ...] = ("host",)
    before_is_free = True

    def __init__(
        self,
        modules: Mapping[str, ModuleFile],
        product: ProductName,
        method: ProductMethod = "one",
        chosen_kernels: ChosenKernels | None = None,
    ) -> None:
        super().__init__(modules, product, chosen_kernels)
        self._method = method
        self.name = f"{product}/{method}{'-tuned' if chosen_kernels else ''}"
        self.stages = dict.fromkeys(_STEPS[method], not_prepared)
        self._open = ExitStack()

    @property
    def columns(self) -> Mapping[str, Any]:
        method = {"paper": "sort", "coordinates": "coordinates"}.get(
            self._method, "tuned" if self._chosen else "default"
        )
        mode = "one" if self._method == "paper" else self._method
        return {"what": "product", "mode": mode, "method": method, **super().columns}

    def bind_product(self, work: RunnableContext, factors: Factors) -> None:
        multiply = self._multiply(work, factors)

        def launch() -> None:
            self._c = multiply(factors)

        self.launch = launch
        if self._method == "single":
            self.stages = {"whole": launch}
        # release cached memory first, so that the pool grows by all memory of the product
        trim_products(work.device)
        self._amounts["peak_bytes"] = work.device.pool_growth(lambda: multiply(factors).release())

    def _multiply(self, work: RunnableContext, factors: Factors) -> Callable[[Factors], Storage]:
        if self._method == "coordinates":
            return CoordinateMultiplication(work.device, work.load).multiply
        multiplication = self.multiplication(work, 2 if self._method == "two" else 1)
        if self._method == "single":
            return self._single(multiplication)
        if self._method == "paper":
            multiplication.by_products = papers_shapes(work.device.target, factors.a.dtype.itemsize)
        self._bind_stages(multiplication, factors)
        return multiplication.multiply_in_two_phases if self._method == "two" else multiplication.multiply_in_one_phase

    def _single(self, multiplication: Multiplication) -> Callable[[Factors], Storage]:
        def multiply(factors: Factors) -> Storage:
            product = multiplication.multiply_in_one_launch(factors)
            if product is None:
                raise Unsupported("rows differ too much for one launch, or it would take too much memory")
            return product

        return multiply

    def _bind_stages(self, multiplication: Multiplication, factors: Factors) -> None:
        """Bind the steps of a product: the first step begins the product, the last step ends it."""
        steps: list[Steps] = []
        names = _STEPS[self._method]

        def stage(name: str) -> Callable[[], None]:
            def launch() -> None:
                if name == names[0]:
                    steps[:] = [self._open.enter_context(multiplication.steps(factors, names))]
                    self._c = steps[0].c  # release the memory also if a step fails
                steps[0].all[name]()
                if name == names[-1]:
                    self._open.close()

            return launch

        self.stages = {name: stage(name) for name in names}

    def before(self) -> None:
        self._open.close()
        self._release_product()

    def erase_result(self, workspace: Workspace) -> None:
        self.before()

    def release(self) -> None:
        self._open.close()
        super().release()


class SingleKernel(Product):
    """The kernel of a whole product in one launch, into existing memory, without allocation or readback."""

    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, modules: Mapping[str, ModuleFile], product: ProductName) -> None:
        super().__init__(modules, product)
        self.name = f"{product}/single-kernel"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "product", "mode": "single", "method": "kernel", **super().columns}

    @property
    def contender(self) -> None:
        """None: the kernel alone is no whole product."""

    def bind_product(self, work: RunnableContext, factors: Factors) -> None:
        # a whole product finds the table's size for these row lengths
        whole_launch = self.multiplication(work, 1).multiply_in_one_launch(factors)
        single_kernel, sizes = single_launch(work.device, factors.a.dtype), factor_sizes(factors)
        if whole_launch is None or sizes is None:
            raise Unsupported("rows differ too much for one launch, or it would take too much memory")
        whole_launch.release()
        configuration = single_kernel.configuration(sizes)
        bound = single_kernel.bind(work.load, factors, configuration) if configuration else None
        if bound is None:
            raise Unsupported("the device has no room for the product")
        self.launch, self._c, _ = bound


class Refill(Product):
    """The numeric phase alone: computes values of a product whose factors have unchanged patterns."""

    #: No graph clock: kernels of bins run concurrently, and a graph is slower because it forks and joins each time.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(
        self, modules: Mapping[str, ModuleFile], product: ProductName, chosen_kernels: ChosenKernels | None = None
    ) -> None:
        super().__init__(modules, product, chosen_kernels)
        self.name = f"{product}/refill{'-tuned' if chosen_kernels else ''}"

    @property
    def columns(self) -> Mapping[str, Any]:
        method = "tuned" if self._chosen else "default"
        return {"what": "numeric", "mode": "refill", "method": method, **super().columns}

    def bind_product(self, work: RunnableContext, factors: Factors) -> None:
        multiplication = self.multiplication(work, 2)
        self._c = c = multiplication.multiply_in_two_phases(factors)
        bound = ExitStack()
        work.stack.callback(bound.close)
        self.launch = bound.enter_context(multiplication.refill_launch(factors, c))


class StoredRefill(Product):
    """The numeric phase alone, by the stored destinations of all products; making the plan is not timed."""

    #: The same clock as for other numeric phases.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, modules: Mapping[str, ModuleFile], product: ProductName) -> None:
        super().__init__(modules, product)
        self.name = f"{product}/refill-stored"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": "numeric", "mode": "refill", "method": "stored", **super().columns}

    def bind_product(self, work: RunnableContext, factors: Factors) -> None:
        self._c = c = self.multiplication(work, 2).multiply_in_two_phases(factors)
        destinations = work.keep(Destinations(work.device, work.load, factors, c))
        self._amounts["plan_bytes"] = destinations.nbytes
        self.launch = destinations.bind(factors, c, work.stack)


MODES: tuple[BinMode, ...] = ("one", "numeric")


#: Bins with a smaller share of all products are not searched, because their kernels hardly influence the total time.
MIN_SHARE = 0.01
#: Maximum number of column sums that a kernel `dense` may process per bin; more would take over a second per launch.
MAX_SUMS = 200_000_000_000


class BinKernel(Product, Candidate):
    """The kernel for one bin's rows alone. Listing the rows and allocating memory are not timed."""

    id: KernelId
    #: Event clock only: a pointer is reset before each launch.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, modules: Mapping[str, ModuleFile], id: KernelId) -> None:
        super().__init__(modules, id.product)
        self.id, self.space, self.name = id, id.space, str(id)
        self.mode, self.bin = id.mode, id.bin
        self.packing = id.product
        self.group = id.product, id.mode, id.bin, id.method
        self._restore: Callable[[], None] = lambda: None  # in the numeric phase, entries already have their places

    @property
    def identity(self) -> str:
        module = self.id.shape.kernel(self.id.mode)[0] if self.id.shape else self.id.mode
        return " ".join(self._built[name].module.hash for name in ("count-exact", f"{module}-exact", "sort", "matrix"))

    @property
    def columns(self) -> Mapping[str, Any]:
        return {**super().columns, **self.id.columns, "space": self.space}

    def prepare(self, workspace: Workspace) -> None:
        super().prepare(workspace)
        operands = operands_of(workspace)
        expected = operands.expected(self.product)
        rows = expected.rows_of(self.mode, self.bin)
        nonzeros = int(expected.sizes[rows].sum())
        self._amounts = {"products": int(expected.products[rows].sum()), "nonzeros": nonzeros, "rows": int(rows.sum())}
        # bytes: these rows of A, and for each of their entries a row of B, but at most all of B
        self.bytes_moved = operands.bytes_of_csr(int(rows.sum()), nonzeros)

    def bind_product(self, work: RunnableContext, factors: Factors) -> None:
        device = work.device
        bins = work.keep(ProductBins(device, work.load("count-exact"), factors.shape[0]))
        remaining_rows = work.keep(device.allocate(4 * bins.stride))
        if self.mode == "numeric":
            self._c = c = Multiplication(device, work.load, factors.a.dtype).multiply_in_two_phases(factors)
            bins.bin_by_sizes(c)
        else:
            entries = int(operands_of(work.workspace).expected(self.product).sizes.sum())
            self._c = c = Storage.empty(device, factors.shape, 1, max(entries, 1), factors.a.dtype)
            bins.bin_by_products(factors.a, factors.b, c)
        counts = bins.read()
        bin_rows = tuple(rows if bin == self.bin else 0 for bin, rows in enumerate(counts.rows))
        shapes: list[Shape] = [None] * BINS
        bin_shapes = BinShapes((*shapes[: self.id.bin], self.id.shape, *shapes[self.id.bin + 1 :]))
        scratch = ExitStack()
        work.stack.callback(scratch.close)
        rows = ProductRows(device, work.load, factors, c, bins, remaining_rows)
        self.launch = rows.bind(self.id.mode, replace(counts, rows=bin_rows), bin_shapes, scratch)
        if self.mode == "one":
            self._restore = lambda: device.fill(c.state, 0)

    def before(self) -> None:
        self._restore()


def kernels_of(
    modules: Mapping[str, ModuleFile], operands: AmgOperands, target: Target, space: str, least_share: float = MIN_SHARE
) -> list[BinKernel]:
    """Return the kernels of a space for each product and each bin that has at least `least_share` of all products."""
    kernels: list[BinKernel] = []
    for product in operands.products:
        expected = operands.expected(product)
        for mode in MODES:
            for bin in range(BINS):
                rows = expected.rows_of(mode, bin)
                min_products = least_share * int(expected.products.sum())
                if not rows.any() or int(expected.products[rows].sum()) < min_products:
                    continue
                limit = LIMITS[bin] if bin < len(LIMITS) else None
                longest_row = int(np.max(expected.sizes[rows]))
                shapes = shapes_for(target, operands.dtype.itemsize, mode, limit, longest_row)
                if int(np.count_nonzero(rows)) * len(expected.x) > MAX_SUMS:
                    shapes = [shape for shape in shapes if shape is not None]
                ids = (KernelId(product, mode, bin, shape) for shape in shapes)
                kernels += [BinKernel(modules, id) for id in ids if id.space == space]
    return kernels


REUSE = "reuse"
#: Byte that fills memory before a launch; the resulting wrong number is 32.5 in double precision, 3.004 in single.
WRONG_BYTE = 0x40
#: Library routines for each backend.
ROUTINES: Mapping[str, tuple[str, ...]] = {"cuda": (*SPGEMM_ALGORITHMS, REUSE), "opencl": ("csr",)}


def routines(settings: StudySettings, backend: str) -> list[str]:
    """Return the configured routines for a backend; raise an error if a routine does not exist."""
    return among(STUDY_NAME, settings.baselines, ROUTINES[backend])


def library_products(names: Collection[str], backend: str, product: ProductName) -> Sequence[LibraryProduct]:
    """Return the library's runnables for a product; routine `reuse` also has a runnable of its numeric phase alone."""
    if backend == "opencl":
        return [ScipyProduct(product)] if names else []
    whole_products = [CusparseProduct(product, name) for name in ROUTINES[backend] if name in names]
    return [*whole_products, CusparseRefill(product)] if REUSE in names else whole_products


class LibraryProduct(SpgemmRunnable):
    """A product by a library."""

    kind = "baseline"
    clocks: tuple[ClockName, ...] = ("host",)
    operation: Literal["product", "numeric"] = "product"
    library: str

    def __init__(self, product: ProductName, routine: str) -> None:
        super().__init__()
        self.product, self.routine = product, routine
        self.name = f"{self.library}/spgemm-{routine.lower()}/{product}"

    @property
    def columns(self) -> Mapping[str, Any]:
        return {"what": self.operation, "routine": self.routine, "format": "csr", **super().columns}


class CusparseProduct(LibraryProduct):
    """A product by cuSPARSE from factors on the GPU to C on the GPU, with memory from the same pool as for ours."""

    library = "cusparse"
    before_is_free = True

    def __init__(self, product: ProductName, routine: str) -> None:
        super().__init__(product, routine)
        self._c: GpuCsr | None = None
        self.stages = {"whole": not_prepared}

    @property
    def identity(self) -> str:
        return f"{version()} {self.name}"

    def bind(self, work: RunnableContext) -> None:
        device = gpu(work.device)
        multiplier = _multiplier(work, self.product, self.routine)

        def multiply() -> GpuCsr:
            with device.pooling():
                return multiplier.multiply()

        def launch() -> None:
            self._c = multiply()

        self.launch = launch
        self.stages = {"whole": launch}
        self._amounts["peak_bytes"] = device.pool_growth(lambda: multiply().release())

    def before(self) -> None:
        if self._c is not None:
            self._c.release()
            self._c = None

    def result(self) -> sp.csr_array:
        assert self._c is not None
        return self._c.download()

    def release(self) -> None:
        self.before()
        super().release()


class CusparseRefill(LibraryProduct):
    """The numeric phase of cuSPARSE's `SpGEMMreuse` alone, for a product whose pattern is known."""

    library = "cusparse"
    operation = "numeric"
    #: No graph clock, as for our numeric phase: a graph forks and joins kernels that run concurrently, which is slower.
    clocks: tuple[ClockName, ...] = ("event",)

    def __init__(self, product: ProductName) -> None:
        super().__init__(product, f"{REUSE}-compute")
        self._c: GpuCsr | None = None

    @property
    def identity(self) -> str:
        return f"{version()} {self.name}"

    def bind(self, work: RunnableContext) -> None:
        reuse = _multiplier(work, self.product, REUSE)
        assert isinstance(reuse, GemmReuse)
        self._c = work.keep(reuse.multiply())
        self.launch = reuse.bind()

    def erase_result(self, workspace: Workspace) -> None:
        """Fill the values with a finite number: cuSPARSE may add 0 times C."""
        assert self._c is not None
        workspace.device.fill(self._c.values, WRONG_BYTE)

    def result(self) -> sp.csr_array:
        assert self._c is not None
        return self._c.download()


def _multiplier(work: RunnableContext, product: ProductName, routine: str) -> Gemm | GemmReuse:
    """Return the object that multiplies a product's factors on the GPU."""
    device = gpu(work.device)
    factors = factor_of(work.workspace, product)
    a = work.keep(GpuCsr.upload(device, factors.a))
    b = a if factors.b is factors.a else work.keep(GpuCsr.upload(device, factors.b))
    return work.keep(GemmReuse(device, a, b) if routine == REUSE else Gemm(device, a, b, routine))


class ScipyProduct(LibraryProduct):
    """A product by SciPy, on one core."""

    library = "scipy"
    drops = True

    def __init__(self, product: ProductName) -> None:
        super().__init__(product, "csr")
        self._c: sp.csr_array | None = None

    @property
    def identity(self) -> str:
        import scipy

        return f"{scipy.__version__} {self.name}"

    def bind(self, work: RunnableContext) -> None:
        a, b = factor_of(work.workspace, self.product)

        def launch() -> None:
            self._c = sp.csr_array(a @ b)

        self.launch = launch

    def result(self) -> sp.csr_array:
        assert self._c is not None
        return self._c


#: Maximum number of iterations of a rival's solution.
MAX_ITERATIONS = 100_000


class RivalProduct(RivalMultiplication, SpgemmRunnable):
    """A product by a rival; it may leave out entries that cancel to zero."""

    drops = True

    def __init__(self, rival: Rival, product: ProductName) -> None:
        SpgemmRunnable.__init__(self)
        RivalMultiplication.__init__(self, rival)
        self.product = product
        self.name = f"{self.name}/{product}"

    @property
    def columns(self) -> Mapping[str, Any]:
        setup = {} if self.setup_seconds is None else {"preprocess": self.setup_seconds}
        return {"what": "product", "routine": self.label, "format": "csr", **setup, **super().columns}

    def prepare(self, workspace: Workspace) -> None:
        RivalMultiplication.prepare(self, workspace)
        amount, self.bytes_moved = operands_of(workspace).amount(self.product)
        self._amounts |= amount

    def _factors(self, workspace: Workspace) -> tuple[sp.csr_array, sp.csr_array]:
        a, b = factor_of(workspace, self.product)
        return a, b


class RivalSolver(RivalSolution, SolveRunnable):
    """The solution of A x = b by a rival, from x = 0 to the study's tolerance."""

    def __init__(self, rival: Rival) -> None:
        SolveRunnable.__init__(self)
        RivalSolution.__init__(self, rival)
        self.name = f"{self.name}/solve"

    @property
    def columns(self) -> Mapping[str, Any]:
        setup = {} if self.setup_seconds is None else {"preprocess": self.setup_seconds}
        iteration_columns = {} if self.iterations is None else {"iterations": self.iterations}
        return {"what": "solve", "routine": self.label, "format": "csr", **setup, **iteration_columns, **self._amounts}

    def prepare(self, workspace: Workspace) -> None:
        RivalSolution.prepare(self, workspace)
        a = operands_of(workspace).a
        self._amounts = {"rows": a.shape[0], "nonzeros": int(a.nnz)}

    def _system(self, workspace: Workspace) -> tuple[sp.csr_array, NDArray[Any], float, int]:
        operands = operands_of(workspace)
        return operands.a, operands.b, TOLERANCE, MAX_ITERATIONS


def rival_products(rivals: Sequence[Rival], product: ProductName) -> list[Runnable]:
    """Return the rivals for one of the study's products."""
    return [RivalProduct(rival, product) for rival in rivals if rival.of == "spgemm"]


def rival_solvers(rivals: Sequence[Rival]) -> list[Runnable]:
    """Return the rivals that solve the study's linear system."""
    return [RivalSolver(rival) for rival in rivals if rival.of == "solve"]
