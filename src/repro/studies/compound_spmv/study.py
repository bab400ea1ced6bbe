"""SpMV with compound entries: joint tuning of layout and schedule.

The module holds the study's contract, its tunings and its features. A tuning is a set of rows of one case, of
which the fastest is chosen: by schedule, by layout or by both, in the papers' space and beyond it. A predicted
search learns from recorded matrices whose features are near.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from repro.bench.rows import CLOCKS, ColumnType, Row
from repro.bench.runnable import Runnable
from repro.codegen.build_cache import Module, compile_module, manifest_path
from repro.codegen.targets import DTYPES, Target
from repro.config.models import StudySettings
from repro.entries import entries, get_entry
from repro.errors import ReproError
from repro.problems.matrix import Matrix
from repro.problems.problem import Outline, Problem
from repro.sparse.compound.ids import VariantId, fitting, point_of
from repro.sparse.compound.kernels import kernel_name, render_module
from repro.sparse.compound.layouts import REFERENCE, TILE_ROWS, Layout, all_layouts, extended_layouts
from repro.sparse.compound.runnables import Variant, own_floors
from repro.sparse.compound.schedules import KINDS, SPACES, schedules
from repro.sparse.library import asked_for, check_names, for_problem
from repro.sparse.operands import ProductOperands, make_operands, symmetry_on
from repro.sparse.ordering import UNKNOWNS
from repro.sparse.study_kit import LIBRARIES, LIBRARY, MEMORY, STORED, Array, choose_by_memory
from repro.sparse.study_kit import features as features_of_a_product
from repro.sparse.symmetry import NOT_SYMMETRIC
from repro.studies import CostModel, StepResult, Study, Workload
from repro.studies.compound_spmv import REFERENCE as PAPERS
from repro.studies.compound_spmv import STUDY_NAME
from repro.studies.compound_spmv.kernels import render_key
from repro.tuning.recordings import Machine
from repro.tuning.search import Choice, best_row, pick, ranked
from repro.tuning.session import Session, fastest_yardsticks

EXTENDED = "extended"
#: What is chosen in the papers' space where the reference layout was timed, beside the best of each kind of schedule.
TUNINGS = ("schedule", "layout", "joint")
#: What is chosen where our space was searched as well.
OUR_TUNINGS = (EXTENDED, "reordered")
#: The same without formats of pairs, chosen where one of these has a time: what they are compared with.
UNPAIRED, REORDERED_UNPAIRED = "unpaired", "reordered_unpaired"


def choose(rows: Sequence[Row], tie: float) -> list[Choice]:
    """Return what each tuning chooses, by both clocks.

    In the papers' space: `schedule` (best schedule of the reference layout), `layout` (best layout under that
    schedule), `joint` (best of all), `static` and `dynamic` (best of that kind in the joint winner's layout). Where our
    space was searched as well: `extended` (best of both spaces in the matrix's own order), `reordered` (best of all,
    whatever the order). Where a format of pairs has a time: `unpaired` and `reordered_unpaired` (the same two among all
    other formats).
    """
    return pick(rows, tie, _asked)


def schedules_of_reference(rows: Sequence[Row]) -> set[str]:
    """Return the names of the rows that have a best schedule of the reference layout, in any layout."""
    by_name = {row.name: row for row in rows}
    fixed = {_schedule(by_name[choice.name]) for choice in choose(rows, 0) if choice.tuning == "schedule"}
    return {row.name for row in rows if _schedule(row) in fixed}


def _asked(timed: Sequence[Row], clock: str) -> dict[str, Sequence[Row]]:
    natural = [row for row in timed if row["ordering"] == "natural"]
    asked: dict[str, Sequence[Row]] = {**_in_the_papers_space([row for row in natural if row.space != EXTENDED], clock)}
    if any(row.space == EXTENDED for row in timed):
        asked |= {EXTENDED: natural, "reordered": timed}
    if any(_of_pairs(row) for row in timed):
        asked |= {UNPAIRED: _unpaired(natural), REORDERED_UNPAIRED: _unpaired(timed)}
    return asked


def _of_pairs(row: Row) -> bool:
    return row["outer"] in TILE_ROWS


def _unpaired(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not _of_pairs(row)]


def _in_the_papers_space(rows: Sequence[Row], clock: str) -> dict[str, list[Row]]:
    """Return what each of the papers' tunings chooses from; nothing where the reference layout has no time."""
    reference = [r for r in rows if r["layout"] == str(REFERENCE)]
    schedule, joint = best_row(reference, clock), best_row(rows, clock)
    if schedule is None or joint is None:
        return {}
    in_layout = [r for r in rows if r["layout"] == joint["layout"]]
    return {
        "schedule": reference,
        "layout": [r for r in rows if _schedule(r) == _schedule(schedule)],
        "joint": [*rows],
        "static": [r for r in in_layout if r["schedule"] == "static"],
        "dynamic": [r for r in in_layout if r["schedule"] == "dynamic"],
    }


def _schedule(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("schedule", "n_t", "n_b", "width", "unroll", "load"))


def features(record: Mapping[str, Any], precision: str, machine: Machine) -> Array:
    """Return the features of a matrix by its record, `(13,)`.

    Those of `repro.sparse.study_kit.features`, and of pairs, by what `repro.studies.compound_spmv.facts` counted of the
    matrix in the order that it came in: whether it is symmetric (1, or 0); the share of its entries that is stored once
    for two; and the logarithms of its bytes so stored over those of CSR-AoS, and of the foreign columns that a tile
    reads, over its rows, plus 1. NaN where the record does not say, and the last three of what is not symmetric.
    """
    counted = record.get("facts", {}).get(STUDY_NAME, {}).get("pairs")
    of_pairs = np.full(4, np.nan)
    if counted is not None:
        of_pairs[0] = float(bool(counted["symmetry"][precision]))
    if of_pairs[0] == 1:
        statistics, number = record["statistics"], np.dtype(DTYPES[precision]).itemsize
        entry_bytes = len(get_entry(record["entry"]).members) * number
        csr = statistics["nonzeros"] * (entry_bytes + 4) + (statistics["rows"] + 1) * 4
        foreign = counted["foreign_per_tile"] / counted["tile_rows"]
        of_pairs[1:] = counted["inside"], np.log2(counted["bytes"][precision] / csr), np.log2(1 + foreign)
    return np.append(features_of_a_product(record, precision, machine), of_pairs)


def prune_mask(rows: pd.DataFrame) -> pd.Series:
    """Say of rows of a search which are of pairs on a matrix that is not symmetric, which a search with a budget skips.

    Parameters
    ----------
    rows
        With the columns `name`, `status` and `message`.
    """
    of_pairs = rows["name"].str.startswith(tuple(f"{outer}-" for outer in TILE_ROWS))
    why = rows["message"].fillna("").astype(str)
    return of_pairs & (rows["status"] == "unsupported") & why.str.startswith(NOT_SYMMETRIC)


class CompoundSpmv(Study):
    """Joint tuning of layout and schedule against cuSPARSE, as the papers do it, and beyond their space."""

    name = STUDY_NAME
    title = "SpMV with compound entries"
    reference = PAPERS
    libraries = LIBRARIES
    columns: Mapping[str, ColumnType] = {
        **STORED,
        "outer": str,
        "inner": str,
        "vector": str,
        "clustered": bool,
        "schedule": str,
        "n_t": int,
        "n_b": int,
        "width": int,
        "unroll": int,
        "load": str,
        "ahead": str | None,
        **LIBRARY,
    }
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
    paces: Mapping[str, CostModel] = {"cuda": CostModel(launches=2.4), "opencl": CostModel(beside=4)}
    gpu_sharing = True
    result: Mapping[str, str] = {
        "table": "table-targets",
        "row": "speedup over the fastest routine, graph clock: geometric mean",
        "column": "ours",
        "instead": "papers_space",
        "alone": "of the papers’ space alone",
        "says": "{library}’s fastest routine of any representation; geometric mean of all problems and precisions",
        "clock": "graph",
    }

    def check(self, settings: StudySettings, problems: Sequence[Outline]) -> None:
        """Refuse problems that are no matrices, and layouts that there are not."""
        super().check(settings, problems)
        _check_layouts(settings, [_entry(problem) for problem in problems])

    def check_on(self, settings: StudySettings, problems: Sequence[Outline], target: Target) -> None:
        """Refuse baselines that there are not."""
        check_names(STUDY_NAME, settings.baselines, {_entry(problem): None for problem in problems}, target.dialect)

    def modules(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> list[str]:
        """Return `space/entry-precision/layout` of every layout to try; none for what is known to be no operand."""
        if not problem.multiplies:
            return []
        entry = _entry(problem)
        return [
            f"{space}/{entry}-{precision}/{layout}"
            for space in settings.spaces
            for layout in layouts(settings, space, entry, target)
        ]

    def render(self, templates: Path, key: str, target: Target) -> str:
        """Return the source of one module: every schedule of a space that the target's limits admit."""
        return render_key(templates, key, target)

    def operands(self, problem: Problem, precision: str, seed: int) -> ProductOperands:
        """Return A, x and their product."""
        assert isinstance(problem, Matrix)
        return make_operands(problem, precision, seed)

    def measure(self, session: Session) -> Iterator[tuple[str, StepResult]]:
        """Search each space and then other orders, choose, and time the winners beside the library."""
        settings, entry, backend = session.settings, _matrix(session).entry, session.bench.device.backend
        library = asked_for(settings.baselines, entry, backend)  # the names are checked first
        variants, rows = _search(session)
        yield "search", rows
        tie = settings.timing.tie
        choices = [*choose(rows, tie), *choose_by_memory(rows, settings.memory_weight)]
        winners = {choice.name for choice in choices}
        yardsticks = [session.yardsticks(), *_own_floors(session, [row for row in rows if row.name in winners])]
        yield "baseline", [row for timed in yardsticks for _, row in timed]
        floors = [floor for timed in yardsticks for floor in fastest_yardsticks(timed)]
        for ordering in worthwhile_orderings(choices, rows, tie):
            library += asked_for(settings.baselines, entry, backend, ordering)
        chosen: list[Runnable] = [variant for variant in variants if variant.name in winners]
        yield "report", session.rounds([*chosen, *floors, *library])
        yield "choices", choices

    def tunings(self, settings: StudySettings, problem: Outline) -> list[str]:
        """Return what is chosen: from a sample not by kind of schedule, which it need not have of each layout."""
        kinds = KINDS if settings.search == "exhaustive" else ()
        ours = settings.space == EXTENDED and layouts(settings, EXTENDED, _entry(problem))
        by_memory = [MEMORY] if settings.memory_weight else []
        return [*TUNINGS, *kinds, *(OUR_TUNINGS if ours else ()), *by_memory]

    def find(self, templates: Path, problem: Outline, precision: str, name: str, target: Target) -> Variant:
        """Return the variant of a name, from a compiled module that holds it or from one of its own."""
        id = fitting(VariantId.parse(name), target)
        entry, schedule, stored = _entry(problem), id.schedule, id.layout.stored
        for space in SPACES:
            path = manifest_path(target.name, STUDY_NAME, f"{space}/{entry}-{precision}/{stored}")
            if schedule in schedules(target, space, stored) and path.exists():
                built = Module.load(path)
                if built.binary and (not built.resources or kernel_name(schedule, target) in built.resources):
                    return Variant(id, built, path.parent, space)
        source = render_module(templates, entry, precision, stored, [schedule], target)
        path = manifest_path(target.name, STUDY_NAME, f"single/{entry}-{precision}/{stored}-{schedule}")
        return Variant(id, compile_module(source, target, path), path.parent, EXTENDED)

    def workload(self, settings: StudySettings, problem: Outline, precision: str, target: Target) -> Workload:
        """Return how many variants there are, and the bytes of the matrix as CSR; none for what is no operand."""
        if not problem.multiplies:
            return Workload(0, 0, 0, 0, 0)
        entry = get_entry(_entry(problem))
        number = DTYPES[precision]().nbytes
        rows, nonzeros = problem.size or (0, 0)
        matrix = 4 * (rows + 1) + nonzeros * (4 + number * len(entry.members))
        tried = [
            len(schedules(target, space, Layout.parse(layout)))
            for space in settings.spaces
            for layout in layouts(settings, space, entry.name, target)
        ]
        routines = len(for_problem(entry.name, target.dialect))
        return Workload(sum(tried), len(tried), routines, matrix, matrix + 2 * rows * number * entry.size)

    def layouts(self) -> list[tuple[str, str | None]]:
        """Return every layout: the papers', then ours."""
        papers = all_layouts()
        ours = dict.fromkeys(layout for entry in entries().values() for layout in extended_layouts(entry))
        remarks = {REFERENCE: "the reference"}
        return [
            (str(layout), remarks.get(layout, None if layout in papers else "ours"))
            for layout in dict.fromkeys([*papers, *ours])
        ]


STUDY = CompoundSpmv()


def _check_layouts(settings: StudySettings, entries: Iterable[str]) -> None:
    """Refuse layouts that there are not, or not in the spaces that are tried."""
    there = {str(layout) for layout in all_layouts()}
    if EXTENDED in settings.spaces:
        there |= {str(layout) for entry in entries for layout in extended_layouts(get_entry(entry))}
    for text in () if settings.layouts == "all" else settings.layouts:
        where = f"studies.{STUDY_NAME}.layouts"
        try:
            layout = Layout.parse(text)
        except ReproError as error:
            raise ReproError(
                error.what, where=where, expected=error.expected, actual=error.actual, todo=error.todo
            ) from None
        if str(layout) not in there:
            raise ReproError(
                "a layout that is not in the space",
                where=where,
                expected=f"for `space: {settings.space}` and these problems one of {', '.join(sorted(there))}",
                actual=text,
                todo="`repro list layouts` prints all; what it calls ours is in `space: extended`",
            )


def layouts(settings: StudySettings, space: str, entry: str, target: Target | None = None) -> list[str]:
    """Return the layouts of a space to try; the papers' space always has the reference layout, and first.

    Of a target's those alone that have schedules there.

    Raises
    ------
    ReproError
        A layout that is asked for is none.
    """
    there = all_layouts() if space == "paper" else extended_layouts(get_entry(entry))
    asked = set(there) if settings.layouts == "all" else {Layout.parse(text) for text in settings.layouts}
    tried = [layout for layout in there if layout in asked or (space == "paper" and layout == REFERENCE)]
    return [str(layout) for layout in tried if target is None or schedules(target, space, layout)]


def variants_of(settings: StudySettings, entry: str, precision: str, target: Target) -> list[Variant]:
    """Return all variants, space by space and layout by layout: layouts that share arrays follow each other.

    Raises
    ------
    ReproError
        A module is not compiled yet.
    """
    variants = []
    for space in settings.spaces:
        for text in layouts(settings, space, entry, target):
            path = manifest_path(target.name, STUDY_NAME, f"{space}/{entry}-{precision}/{text}")
            module, layout = Module.load(path), Layout.parse(text)
            for schedule in schedules(target, space, layout):
                variants.append(Variant(VariantId(layout, schedule), module, path.parent, space))
    return variants


def _search(session: Session) -> tuple[list[Variant], list[Row]]:
    """Search each space by itself, then reordered matrices with what was fastest on the matrix as it came."""
    settings = session.settings
    variants = variants_of(settings, _matrix(session).entry, session.precision, session.target)
    strategy = session.strategy(features, point_of, str(REFERENCE), prune_mask)
    if settings.search != "exhaustive":
        variants = _promising(session, variants)
    session.keep_packed(variants)  # packings are needed again: for another schedule, and in full after screening
    rows: list[Row] = []
    for space in settings.spaces:
        candidates = [variant for variant in variants if variant.space == space]
        # layout tuning alone asks how the best schedule of the reference layout does in every other layout
        rows += session.search(strategy, candidates, f"{space} space", schedules_of_reference)
    best = [row.name for row in ranked(rows)[: settings.timing.finalists]]
    reordered = _reordered(variants, best)
    if reordered:
        rows += session.exhaustive(reordered, "reordered")
    return [*variants, *reordered], rows


def _promising(session: Session, variants: Sequence[Variant]) -> list[Variant]:
    """Return the variants that are worth a budget: without those of pairs where the matrix is not symmetric."""
    symmetric = bool(symmetry_on(session.bench.workspace).kind)
    return [variant for variant in variants if symmetric or not variant.layout.of_pairs]


def _own_floors(session: Session, winners: Sequence[Row]) -> list[list[tuple[Runnable, Row]]]:
    """Time the floors of the formats of pairs among the winners; return those of each."""
    return [
        list(zip(floors, session.exhaustive(floors, f"floor of {layout}"), strict=True))
        for layout, floors in own_floors(winners, session.streams).items()
    ]


def _reordered(variants: Sequence[Variant], best: Sequence[str]) -> list[Variant]:
    """Return the best variants with the unknowns renumbered, where our space is searched.

    Of those that store rows in clusters the same without: the order of the unknowns is theirs then.
    """
    if not any(variant.space == EXTENDED for variant in variants):
        return []
    natural = {variant.id: variant for variant in variants if variant.layout.ordering == "natural"}
    ids = [replace(id, layout=replace(id.layout, ordering="natural")) for id in map(VariantId.parse, best)]
    winners = [natural[id] for id in dict.fromkeys(ids) if id in natural]
    return [variant.reordered(ordering) for ordering in UNKNOWNS[1:] for variant in winners]


def worthwhile_orderings(choices: Sequence[Choice], rows: Sequence[Row], tie: float) -> list[str]:
    """Return the orderings in which the library is timed as well.

    Those of choices that beat the best in the matrix's own order by more than a tie, by either clock: a reordered
    matrix is compared with a reordered matrix.
    """
    by_name = {row.name: row for row in rows}
    chosen = {(choice.clock, choice.tuning): by_name[choice.name] for choice in choices}
    orderings = set()
    for clock in CLOCKS:
        natural, reordered = (chosen.get((clock, tuning)) for tuning in (EXTENDED, "reordered"))
        if not natural or not reordered:
            continue
        before, after = natural.median(clock), reordered.median(clock)
        if before and after and after * (1 + tie) < before:
            orderings.add(str(reordered["ordering"]))
    return sorted(orderings)


def _entry(problem: Outline) -> str:
    assert problem.entry is not None, "a matrix has entries"
    return problem.entry


def _matrix(session: Session) -> Matrix:
    assert isinstance(session.problem, Matrix)
    return session.problem
