"""The contract of the study: a matrix that grows on the device, its updates and products, and other formats."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import DTYPES, Target
from repro.config.models import Rival, StudySettings, UnusedLayouts, UnusedWeight
from repro.problems.matrix import Updates
from repro.problems.problem import Outline, Problem
from repro.sparse.device_primitives import ModuleFile, read_module, read_modules
from repro.sparse.dynamic.kernels import render_product
from repro.sparse.library import asked_for, check_names, for_problem
from repro.sparse.rivals.runnables import products_of
from repro.sparse.tuning_features import LIBRARIES, features
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.dynamic_csr import (
    PUBLISHED,
    REFERENCE,
    STUDY_NAME,
    TARGETS,
    precision_of_operations,
    runnables_devices,
)
from repro.studies.dynamic_csr.ids import DynamicRow, ProductId, choose_products, product_ids, reported_names
from repro.studies.dynamic_csr.kernels import MODULES, render_key
from repro.studies.dynamic_csr.operands import GraphOperands, make_operands
from repro.studies.dynamic_csr.runnables_baselines import (
    CoordinateUpdate,
    CubSort,
    CubSums,
    Geam,
    HybridProduct,
    HybridSort,
    HybridUpdate,
    Rebuild,
    SortOfRows,
    Sums,
)
from repro.studies.dynamic_csr.runnables_devices import device_runnables
from repro.studies.dynamic_csr.runnables_products import ProductVariant
from repro.studies.dynamic_csr.runnables_published import READINGS, PublishedDefragmentation, PublishedUpdate
from repro.studies.dynamic_csr.runnables_updates import (
    STATIC_PAIRS,
    Defragmentation,
    DynamicConversion,
    DynamicUpdate,
    EntryOrder,
    InsertionMode,
    RivalUpdate,
    SingleUpdate,
    StaticConversion,
    StoredFormat,
    UpdateName,
)
from repro.tuning.recordings import Machine
from repro.tuning.search import Pair
from repro.tuning.session import Session, fastest_yardsticks
from repro.words import EXTENDED, PAPER, SPACES, TUNING_PREFIXES, Space

ORDERS: tuple[EntryOrder, ...] = get_args(EntryOrder)
MODES: tuple[InsertionMode, ...] = get_args(InsertionMode)
#: Conversions to and from dynamic CSR, in addition to `STATIC_PAIRS`.
DYNAMIC_PAIRS: tuple[tuple[StoredFormat, StoredFormat], ...] = (("coo", "dcsr"), ("csr", "dcsr"), ("dcsr", "csr"))


#: Parts that are timed in one precision only.
OPERATIONS = ("updates", "conversions", "primitives")


def suite(
    modules: Mapping[str, ModuleFile],
    problem: Updates,
    parts: Collection[str] = OPERATIONS,
    spaces: Collection[Space] = SPACES,
    rivals: Sequence[Rival] = (),
) -> Iterator[list[Runnable]]:
    """Yield groups of runnables; each group is timed in its own rounds and held on the device together.

    All groups together would not fit into memory. `parts` are `updates` (the whole matrix at once; all batches one
    after the other, with and without products between them; or each batch alone if batches differ in size),
    `conversions` (defragmentation included) and `primitives` (sums and sorts). Updates as published are timed only in
    the space `paper`; our updates and other formats in each space. `rivals` take part in all updates except those with
    products in between.
    """
    if "updates" in parts:
        growing = [rival for rival in rivals if rival.of == "updates"]
        yield from _update_groups(modules, problem, PAPER in spaces, growing)
    if "conversions" in parts:
        yield [
            *(StaticConversion(modules, source, target) for source, target in STATIC_PAIRS),
            *(DynamicConversion(modules, source, target) for source, target in DYNAMIC_PAIRS),
            Defragmentation(modules),
            *([PublishedDefragmentation(modules)] if PAPER in spaces else []),
            HybridSort(modules),
        ]
    if "primitives" in parts:
        yield [Sums(modules), SortOfRows(modules), CubSums({}), CubSort({})]


def _update_groups(
    modules: Mapping[str, ModuleFile], problem: Updates, published: bool, rivals: Sequence[Rival]
) -> Iterator[list[Runnable]]:
    for order in ORDERS:
        yield [
            *(DynamicUpdate(modules, "stream", order, mode=mode) for mode in MODES),
            *(_published_updates(modules, "stream", order) if published else []),
            HybridUpdate(modules, "stream", order),
            CoordinateUpdate(modules, "stream", order),
            *(RivalUpdate(rival, "stream", order) for rival in rivals),
        ]
    if len(set(np.diff(problem.batch_pointers).tolist())) > 1:
        for batch_index in range(problem.batches):
            yield from _batch_groups(modules, published, rivals, "batch", batch_index)
    elif problem.batches:
        yield from _batch_groups(modules, published, rivals, "insert")
        yield [
            DynamicUpdate(modules, "iterate", "sorted"),
            *(_published_updates(modules, "iterate", "sorted") if published else []),
            HybridUpdate(modules, "iterate", "sorted"),
            Rebuild(modules, "iterate", "sorted"),
            Geam(modules, "iterate"),
        ]


def _published_updates(
    modules: Mapping[str, ModuleFile], operation: UpdateName, order: EntryOrder, batch_index: int | None = None
) -> list[Runnable]:
    return [PublishedUpdate(modules, operation, order, batch_index, reading) for reading in READINGS[operation]]


def _batch_groups(
    modules: Mapping[str, ModuleFile],
    published: bool,
    rivals: Sequence[Rival],
    operation: SingleUpdate,
    batch_index: int | None = None,
) -> Iterator[list[Runnable]]:
    for order in ORDERS:
        yield [
            *(DynamicUpdate(modules, operation, order, batch_index, mode) for mode in MODES),
            *(_published_updates(modules, operation, order, batch_index) if published else []),
            HybridUpdate(modules, operation, order, batch_index),
            CoordinateUpdate(modules, operation, order, batch_index),
            Rebuild(modules, operation, order, batch_index),
            *([Geam(modules, operation, batch_index)] if order == "sorted" else []),
            *(RivalUpdate(rival, operation, order, batch_index) for rival in rivals),
        ]


PROBLEM_KIND, ENTRY = "updates", "real"


class DynamicCsrSettings(StudySettings):
    layouts: UnusedLayouts = "all"
    memory_weight: UnusedWeight = 0.0


class DynamicCsr(Study):
    """Rows as chains of segments that grow, compared with HYB, coordinates, and CSR rebuilt for every batch."""

    name = STUDY_NAME
    title = "Dynamic CSR"
    reference = REFERENCE
    settings = DynamicCsrSettings
    id_class = ProductId
    numbers: Mapping[str, str] = {
        "width": "schedule.width",
        "per_thread": "schedule.per_thread",
        "unroll": "schedule.in_flight",
    }
    kinds = (PROBLEM_KIND,)
    libraries = LIBRARIES
    columns = DynamicRow.own_columns()
    rival_tasks = ("spmv", "updates")
    parts = (*OPERATIONS, "devices")
    published = PUBLISHED
    targets = TARGETS
    headline = "csr"
    pairs = tuple(
        Pair(
            {"what": "stream", "format": "dcsr", "routine": None, "space": EXTENDED, "order": order, "mode": "add"},
            {"what": "stream", "format": "hyb", "routine": None, "order": order, "mode": "add"},
            "event",
            task,
            task,
        )
        for order, task in (("sorted", "by rows"), ("any", "any order"))
    )
    highlights: Mapping[str, str] = {
        "table-5-2": "the memory of each format, as printed",
        "table-products": "every graph's products",
        "figure-5-3": "updates, streamed and with products in between, over HYB",
    }
    result: Mapping[str, Any] = {
        "table": "table-targets",
        "row": "speedup of streaming updates over HYB",
        "column": "measured",
        "description": "HYB, its sort included, in streaming a graph by rows into an empty matrix; geometric mean",
        "clock": "event",
        "lines": (
            {
                "description": "the same, entries in any order, which both sort",
                "row": "speedup of streaming updates, entries in any order",
                "column": "measured",
            },
            {
                "description": "products over {library}’s fastest routine, graph clock, geometric mean",
                "row": (
                    "speedup of the product in one segment and one launch over the library’s fastest routine, graph "
                    "clock, geometric mean"
                ),
                "column": "measured",
            },
        ),
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(other_seconds=2, launches=5.7, memory=35),
        "opencl": CostModel(other_seconds=6, compile={"": 1.3}),
    }
    packages = runnables_devices.NCCL_PACKAGES

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        check_names(STUDY_NAME, settings.baselines, [ENTRY], target.dialect)

    def parts_of(self, settings: StudySettings, precision: str) -> tuple[str, ...]:
        parts = super().parts_of(settings, precision)
        # operations are timed in one precision, unless the key `parts` names them: then in each
        operations = settings.parts != "all" or precision == precision_of_operations(settings.precisions)
        return tuple(name for name in parts if operations or name not in OPERATIONS)

    def tunings(self, settings: StudySettings, problem: Outline) -> list[str]:
        """Return the tuning of own CSR in each of the paper's spaces."""
        tunings = [f"{prefix}{self.headline}" for space, prefix in TUNING_PREFIXES.items() if space in settings.spaces]
        return tunings or [f"ours-{self.headline}"]

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        return [f"{precision}/{module}" for module in MODULES]

    def render(self, templates: Path, key: str, target: Target) -> str:
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> GraphOperands:
        assert isinstance(problem, Updates)
        return make_operands(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Search the products, choose winners, time them beside the library; then time all else in one precision."""
        settings = session.settings
        operands = session.bench.operands
        assert isinstance(operands, GraphOperands)
        modules = read_modules(session.target, STUDY_NAME, session.precision, MODULES)
        rivals = products_of(session.rivals, ENTRY)
        library = asked_for(settings.baselines, ENTRY, session.bench.device.backend)
        variants = product_variants(settings, operands, session.target)
        strategy = session.strategy(_features, ProductId)
        if settings.search != "exhaustive":
            session.keep_packed(variants)
        rows: list[Row] = []
        for space in settings.spaces:
            rows += session.search(strategy, [v for v in variants if v.space == space], f"{space} space")
        hybrid = HybridProduct(modules)
        rows += session.measure_all([hybrid], "product of HYB")
        yield "search", rows
        yardsticks = session.yardsticks()
        yield "baseline", [row for _, row in yardsticks]
        choices = choose_products(rows, session.timing.tie, [variant.id for variant in variants])
        names = set(reported_names(rows, choices))
        winning_variants = [variant for variant in variants if variant.name in names]
        report = session.time_in_rounds([*winning_variants, hybrid, *fastest_yardsticks(yardsticks), *library, *rivals])
        parts = self.parts_of(settings, session.precision)
        for group in suite(modules, operands.problem, parts, settings.spaces, session.rivals):
            report += session.time_in_rounds(group)
        over_devices = device_runnables(modules, len(session.bench.devices))
        if over_devices and "devices" in parts:
            report += session.time_in_rounds(over_devices)
        yield "report", report
        yield "choices", choices

    def variant(self, templates: Path, problem: Outline, precision: str, id: ProductId, target: Target) -> Runnable:
        """Return the product with the given id."""
        path, schedule = manifest_path(target.name, STUDY_NAME, f"{precision}/product"), id.schedule
        if path.exists() and id in product_ids(target, id.space, None):
            source = render_key(templates, f"{precision}/product", target)
        else:
            key = f"single/{precision}/{schedule.kind}-w{schedule.width}-u{schedule.in_flight}-{schedule.load}"
            path = manifest_path(target.name, STUDY_NAME, key)
            source = render_product(templates, precision, target, STUDY_NAME, schedule)
        return ProductVariant(id, compile_module(source, target, path), path.parent)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        rows, nonzeros = problem.size or (0, 0)
        number = DTYPES[precision]().nbytes
        matrix = 4 * (rows + 1) + nonzeros * (4 + number)
        ids = [id for space in settings.spaces for id in product_ids(target, space, nonzeros / max(rows, 1))]
        groups = {(id.format, id.state, id.schedule.kind) for id in ids}
        routines = len(for_problem(ENTRY, target.dialect))
        moved_bytes = matrix + (rows + (problem.columns or rows)) * number
        return Workload(len(ids), len(groups), routines, matrix, moved_bytes)


STUDY = DynamicCsr()


def product_variants(settings: StudySettings, operands: GraphOperands, target: Target) -> list[ProductVariant]:
    """Return all products to try, by space; products that share a matrix on the device are adjacent."""
    product_module = read_module(target, STUDY_NAME, f"{operands.precision}/product")
    rows = operands.grown.shape[0]
    mean = operands.grown.nnz / max(rows, 1)
    return [
        ProductVariant(id, product_module.module, product_module.folder)
        for space in settings.spaces
        for id in product_ids(target, space, mean)
    ]


def _features(record: Mapping[str, Any], precision: str, machine: Machine) -> Any:
    """Return the features by which searches compare matrices, computed for the matrix before the first batch."""
    return features({**record, "entry": ENTRY}, precision, machine)
