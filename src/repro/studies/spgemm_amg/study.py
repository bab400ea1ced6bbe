"""The study of sparse products and multigrid: its measurements, its choices, and the statements of the paper's text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.codegen.build_cache import ModuleOnDemand, compile_module, manifest_path
from repro.codegen.targets import DTYPES, Target
from repro.config.models import StudySettings, UnusedLayouts, UnusedWeight
from repro.entries import get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix, Updates
from repro.problems.problem import Outline, Problem
from repro.results.published import Published
from repro.sparse.device_primitives import ModuleFile, read_modules
from repro.sparse.spgemm.kernels import SortShape, hash_shapes, render_spgemm, sort_shapes
from repro.sparse.tuning_features import LIBRARIES, features
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.spgemm_amg import PRODUCT_NAMES, PRODUCTS, REFERENCE, ProductName
from repro.studies.spgemm_amg import STUDY_NAME as NAME
from repro.studies.spgemm_amg.ids import AmgRow, KernelId
from repro.studies.spgemm_amg.kernels import modules_for, render_key
from repro.studies.spgemm_amg.operands import AmgOperands, make_operands
from repro.studies.spgemm_amg.runnables_products import (
    HEADLINE,
    MODES,
    ROUTINES,
    BinKernel,
    ChosenKernels,
    ProductMethod,
    Refill,
    SingleKernel,
    StoredRefill,
    WholeProduct,
    choose_kernels,
    chosen_kernels,
    kernels_of,
    library_products,
    rival_products,
    rival_solvers,
    routines,
)
from repro.studies.spgemm_amg.runnables_setup import SET_UP_METHODS, LevelSetUp, SetUp, Solution
from repro.tuning.recordings import Machine
from repro.tuning.search import Choice, Pair
from repro.tuning.session import Session, fastest_yardsticks
from repro.words import EXTENDED

#: Columns of the files in `config/published/spgemm_amg`.
PUBLISHED = {
    "sizes": ("table", "gpu", "problem", "entry", "printed", "abbreviation", "unknowns", "nonzeros"),
    "text": ("table", "gpu", "quantity", "problem", "value"),
}
#: Columns of `config/targets/spgemm_amg.csv`.
TARGETS = ("quantity", "wanted", "what")
#: The GPU for which the paper's text states numbers.
GPU = "K20c"
#: Names in `config/published` of the quantities that the paper's text states.
BEST = "product over the sort of all products"
SHORT_MIN = "product over the sort of all products, rows of at most 2,048 products, least"
SHORT_MAX = "product over the sort of all products, rows of at most 2,048 products, most"
SET_UP = "set-up over that with the sort of all products"
SHARE_MIN = "Galerkin products’ share of the set-up, least"
SHARE_MAX = "Galerkin products’ share of the set-up, most"


def published_value(published: Published, quantity: str, problem_name: str = "") -> float | None:
    """Return the value stated in the paper for a quantity, for one problem or for all; None if none is stated."""
    for item in published.tables.get("text", []):
        if (item["quantity"], item["problem"]) == (quantity, problem_name):
            return float(item["value"])
    return None


def published_range(published: Published, min_name: str, max_name: str) -> tuple[float, float] | None:
    """Return the minimum and maximum stated in the paper for a quantity; None if either is missing."""
    low, high = published_value(published, min_name), published_value(published, max_name)
    return None if low is None or high is None else (low, high)


#: For the workload's estimate: bins that have rows in a typical product, and shapes that are tried for each bin.
BINS_IN_USE, SHAPES_OF_A_BIN = 4, 8


class SpgemmAmgSettings(StudySettings):
    layouts: UnusedLayouts = "all"
    memory_weight: UnusedWeight = 0.0


class SpgemmAmg(Study):
    """Sparse products with a kernel for each bin of rows, compared with sorting all products; gain for multigrid."""

    name = NAME
    title = "Products of sparse matrices and multigrid"
    reference = REFERENCE
    settings = SpgemmAmgSettings
    id_class = KernelId
    numbers: Mapping[str, str] = {"width": "shape.width", "slots": "slots", "rows_of_block": "shape.rows"}
    kinds = ("matrix", "updates")
    libraries = LIBRARIES
    columns = AmgRow.own_columns()
    parts = ("products", "setup", "solve")
    rival_tasks = ("spgemm", "solve")
    published = PUBLISHED
    targets = TARGETS
    headline = HEADLINE
    pairs = tuple(
        Pair(
            {"kind": "variant", "what": "product", "method": ("default", "tuned"), "product": product},
            {"kind": "baseline", "what": "product", "product": product},
            "host",
            PRODUCTS[product],
        )
        for product in ("AP", "RAP")
    )
    highlights: Mapping[str, str] = {
        "table-products": "every product, ours beside the library's",
        "figure-6-1": "products and set-up over a sort of all products, the paper's baseline, not over the library",
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(other_seconds=18, launches=1.6, memory=80),
        "opencl": CostModel(other_seconds=2, compile={"": 0.85}),
    }
    result: Mapping[str, Any] = {
        "table": "table-targets",
        "row": "whole product: time of cuSPARSE’s fastest over ours, geometric mean",
        "column": "measured",
        "description": "the fastest routine of {library}; geometric mean of the Poisson problems’ whole products",
        "clock": "host",
        "lines": (
            {
                "description": "the worst whole product of elasticity",
                "row": "whole products of elasticity: time of cuSPARSE’s fastest over ours, the worst",
                "column": "measured",
            },
        ),
    }

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        routines(settings, target.dialect)

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Raise an error for matrices with complex or quaternion entries."""
        super().check(settings, problems)
        for problem in problems:
            if problem.kind == Matrix.kind and problem.entry not in ("real", "block3"):
                raise self.refusal(problem, "a matrix of real numbers or of blocks", problem.entry)

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        return [f"{precision}/{module}" for module in modules_for(target)]

    def render(self, templates: Path, key: str, target: Target) -> str:
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> AmgOperands:
        matrix = problem.base if isinstance(problem, Updates) else problem
        assert isinstance(matrix, Matrix)
        return make_operands(matrix, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Search kernels for the bins, choose winners, then time whole products, the library's, set-up and solution."""
        settings, target = session.settings, session.target
        operands = session.bench.operands
        assert isinstance(operands, AmgOperands)
        modules = read_modules(target, NAME, session.precision, modules_for(target))
        strategy = session.strategy(_features, KernelId)
        rows: list[Row] = []
        kernels: dict[str, BinKernel] = {}
        for space in settings.spaces:
            space_kernels = kernels_of(modules, operands, target, space)
            kernels |= {kernel.name: kernel for kernel in space_kernels}
            rows += session.search(strategy, space_kernels, f"{space} space")
        yield "search", rows
        yardsticks = session.yardsticks()
        yield "baseline", [row for _, row in yardsticks]
        choices = choose_kernels(rows, session.timing.tie, [kernel.id for kernel in kernels.values()])
        winning_kernels = [kernels[name] for name in dict.fromkeys(choice.name for choice in choices)]
        repeated_yardsticks = session.time_in_rounds(fastest_yardsticks(yardsticks))
        yield "report", [*repeated_yardsticks, *self._report(session, modules, winning_kernels, choices)]
        yield "choices", choices

    def _report(
        self,
        session: Session,
        modules: Mapping[str, ModuleFile],
        winning_kernels: Sequence[BinKernel],
        choices: Sequence[Choice],
    ) -> list[Row]:
        """Time the winners and everything else again, in rounds of runnables that are compared with each other."""
        operands, backend = session.bench.operands, session.bench.device.backend
        assert isinstance(operands, AmgOperands)
        parts = self.parts_of(session.settings, session.precision)
        names, by_product = routines(session.settings, backend), chosen_kernels(choices)
        rows: list[Row] = []
        for product in operands.products:
            rows += session.time_in_rounds([kernel for kernel in winning_kernels if kernel.id.product == product])
            if "products" in parts:
                own_products = products_of(modules, product, by_product.get(product, ChosenKernels()))
                rivals = rival_products(session.rivals, product)
                rows += session.time_in_rounds([*own_products, *library_products(names, backend, product), *rivals])
        if "setup" in parts and operands.symmetric:
            rows += session.time_in_rounds([SetUp(modules, method) for method in SET_UP_METHODS])
            rows += session.time_in_rounds([LevelSetUp(modules, level) for level in range(len(operands.levels) - 1)])
        if "solve" in parts and operands.symmetric:
            rows += session.time_in_rounds([Solution(modules), *rival_solvers(session.rivals)])
        return rows

    def named_runnables(
        self, templates: Path, problem: Outline, precision: str, target: Target
    ) -> Mapping[str, Runnable]:
        """Return products, numeric phases, set-ups and the solution by name.

        Examples of names: `AP/single`, `AP/refill-stored`, `cusparse/spgemm-alg1/AP`, `setup/default`, `solve/cg`.
        """
        modules = _compiled(templates, precision, target)
        runnables: list[Runnable] = [*(SetUp(modules, method) for method in SET_UP_METHODS), Solution(modules)]
        for product in PRODUCT_NAMES:
            runnables += [*products_of(modules, product), WholeProduct(modules, product, "two")]
            runnables += library_products(ROUTINES[target.dialect], target.dialect, product)
        return {runnable.name: runnable for runnable in runnables}

    def variant(self, templates: Path, problem: Outline, precision: str, id: KernelId, target: Target) -> Runnable:
        """Return the kernel of a bin, from a compiled module or from one that has it alone."""
        modules, shape = _compiled(templates, precision, target), id.shape
        if not shape:
            return BinKernel(modules, id)
        module, kernel = shape.kernel(id.mode)
        path, scalar_bytes = manifest_path(target.name, NAME, f"{precision}/{module}-exact"), DTYPES[precision]().nbytes
        shapes = (*hash_shapes(target, scalar_bytes), *sort_shapes(target, scalar_bytes))
        if not (path.exists() and shape in shapes):
            if shape.threads % target.warp and target.dialect == "cuda":
                raise ReproError("a block has whole warps", where=id, actual=f"{shape.threads} threads")
            if isinstance(shape, SortShape) and shape.width > shape.max_products:
                raise ReproError("a row has at most as many threads as products", where=id, actual=shape.width)
            path = manifest_path(target.name, NAME, f"single/{precision}/{kernel}")
            source = render_spgemm(templates, f"{precision}/{module}-exact", target, NAME, shape)
            modules[f"{module}-exact"] = ModuleFile(compile_module(source, target, path), path.parent)
        return BinKernel(modules, id)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        rows, nonzeros = problem.size or (0, 0)
        size = get_entry(problem.entry or "real").size
        matrix = 4 * (rows * size + 1) + nonzeros * size**2 * (4 + DTYPES[precision]().nbytes)
        bins = len(PRODUCTS) * len(MODES) * BINS_IN_USE
        per_bin = SHAPES_OF_A_BIN * (2 if EXTENDED in settings.spaces else 1) // 2 or 1
        routine_count = len(routines(settings, target.dialect)) * len(PRODUCTS)
        return Workload(bins * per_bin, bins, routine_count, matrix, 3 * matrix)


STUDY = SpgemmAmg()


#: Methods of products that are timed with default kernels, and with the kernels that a search chose.
DEFAULT_METHODS: tuple[ProductMethod, ...] = ("coordinates", "paper", "one")
CHOSEN_METHODS: tuple[ProductMethod, ...] = ("one", "two")
#: Module of products in one launch; a device without cooperative launches has none.
SINGLE_MODULE = "single-exact"


def _compiled(templates: Path, precision: str, target: Target) -> dict[str, ModuleFile]:
    """Return the study's modules, each compiled at its first use."""
    modules = {}
    for module in modules_for(target):
        path = manifest_path(target.name, NAME, f"{precision}/{module}")
        render = partial(render_key, templates, f"{precision}/{module}", target)
        modules[module] = ModuleFile(ModuleOnDemand(render, target, path), path.parent)
    return modules


def products_of(
    modules: Mapping[str, ModuleFile], product: ProductName, chosen_kernels: ChosenKernels | None = None
) -> list[Runnable]:
    """Return the runnables of a product: those of default kernels, and those of kernels that a search chose, if any."""
    runnables: list[Runnable] = []
    if SINGLE_MODULE in modules:
        runnables += [WholeProduct(modules, product, "single"), SingleKernel(modules, product)]
    runnables += [WholeProduct(modules, product, method) for method in DEFAULT_METHODS]
    if chosen_kernels is not None:
        runnables += [WholeProduct(modules, product, method, chosen_kernels) for method in CHOSEN_METHODS]
    runnables.append(Refill(modules, product))
    if chosen_kernels is not None:
        runnables.append(Refill(modules, product, chosen_kernels))
    return [*runnables, StoredRefill(modules, product)]


def _features(record: Mapping[str, Any], precision: str, machine: Machine) -> Any:
    return features({**record, "entry": record.get("entry") or "real"}, precision, machine)
