"""SpMV with compound entries: joint tuning of layout and schedule.

The module holds the study's contract, its tunings and its features. A tuning is a rule by which a variant is chosen:
by schedule, by layout or by both, in the papers' space and beyond it. A predicted search learns from recorded matrices
with similar features.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from repro.bench.rows import CLOCKS, TIMED, RecordedRow, Row
from repro.bench.runnable import Runnable
from repro.codegen.build_cache import Module, ModuleOnDemand, compile_module, manifest_path
from repro.codegen.targets import DTYPES, Target
from repro.config.models import StudySettings
from repro.entries import entries, get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.sparse.compound.device_packing import PACKINGS, packing_name, render_packing
from repro.sparse.compound.kernels import kernel_name, render_module
from repro.sparse.compound.runnables import DependentVariant, Variant, own_floors
from repro.sparse.compound.variants import (
    PAPERS_KINDS,
    REFERENCE,
    TILE_ROWS,
    WITH_SCRATCH,
    Layout,
    Schedule,
    VariantId,
    all_layouts,
    extended_layouts,
    fitting,
    schedules,
)
from repro.sparse.device_primitives import ModuleFile, read_module
from repro.sparse.library import asked_for, check_names, for_problem
from repro.sparse.operands import ProductOperands, ProductRunnable, make_operands, symmetry_on
from repro.sparse.ordering import UNKNOWNS
from repro.sparse.rivals.runnables import products_of
from repro.sparse.solvers.conjugate_gradients import OVER_PRODUCT, CgRun, PersistentCgRun, ProductCgRun, refusal
from repro.sparse.solvers.kernels import solver_key
from repro.sparse.symmetry import NOT_SYMMETRIC
from repro.sparse.tuning_features import LIBRARIES, MEMORY, OPERATOR, WINNERS, Array, choose_by_memory
from repro.sparse.tuning_features import features as features_of_a_product
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.compound_spmv import CONJUGATE_GRADIENTS, DEPENDENT_LAUNCHES, REORDERED_MATRICES, STUDY_NAME
from repro.studies.compound_spmv import REFERENCE as PAPERS
from repro.studies.compound_spmv.kernels import packing_key, render_key
from repro.tuning.recordings import Machine
from repro.tuning.search import Choice, Pair, best_row, pick, rank_rows
from repro.tuning.session import Session, fastest_yardsticks
from repro.words import EXTENDED, PAPER, SPACES, TUNED, TUNING_PREFIXES, Space

if TYPE_CHECKING:
    import pandas as pd

P = TypeVar("P", bound=ProductRunnable)


class CompoundRow(RecordedRow):
    """A row of a variant (with ordinary or dependent launches), of a library routine, or of conjugate gradients."""

    entry: str | None
    ordering: str | None
    layout: str | None
    outer: str | None
    inner: str | None
    vector: str | None
    clustered: bool | None
    schedule: str | None
    n_t: int | None
    n_b: int | None
    width: int | None
    unroll: int | None
    load: str | None
    ahead: str | None
    rolled: bool | None
    routine: str | None
    representation: str | None
    format: str | None
    papers_choice: bool | None
    matrix_bytes: int | None
    #: For a solver, the name of its product; for dependent launches, the name of the variant.
    product: str | None
    #: Number of iterations of one timed launch, and of a solve to the tolerance.
    iterations: int | None
    to_tolerance: int | None
    #: Bytes of the matrix's slices that stay in shared memory, and bytes of shared memory that all multiprocessors have
    #: for them.
    kept_bytes: int | None
    chip_bytes: int | None


#: Tunings in the papers' space besides `static` and `dynamic`; the first two need times of the reference layout.
TUNINGS = ("schedule", "layout", "joint")
#: Number of fastest products, of ours and of the library, with which conjugate gradients are timed; and of our fastest
#: variants that are timed by dependent launches.
FASTEST = 2
#: Tunings that need a search of our space.
OUR_TUNINGS = (EXTENDED, "reordered")
#: The same tunings without formats of pairs, for comparison; chosen only if a format of pairs has a time.
UNPAIRED, REORDERED_UNPAIRED = "unpaired", "reordered_unpaired"


def choose(rows: Sequence[Row], tie: float, ids: Iterable[VariantId] = ()) -> list[Choice]:
    """Return each tuning's choice, by both clocks.

    In the papers' space: `schedule` (best schedule of the reference layout), `layout` (best layout under that
    schedule), `joint` (best of all), `static` and `dynamic` (best of that kind in the joint winner's layout); in the
    space `paper_tuned` the same with the prefix `tuned_`. If our space was searched too: `extended` (best of all spaces
    in the matrix's own order), `reordered` (best in any order). If a format of pairs has a time: `unpaired` and
    `reordered_unpaired` (the same two without formats of pairs). `operator` is the best of all spaces in the matrix's
    own order among layouts that use vectors of NumPy, CuPy and PyTorch without conversion.
    """
    return pick(rows, tie, _candidates_by_tuning, ids)


def schedules_of_reference(rows: Sequence[Row]) -> set[str]:
    """Return the names of all rows, in any layout, whose schedule is a best schedule of the reference layout."""
    rows_by_name = {row.name: row for row in rows}
    by_schedule = ("schedule", f"{TUNED}schedule")
    reference_schedules = [
        _schedule(rows_by_name[choice.name]) for choice in choose(rows, 0) if choice.tuning in by_schedule
    ]
    return {row.name for row in rows if _schedule(row) in reference_schedules}


def _candidates_by_tuning(timed_rows: Sequence[Row], clock: str) -> dict[str, Sequence[Row]]:
    natural_rows, unpaired_rows = _rows_with(timed_rows, ordering="natural"), _rows_without_pairs(timed_rows)
    candidates: dict[str, Sequence[Row]] = {OPERATOR: _rows_with(natural_rows, vector="AoS")}
    for space, prefix in TUNING_PREFIXES.items():
        papers = _papers_candidates([row for row in natural_rows if row.space == space], clock)
        candidates |= {f"{prefix}{tuning}": tuning_rows for tuning, tuning_rows in papers.items()}
    if any(row.space == EXTENDED for row in timed_rows):
        candidates |= {EXTENDED: natural_rows, "reordered": timed_rows}
    if len(unpaired_rows) < len(timed_rows):
        candidates |= {UNPAIRED: _rows_without_pairs(natural_rows), REORDERED_UNPAIRED: unpaired_rows}
    return candidates


def _rows_with(rows: Iterable[Row], **columns: object) -> list[Row]:
    """Return the rows whose columns have the given values."""
    return [row for row in rows if all(row.own.get(name) == value for name, value in columns.items())]


def _rows_without_pairs(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.own.get("outer") not in TILE_ROWS]


def _papers_candidates(rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return, for each of the papers' tunings, the rows of a space from which it chooses; {} without rows.

    Without times of the reference layout, the lists of `schedule` and `layout` are empty.
    """
    reference = _rows_with(rows, layout=str(REFERENCE))
    schedule, joint_winner = best_row(reference, clock), best_row(rows, clock)
    if joint_winner is None:
        return {}
    fixed = schedule and _schedule(schedule)
    layout_rows = _rows_with(rows, layout=joint_winner.own.get("layout"))
    return {
        "schedule": reference,
        "layout": [row for row in rows if _schedule(row) == fixed] if fixed else [],
        "joint": [*rows],
        "static": _rows_with(layout_rows, schedule="static"),
        "dynamic": _rows_with(layout_rows, schedule="dynamic"),
    }


def _schedule(row: Row) -> dict[str, object]:
    """Return the schedule of a row by its fields."""
    return {name: row.own.get(column) for name, column in Schedule.column_names().items()}


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> Array:
    """Return the features of a matrix from its record, `(13,)`.

    The first features are those of `repro.sparse.tuning_features.features`. Four features of pairs follow, which
    `repro.studies.compound_spmv.facts` counted in natural order: 1 if the matrix is symmetric, else 0; the share of
    entries that pairs store once instead of twice; log of bytes with pairs over bytes of CSR-AoS; log of (1 + foreign
    columns per tile over rows per tile). Unknown features are NaN, as are the last three if the matrix is not
    symmetric.
    """
    facts = record.get("facts", {}).get(STUDY_NAME, {})
    pair_features = np.full(4, np.nan)
    if "pairs" in facts:
        # plain keys instead of an import: changes in `facts` would otherwise repeat all measurements
        pairs = facts["pairs"]
        pair_features[0] = float(bool(pairs["symmetry"][precision]))
    if pair_features[0] == 1:
        statistics, number = record["statistics"], np.dtype(DTYPES[precision]).itemsize
        entry_bytes = len(get_entry(record["entry"]).members) * number
        csr = statistics["nonzeros"] * (entry_bytes + 4) + (statistics["rows"] + 1) * 4
        foreign = pairs["foreign_per_tile"] / pairs["tile_rows"]
        pair_features[1:] = pairs["inside"], np.log2(pairs["bytes"][precision] / csr), np.log2(1 + foreign)
    return np.append(features_of_a_product(record, precision, machine), pair_features)


def prune_mask(frame: pd.DataFrame) -> pd.Series:
    """Return a mask of rows to skip in a search with a budget: formats of pairs on a matrix that is not symmetric."""
    is_of_pairs = frame["name"].str.startswith(tuple(f"{outer}-" for outer in TILE_ROWS))
    messages = frame.message.fillna("").astype(str)
    return is_of_pairs & (frame.status == "unsupported") & messages.str.startswith(NOT_SYMMETRIC)


class CompoundSpmv(Study):
    """Joint tuning of layout and schedule against cuSPARSE, as in the papers and beyond their space."""

    name = STUDY_NAME
    title = "SpMV with compound entries"
    reference = PAPERS
    pairs = (Pair(WINNERS, {"kind": "baseline", "ordering": "natural"}, "graph"),)
    winners = WINNERS
    id_class = VariantId
    numbers: Mapping[str, str] = {
        column: f"schedule.{name}"
        for name, column in Schedule.column_names().items()
        if column in ("n_t", "n_b", "width", "unroll")
    }
    libraries = LIBRARIES
    columns = CompoundRow.own_columns()
    parts = (REORDERED_MATRICES, CONJUGATE_GRADIENTS, DEPENDENT_LAUNCHES)
    published: Mapping[str, tuple[str, ...]] = {
        "sizes": ("table", "gpu", "problem", "entry", "rows", "nonzeros"),
        "layouts": ("table", "gpu", "entry", "precision", "problem", "layout", "speedup"),
        "dynamic": ("table", "gpu", "problem", "preferred"),
        "memory": ("table", "gpu", "problem", "csr_size", "csr_unit", "ELL", "Sl-16", "Sl-32", "cuSPARSE"),
        "devices": ("table", "gpu", "name", "compute_capability", "multiprocessors", "cuda", "calls"),
        "text": ("table", "gpu", "quantity", "precision", "value"),
    }
    targets = ("quantity", "prototype", "wanted", "what")
    highlights: Mapping[str, str] = {
        "table-targets": "what was aimed at and reached",
        "table-problems": "every problem, warm and cold",
        "figure-speedup": "the speedups",
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(launches=2.4, intensity=0.5, memory=25),
        # CPU seconds per module on an AMD EPYC: means for complex numbers, patterns and packing, one module for other
        # entry types
        "opencl": CostModel(
            other_seconds=3,
            compile={
                "extended/block3": 27,
                "extended/quaternion": 18,
                "extended/complex": 14,
                "extended/": 11,
                "packing/": 1.5,
            },
        ),
    }
    gpu_sharing = True
    rival_tasks = ("spmv",)
    result: Mapping[str, Any] = {
        "table": "table-targets",
        "row": "speedup over the fastest routine, graph clock: geometric mean",
        "column": "ours",
        "fallback_column": "papers_space",
        "fallback_description": "of the papers’ space alone",
        "description": "{library}’s fastest routine of any representation; geometric mean of all problems and "
        "precisions",
        "clock": "graph",
        "lines": (
            {
                "description": "the papers’ kernels to the letter, geometric mean",
                "row": "speedup over the fastest routine, graph clock: geometric mean",
                "column": "papers_space",
                "as_published": True,
            },
        ),
    }

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        super().check(settings, problems)
        _check_layouts(settings, [_entry(problem) for problem in problems])

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        check_names(STUDY_NAME, settings.baselines, {_entry(problem): None for problem in problems}, target.dialect)

    def parts_of(self, settings: StudySettings, precision: str) -> tuple[str, ...]:
        return super().parts_of(settings, precision) if EXTENDED in settings.spaces else ()

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return `space/entry-precision/layout` for every layout to try, and the modules of packing and solvers.

        Products and packing that are compiled on demand are left out. Empty for a matrix without entries.
        """
        if not problem.has_entries:
            return []
        entry = _entry(problem)
        layouts = [
            (space, layout)
            for space in (() if self.compiles_on_demand(settings) else settings.spaces)
            for layout in layouts_to_try(settings, space, entry, target)
        ]
        keys = [f"{space}/{entry}-{precision}/{layout}" for space, layout in layouts]
        names = dict.fromkeys(packing_name(layout) for _, layout in layouts)
        keys += (packing_key(entry, precision, name) for name in names if name)
        return [*keys, *(_solver_keys(entry, precision) if self._solves(settings, entry, precision) else ())]

    def _solves(self, settings: StudySettings, entry: str, precision: str) -> bool:
        """Return whether conjugate gradients are tried on symmetric matrices; never for entries without values."""
        return CONJUGATE_GRADIENTS in self.parts_of(settings, precision) and bool(get_entry(entry).members)

    def _chains(self, settings: StudySettings, precision: str, target: Target) -> bool:
        """Return whether the fastest variants are timed by dependent launches too."""
        return target.has_dependent_launches and DEPENDENT_LAUNCHES in self.parts_of(settings, precision)

    def compiles_on_demand(self, settings: StudySettings) -> bool:
        return settings.compile == "on_demand"

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source of one module: every schedule of a space that fits the target's limits."""
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> ProductOperands:
        """Return A, x and their product."""
        assert isinstance(problem, Matrix)
        return make_operands(problem, precision, seed, rectangular=True)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Search each space, then other orderings of the unknowns; choose winners, and time them beside the library."""
        settings, entry, backend = session.settings, _matrix(session).entry, session.bench.device.backend
        library = asked_for(settings.baselines, entry, backend)  # check the names first
        variants, rows = _search(session)
        yield "search", rows
        tie = session.timing.tie
        ids = [variant.id for variant in variants]
        choices = [*choose(rows, tie, ids), *choose_by_memory(rows, settings.memory_weight, ids)]
        winners = {choice.name for choice in choices}
        yardsticks = [session.yardsticks(), *_own_floors(session, variants, rows, winners)]
        yield "baseline", [row for yardstick_rows in yardsticks for _, row in yardstick_rows]
        floors = [floor for yardstick_rows in yardsticks for floor in fastest_yardsticks(yardstick_rows)]
        for ordering in worthwhile_orderings(choices, rows, tie):
            library += asked_for(settings.baselines, entry, backend, ordering)
        winning_variants = [variant for variant in variants if variant.name in winners]
        rivals = products_of(session.rivals, entry)
        dependent = []
        if _matrix(session).square and self._chains(settings, session.precision, session.target):
            dependent = dependent_variants(variants, rows, session)
        report = session.time_in_rounds([*winning_variants, *dependent, *floors, *library, *rivals])
        if self._solves(settings, entry, session.precision) and not refusal(session.bench.workspace):
            fastest = [product for side in (winning_variants, library) for product in fastest_of(side, report)]
            report += session.time_in_rounds(solvers_of_products(fastest, entry, session.precision, session.target))
        yield "report", report
        yield "choices", choices

    def tunings(self, settings: StudySettings, problem: Outline) -> list[str]:
        """Return the tunings; without `static` and `dynamic` if a sample is searched, which may lack such schedules."""
        kinds = PAPERS_KINDS if settings.search == "exhaustive" else ()
        prefixes = [prefix for space, prefix in TUNING_PREFIXES.items() if space in settings.spaces]
        papers = [f"{prefix}{tuning}" for prefix in prefixes for tuning in (*TUNINGS, *kinds)]
        has_own_layouts = EXTENDED in settings.spaces and layouts_to_try(settings, EXTENDED, _entry(problem))
        memory_tunings = [MEMORY] if settings.memory_weight else []
        return [*papers, *(OUR_TUNINGS if has_own_layouts else ()), *memory_tunings]

    def variant(self, templates: Path, problem: Outline, precision: str, id: VariantId, target: Target) -> Variant:
        """Return the variant of an id, from a compiled module that contains it, or from a module compiled for it."""
        fitting(id, target)
        entry, schedule, stored_layout = _entry(problem), id.schedule, id.layout.stored
        packer = packers_on_demand(entry, precision, target, templates).get(packing_name(id.layout))
        for space in SPACES:
            path = manifest_path(target.name, STUDY_NAME, f"{space}/{entry}-{precision}/{stored_layout}")
            if schedule in schedules(target, space, stored_layout) and path.exists():
                module = Module.load(path)
                if module.binary and (not module.resources or kernel_name(schedule, target) in module.resources):
                    return Variant(id, module, path.parent, space, packer)
        path = single_manifest(entry, precision, id, target)
        source = render_module(templates, entry, precision, stored_layout, [schedule], target, STUDY_NAME)
        return Variant(id, compile_module(source, target, path), path.parent, EXTENDED, packer)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return the number of variants, and the matrix's bytes as CSR; zero for a matrix without entries."""
        if not problem.has_entries:
            return Workload(0, 0, 0, 0, 0)
        entry = get_entry(_entry(problem))
        number = DTYPES[precision]().nbytes
        rows, nonzeros = problem.size or (0, 0)
        matrix = 4 * (rows + 1) + nonzeros * (4 + number * len(entry.members))
        schedule_counts = [
            len(schedules(target, space, layout))
            for space in settings.spaces
            for layout in layouts_to_try(settings, space, entry.name, target)
        ]
        routines = len(for_problem(entry.name, target.dialect))
        routines += (1 + 2 * FASTEST) * self._solves(settings, entry.name, precision)
        routines += FASTEST * self._chains(settings, precision, target)
        moved_bytes = matrix + (rows + (problem.columns or rows)) * number * entry.size
        return Workload(sum(schedule_counts), len(schedule_counts), routines, matrix, moved_bytes)

    def layouts(self) -> list[tuple[str, str]]:
        """Return pairs of a layout and its space, those of the space `paper` first; the reference is marked."""
        papers = all_layouts()
        own_layouts = dict.fromkeys(layout for entry in entries().values() for layout in extended_layouts(entry))
        spaces = {**dict.fromkeys(papers, PAPER), REFERENCE: f"{PAPER}, the reference"}
        return [(str(layout), spaces.get(layout, EXTENDED)) for layout in dict.fromkeys([*papers, *own_layouts])]


STUDY = CompoundSpmv()


def _check_layouts(settings: StudySettings, entries: Iterable[str]) -> None:
    """Raise an error for layouts that do not exist, or that are not in the configured spaces."""
    known_layouts = {str(layout) for layout in all_layouts()}
    if EXTENDED in settings.spaces:
        known_layouts |= {str(layout) for entry in entries for layout in extended_layouts(get_entry(entry))}
    for text in () if settings.layouts == "all" else settings.layouts:
        where = f"studies.{STUDY_NAME}.layouts"
        try:
            layout = Layout.parse(text)
        except ReproError as error:
            raise ReproError(
                error.what, where=where, expected=error.expected, actual=error.actual, todo=error.todo
            ) from None
        if str(layout) not in known_layouts:
            raise ReproError(
                "the layout is not in the space",
                where=where,
                expected=f"for `space: {', '.join(settings.spaces)}` and these problems one of "
                f"{', '.join(sorted(known_layouts))}",
                actual=text,
                todo="`repro list layouts` prints all; those marked ours are in `space: extended`",
            )


def layouts_to_try(settings: StudySettings, space: Space, entry: str, target: Target | None = None) -> list[Layout]:
    """Return the layouts of a space to try; in the papers' spaces the reference layout is always the first.

    With a target, return only layouts that have schedules on this target.
    """
    papers = space != EXTENDED
    known_layouts = all_layouts() if papers else extended_layouts(get_entry(entry))
    configured_names = (
        set(map(str, known_layouts)) if settings.layouts == "all" else {text.strip() for text in settings.layouts}
    )
    selected_layouts = [
        layout for layout in known_layouts if str(layout) in configured_names or (papers and layout == REFERENCE)
    ]
    return [layout for layout in selected_layouts if target is None or schedules(target, space, layout)]


def single_manifest(entry: str, precision: str, id: VariantId, target: Target) -> Path:
    """Return the manifest of the module that contains only this variant."""
    return manifest_path(target.name, STUDY_NAME, f"single/{entry}-{precision}/{id.layout.stored}/{id.schedule}")


def variants_on_demand(
    settings: StudySettings, entry: str, precision: str, target: Target, templates: Path
) -> list[Variant]:
    """Return all variants as `variants_of`, each with a separate module that is compiled at its first use."""
    variants = []
    packers = packers_on_demand(entry, precision, target, templates)
    for space in settings.spaces:
        for layout in layouts_to_try(settings, space, entry, target):
            for schedule in schedules(target, space, layout):
                id = VariantId(layout, schedule)
                path = single_manifest(entry, precision, id, target)
                render = partial(
                    render_module, templates, entry, precision, layout.stored, [schedule], target, STUDY_NAME
                )
                module = ModuleOnDemand(render, target, path)
                variants.append(Variant(id, module, path.parent, space, packers.get(packing_name(layout))))
    return variants


def packers_on_demand(entry: str, precision: str, target: Target, templates: Path) -> Mapping[str | None, ModuleFile]:
    """Return the modules that pack matrices by name, each compiled at its first use."""
    packers: dict[str | None, ModuleFile] = {}
    for name in PACKINGS:
        path = manifest_path(target.name, STUDY_NAME, packing_key(entry, precision, name))
        render = partial(render_packing, templates, entry, precision, name, target, STUDY_NAME)
        packers[name] = ModuleFile(ModuleOnDemand(render, target, path), path.parent)
    return packers


def variants_of(settings: StudySettings, entry: str, precision: str, target: Target) -> list[Variant]:
    """Return all variants by space and layout; layouts that share arrays are adjacent."""
    variants = []
    for space in settings.spaces:
        for layout in layouts_to_try(settings, space, entry, target):
            built = read_module(target, STUDY_NAME, f"{space}/{entry}-{precision}/{layout}")
            name = packing_name(layout)
            packer = read_module(target, STUDY_NAME, packing_key(entry, precision, name)) if name else None
            for schedule in schedules(target, space, layout):
                variants.append(Variant(VariantId(layout, schedule), built.module, built.folder, space, packer))
    return variants


def _solver_keys(entry: str, precision: str) -> tuple[str, str]:
    """Return the keys of the modules of conjugate gradients: with the matrix kept on the chip, and with any product."""
    return solver_key(OVER_PRODUCT, precision, entry), solver_key(OVER_PRODUCT, precision)


def fastest_of(products: Sequence[P], report: Sequence[Row]) -> list[P]:
    """Return the `FASTEST` products in the matrix's own order, by the graph clock if that clock was used."""
    names = {product.name for product in products if product.arrangement.endswith("@natural")}
    rows = [row for row in report if row.name in names and row.cache == "warm" and row.status in TIMED]
    clock = "graph" if any(row.median("graph") for row in rows) else "event"
    first = {row.name for row in rank_rows(rows, clock)[:FASTEST]}
    return [product for product in products if product.name in first]


def dependent_variants(variants: Sequence[Variant], rows: Sequence[Row], session: Session) -> list[DependentVariant]:
    """Return the fastest variants of a search, compiled for dependent launches.

    `dynamic` and `split` schedules are left out: between their launches a counter is reset, or carries are added, so
    that no launch directly follows another.
    """
    target, entry, precision = session.target, _matrix(session).entry, session.precision
    dependents = []
    for variant in fastest_of([variant for variant in variants if variant.schedule.kind not in WITH_SCRATCH], rows):
        layout, schedule = variant.layout.stored, variant.schedule
        key = f"{DEPENDENT_LAUNCHES}/{entry}-{precision}/{layout}/{schedule}"
        path = manifest_path(target.name, STUDY_NAME, key)
        render = partial(
            render_module, session.templates, entry, precision, layout, [schedule], target, STUDY_NAME, dependent=True
        )
        module = ModuleOnDemand(render, target, path)
        dependents.append(DependentVariant(variant.id, module, path.parent, variant.space, variant.packer))
    session.compile(dependents)
    return dependents


def solvers_of_products(products: Sequence[ProductRunnable], entry: str, precision: str, target: Target) -> list[CgRun]:
    """Return conjugate gradients with the matrix kept on the chip, and conjugate gradients with each of these products.

    Raises `ReproError`: a module is not compiled yet.
    """
    chip, product = (read_module(target, STUDY_NAME, key) for key in _solver_keys(entry, precision))
    over_products = [ProductCgRun(product_kernel, product.module, product.folder) for product_kernel in products]
    return [PersistentCgRun(chip.module, chip.folder), *over_products]


def _search(session: Session) -> tuple[list[Variant], list[Row]]:
    """Search each space separately, then, if asked for, reordered matrices with the fastest variants so far.

    A rectangular matrix is not reordered, as that renumbers rows and columns alike.
    """
    settings = session.settings
    entry = _matrix(session).entry
    if STUDY.compiles_on_demand(settings):
        variants = variants_on_demand(settings, entry, session.precision, session.target, session.templates)
    else:
        variants = variants_of(settings, entry, session.precision, session.target)
    strategy = session.strategy(features, VariantId, str(REFERENCE), prune_mask)
    if settings.search != "exhaustive" and not symmetry_on(session.bench.workspace).kind:
        variants = [variant for variant in variants if not variant.layout.stores_pairs]
    session.keep_packed(variants)  # the packings are needed again for other schedules and full timings
    rows: list[Row] = []
    for space in settings.spaces:
        candidates = [variant for variant in variants if variant.space == space]
        # layout tuning alone: time the best schedule of the reference layout in every other layout
        rows += session.search(strategy, candidates, f"{space} space", schedules_of_reference)
    best = [row.name for row in rank_rows(rows)[: session.timing.finalists]]
    may_reorder = REORDERED_MATRICES in STUDY.parts_of(settings, session.precision) and _matrix(session).square
    reordered = _reordered_variants(variants, best) if may_reorder else []
    if reordered:
        rows += session.measure_all(reordered, "reordered")
    return [*variants, *reordered], rows


def _own_floors(
    session: Session, variants: Sequence[Variant], rows: Sequence[Row], winners: Container[str]
) -> list[list[tuple[Runnable, Row]]]:
    """Time the streaming floor of the bytes of each winner in a format of pairs; return the floors."""
    layouts = {variant.name: variant.layout for variant in variants}
    sizes = {
        layouts[row.name]: nbytes for row in rows if row.name in winners and (nbytes := row.own.get("matrix_bytes"))
    }
    return [
        list(zip(floors, session.measure_all(floors, f"floor of {layout}"), strict=True))
        for layout, floors in own_floors(sizes, session.streams).items()
    ]


def _reordered_variants(variants: Sequence[Variant], best: Sequence[str]) -> list[Variant]:
    """Return the best variants with renumbered unknowns, if our space is searched.

    Variants that store rows in clusters are tried without clusters: the new order of the unknowns replaces them.
    """
    if not any(variant.space == EXTENDED for variant in variants):
        return []
    natural_variants = {variant.id: variant for variant in variants if variant.layout.ordering == "natural"}
    ids_by_name = {variant.name: variant.id for variant in variants}
    ids = [replace(id, layout=replace(id.layout, ordering="natural")) for id in map(ids_by_name.__getitem__, best)]
    winners = [natural_variants[id] for id in dict.fromkeys(ids) if id in natural_variants]
    return [variant.reordered(ordering) for ordering in UNKNOWNS[1:] for variant in winners]


def worthwhile_orderings(choices: Sequence[Choice], rows: Sequence[Row], tie: float) -> list[str]:
    """Return the orderings in which the library is timed as well.

    An ordering counts if a choice in it is faster than the best in natural order by more than a tie, by either clock:
    a reordered matrix must be compared with the library on the reordered matrix.
    """
    rows_by_name = {row.name: row for row in rows}
    chosen_rows = {(choice.clock, choice.tuning): rows_by_name[choice.name] for choice in choices}
    orderings = set()
    for clock in CLOCKS:
        natural_row, reordered_row = (chosen_rows.get((clock, tuning)) for tuning in (EXTENDED, "reordered"))
        if not natural_row or not reordered_row:
            continue
        natural_median, reordered_median = natural_row.median(clock), reordered_row.median(clock)
        if natural_median and reordered_median and reordered_median * (1 + tie) < natural_median:
            orderings.add(str(reordered_row.own.get("ordering")))
    return sorted(orderings)


def _entry(problem: Outline) -> str:
    assert problem.entry is not None, "a matrix has entries"
    return problem.entry


def _matrix(session: Session) -> Matrix:
    assert isinstance(session.problem, Matrix)
    return session.problem
