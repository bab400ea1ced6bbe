"""Filtering of dG fields on unstructured meshes: in the plane by several ways, in space by several vector widths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from repro.bench.rows import ColumnType
from repro.bench.runnable import Runnable
from repro.codegen.targets import CPU, Target, get_target
from repro.config.models import StudySettings
from repro.errors import ReproError
from repro.filtering.render import DEGREES as PLANE_DEGREES
from repro.problems.field import Field
from repro.problems.fields import FIELD_KINDS
from repro.problems.outline import Outline
from repro.problems.problem import Problem
from repro.studies import Given, Pace, Study, Workload
from repro.studies.dg_postprocessing import library, plane, space
from repro.studies.dg_postprocessing.filter_id import ID_COLUMNS, SPACES, ids
from repro.studies.dg_postprocessing.operands import DgOperands, make_operands
from repro.studies.dg_postprocessing.paper import JOINT, PARTS, REFERENCE
from repro.studies.dg_postprocessing.paper import STUDY as NAME
from repro.studies.dg_postprocessing.printed import PUBLISHED, TARGETS
from repro.studies.dg_postprocessing.region_operands import RegionOperands
from repro.studies.dg_postprocessing.region_space import DEGREES as SPACE_DEGREES
from repro.studies.dg_postprocessing.region_space import REGION_COLUMNS
from repro.studies.dg_postprocessing.render import keys_of, region_keys, render_key
from repro.tuning.session import Session


class DgPostprocessing(Study):
    """A field filtered at its points: of triangles in the paper's ways and in ours, of tetrahedra by vector widths."""

    name = NAME
    title = "Filtering discontinuous Galerkin fields"
    reference = REFERENCE
    kinds = ("field",)
    columns: Mapping[str, ColumnType] = {
        **ID_COLUMNS,
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
    glance: Mapping[str, str] = {
        "table-filters": "every field, the paper’s ways beside ours",
        "figure-3-11": "per element over per point, and ours over per element",
        "table-errors": "what the filter gains in accuracy",
        "figure-4-6": "in space: what each vector width gains over the full one, beside the paper’s gains",
    }
    paces: Mapping[str, Pace] = {"cuda": Pace(beside=5.5, launches=2.7), "opencl": Pace(beside=10)}
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
            degree, degrees = degree_of(problem), SPACE_DEGREES if in_space(problem) else PLANE_DEGREES
            if degree is not None and degree not in degrees:
                raise self.refusal(problem, f"a field of degree {', '.join(map(str, degrees))}", f"degree {degree}")

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Refuse ways to filter that there are not in the space on the target, and baselines."""
        library.asked(settings, target.dialect)
        offered = [str(id) for id in ids(target, settings.space)]
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
        degree = degree_of(problem)
        if degree is not None and in_space(problem):
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
        return space.operands_of(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, Given]]:
        """Take the steps of the plane, or those of space."""
        operands = session.bench.operands
        parts = self.parts_of(session.settings, session.precision)
        if isinstance(operands, RegionOperands):
            return space.measure(session, operands, parts)
        assert isinstance(operands, DgOperands)
        return plane.measure(session, operands, parts)

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Runnable:
        """Return the way of a name such as `edges-t64-c0.5-b16`, or the kernel of one such as `p1/vector-w18-r4-b8`."""
        if "/" in name:
            return space.find(templates, name, target)
        return plane.find(templates, degree_of(problem), name, target)

    def layouts(self) -> list[tuple[str, str]]:
        """Return all ways to filter in the plane, which `layouts` can name, the paper's and ours."""
        targets = {"": get_target("sm_90"), " on the CPU": CPU}
        ways = {str(id): f"{id.space}{where}" for where, target in targets.items() for id in ids(target, SPACES[1])}
        return [*ways.items()]

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return how many ways or kernels there are to try."""
        degree = degree_of(problem)
        if degree is not None and in_space(problem):
            return space.workload(degree, settings.space, target, problem.size)
        return plane.workload(settings, degree or 1, problem.size, target)


STUDY = DgPostprocessing()


def degree_of(problem: Outline) -> int | None:
    """Return the degree of a field, where it is known before it is built."""
    parameters = problem.definition.get("parameters")
    degree = parameters.get("degree") if isinstance(parameters, Mapping) else None
    return degree if isinstance(degree, int) else None


def in_space(problem: Outline) -> bool:
    """Return whether a field is known to be on tetrahedra before it is built: it is generated as such."""
    kind = FIELD_KINDS.get(str(problem.definition.get("kind")))
    return kind is not None and kind.dimension == 3
