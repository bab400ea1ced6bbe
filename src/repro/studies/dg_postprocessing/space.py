"""Measuring a field on tetrahedra (chapter 4): kernels that integrate a list of regions, by their vector width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from repro.bench.rows import Row
from repro.bench.runnable import Runnable
from repro.codegen.compile import compile_module, manifest_path
from repro.codegen.targets import Target
from repro.errors import ReproError
from repro.filtering.kernel import kernel
from repro.problems.field import Field
from repro.sparse.built import Built
from repro.studies import Given, Workload
from repro.studies.dg_postprocessing.device_clip import ClipRegions
from repro.studies.dg_postprocessing.paper import CLIP, JOINT, PAPERS, SUMS
from repro.studies.dg_postprocessing.paper import STUDY as NAME
from repro.studies.dg_postprocessing.region_features import features
from repro.studies.dg_postprocessing.region_operands import RegionOperands
from repro.studies.dg_postprocessing.region_runnables import RegionFilter, RegionKernel, bytes_of_list, kernels_of
from repro.studies.dg_postprocessing.region_space import (
    DEGREES,
    SPACES,
    RegionId,
    full_width,
    module_key,
    our_space,
    papers_space,
    point_of,
)
from repro.studies.dg_postprocessing.regions import PAPERS_CELLS, make_regions, regions_of
from repro.studies.dg_postprocessing.render import region_keys, render_key
from repro.tuning.choose import pick
from repro.tuning.session import Session, fastest_yardsticks

#: The tuning of the paper's kernel with as many threads a region as it has quadrature points.
FULL = "full"


def operands_of(problem: Field, precision: str, seed: int) -> RegionOperands:
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
    if problem.degree not in DEGREES:
        raise ReproError(
            "no kernels for a field of this degree in three dimensions",
            where=f"studies.{NAME}.problems: {problem.name}",
            expected=" or ".join(map(str, DEGREES)),
            actual=problem.degree,
        )
    count = regions_of(len(problem.cells))
    return RegionOperands(problem, make_regions(problem, count, seed), kernel(problem.degree).pieces)


def measure(session: Session, operands: RegionOperands, parts: Sequence[str]) -> Iterator[tuple[str, Given]]:
    """Search the kernels, choose, and time the winner of each width side by side; sums and clipping after them."""
    settings, target, degree = session.settings, session.target, operands.degree
    built = {
        key: Built.read(manifest_path(target.name, NAME, key)) for key in region_keys(degree, target, tuple(parts))
    }
    strategy = session.strategy(features, point_of)
    rows: list[Row] = []
    tried: dict[str, RegionKernel] = {}
    for space in settings.spaces:
        kernels = kernels_of(built, degree, target, space)
        tried |= {item.name: item for item in kernels}
        rows += session.search(strategy, kernels, f"{space} space")
    yield "search", rows
    yardsticks = session.yardsticks()
    yield "baseline", [row for _, row in yardsticks]
    choices = pick(rows, settings.timing.tie, asked)
    reported = session.rounds(fastest_yardsticks(yardsticks))
    reported += session.rounds([tried[name] for name in dict.fromkeys(choice.name for choice in choices)])
    if SUMS in parts:
        best = dict.fromkeys(choice.name for choice in choices if choice.tuning in (JOINT, PAPERS))
        reported += session.rounds([RegionFilter(built, tried[name].id) for name in best])
    if CLIP in parts:
        reported += session.rounds([ClipRegions(built, degree)])
    yield "report", reported
    yield "choices", choices


def asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return what each tuning chooses from: `joint`, `paper`, `full`, `width/18` of each width, `lane`, `matrix`."""
    tunings: dict[str, list[Row]] = {JOINT: list(timed)}
    for row in timed:
        if row.space != SPACES[0]:
            tunings.setdefault(row["method"], []).append(row)
            continue
        tunings.setdefault(PAPERS, []).append(row)
        tunings.setdefault(f"width/{row['vector_width']}", []).append(row)
        if row["vector_width"] == full_width(row["kernel_degree"]):
            tunings.setdefault(FULL, []).append(row)
    return tunings


def find(templates: Path, name: str, target: Target) -> Runnable:
    """Return the kernel of a name, `p1/vector-w18-r4-b8`, or with `/filter` behind it the kernel and the sums.

    Raises
    ------
    ReproError
        The name stands for nothing, or its kernel does not compile.
    """
    text = name.removesuffix("/filter")
    id = RegionId.parse(text)
    built = {}
    for key in dict.fromkeys((id.module, module_key(id.degree, "lane", 1))):
        path = manifest_path(target.name, NAME, key)
        built[key] = Built(compile_module(render_key(templates, key, target), target, path), path.parent)
    return RegionKernel(built, id) if text == name else RegionFilter(built, id)


def workload(degree: int, space: str, target: Target, size: tuple[int, int] | None) -> Workload:
    """Return how much measuring a field on tetrahedra is."""
    offered = papers_space(degree, target) + (our_space(degree, target) if space == SPACES[1] else [])
    groups = len({(id.method, id.width) for id in offered})
    count = regions_of(size[0] if size else PAPERS_CELLS)
    return Workload(len(offered), groups, 4, bytes_of_list(count), bytes_of_list(count))
