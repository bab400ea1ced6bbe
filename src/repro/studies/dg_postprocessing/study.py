"""The contract of the study: cases in the plane (chapter 3) and in space (chapter 4).

In the plane, methods are searched, then the filter as a matrix is timed beside the winners; in space, kernels are
searched for each vector width. A launch on a large mesh may take minutes, so its duration is predicted first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from repro.bench.rows import RecordedRow, Row
from repro.bench.runnable import Runnable
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU, DOUBLE_FMAS_PER_CYCLE, Target, get_target
from repro.config.models import StudySettings, UnusedWeight
from repro.errors import ReproError, Unsupported
from repro.filtering.kernels import DEGREES as PLANE_DEGREES
from repro.filtering.spline_kernel import kernel
from repro.problems.field import Field
from repro.problems.generated_fields import FIELD_KINDS
from repro.problems.problem import Outline, Problem
from repro.sparse.device_primitives import ModuleFile, read_modules
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.dg_postprocessing import (
    CLIP,
    DEVICES,
    JOINT,
    LOCAL,
    MATRIX,
    MAX_LOCAL_TRIANGLES,
    PAPERS,
    PARTS,
    PUBLISHED,
    REFERENCE,
    STUDY_NAME,
    SUMS,
    TARGETS,
)
from repro.studies.dg_postprocessing.ids import (
    REGION_DEGREES,
    FieldId,
    FilterId,
    RegionId,
    filter_ids,
    full_width,
    own_region_ids,
    paper_region_ids,
    region_module_key,
)
from repro.studies.dg_postprocessing.kernels import (
    PLANE,
    is_searched,
    keys_of,
    modules_of,
    region_keys,
    render_alone,
    render_key,
)
from repro.studies.dg_postprocessing.operands import DgOperands, RegionOperands, make_operands, peak_gflops
from repro.studies.dg_postprocessing.regions import PAPER_CELLS, make_regions, region_count, region_features
from repro.studies.dg_postprocessing.runnables_plane import (
    FieldFilter,
    LocalFilter,
    configured_routines,
    device_filters,
    library_products,
    matrix_runnables,
)
from repro.studies.dg_postprocessing.runnables_regions import (
    ClipRegions,
    RegionFilter,
    RegionKernel,
    list_bytes,
    region_kernels,
)
from repro.tuning.search import Pair, pick
from repro.tuning.session import Session, fastest_yardsticks
from repro.words import EXTENDED, PAPER, PAPER_TUNED, SPACES


class DgRow(RecordedRow):
    """A row of a method in the plane, of the filter's matrix, or of regions in space."""

    #: Columns for methods of filtering in the plane.
    way: str | None
    threads: int | None
    cell: float | None
    blocks: int | None
    what: str | None
    kernel_degree: int | None
    #: Columns of rows that time a method of integrating over regions.
    method: str | None
    vector_width: int | None
    regions_per_block: int | None
    blocks_per_sm: int | None
    #: Columns for one region.
    region_operations: int | None
    shared_bytes: int | None
    regions: int | None
    points: int | None
    triangles: int | None
    degree: int | None
    scale: float | None
    #: Columns for all points together.
    pairs: int | None
    subtriangles: int | None
    segments: int | None
    copies: int | None
    devices: int | None
    fields: int | None
    #: Errors of the unfiltered field; the columns below are errors of the filtered field.
    dg_l2_error: float | None
    dg_max_error: float | None
    l2_error: float | None
    max_error: float | None
    mean_scale: float | None
    local_pairs: int | None
    matrix_pairs: int | None
    matrix_bytes: int | None
    routine: str | None
    #: Seconds of each stage of clipping.
    stage_count: float | None
    stage_scan: float | None
    stage_write: float | None


#: Minimum fraction of the peak rate that each method reaches, in operations of the contour method, for degrees 0 to 3;
#: measured on an H200. The values of the published methods are for `SHARE_THREADS` threads per multiprocessor; they
#: grow with the number of threads, up to a factor of `MAX_SHARE_GROWTH`. Both methods have equal values, so that both
#: are tried or both are left out.
PAPER_SHARES = (0.004, 0.004, 0.010, 0.020)
PEAK_SHARES = {
    "point": PAPER_SHARES,
    "element": PAPER_SHARES,
    "atomic": (0.012, 0.012, 0.030, 0.070),
    "edges": (0.100, 0.150, 0.300, 0.400),
}
SHARE_THREADS, MAX_SHARE_GROWTH = 64, 3.0
#: Target of the device on which the shares were measured.
REFERENCE_TARGET = "sm_90"
#: Minimum number of launches for one time: verification, and timing rounds.
MIN_LAUNCHES = 6


def predicted_seconds(id: FilterId, degree: int, operations: int, environment: Mapping[str, Any]) -> float | None:
    """Return the approximate seconds per launch, from the contour method's operations; None if the peak is unknown.

    The model assumes that a multiprocessor does as many operations per cycle as an H200's, limited by its own peak.
    """
    peak = peak_gflops(environment)
    if peak is None:
        return None
    fma_ratio = DOUBLE_FMAS_PER_CYCLE[REFERENCE_TARGET] / DOUBLE_FMAS_PER_CYCLE[str(environment["target"])]
    share = PEAK_SHARES[id.method][degree] * fma_ratio
    if id.space != EXTENDED:
        share *= min(id.threads * id.blocks / SHARE_THREADS, MAX_SHARE_GROWTH)
    return operations / (1e9 * peak * min(share, PEAK_SHARES["edges"][-1]))


def refuse_long(seconds: float | None, timeout: float) -> None:
    if seconds is not None and MIN_LAUNCHES * seconds > timeout:
        raise Unsupported(
            f"a launch takes about {seconds:.2g} s, and {MIN_LAUNCHES} would outlast the time-out, {timeout:g} s"
        )


#: Number of triangles of a medium-sized mesh among the recorded ones; the study's cost model is based on this mesh.
MEDIAN_TRIANGLES = 65_536


def measure_plane(session: Session, operands: DgOperands, parts: Sequence[str]) -> Iterator[tuple[str, StepResult]]:
    """Search the methods, choose, and time the winners side by side; then time filtering with local h, and the matrix.

    If a launch takes seconds, or only runs over several devices are configured, methods are only screened instead of
    timed in full; methods that would take too long are left out.
    """
    settings, target = session.settings, session.target
    modules = read_modules(target, STUDY_NAME, PLANE, modules_of(operands.degree))
    environment = session.bench.device.environment()

    def seconds(id: FilterId) -> float | None:
        return predicted_seconds(id, operands.degree, operands.operations, environment)

    ids = list(filter_ids(target, settings.spaces, settings.layouts))
    timeout = session.timing.timeout
    filters_by_name = {str(id): FieldFilter(modules, id, partial(refuse_long, seconds(id), timeout)) for id in ids}
    fastest = min((time for id in ids if (time := seconds(id)) is not None), default=0.0)
    is_long = fastest > session.timing.budget(session.bench.device.backend)
    search = session.screen_candidates if is_long or tuple(parts) == (DEVICES,) else session.measure_all
    rows: list[Row] = []
    for space in settings.spaces:
        rows += search([way for way in filters_by_name.values() if way.space == space], f"{space} space")
    yield "search", rows
    yardsticks = session.yardsticks()
    yield "baseline", [row for _, row in yardsticks]
    choices = pick(rows, session.timing.tie, filter_tunings, [runnable.id for runnable in filters_by_name.values()])
    winning_filters: list[Runnable] = [
        filters_by_name[name] for name in dict.fromkeys(choice.name for choice in choices)
    ]
    reported = session.time_in_rounds(fastest_yardsticks(yardsticks))
    over_devices = device_filters(modules, choices, len(session.bench.devices)) if DEVICES in parts else []
    reported += session.time_in_rounds([*winning_filters, *over_devices])
    if LOCAL in parts and len(operands.mesh.triangles) <= MAX_LOCAL_TRIANGLES:
        reported += session.time_in_rounds([LocalFilter(modules)])
    if MATRIX in parts:
        library = library_products(modules, configured_routines(settings, target.dialect), target.dialect)
        groups: list[Sequence[Runnable]] = [*matrix_runnables(modules), library]
        for side_by_side in groups:
            reported += session.time_in_rounds(side_by_side)
    yield "report", reported
    yield "choices", choices


def filter_tunings(timed_rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return the rows from which each tuning chooses: `joint`, `paper`, `paper/…`, `paper_tuned/…`, `edges`, `atomic`.

    A tuning of a further tuned published method chooses among all rows of the method, so that it is never slower than
    the method as published.
    """
    tunings: dict[str, list[Row]] = {JOINT: list(timed_rows)}
    tuned_ways = {DgRow.of(row).way for row in timed_rows if row.space == PAPER_TUNED}
    for row in timed_rows:
        way = DgRow.of(row).way
        if row.space == EXTENDED:
            tunings.setdefault(str(way), []).append(row)
            continue
        if row.space == PAPER:
            tunings.setdefault(PAPERS, []).append(row)
            tunings.setdefault(f"{PAPER}/{way}", []).append(row)
        if way in tuned_ways:
            tunings.setdefault(f"{PAPER_TUNED}/{way}", []).append(row)
    return tunings


#: Tuning of the paper's kernel with one thread per quadrature point of a region.
FULL_WIDTH = "full"


def make_region_operands(problem: Field, precision: str, seed: int) -> RegionOperands:
    """Return a field in space with its list of regions: 2^20, or 2^11 on a mesh smaller than the paper's."""
    if precision != "double":
        raise ReproError(
            "fields are filtered in double precision only",
            where=f"studies.{STUDY_NAME}.precisions: {problem.name}",
            expected="double",
            actual=precision,
        )
    if problem.degree not in REGION_DEGREES:
        raise ReproError(
            "there are no kernels for a three-dimensional field of this degree",
            where=f"studies.{STUDY_NAME}.problems: {problem.name}",
            expected=" or ".join(map(str, REGION_DEGREES)),
            actual=problem.degree,
        )
    count = region_count(len(problem.cells))
    return RegionOperands(problem, make_regions(problem, count, seed), kernel(problem.degree).pieces)


def measure_space(session: Session, operands: RegionOperands, parts: Sequence[str]) -> Iterator[tuple[str, StepResult]]:
    """Search the kernels, choose, and time the winners for all widths side by side; then time sums and clipping."""
    settings, target, degree = session.settings, session.target, operands.degree
    modules = {
        key: ModuleFile.read(manifest_path(target.name, STUDY_NAME, key))
        for key in region_keys(degree, target, tuple(parts))
    }
    strategy = session.strategy(region_features, RegionId)
    rows: list[Row] = []
    kernels_by_name: dict[str, RegionKernel] = {}
    for space in settings.spaces:
        kernels = region_kernels(modules, degree, target, space)
        if not kernels:  # the text already tunes these kernels, so `paper_tuned` has none
            continue
        kernels_by_name |= {item.name: item for item in kernels}
        rows += session.search(strategy, kernels, f"{space} space")
    yield "search", rows
    yardsticks = session.yardsticks()
    yield "baseline", [row for _, row in yardsticks]
    choices = pick(rows, session.timing.tie, region_tunings, [item.id for item in kernels_by_name.values()])
    reported = session.time_in_rounds(fastest_yardsticks(yardsticks))
    reported += session.time_in_rounds(
        [kernels_by_name[name] for name in dict.fromkeys(choice.name for choice in choices)]
    )
    if SUMS in parts:
        best = dict.fromkeys(choice.name for choice in choices if choice.tuning in (JOINT, PAPERS))
        reported += session.time_in_rounds([RegionFilter(modules, kernels_by_name[name].id) for name in best])
    if CLIP in parts:
        reported += session.time_in_rounds([ClipRegions(modules, degree)])
    yield "report", reported
    yield "choices", choices


def region_tunings(timed_rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return the rows from which each tuning chooses: `joint`, `paper`, `full`, `width/…`, `lane`, `matrix`."""
    tunings: dict[str, list[Row]] = {JOINT: list(timed_rows)}
    for row in timed_rows:
        kernel_row = DgRow.of(row)
        if row.space != PAPER:
            tunings.setdefault(str(kernel_row.method), []).append(row)
            continue
        tunings.setdefault(PAPERS, []).append(row)
        tunings.setdefault(f"width/{kernel_row.vector_width}", []).append(row)
        if kernel_row.kernel_degree and kernel_row.vector_width == full_width(kernel_row.kernel_degree):
            tunings.setdefault(FULL_WIDTH, []).append(row)
    return tunings


class FieldSettings(StudySettings):
    memory_weight: UnusedWeight = 0.0


class DgPostprocessing(Study):
    """Filtering a field at its points: on triangles by the paper's methods and ours, on tetrahedra by vector width."""

    name = STUDY_NAME
    title = "Filtering discontinuous Galerkin fields"
    reference = REFERENCE
    settings = FieldSettings
    id_class = FieldId
    numbers: Mapping[str, str] = {
        **{name: name for name in ("threads", "cell", "blocks")},
        "vector_width": "width",
        "regions_per_block": "regions",
        "blocks_per_sm": "blocks",
    }
    kinds = ("field",)
    columns = DgRow.own_columns()
    parts = PARTS
    published = PUBLISHED
    headline = JOINT
    pairs = (Pair(("edges",), (f"{PAPER_TUNED}/element",), "event"),)
    libraries: Mapping[str, str] = {"cuda": "cuSPARSE", "opencl": "SciPy"}
    targets = TARGETS
    highlights: Mapping[str, str] = {
        "table-filters": "every field, the paper’s ways beside ours",
        "figure-3-11": "per element over per point, and contours over per element",
        "table-errors": "what the filter gains in accuracy",
    }
    cost_models: Mapping[str, CostModel] = {
        "cuda": CostModel(other_seconds=5.5, launches=2.7, intensity=20),
        "opencl": CostModel(case_seconds=2, other_seconds=3, compile={"plane": 0.8}),
    }
    result: Mapping[str, Any] = {
        "table": "table-filters",
        "row": "geometric mean",
        "column": "element_tuned_over_ours",
        "description": "the paper’s per-element kernel, tuned, filtering in the plane by contours; geometric mean",
        "clock": "event",
        "own_description": "by rows of its own",
    }

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Raise an error for single precision, which the paper does not use, and for degrees without kernels."""
        super().check(settings, problems)
        if other_precisions := [precision for precision in settings.precisions if precision != "double"]:
            raise ReproError(
                "fields are filtered in double precision only",
                where=f"studies.{STUDY_NAME}.precisions",
                expected="[double]; the paper has no other",
                actual=", ".join(other_precisions),
                todo="set `precisions: [double]`, or remove the key",
            )
        for problem in problems:
            degree, degrees = outline_degree(problem), REGION_DEGREES if is_in_space(problem) else PLANE_DEGREES
            if degree is not None and degree not in degrees:
                raise self.refusal(problem, f"a field of degree {', '.join(map(str, degrees))}", f"degree {degree}")

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Raise an error for unknown variants and baselines."""
        configured_routines(settings, target.dialect)
        available_layouts = [str(id) for id in filter_ids(target, settings.spaces)]
        unknown_layouts = (
            [] if settings.layouts == "all" else [name for name in settings.layouts if name not in available_layouts]
        )
        if unknown_layouts or not settings.layouts:
            raise ReproError(
                "unknown way to filter a field in the plane",
                where=f"studies.{STUDY_NAME}.layouts",
                expected=f"for `space: {', '.join(settings.spaces)}` some of {', '.join(available_layouts)}",
                actual=", ".join(unknown_layouts) or "none",
                todo="name others, or remove the key",
            )

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        degree = outline_degree(problem)
        if degree is not None and is_in_space(problem):
            return region_keys(degree, target, self.parts_of(settings, precision))
        return keys_of(degree)

    def render(self, templates: Path, key: str, target: Target) -> str:
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> DgOperands | RegionOperands:
        assert isinstance(problem, Field)
        if problem.dimension == 2:
            return make_operands(problem, precision, seed)
        # modules for a field from a file are those of triangles: they are compiled before the file is read
        if problem.origin.get("checksum", {}).get("state") == "own":
            raise ReproError(
                "fields on tetrahedra must come from the registry",
                where=f"studies.{STUDY_NAME}.problems: {problem.name}",
                expected="a file with triangles, or a registered field of the kind cubes",
                actual=f"a file with {len(problem.cells)} tetrahedra",
            )
        return make_region_operands(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        operands = session.bench.operands
        parts = self.parts_of(session.settings, session.precision)
        if isinstance(operands, RegionOperands):
            return measure_space(session, operands, parts)
        assert isinstance(operands, DgOperands)
        return measure_plane(session, operands, parts)

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Runnable:
        """Return the variant of a name; the suffix `/filter` after a region kernel's name adds the sums per point."""
        variant = super().find(templates, problem, precision, name.removesuffix("/filter"), target)
        return variant.with_sums() if isinstance(variant, RegionKernel) and name.endswith("/filter") else variant

    def variant(self, templates: Path, problem: Outline, precision: str, id: FieldId, target: Target) -> Runnable:
        """Return the method or the region kernel of an id, from a compiled module or from one that has it alone."""
        modules = {}
        if isinstance(id, RegionId):
            keys = list(dict.fromkeys((id.module, region_module_key(id.degree, "lane", 1))))
            own = [id.module]
        else:  # if the degree is unknown, use modules of all degrees
            assert isinstance(id, FilterId)
            degree = outline_degree(problem)
            keys = [key for key in keys_of(degree) if key.split("/")[1].split("-")[0] in (id.module, "rows")]
            own = [key for key in keys if "/rows-" not in key]
        for key in keys:
            path = manifest_path(target.name, STUDY_NAME, key)
            source = render_key(templates, key, target) if is_searched(id, target) or key not in own else ""
            if key in own and not (source and path.exists()):
                path = manifest_path(target.name, STUDY_NAME, f"single/{key}/{id}".replace(f"-b{id.blocks}", ""))
                source = render_alone(templates, key, id, target)
            modules[key.removeprefix(f"{PLANE}/")] = ModuleFile(compile_module(source, target, path), path.parent)
        return RegionKernel(modules, id) if isinstance(id, RegionId) else FieldFilter(modules, id)

    def layouts(self) -> list[tuple[str, str]]:
        """Return the variants in the plane that can be named in the configuration's key `layouts`."""
        targets = {"": get_target("sm_90"), " on the CPU": CPU}
        ways = {
            str(id): f"{id.space}{suffix}" for suffix, target in targets.items() for id in filter_ids(target, SPACES)
        }
        return [*ways.items()]

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        degree = outline_degree(problem)
        if degree is not None and is_in_space(problem):
            region_ids = list(paper_region_ids(degree, target)) if PAPER in settings.spaces else []
            if EXTENDED in settings.spaces:
                region_ids += own_region_ids(degree, target)
            groups = len({(id.method, id.width) for id in region_ids})
            nbytes = list_bytes(region_count(problem.size[0] if problem.size else PAPER_CELLS))
            return Workload(len(region_ids), groups, 4, nbytes, nbytes)
        ids = list(filter_ids(target, settings.spaces, settings.layouts))
        cells = problem.size[0] if problem.size else MEDIAN_TRIANGLES
        # Work per point grows with the degree. Larger meshes have more points, but are launched less often: on an H200
        # the largest mesh has 250 times as many triangles as the smallest, but its case takes only four times as long.
        case_overhead = (degree or 1) ** 2 * (cells / MEDIAN_TRIANGLES) ** 0.25
        return Workload(len(ids), len({(id.method, id.space) for id in ids}), 5, 0, 0, case_overhead, all_tried=True)


STUDY = DgPostprocessing()


def outline_degree(problem: Outline) -> int | None:
    """Return the degree of a field if it is known before the field is built."""
    parameters = problem.definition.get("parameters")
    degree = parameters.get("degree") if isinstance(parameters, Mapping) else None
    return degree if isinstance(degree, int) else None


def is_in_space(problem: Outline) -> bool:
    """Return whether a field is known to be on tetrahedra before the field is built."""
    kind = FIELD_KINDS.get(str(problem.definition.get("kind")))
    return kind is not None and kind.dimension == 3
