"""Measuring a field on triangles (chapter 3): ways to filter it, direct and as a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.codegen.compile import compile_module, manifest_path
from repro.codegen.targets import Target
from repro.config.models import StudySettings
from repro.sparse.built import Built, read_modules
from repro.studies import Given, Workload
from repro.studies.dg_postprocessing.filter_id import SPACES, FilterId, ids
from repro.studies.dg_postprocessing.filters import FieldFilter, LocalFilter
from repro.studies.dg_postprocessing.library import asked, library_products
from repro.studies.dg_postprocessing.long_launches import predicted_seconds, refuse_long
from repro.studies.dg_postprocessing.matrix import of_matrix
from repro.studies.dg_postprocessing.operands import DgOperands
from repro.studies.dg_postprocessing.paper import DEVICES, JOINT, LOCAL, LOCAL_MOST, MATRIX, PAPERS
from repro.studies.dg_postprocessing.paper import STUDY as NAME
from repro.studies.dg_postprocessing.render import PLANE, keys_of, modules_of, render_key
from repro.studies.dg_postprocessing.several import runnables
from repro.tuning.choose import pick
from repro.tuning.session import Session, fastest_yardsticks

#: Triangles of a mesh in the middle of those that were recorded, whose time is the study's pace.
MIDDLE = 65_536


def measure(session: Session, operands: DgOperands, parts: Sequence[str]) -> Iterator[tuple[str, Given]]:
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

    tried = {str(id): filter_of(id) for id in ids(target, settings.space, settings.layouts)}
    is_long = (seconds("edges") or 0.0) > settings.timing.budget(session.bench.device.backend)
    search = session.screened if is_long or tuple(parts) == (DEVICES,) else session.exhaustive
    rows: list[Row] = []
    for space in settings.spaces:
        rows += search([way for way in tried.values() if way.space == space], f"{space} space")
    yield "search", rows
    yardsticks = session.yardsticks()
    yield "baseline", [row for _, row in yardsticks]
    choices = pick(rows, settings.timing.tie, _asked)
    chosen: list[Runnable] = [tried[name] for name in dict.fromkeys(choice.name for choice in choices)]
    reported = session.rounds(fastest_yardsticks(yardsticks))
    over_devices = runnables(built, choices, len(session.bench.devices)) if DEVICES in parts else []
    reported += session.rounds([*chosen, *over_devices])
    if LOCAL in parts and len(operands.mesh.triangles) <= LOCAL_MOST:
        reported += session.rounds([LocalFilter(built)])
    if MATRIX in parts:
        library = library_products(built, asked(settings, target.dialect), target.dialect)
        groups: list[Sequence[Runnable]] = [*of_matrix(built), library]
        for side_by_side in groups:
            reported += session.rounds(side_by_side)
    yield "report", reported
    yield "choices", choices


def find(templates: Path, degree: int | None, name: str, target: Target) -> FieldFilter:
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
        built[key.partition("/")[2]] = Built(module, path.parent)
    return FieldFilter(built, id)


def workload(settings: StudySettings, degree: int, size: tuple[int, int] | None, target: Target) -> Workload:
    """Return how much measuring a field on triangles is.

    A point has more to do the higher the degree is. A mesh has more points the larger it is, but by far fewer launches:
    on an H200 the largest, of 250 times as many triangles, take four times as long as the smallest.
    """
    variants = len(list(ids(target, settings.space, settings.layouts)))
    cells = size[0] if size else MIDDLE
    beside = degree**2 * (cells / MIDDLE) ** 0.25
    return Workload(variants, len(SPACES) * 2, 5, 0, 0, beside, all_tried=True)


def _asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    tunings: dict[str, list[Row]] = {JOINT: list(timed)}
    for row in timed:
        tunings.setdefault(row["way"], []).append(row)
        if row.space == SPACES[0]:
            tunings.setdefault(PAPERS, []).append(row)
            tunings.setdefault(f"{PAPERS}/{row['way']}", []).append(row)
    return tunings
