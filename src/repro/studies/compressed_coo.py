"""SpMV and BiCGSTAB with balanced and compressed coordinates.

Aliaga, Anzt, Quintana-Ortí, Tomás, Tsai: Euro-Par 2020 workshops (10.1007/978-3-030-71593-9_7).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import cast

from repro.bench.coordinates import CoordinateVariant
from repro.bench.rows import Row
from repro.bench.runnable import Candidate, Multiplies, Runnable
from repro.codegen.compile import Module, compile_module, manifest_path
from repro.codegen.coo import PAPERS, SPLITS, Blocking, blockings, render_coo
from repro.codegen.solvers import solver_manifest
from repro.codegen.targets import Target
from repro.config.models import Study
from repro.errors import ReproError
from repro.solvers.run import SolverRun
from repro.tuning.choose import Choice, pick

NAME = "compressed_coo"
ENTRIES = ("real",)
SOLVERS = ("bicgstab",)
SPACES = ("paper", "extended")
PLAIN = "COO"


def spaces(settings: Study) -> tuple[str, ...]:
    """Return the spaces to search, one after the other: the paper's, and ours beside it where it is asked for."""
    return SPACES if settings.space == "extended" else SPACES[:1]


def layouts(settings: Study, space: str, entry: str) -> list[str]:
    """Return the layouts of a space to try: the paper's two, or ours.

    Raises
    ------
    ReproError
        A layout that is asked for is none, or none that the spaces have.
    """
    asked = list(SPLITS) if settings.layouts == "all" else list(settings.layouts)
    for name in asked:
        _check(name)
    if not any(name in PAPERS or settings.space == "extended" for name in asked):
        raise ReproError(
            "no layout to try",
            where=f"studies.{NAME}.layouts",
            expected=f"one of {', '.join(PAPERS)}, or `space: extended`",
            actual=", ".join(asked),
        )
    return [name for name in SPLITS if name in asked and (name in PAPERS) == (space == "paper")]


def schedules(target: Target, space: str, layout: str) -> list[Blocking]:
    """Return every blocking that is tried for a layout; a layout belongs to one space."""
    return blockings(target, layout)


def render(templates: Path, space: str, entry: str, precision: str, layout: str, target: Target) -> str:
    """Return the source of one module."""
    _check(layout)
    return render_coo(templates, precision, layout, schedules(target, space, layout), target)


def variants(target: Target, space: str, layout: str, module: Module, folder: Path) -> list[CoordinateVariant]:
    """Return the variants of a module; those that share a packed matrix follow each other."""
    found = sorted(schedules(target, space, layout))
    return [CoordinateVariant(layout, blocking, module, folder, space) for blocking in found]


def reordered(variants: Sequence[Candidate], best: Container[str]) -> list[Candidate]:
    """Return nothing: the paper takes matrices as they come."""
    return []


def choose(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return the best of plain coordinates, of the paper's compressed ones, and of all where ours were tried."""

    def asked(timed: Sequence[Row], clock: str) -> dict[str, list[Row]]:
        papers = [row for row in timed if row.space == "paper"]
        found = {
            "plain": [row for row in papers if row.layout == PLAIN],
            "joint": [row for row in papers if row.layout != PLAIN],
        }
        if len(papers) < len(timed):
            found["extended"] = list(timed)
        return found

    return pick(rows, tie, asked)


def sequels(runnables: Sequence[Runnable], rows: Sequence[Row], precision: str, target: Target) -> list[Runnable]:
    """Return BiCGSTAB with the products that did best of those reported: of each layout, and of the library's formats.

    Raises
    ------
    ReproError
        The solver's module is not compiled yet.
    """
    warm = [row for row in rows if row.cache == "warm" and row.status in ("ok", "noisy")]
    clock = "graph" if any(row.graph_median for row in warm) else "event"
    timed = {row.name: row.median(clock) for row in warm}
    known = {row.name: row for row in rows}
    ready = [run for run in runnables if run.kind in ("variant", "baseline") and timed.get(run.name)]

    def fastest(names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: timed[name] or 0.0)[:1]

    chosen: list[str] = []
    for layout in SPLITS:
        chosen += fastest(run.name for run in ready if known[run.name].layout == layout)
    library = [run.name for run in ready if run.kind == "baseline"]
    chosen += fastest(library)
    for form in ("csr", "coo"):
        chosen += fastest(name for name in library if form in name)
    chosen += [name for name in library if known[name].papers_choice]
    path = solver_manifest(target.name, SOLVERS[0], precision)
    module = Module.load(path)
    return [
        SolverRun(cast(Multiplies, run), module, path.parent) for run in ready if run.name in chosen
    ]  # all of these kinds multiply


def find(templates: Path, entry: str, precision: str, name: str, target: Target) -> CoordinateVariant:
    """Return the variant of a name, from a compiled module that holds it or from one of its own.

    Raises
    ------
    ReproError
        The name is no variant's, or its kernel does not compile.
    """
    layout, _, text = name.partition("/")
    _check(layout)
    blocking = Blocking.parse(text)
    for space in SPACES:
        path = manifest_path(target.name, NAME, space, entry, precision, layout)
        kernels = {known.kernel for known in schedules(target, space, layout)}
        if blocking.kernel in kernels and path.exists() and (built := Module.load(path)).binary:
            return CoordinateVariant(layout, blocking, built, path.parent, space)
    source = render_coo(templates, precision, layout, [blocking], target)
    path = manifest_path(target.name, NAME, "single", entry, precision, f"{layout}-{blocking}")
    return CoordinateVariant(layout, blocking, compile_module(source, target, path), path.parent, SPACES[-1])


def _check(layout: str) -> None:
    if layout not in SPLITS:
        raise ReproError("unknown layout of coordinates", expected=f"one of {', '.join(SPLITS)}", actual=layout)
