"""SpMV and BiCGSTAB with balanced and compressed coordinates.

The fastest product alone need not be the fastest in a solver. Therefore the fastest product of each layout is also
tried in BiCGSTAB, and a tuning of its own chooses among the solvers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from repro.bench.rows import TIMED, RecordedRow, Row
from repro.codegen.build_cache import Module, ModuleOnDemand, compile_module, manifest_path
from repro.codegen.targets import DTYPES, Target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.sparse.device_primitives import read_module
from repro.sparse.library import asked_for, check_names, for_problem
from repro.sparse.operands import ProductOperands, ProductRunnable, make_operands
from repro.sparse.rivals.runnables import products_of
from repro.sparse.solvers.bicgstab import SolverRun
from repro.sparse.solvers.kernels import solver_key
from repro.sparse.solvers.persistent import PersistentRun
from repro.sparse.tuning_features import LIBRARIES, MEMORY, WINNERS, choose_by_memory, features
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.compressed_coo import REFERENCE, SOLVER
from repro.studies.compressed_coo import STUDY_NAME as NAME
from repro.studies.compressed_coo.ids import (
    HEIGHTS,
    PAIRS,
    PAPERS,
    RUNS,
    SPLITS,
    TILES,
    CoordinateId,
    blockings,
    check_layout,
)
from repro.studies.compressed_coo.kernels import render_coo, render_key
from repro.studies.compressed_coo.runnables import CoordinateVariant, PairsVariant, SlicedVariant
from repro.tuning.search import Choice, Pair, best_row, pick, rank_rows
from repro.tuning.session import Session, fastest_yardsticks
from repro.words import EXTENDED, PAPER, SPACES, TUNED, TUNING_PREFIXES, Space


class CooRow(RecordedRow):
    """A row of a variant, of a library routine, or of BiCGSTAB with one of them."""

    entry: str | None
    ordering: str | None
    layout: str | None
    n_t: int | None
    per_thread: int | None
    chunks: int | None
    load: str | None
    #: Number of chunks by encoding, for example `8/16/table`, as JSON.
    encodings: str | None
    routine: str | None
    representation: str | None
    format: str | None
    papers_choice: bool | None
    matrix_bytes: int | None
    #: For a solver, the name of its product.
    product: str | None


#: Number of solvers already contained in the cost model's time for a case: those for library formats, for the paper's
#: format and for our fastest format.
REPORTED = 6


def fastest_of_layouts(variants: Sequence[CoordinateVariant], rows: Sequence[Row]) -> list[CoordinateVariant]:
    """Return the fastest timed variant of each layout, by the graph clock if that clock was used."""
    names = set()
    for layout in SPLITS:
        layout_rows = [row for row in rows if CooRow.of(row).layout == layout]
        ranked_rows = rank_rows(layout_rows, "graph") or rank_rows(layout_rows)
        names |= {row.name for row in ranked_rows[:1]}
    return [variant for variant in variants if variant.name in names]


def solvers_of_products(products: Iterable[ProductRunnable], precision: str, target: Target) -> list[SolverRun]:
    """Return one BiCGSTAB solver for each of these products.

    Raises `ReproError`: the solver's module is not compiled yet.
    """
    solver_module = read_module(target, NAME, solver_key("bicgstab", precision))
    return [SolverRun(product, solver_module.module, solver_module.folder) for product in products]


def persistent_solvers(precision: str, target: Target) -> list[PersistentRun]:
    """Return the BiCGSTAB solver that keeps the matrix on the chip; `ReproError` if its module is not compiled yet."""
    solver_module = read_module(target, NAME, solver_key("bicgstab", precision, ENTRY))
    return [PersistentRun(solver_module.module, solver_module.folder)]


def choose_solver(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the fastest of the tried solvers, by each clock."""
    return pick(rows, tie, lambda timed_rows, clock: {SOLVER: timed_rows})


def fastest_products(products: Sequence[ProductRunnable], rows: Sequence[Row]) -> list[ProductRunnable]:
    """Return the best reported products: the fastest of each layout, and of each library format.

    Library routines are timed for the report only, so the search has tried none of them in the solver.
    """
    warm = {row.name: row for row in rows if row.cache == "warm" and row.status in TIMED}
    clock = "graph" if any(row.median("graph") for row in warm.values()) else "event"
    timed_rows = [row for product in products if (row := warm.get(product.name)) and row.median(clock)]
    library = [row for row in timed_rows if row.kind == "baseline"]
    groups = [
        *([row for row in timed_rows if CooRow.of(row).layout == layout] for layout in SPLITS),
        library,
        *([row for row in library if CooRow.of(row).format == form] for form in ("csr", "coo")),
    ]
    selected_names = {best.name for group in groups if (best := best_row(group, clock))}
    selected_names |= {row.name for row in library if CooRow.of(row).papers_choice}
    return [product for product in products if product.name in selected_names]


ENTRY = "real"
#: Host seconds to pack pairs, per byte of CSR and per packing; fitted to a record in which half of the matrices are
#: symmetric.
SECONDS_A_BYTE = 1.2e-8
PLAIN = "COO"


class CompressedCoo(Study):
    """Balanced and compressed coordinates against cuSPARSE, as products alone and within BiCGSTAB."""

    name = NAME
    title = "SpMV with compressed coordinates"
    reference = REFERENCE
    pairs = (Pair(WINNERS, {"kind": "baseline", "ordering": "natural"}, "graph"),)
    winners = WINNERS
    id_class = CoordinateId
    numbers: Mapping[str, str] = {
        "n_t": "blocking.threads",
        "per_thread": "blocking.entries",
        "chunks": "blocking.chunks",
    }
    entries = (ENTRY,)
    libraries = LIBRARIES
    columns = CooRow.own_columns()
    published: Mapping[str, tuple[str, ...]] = {"text": ("table", "gpu", "quantity", "precision", "value")}
    targets = ("quantity", "wanted", "what")
    highlights: Mapping[str, str] = {
        "table-targets": "what was aimed at and reached",
        "table-problems": "every problem, warm and cold",
        "figure-4": "the products’ GFLOPS, beside the library’s",
    }
    result: Mapping[str, Any] = {
        "table": "table-targets",
        "row": "speedup over the fastest routine of any format, graph clock: geometric mean of all problems",
        "column": "ours",
        "fallback_column": "compressed",
        "fallback_description": "of the paper’s compressed COO alone",
        "description": "the fastest routine of {library} of any format; geometric mean of all problems",
        "clock": "graph",
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(other_seconds=1.6, launches=2.4, memory=7),
        "opencl": CostModel(other_seconds=2.5),
    }
    gpu_sharing = True
    rival_tasks = ("spmv",)

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Raise an error for problems that are not real matrices, and for unknown layouts."""
        super().check(settings, problems)
        available_layouts = [*SPLITS] if EXTENDED in settings.spaces else [*PAPERS]
        unknown_layouts = (
            () if settings.layouts == "all" else [name for name in settings.layouts if name not in available_layouts]
        )
        if unknown_layouts:
            raise ReproError(
                "unknown coordinate layout",
                where=f"studies.{NAME}.layouts",
                expected=f"for `space: {', '.join(settings.spaces)}` one of {', '.join(available_layouts)}",
                actual=", ".join(unknown_layouts),
                todo="`repro list layouts` prints all",
            )
        for space in settings.spaces:
            layouts_to_try(settings, space)

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Raise an error for unknown baselines."""
        check_names(NAME, settings.baselines, [ENTRY], target.dialect)

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return `space/precision/layout` for every layout to try, and the solver's module.

        The space `extended` adds the module of the solver that keeps the matrix on the chip. Products that are compiled
        on demand are left out. Empty for a problem that is known to be unsuitable (not square).
        """
        if not problem.multiplies:
            return []
        products = [
            f"{space}/{precision}/{layout}"
            for space in (() if self.compiles_on_demand(settings) else settings.spaces)
            for layout in layouts_to_try(settings, space)
        ]
        persistent = [solver_key("bicgstab", precision, ENTRY)] if EXTENDED in settings.spaces else []
        return [*products, solver_key("bicgstab", precision), *persistent]

    def compiles_on_demand(self, settings: StudySettings) -> bool:
        return settings.compile == "on_demand"

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source of one module: every blocking of a layout, or a solver."""
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> ProductOperands:
        """Return A, x and their product."""
        assert isinstance(problem, Matrix)
        return make_operands(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Search each space, try each layout's best in the solver, choose winners, and time them beside the library."""
        settings = session.settings
        rivals = products_of(session.rivals, ENTRY)
        library = asked_for(settings.baselines, ENTRY, session.bench.device.backend)  # check the names first
        if self.compiles_on_demand(settings):
            variants = variants_on_demand(settings, session.precision, session.target, session.templates)
        else:
            variants = variants_of(settings, session.precision, session.target)
        strategy = session.strategy(features, CoordinateId)
        session.keep_packed(variants)  # keep packings: full timings after the screening and solvers need them
        rows: list[Row] = []
        for space in settings.spaces:
            rows += session.search(strategy, [v for v in variants if v.space == space], f"{space} space")
        candidate_solvers = solvers_of_products(fastest_of_layouts(variants, rows), session.precision, session.target)
        solver_rows = session.measure_all(candidate_solvers, "BiCGSTAB") if candidate_solvers else []
        yield "search", [*rows, *solver_rows]
        yardsticks = session.yardsticks()
        yield "baseline", [row for _, row in yardsticks]
        tie = session.timing.tie
        ids = [variant.id for variant in variants]
        memory_choices = choose_by_memory(rows, settings.memory_weight, ids)
        choices = [*choose(rows, tie, ids), *memory_choices, *choose_solver(solver_rows, tie)]
        winners = {choice.name for choice in choices}
        winning_variants = [variant for variant in variants if variant.name in winners]
        report = session.time_in_rounds([*winning_variants, *fastest_yardsticks(yardsticks), *library, *rivals])
        report_solvers = solvers_of_products(
            fastest_products([*winning_variants, *library], report), session.precision, session.target
        )
        solvers = list(
            {
                run.name: run for run in [*(run for run in candidate_solvers if run.name in winners), *report_solvers]
            }.values()
        )
        chip_solvers = persistent_solvers(session.precision, session.target) if EXTENDED in settings.spaces else []
        all_solvers = [*solvers, *chip_solvers]
        yield "report", [*report, *(session.time_in_rounds(all_solvers) if all_solvers else [])]
        yield "choices", choices

    def tunings(self, settings: StudySettings, problem: Outline) -> list[str]:
        """Return the tunings of the configured layouts; `plain_tunings` only if the search is exhaustive."""
        selected_layouts = layouts_to_try(settings, PAPER)
        plain_tunings = ["plain"] if PLAIN in selected_layouts and settings.search == "exhaustive" else []
        joint_tunings = ["joint"] if set(selected_layouts) - {PLAIN} else []
        prefixes = [prefix for space, prefix in TUNING_PREFIXES.items() if space in settings.spaces]
        papers = [f"{prefix}{tuning}" for prefix in prefixes for tuning in (*plain_tunings, *joint_tunings)]
        own_tunings = [EXTENDED] if EXTENDED in settings.spaces and layouts_to_try(settings, EXTENDED) else []
        return [*papers, *own_tunings, *([MEMORY] if settings.memory_weight else [])]

    def variant(
        self, templates: Path, problem: Outline, precision: str, id: CoordinateId, target: Target
    ) -> CoordinateVariant:
        """Return the variant of an id, from a compiled module that contains it, or from a module compiled for it."""
        for space in SPACES:
            path = manifest_path(target.name, NAME, f"{space}/{precision}/{id.layout}")
            kernels = {blocking.kernel for blocking in blockings(target, id.layout, space)}
            if id.blocking.kernel in kernels and path.exists() and (module := Module.load(path)).binary:
                return variant_of(id, module, path.parent)
        path = single_manifest(precision, id, target)
        source = render_coo(templates, precision, id.layout, [id.blocking], target)
        return variant_of(id, compile_module(source, target, path), path.parent)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return the number of variants, and the matrix's bytes as CSR; zero for a matrix that cannot be multiplied."""
        if not problem.multiplies:
            return Workload(0, 0, 0, 0, 0)
        number = DTYPES[precision]().nbytes
        rows, nonzeros = problem.size or (0, 0)
        matrix = 4 * (rows + 1) + nonzeros * (4 + number)
        by_space = [(space, layout) for space in settings.spaces for layout in layouts_to_try(settings, space)]
        blocking_counts = [len(blockings(target, layout, space)) for space, layout in by_space]
        routines = len(for_problem(ENTRY, target.dialect))
        moved_bytes = matrix + 2 * rows * number
        pairs = [
            layout for layout in PAIRS if EXTENDED in settings.spaces and layout in layouts_to_try(settings, EXTENDED)
        ]
        packed_bytes = matrix * len(pairs) * len(TILES) * len(RUNS) if target.dialect == "cuda" else 0
        case_overhead = (
            1 + len(blocking_counts) / REPORTED
        )  # trying a solver in the search takes as long as timing one for the report
        return Workload(
            sum(blocking_counts),
            len(blocking_counts),
            routines,
            matrix,
            moved_bytes,
            case_overhead,
            packed_bytes * SECONDS_A_BYTE,
        )

    def layouts(self) -> list[tuple[str, str]]:
        """Return the paper's two layouts, and our layouts."""
        return [(name, PAPER if name in PAPERS else EXTENDED) for name in SPLITS]


STUDY = CompressedCoo()


def layouts_to_try(settings: StudySettings, space: Space) -> list[str]:
    """Return the layouts of a space to try: the paper's two, or ours.

    Raises `ReproError`: a configured layout does not exist, or is in none of the configured spaces.
    """
    selected_layouts = list(SPLITS) if settings.layouts == "all" else list(map(check_layout, settings.layouts))
    if not any(name in PAPERS or EXTENDED in settings.spaces for name in selected_layouts):
        raise ReproError(
            "no layout to measure",
            where=f"studies.{NAME}.layouts",
            expected=f"one of {', '.join(PAPERS)}, or `space: extended`",
            actual=", ".join(selected_layouts),
        )
    return [name for name in SPLITS if name in selected_layouts and (name in PAPERS) == (space != EXTENDED)]


def variants_of(settings: StudySettings, precision: str, target: Target) -> list[CoordinateVariant]:
    """Return all variants by space and layout; variants that share a packed matrix are adjacent.

    Raises `ReproError`: a module is not compiled yet.
    """
    variants = []
    for space in settings.spaces:
        for layout in layouts_to_try(settings, space):
            layout_module = read_module(target, NAME, f"{space}/{precision}/{layout}")
            for blocking in sorted(blockings(target, layout, space)):
                variants.append(variant_of(CoordinateId(layout, blocking), layout_module.module, layout_module.folder))
    return variants


def single_manifest(precision: str, id: CoordinateId, target: Target) -> Path:
    """Return the manifest of the module that contains only this variant."""
    return manifest_path(target.name, NAME, f"single/{precision}/{id.layout}/{id.blocking}")


def variants_on_demand(
    settings: StudySettings, precision: str, target: Target, templates: Path
) -> list[CoordinateVariant]:
    """Return all variants as `variants_of`, each with a separate module that is compiled at its first use."""
    variants = []
    for space in settings.spaces:
        for layout in layouts_to_try(settings, space):
            for blocking in sorted(blockings(target, layout, space)):
                id = CoordinateId(layout, blocking)
                path = single_manifest(precision, id, target)
                render = partial(render_coo, templates, precision, layout, [blocking], target)
                variants.append(variant_of(id, ModuleOnDemand(render, target, path), path.parent))
    return variants


def variant_of(id: CoordinateId, module: Module | ModuleOnDemand, folder: Path) -> CoordinateVariant:
    """Return the variant of an id from a given module."""
    if id.layout in PAIRS:
        return PairsVariant(id, module, folder)
    kind = SlicedVariant if id.layout in HEIGHTS else CoordinateVariant
    return kind(id, module, folder)


def choose(rows: Sequence[Row], tie: float, ids: Iterable[CoordinateId] = ()) -> list[Choice]:
    """Return the chosen variants: `plain` (best of plain coordinates) and `joint` (best of compressed ones), as
    published.

    If the paper's layouts were tuned further, `tuned_plain` and `tuned_joint` are the best among all their blockings.
    If our layouts were tried, `extended` is the best of all variants.
    """

    def candidates_by_tuning(timed_rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        published_rows = [row for row in timed_rows if row.space == PAPER]
        papers = [row for row in timed_rows if row.space != EXTENDED]
        tunings: dict[str, list[Row]] = {}
        for prefix, candidates in (("", published_rows), (TUNED, papers if len(papers) > len(published_rows) else [])):
            is_plain = {row.name: CooRow.of(row).layout == PLAIN for row in candidates}
            tunings[f"{prefix}plain"] = [row for row in candidates if is_plain[row.name]]
            tunings[f"{prefix}joint"] = [row for row in candidates if not is_plain[row.name]]
        return {**tunings, EXTENDED: list(timed_rows)} if len(papers) < len(timed_rows) else tunings

    return pick(rows, tie, candidates_by_tuning, ids)
