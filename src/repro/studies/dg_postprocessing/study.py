"""Filtering of dG fields on unstructured meshes: per point, per element and ours, direct and as a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from repro.bench.rows import ColumnType, Row
from repro.bench.runnable import Runnable
from repro.codegen.compile import compile_module, manifest_path
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.problems.field import Field
from repro.problems.outline import Outline
from repro.problems.problem import Problem
from repro.sparse.built import Built
from repro.studies import Given, Study, Workload
from repro.studies.dg_postprocessing.filter_id import ID_COLUMNS, SPACES, FilterId, ids
from repro.studies.dg_postprocessing.filters import FieldFilter, of_matrix
from repro.studies.dg_postprocessing.operands import DgOperands, make_operands
from repro.studies.dg_postprocessing.paper import REFERENCE
from repro.studies.dg_postprocessing.paper import STUDY as NAME
from repro.studies.dg_postprocessing.printed import PUBLISHED, TARGETS
from repro.studies.dg_postprocessing.render import keys_of, modules_of, render_key
from repro.tuning.choose import pick
from repro.tuning.session import Session, fastest_yardsticks

#: The tunings: of all ways, of the paper's, and of each way there.
JOINT, PAPER = "joint", "paper"


class DgPostprocessing(Study):
    """A field filtered at its points in the paper's ways and in ours."""

    name = NAME
    reference = REFERENCE
    kinds = ("field",)
    columns: Mapping[str, ColumnType] = {
        "what": str,
        **ID_COLUMNS,
        "triangles": int,
        "points": int,
        "degree": int,
        "scale": float,
        "pairs": int,
        "subtriangles": int,
        "segments": int,
        "copies": int,
        "fields": int,
        "matrix_pairs": int,
        "matrix_bytes": int,
    }
    parts = ("matrix",)
    headline = JOINT
    published = PUBLISHED
    targets = TARGETS
    glance: Mapping[str, str] = {
        "table-filters": "every field, the paper’s ways beside ours",
        "figure-3-11": "per element over per point, and ours over per element",
    }

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Refuse single precision: the text has double alone."""
        super().check(settings, problems)

    def modules(self, settings: StudySettings, problem: Outline, precision: str) -> list[str]:
        """Return the modules of the problem's degree."""
        return keys_of(degree_of(problem))

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source of one module."""
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> DgOperands:
        """Return the field with its points."""
        assert isinstance(problem, Field)
        return make_operands(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, Given]]:
        """Search the ways, choose, and time the winners side by side, and the filter's matrix beside them."""
        settings, target, operands = session.settings, session.target, session.bench.operands
        assert isinstance(operands, DgOperands)
        built = built_modules(operands.degree, target)
        tried = {str(id): FieldFilter(built, id) for id in ids(target, settings.space)}
        rows: list[Row] = []
        for space in SPACES[: 1 + (settings.space == SPACES[1])]:
            rows += session.exhaustive([way for way in tried.values() if way.space == space], f"{space} space")
        yield "search", rows
        yardsticks = session.yardsticks()
        yield "baseline", [row for _, row in yardsticks]
        choices = pick(rows, settings.timing.tie, _asked)
        chosen: list[Runnable] = [tried[name] for name in dict.fromkeys(choice.name for choice in choices)]
        reported = session.rounds(fastest_yardsticks(yardsticks))
        reported += session.rounds(chosen)
        if "matrix" in self.parts_of(settings, session.precision):
            for runnable in of_matrix(built):  # one at a time: each has a matrix of its own
                reported += session.rounds([runnable])
        yield "report", reported
        yield "choices", choices

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Runnable:
        """Return the way of a name."""
        id, degree = FilterId.parse(name), degree_of(problem)
        built = {}
        for module in (key.partition("/")[2] for key in keys_of(degree)):
            path = manifest_path(target.name, NAME, f"plane/{module}")
            built[module] = Built(
                compile_module(render_key(templates, f"plane/{module}", target), target, path), path.parent
            )
        return FieldFilter(built, id)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return how many ways there are to try."""
        count = len(list(ids(target, settings.space)))
        return Workload(count, len(SPACES) * 2, 4, 0, 0)


STUDY = DgPostprocessing()


def degree_of(problem: Outline) -> int | None:
    """Return the degree of a field, where it is known before it is built."""
    parameters = problem.definition.get("parameters")
    degree = parameters.get("degree") if isinstance(parameters, Mapping) else None
    return degree if isinstance(degree, int) else None


def built_modules(degree: int, target: Target) -> dict[str, Built]:
    """Return the compiled modules of a degree by name.

    Raises
    ------
    ReproError
        One is not compiled yet.
    """
    return {name: Built.read(manifest_path(target.name, NAME, f"plane/{name}")) for name in modules_of(degree)}


def _asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    tunings: dict[str, list[Row]] = {JOINT: list(timed)}
    for row in timed:
        tunings.setdefault(row["way"], []).append(row)
        if row.space == SPACES[0]:
            tunings.setdefault(PAPER, []).append(row)
            tunings.setdefault(f"{PAPER}/{row['way']}", []).append(row)
    return tunings
