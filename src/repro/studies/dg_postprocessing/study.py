"""The contract of the study: fields on triangles are filtered by several methods, on tetrahedra by vector widths.

A case in the plane (chapter 3) searches the methods and times the filter as a matrix beside the winners. A case
in space (chapter 4) searches kernels that integrate a list of regions, by their vector width. On a large mesh
one launch may take minutes, so its duration is predicted before there is any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from repro.bench.rows import ColumnType, Row
from repro.bench.runnable import Runnable, Unsupported
from repro.codegen.build_cache import compile_module, manifest_path
from repro.codegen.targets import CPU, Target, get_target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.filtering.kernels import DEGREES as PLANE_DEGREES
from repro.filtering.spline_kernel import kernel
from repro.problems.field import FIELD_KINDS, Field
from repro.problems.problem import Outline, Problem
from repro.sparse.device_work import ModuleFile, read_modules
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
    SUMS,
    TARGETS,
    runnables_matrix,
)
from repro.studies.dg_postprocessing import STUDY as NAME
from repro.studies.dg_postprocessing.ids import (
    FILTER_COLUMNS,
    REGION_COLUMNS,
    REGION_DEGREES,
    SPACES,
    FilterId,
    RegionId,
    filter_ids,
    full_width,
    own_region_ids,
    paper_region_ids,
    region_module_key,
    region_point,
)
from repro.studies.dg_postprocessing.ids import REGION_DEGREES as SPACE_DEGREES
from repro.studies.dg_postprocessing.kernels import PLANE, keys_of, modules_of, region_keys, render_key
from repro.studies.dg_postprocessing.metrics import peak_gflops, region_features
from repro.studies.dg_postprocessing.operands import DgOperands, RegionOperands, make_operands
from repro.studies.dg_postprocessing.regions import PAPER_CELLS, make_regions, region_count
from repro.studies.dg_postprocessing.runnables_filters import FieldFilter, LocalFilter, device_filters
from repro.studies.dg_postprocessing.runnables_matrix import asked_routines, library_products, matrix_runnables
from repro.studies.dg_postprocessing.runnables_regions import (
    ClipRegions,
    RegionFilter,
    RegionKernel,
    list_bytes,
    region_kernels,
)
from repro.tuning.search import pick
from repro.tuning.session import Session, fastest_yardsticks

#: The share of the largest rate in double precision that the operations of contours are done at, by way and degree 0 to
#: 3, at the least: blocks for each multiprocessor as in the paper, on an H200.
PEAK_SHARES = {
    "point": (0.004, 0.004, 0.010, 0.025),
    "element": (0.012, 0.012, 0.030, 0.070),
    "atomic": (0.012, 0.012, 0.030, 0.070),
    "edges": (0.100, 0.150, 0.300, 0.400),
}
#: Launches that timing a way takes at the least: some that are checked, and some in rounds.
MIN_LAUNCHES = 6


def predicted_seconds(way: str, degree: int, operations: int, environment: Mapping[str, Any]) -> float | None:
    """Return how long a launch takes about; None on a device whose peak is not known.

    Parameters
    ----------
    way, degree
        What filters, and k.
    operations
        Of contours, whatever the way does itself.
    environment
        The device's record; see `peak_of`.
    """
    peak = peak_gflops(environment)
    return operations / (1e9 * peak * PEAK_SHARES[way][degree]) if peak else None


def refuse_long(seconds: float | None, timeout: float) -> None:
    """Refuse a launch of which not even a few can be timed.

    Raises
    ------
    Unsupported
        It takes too long.
    """
    if seconds is not None and MIN_LAUNCHES * seconds > timeout:
        raise Unsupported(
            f"a launch takes about {seconds:.2g} s, and {MIN_LAUNCHES} would outlast the time-out, {timeout:g} s"
        )


#: Triangles of a mesh in the middle of those that were recorded, whose time is the study's pace.
MEDIAN_TRIANGLES = 65_536


def measure_plane(session: Session, operands: DgOperands, parts: Sequence[str]) -> Iterator[tuple[str, StepResult]]:
    """Search the ways, choose, and time the winners side by side, and local h and the matrix beside them.

    On a large mesh a launch takes seconds: ways are screened only, as they are where nothing is asked for but runs over
    several devices, and those that would take too long are left out.
    """
    settings, target = session.settings, session.target
    built = read_modules(target, NAME, PLANE, modules_of(operands.degree))
    environment = session.bench.device.environment()

    def seconds(way: str) -> float | None:
        return predicted_seconds(way, operands.degree, operands.operations, environment)

    def filter_of(id: FilterId) -> FieldFilter:
        return FieldFilter(built, id, lambda: refuse_long(seconds(id.way), settings.timing.timeout))

    tried = {str(id): filter_of(id) for id in filter_ids(target, settings.space, settings.layouts)}
    is_long = (seconds("edges") or 0.0) > settings.timing.budget(session.bench.device.backend)
    search = session.screened if is_long or tuple(parts) == (DEVICES,) else session.exhaustive
    rows: list[Row] = []
    for space in settings.spaces:
        rows += search([way for way in tried.values() if way.space == space], f"{space} space")
    yield "search", rows
    yardsticks = session.yardsticks()
    yield "baseline", [row for _, row in yardsticks]
    choices = pick(rows, settings.timing.tie, _filter_tunings)
    chosen: list[Runnable] = [tried[name] for name in dict.fromkeys(choice.name for choice in choices)]
    reported = session.rounds(fastest_yardsticks(yardsticks))
    over_devices = device_filters(built, choices, len(session.bench.devices)) if DEVICES in parts else []
    reported += session.rounds([*chosen, *over_devices])
    if LOCAL in parts and len(operands.mesh.triangles) <= MAX_LOCAL_TRIANGLES:
        reported += session.rounds([LocalFilter(built)])
    if MATRIX in parts:
        library = library_products(built, asked_routines(settings, target.dialect), target.dialect)
        groups: list[Sequence[Runnable]] = [*matrix_runnables(built), library]
        for side_by_side in groups:
            reported += session.rounds(side_by_side)
    yield "report", reported
    yield "choices", choices


def find_filter(templates: Path, degree: int | None, name: str, target: Target) -> FieldFilter:
    """Return the way of a name; where the degree is not known, with the modules of all.

    Raises
    ------
    ReproError
        The name stands for nothing, or its kernel does not compile.
    """
    id, built = FilterId.parse(name), {}
    for key in keys_of(degree):
        path = manifest_path(target.name, NAME, key)
        module = compile_module(render_key(templates, key, target), target, path)
        built[key.partition("/")[2]] = ModuleFile(module, path.parent)
    return FieldFilter(built, id)


def plane_workload(settings: StudySettings, degree: int, size: tuple[int, int] | None, target: Target) -> Workload:
    """Return how much measuring a field on triangles is.

    A point has more to do the higher the degree is. A mesh has more points the larger it is, but by far fewer launches:
    on an H200 the largest, of 250 times as many triangles, take four times as long as the smallest.
    """
    variants = len(list(filter_ids(target, settings.space, settings.layouts)))
    cells = size[0] if size else MEDIAN_TRIANGLES
    beside = degree**2 * (cells / MEDIAN_TRIANGLES) ** 0.25
    return Workload(variants, len(SPACES) * 2, 5, 0, 0, beside, all_tried=True)


def _filter_tunings(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    tunings: dict[str, list[Row]] = {JOINT: list(timed)}
    for row in timed:
        tunings.setdefault(row["way"], []).append(row)
        if row.space == SPACES[0]:
            tunings.setdefault(PAPERS, []).append(row)
            tunings.setdefault(f"{PAPERS}/{row['way']}", []).append(row)
    return tunings


#: The tuning of the paper's kernel with as many threads a region as it has quadrature points.
FULL_WIDTH = "full"


def make_region_operands(problem: Field, precision: str, seed: int) -> RegionOperands:
    """Return a field with its list of regions: 2^20 of them, or 2^11 of a mesh smaller than the paper's.

    Raises
    ------
    ReproError
        The precision is not double, or the field is of another degree than 1 and 2, or not periodic.
    """
    if precision != "double":
        raise ReproError(
            "fields are filtered in double precision only",
            where=f"studies.{NAME}.precisions: {problem.name}",
            expected="double",
            actual=precision,
        )
    if problem.degree not in REGION_DEGREES:
        raise ReproError(
            "no kernels for a field of this degree in three dimensions",
            where=f"studies.{NAME}.problems: {problem.name}",
            expected=" or ".join(map(str, REGION_DEGREES)),
            actual=problem.degree,
        )
    count = region_count(len(problem.cells))
    return RegionOperands(problem, make_regions(problem, count, seed), kernel(problem.degree).pieces)


def measure_space(session: Session, operands: RegionOperands, parts: Sequence[str]) -> Iterator[tuple[str, StepResult]]:
    """Search the kernels, choose, and time the winner of each width side by side; sums and clipping after them."""
    settings, target, degree = session.settings, session.target, operands.degree
    built = {
        key: ModuleFile.read(manifest_path(target.name, NAME, key)) for key in region_keys(degree, target, tuple(parts))
    }
    strategy = session.strategy(region_features, region_point)
    rows: list[Row] = []
    tried: dict[str, RegionKernel] = {}
    for space in settings.spaces:
        kernels = region_kernels(built, degree, target, space)
        tried |= {item.name: item for item in kernels}
        rows += session.search(strategy, kernels, f"{space} space")
    yield "search", rows
    yardsticks = session.yardsticks()
    yield "baseline", [row for _, row in yardsticks]
    choices = pick(rows, settings.timing.tie, region_tunings)
    reported = session.rounds(fastest_yardsticks(yardsticks))
    reported += session.rounds([tried[name] for name in dict.fromkeys(choice.name for choice in choices)])
    if SUMS in parts:
        best = dict.fromkeys(choice.name for choice in choices if choice.tuning in (JOINT, PAPERS))
        reported += session.rounds([RegionFilter(built, tried[name].id) for name in best])
    if CLIP in parts:
        reported += session.rounds([ClipRegions(built, degree)])
    yield "report", reported
    yield "choices", choices


def region_tunings(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return what each tuning chooses from: `joint`, `paper`, `full`, `width/18` of each width, `lane`, `matrix`."""
    tunings: dict[str, list[Row]] = {JOINT: list(timed)}
    for row in timed:
        if row.space != SPACES[0]:
            tunings.setdefault(row["method"], []).append(row)
            continue
        tunings.setdefault(PAPERS, []).append(row)
        tunings.setdefault(f"width/{row['vector_width']}", []).append(row)
        if row["vector_width"] == full_width(row["kernel_degree"]):
            tunings.setdefault(FULL_WIDTH, []).append(row)
    return tunings


def find_region_kernel(templates: Path, name: str, target: Target) -> Runnable:
    """Return the kernel of a name, `p1/vector-w18-r4-b8`, or with `/filter` behind it the kernel and the sums.

    Raises
    ------
    ReproError
        The name stands for nothing, or its kernel does not compile.
    """
    text = name.removesuffix("/filter")
    id = RegionId.parse(text)
    built = {}
    for key in dict.fromkeys((id.module, region_module_key(id.degree, "lane", 1))):
        path = manifest_path(target.name, NAME, key)
        built[key] = ModuleFile(compile_module(render_key(templates, key, target), target, path), path.parent)
    return RegionKernel(built, id) if text == name else RegionFilter(built, id)


def space_workload(degree: int, space: str, target: Target, size: tuple[int, int] | None) -> Workload:
    """Return how much measuring a field on tetrahedra is."""
    offered = paper_region_ids(degree, target) + (own_region_ids(degree, target) if space == SPACES[1] else [])
    groups = len({(id.method, id.width) for id in offered})
    count = region_count(size[0] if size else PAPER_CELLS)
    return Workload(len(offered), groups, 4, list_bytes(count), list_bytes(count))


class DgPostprocessing(Study):
    """A field filtered at its points: of triangles in the paper's ways and in ours, of tetrahedra by vector widths."""

    name = NAME
    title = "Filtering discontinuous Galerkin fields"
    reference = REFERENCE
    kinds = ("field",)
    columns: Mapping[str, ColumnType] = {
        **FILTER_COLUMNS,
        **REGION_COLUMNS,
        "triangles": int,
        "degree": int,
        "scale": float,
        "pairs": int,
        "subtriangles": int,
        "segments": int,
        "copies": int,
        "devices": int,
        "fields": int,
        "dg_l2_error": float,
        "dg_max_error": float,
        "l2_error": float,
        "max_error": float,
        "mean_scale": float,
        "local_pairs": int,
        "matrix_pairs": int,
        "matrix_bytes": int,
        "routine": str,
        **{f"stage_{name}": float for name in ("count", "scan", "write")},
    }
    parts = PARTS
    published = PUBLISHED
    headline = JOINT
    libraries: Mapping[str, str] = {"cuda": "cuSPARSE", "opencl": "SciPy"}
    targets = TARGETS
    highlights: Mapping[str, str] = {
        "table-filters": "every field, the paper’s ways beside ours",
        "figure-3-11": "per element over per point, and ours over per element",
        "table-errors": "what the filter gains in accuracy",
        "figure-4-6": "in space: what each vector width gains over the full one, beside the paper’s gains",
    }
    paces: Mapping[str, CostModel] = {"cuda": CostModel(beside=5.5, launches=2.7), "opencl": CostModel(beside=10)}
    result: Mapping[str, str] = {
        "table": "table-targets",
        "row": "P = 1: time of the paper’s per-element kernel over ours, median",
        "column": "measured",
        "says": "the paper’s per-element kernel, filtering linear fields in the plane by contours; median",
        "clock": "event",
    }
    unused = ("memory_weight",)

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Refuse single precision, of which the text has nothing, and degrees that there are no kernels of."""
        super().check(settings, problems)
        if others := [precision for precision in settings.precisions if precision != "double"]:
            raise ReproError(
                "fields are filtered in double precision only",
                where=f"studies.{NAME}.precisions",
                expected="[double]: the text has no other",
                actual=", ".join(others),
                todo="set `precisions: [double]`, or leave the key out",
            )
        for problem in problems:
            degree, degrees = outline_degree(problem), SPACE_DEGREES if is_in_space(problem) else PLANE_DEGREES
            if degree is not None and degree not in degrees:
                raise self.refusal(problem, f"a field of degree {', '.join(map(str, degrees))}", f"degree {degree}")

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Refuse ways to filter that there are not in the space on the target, and baselines."""
        runnables_matrix.asked_routines(settings, target.dialect)
        offered = [str(id) for id in filter_ids(target, settings.space)]
        unknown = [] if settings.layouts == "all" else [name for name in settings.layouts if name not in offered]
        if unknown or not settings.layouts:
            raise ReproError(
                "no such way to filter a field in the plane",
                where=f"studies.{NAME}.layouts",
                expected=f"for `space: {settings.space}` some of {', '.join(offered)}",
                actual=", ".join(unknown) or "none",
                todo="name others, or leave the key out",
            )

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return the modules of the problem's degree: of tetrahedra those of widths that fit on the target."""
        degree = outline_degree(problem)
        if degree is not None and is_in_space(problem):
            return region_keys(degree, target, self.parts_of(settings, precision))
        return keys_of(degree)

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source of one module."""
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> DgOperands | RegionOperands:
        """Return the field with its points, or with its list of regions."""
        assert isinstance(problem, Field)
        if problem.dimension == 2:
            return make_operands(problem, precision, seed)
        # modules are compiled before a file is read: of one, those of triangles
        if problem.origin.get("checksum", {}).get("state") == "own":
            raise ReproError(
                "fields on tetrahedra are taken only where the registry makes them",
                where=f"studies.{NAME}.problems: {problem.name}",
                expected="a file with triangles, or a registered field of the kind cubes",
                actual=f"a file with {len(problem.cells)} tetrahedra",
            )
        return make_region_operands(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Take the steps of the plane, or those of space."""
        operands = session.bench.operands
        parts = self.parts_of(session.settings, session.precision)
        if isinstance(operands, RegionOperands):
            return measure_space(session, operands, parts)
        assert isinstance(operands, DgOperands)
        return measure_plane(session, operands, parts)

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Runnable:
        """Return the way of a name such as `edges-t64-c0.5-b16`, or the kernel of one such as `p1/vector-w18-r4-b8`."""
        if "/" in name:
            return find_region_kernel(templates, name, target)
        return find_filter(templates, outline_degree(problem), name, target)

    def layouts(self) -> list[tuple[str, str]]:
        """Return all ways to filter in the plane, which `layouts` can name, the paper's and ours."""
        targets = {"": get_target("sm_90"), " on the CPU": CPU}
        ways = {
            str(id): f"{id.space}{where}" for where, target in targets.items() for id in filter_ids(target, SPACES[1])
        }
        return [*ways.items()]

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return how many ways or kernels there are to try."""
        degree = outline_degree(problem)
        if degree is not None and is_in_space(problem):
            return space_workload(degree, settings.space, target, problem.size)
        return plane_workload(settings, degree or 1, problem.size, target)


STUDY = DgPostprocessing()


def outline_degree(problem: Outline) -> int | None:
    """Return the degree of a field, where it is known before it is built."""
    parameters = problem.definition.get("parameters")
    degree = parameters.get("degree") if isinstance(parameters, Mapping) else None
    return degree if isinstance(degree, int) else None


def is_in_space(problem: Outline) -> bool:
    """Return whether a field is known to be on tetrahedra before it is built: it is generated as such."""
    kind = FIELD_KINDS.get(str(problem.definition.get("kind")))
    return kind is not None and kind.dimension == 3
